//! The gate between "cannot have left" and "may have left".

use posthaste_sink::Sink;
use posthaste_testkit::process::Posthaste;
use serde_json::Value;

use crate::backend::{Backend, on_every_backend};
use crate::recording_server::RecordingServer;
use crate::support::{
    a_sink, copies, email_to, id_of_accepted, keyed_email_to, run, submit, submit_fatal, until,
    until_the_lease_ran_out, verify,
};

on_every_backend! {
    the_dot_is_sent_only_after_committing_is_readable_from_another_connection,
    killed_right_before_the_dot_exactly_one_copy_leaves_in_the_end,
    killed_right_after_the_dot_resend_sends_at_most_one_more_copy_and_says_so,
    killed_right_after_the_dot_hold_waits_for_an_operator_who_knows_it_arrived,
    killed_right_after_the_dot_hold_waits_for_an_operator_who_sends_it_again,
    killed_right_after_the_dot_hold_waits_for_an_operator_who_gives_it_up,
    a_sender_frozen_past_its_lease_finishes_with_its_late_250_and_sends_no_second_copy,
    a_server_that_drops_after_the_dot_leaves_an_uncertain_email,
}

async fn the_dot_is_sent_only_after_committing_is_readable_from_another_connection(
    backend: &Backend,
) {
    let mut recorder = RecordingServer::start().await;
    let server = backend
        .posthaste()
        .env("SMTP_URL", &recorder.url)
        .start()
        .await;
    for n in 0..20 {
        let id = submit(&server, &email_to(&format!("user{n}@example.org"))).await;
        let dot = recorder.dots.recv().await.unwrap();
        assert!(String::from_utf8_lossy(&dot.bytes).contains("It works."));
        assert_eq!(
            backend.status_and_phase(&id).await,
            ("sending".into(), "committing".into())
        );
        dot.answer.send("250 2.0.0 kept\r\n").unwrap();
        until(&server, &id, "sent").await;
    }
    verify(&server).await;
}

async fn killed_right_before_the_dot_exactly_one_copy_leaves_in_the_end(backend: &Backend) {
    let sink = a_sink().await;
    let mut server = backend
        .sending_to(&sink)
        .env("POSTHASTE_FAILPOINT", "smtp.before_dot=kill")
        .start()
        .await;
    let email = keyed_email_to("ann@example.org");
    submit_fatal(&mut server, &email).await;
    server.restart(&[("POSTHASTE_FAILPOINT", "")]).await;
    let id = id_of_accepted(&server, &email).await;
    let sent = until(&server, &id, "sent").await;
    assert_eq!(copies(&sink, &id, "ann@example.org"), 1);
    // The gate was passed, so nobody could know: it is on record.
    assert_eq!(sent["attempts"][0]["outcome"], "unknown");
    assert_eq!(sent["possible_duplicate"], true);
    verify(&server).await;
}

/// Kills the sender right after the dot and starts it again with this policy.
async fn killed_after_the_dot(
    backend: &Backend,
    sink: &Sink,
    on_unknown: &str,
) -> (Posthaste, String) {
    let mut server = backend
        .sending_to(sink)
        .env("POSTHASTE_FAILPOINT", "smtp.after_dot=kill")
        .env("POSTHASTE_RETRY__ON_UNKNOWN", on_unknown)
        .start()
        .await;
    let email = keyed_email_to("ann@example.org");
    submit_fatal(&mut server, &email).await;
    sink.wait_for(1).await;
    server.restart(&[("POSTHASTE_FAILPOINT", "")]).await;
    let id = id_of_accepted(&server, &email).await;
    (server, id)
}

async fn killed_right_after_the_dot_resend_sends_at_most_one_more_copy_and_says_so(
    backend: &Backend,
) {
    let sink = a_sink().await;
    let (server, id) = killed_after_the_dot(backend, &sink, "resend").await;
    let sent = until(&server, &id, "sent").await;
    assert_eq!(sent["attempts"][0]["outcome"], "unknown");
    assert_eq!(sent["attempts"][1]["outcome"], "sent");
    assert_eq!(sent["possible_duplicate"], true);
    assert_eq!(
        copies(&sink, &id, "ann@example.org"),
        2,
        "one, and one more on record"
    );
    let messages = sink.messages();
    assert_eq!(
        messages[0].bytes, messages[1].bytes,
        "byte for byte the same"
    );
    verify(&server).await;
}

async fn resolved(server: &Posthaste, id: &str, resolution: &str) -> Value {
    let uncertain = until(server, id, "unknown").await;
    assert_eq!(uncertain["status_text"], "Uncertain");
    let output = run(server, &["emails", "resolve", id, "--as", resolution]).await;
    assert_eq!(output.code, 0, "{}{}", output.stdout, output.stderr);
    server
        .wait_for_email(id, |email| {
            matches!(email["status"].as_str(), Some("sent" | "dead"))
        })
        .await
}

/// Kills the sender right after the dot, and lets an operator say what became of the email.
async fn held_and_resolved(backend: &Backend, resolution: &str) -> (Value, u64) {
    let sink = a_sink().await;
    let (server, id) = killed_after_the_dot(backend, &sink, "hold").await;
    let ended = resolved(&server, &id, resolution).await;
    verify(&server).await;
    (ended, copies(&sink, &id, "ann@example.org"))
}

async fn killed_right_after_the_dot_hold_waits_for_an_operator_who_knows_it_arrived(
    backend: &Backend,
) {
    let (ended, copies) = held_and_resolved(backend, "sent").await;
    assert_eq!((&ended["status"], copies), (&"sent".into(), 1));
}

async fn killed_right_after_the_dot_hold_waits_for_an_operator_who_sends_it_again(
    backend: &Backend,
) {
    let (ended, copies) = held_and_resolved(backend, "retry").await;
    assert_eq!((&ended["status"], copies), (&"sent".into(), 2));
}

async fn killed_right_after_the_dot_hold_waits_for_an_operator_who_gives_it_up(backend: &Backend) {
    let (ended, copies) = held_and_resolved(backend, "dead").await;
    assert_eq!((&ended["status"], copies), (&"dead".into(), 1));
    assert_eq!(ended["dead_reason"], "Uncertain");
}

async fn a_sender_frozen_past_its_lease_finishes_with_its_late_250_and_sends_no_second_copy(
    backend: &Backend,
) {
    let mut recorder = RecordingServer::start().await;
    let server = backend
        .posthaste()
        .env("SMTP_URL", &recorder.url)
        .env("LEASE_SECONDS", "1")
        .env("POSTHASTE_RETRY__ON_UNKNOWN", "hold")
        .start()
        .await;
    let id = submit(&server, &email_to("ann@example.org")).await;
    let dot = recorder.dots.recv().await.unwrap();
    server.pause();
    // Nobody renews while it is frozen: the lease runs out.
    until_the_lease_ran_out(backend, &id).await;
    dot.answer.send("250 2.0.0 kept\r\n").unwrap();
    server.resume();
    let sent = until(&server, &id, "sent").await;
    assert_eq!(sent["attempts"].as_array().unwrap().len(), 1, "{sent}");
    assert_eq!(sent["attempts"][0]["outcome"], "sent");
    assert!(recorder.dots.try_recv().is_err(), "no second copy");
    verify(&server).await;
}

async fn a_server_that_drops_after_the_dot_leaves_an_uncertain_email(backend: &Backend) {
    let sink = a_sink().await;
    let server = backend
        .sending_to(&sink)
        .env("POSTHASTE_RETRY__ON_UNKNOWN", "hold")
        .start()
        .await;
    let id = submit(&server, &email_to("drop-after-dot@example.org")).await;
    let uncertain = until(&server, &id, "unknown").await;
    assert_eq!(uncertain["error_class"], "reply_lost");
    assert_eq!(copies(&sink, &id, "drop-after-dot@example.org"), 1);
    verify(&server).await;
}
