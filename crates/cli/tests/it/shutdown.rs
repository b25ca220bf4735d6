//! SIGTERM under load.

use serde_json::json;

use crate::backend::{Backend, on_every_backend};
use crate::support::{a_sink, email_to, post, run, until, verify};

on_every_backend! {
    sigterm_under_load_drains_and_leaves_nothing_uncertain,
    a_server_that_hangs_does_not_hold_up_the_shutdown,
}

async fn sigterm_under_load_drains_and_leaves_nothing_uncertain(backend: &Backend) {
    let sink = a_sink().await;
    let mut server = backend
        .sending_to(&sink)
        .env("POSTHASTE_SENDER__CONNECTIONS", "4")
        .start()
        .await;
    let emails: Vec<_> = (0..200)
        .map(|n| email_to(&format!("slow20+{n}@example.org")))
        .collect();
    let answer = post(&server, "/v1/emails/batch", &json!({"emails": emails})).await;
    assert_eq!(answer.status, 202);
    sink.wait_for(5).await;

    assert_eq!(server.terminate().await, Some(0));

    let statuses = run(
        &server,
        &["emails", "list", "--status", "sending,unknown", "--json"],
    )
    .await;
    assert_eq!(
        statuses.stdout, "",
        "leases are released, nothing is uncertain"
    );
    server.restart(&[]).await;
    for entry in answer.body["data"].as_array().unwrap() {
        until(&server, entry["id"].as_str().unwrap(), "sent").await;
    }
    assert_eq!(sink.report().messages, 200);
    assert!(sink.duplicates().is_empty());
    verify(&server).await;
}

async fn a_server_that_hangs_does_not_hold_up_the_shutdown(backend: &Backend) {
    let sink = a_sink().await;
    let mut server = backend
        .sending_to(&sink)
        .env("POSTHASTE_SHUTDOWN__DRAIN", "4s")
        .start()
        .await;
    let answer = post(&server, "/v1/emails", &email_to("hang@example.org")).await;
    let id = answer.body["id"].as_str().unwrap().to_owned();
    until(&server, &id, "sending").await;
    assert_eq!(server.terminate().await, Some(0));
    let shown = run(&server, &["emails", "show", &id, "--json"]).await;
    let email: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(
        email["status"], "pending",
        "handed back, uncounted: {email}"
    );
    assert_eq!(email["attempts"][0]["outcome"], "cancelled");
    verify(&server).await;
}
