//! What people may want to be gone: one email's content by hand, everyone's after a time.

use std::time::Duration;

use posthaste_testkit::process::Posthaste;
use serde_json::{Value, json};

use crate::backend::{Backend, on_every_backend};
use crate::support::{a_sink, email_to, run, submit, until, verify};

on_every_backend! {
    one_emails_content_is_erased_by_hand,
    content_and_attempts_go_after_their_retention,
    a_discarded_letter_is_restored_by_hand,
}

async fn shown(server: &Posthaste, id: &str) -> Value {
    let shown = run(server, &["emails", "show", id, "--json"]).await;
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    serde_json::from_str(&shown.stdout).unwrap()
}

async fn one_emails_content_is_erased_by_hand(backend: &Backend) {
    let sink = a_sink().await;
    let server = backend.sending_to(&sink).start().await;
    let id = submit(&server, &email_to("reject@example.org")).await;
    until(&server, &id, "dead").await;
    let erased = run(&server, &["emails", "erase", &id]).await;
    assert_eq!(erased.code, 0, "{}", erased.stderr);
    let email = shown(&server, &id).await;
    assert_eq!(email["status"], "dead");
    assert!(!email.to_string().contains("@example.org"), "{email}");
    // What has no content cannot be sent again.
    let retried = run(&server, &["emails", "retry", &id]).await;
    assert_eq!(retried.code, 1, "{}", retried.stdout);
    let audit = run(&server, &["audit", "--json"]).await.stdout;
    assert!(audit.contains(r#""action":"erase""#), "{audit}");
    verify(&server).await;
}

async fn content_and_attempts_go_after_their_retention(backend: &Backend) {
    let sink = a_sink().await;
    let mut server = backend.sending_to(&sink).start().await;
    let sent = submit(&server, &email_to("ann@example.org")).await;
    until(&server, &sent, "sent").await;
    let mut later = email_to("bob@example.org");
    let tomorrow = jiff::Timestamp::now() + Duration::from_hours(24);
    later["send_at"] = json!(tomorrow.to_string());
    let later = submit(&server, &later).await;
    server.terminate().await;
    // A pruner's first round comes at once.
    let at_once = [
        ("POSTHASTE_RETENTION__CONTENT", "0s"),
        ("POSTHASTE_RETENTION__ATTEMPTS", "0s"),
    ];
    server.restart(&at_once).await;
    let gone = |email: &Value| email["attempts"] == json!([]) && email["subject"] == "";
    server.wait_for_email(&sent, gone).await;
    let email = shown(&server, &sent).await;
    assert_eq!(email["status"], "sent");
    assert!(!email.to_string().contains("ann@"), "{email}");
    let waiting = shown(&server, &later).await;
    assert!(waiting.to_string().contains("bob@example.org"), "{waiting}");
    verify(&server).await;
}

async fn a_discarded_letter_is_restored_by_hand(backend: &Backend) {
    let sink = a_sink().await;
    let server = backend.sending_to(&sink).start().await;
    let id = submit(&server, &email_to("reject@example.org")).await;
    until(&server, &id, "dead").await;
    for (action, status) in [("discard", "discarded"), ("restore", "dead")] {
        let done = run(&server, &["dead", action, &id]).await;
        assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
        until(&server, &id, status).await;
    }
    verify(&server).await;
}
