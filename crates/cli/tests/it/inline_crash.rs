//! kill -9 while a caller waits for the first attempt, and callers who do not wait after all.

use serde_json::Value;

use crate::backend::{Backend, on_every_backend};
use crate::inline::inline;
use crate::recording_server::RecordingServer;
use crate::support::{
    a_sink, copies, id_of_accepted, keyed_email_to, outcomes, submit_fatal, until, verify,
};

on_every_backend! {
    killed_after_the_commit_it_is_sent_exactly_once,
    killed_before_the_gate_it_is_sent_exactly_once,
    killed_before_the_dot_it_is_sent_once_and_said_to_be_uncertain,
    killed_after_the_dot_one_more_copy_leaves_and_is_on_record,
    a_caller_who_hangs_up_neither_loses_nor_doubles_the_mail,
}

/// Kills the server at this point of the attempt that a caller waits for, and starts it again.
/// Gives the email once it was sent, and how many copies of it there are.
async fn killed_at(backend: &Backend, failpoint: &str) -> (Value, u64) {
    let sink = a_sink().await;
    let mut server = backend
        .sending_to(&sink)
        .env("POSTHASTE_FAILPOINT", format!("{failpoint}=kill"))
        .start()
        .await;
    let email = inline(keyed_email_to("ann@example.org"));
    submit_fatal(&mut server, &email).await;
    server.restart(&[("POSTHASTE_FAILPOINT", "")]).await;
    let id = id_of_accepted(&server, &email).await;
    let sent = until(&server, &id, "sent").await;
    assert_eq!(sent["delivery"], "inline");
    assert_eq!(sent["attempt_count"], 0, "{sent}");
    verify(&server).await;
    (sent, copies(&sink, &id, "ann@example.org"))
}

/// Killed before the gate, nothing can have left.
async fn killed_before_anything_left(backend: &Backend, failpoint: &str) {
    let (sent, copies) = killed_at(backend, failpoint).await;
    assert_eq!(outcomes(&sent), ["lost", "sent"]);
    assert_eq!(sent["possible_duplicate"], false);
    assert_eq!(copies, 1);
}

async fn killed_after_the_commit_it_is_sent_exactly_once(backend: &Backend) {
    killed_before_anything_left(backend, "intake.after_commit").await;
}

async fn killed_before_the_gate_it_is_sent_exactly_once(backend: &Backend) {
    killed_before_anything_left(backend, "smtp.before_gate").await;
}

/// Killed after the gate, nobody can know, and it is on record.
async fn killed_when_it_may_have_left(backend: &Backend, failpoint: &str) -> u64 {
    let (sent, copies) = killed_at(backend, failpoint).await;
    assert_eq!(outcomes(&sent), ["unknown", "sent"]);
    assert_eq!(sent["possible_duplicate"], true);
    copies
}

async fn killed_before_the_dot_it_is_sent_once_and_said_to_be_uncertain(backend: &Backend) {
    let copies = killed_when_it_may_have_left(backend, "smtp.before_dot").await;
    assert_eq!(copies, 1);
}

async fn killed_after_the_dot_one_more_copy_leaves_and_is_on_record(backend: &Backend) {
    let copies = killed_when_it_may_have_left(backend, "smtp.after_dot").await;
    assert_eq!(copies, 2, "one, and one more on record");
}

async fn a_caller_who_hangs_up_neither_loses_nor_doubles_the_mail(backend: &Backend) {
    let mut recorder = RecordingServer::start_asking_before_the_body().await;
    let server = backend
        .posthaste()
        .env("SMTP_URL", &recorder.url)
        .start()
        .await;
    let email = inline(keyed_email_to("ann@example.org"));
    let request = server
        .request(reqwest::Method::POST, "/v1/emails")
        .json(&email);
    let calling = tokio::spawn(request.send());
    let body = recorder.bodies.recv().await.unwrap();
    // The connection goes with the call.
    calling.abort();
    assert!(calling.await.is_err_and(|error| error.is_cancelled()));
    body.send(()).unwrap();
    let dot = recorder.dots.recv().await.unwrap();
    dot.answer.send("250 2.0.0 kept\r\n").unwrap();
    let id = id_of_accepted(&server, &email).await;
    let sent = until(&server, &id, "sent").await;
    assert_eq!(outcomes(&sent), ["sent"]);
    assert!(recorder.dots.try_recv().is_err(), "no second copy");
    verify(&server).await;
}
