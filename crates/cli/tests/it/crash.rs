//! kill -9 at the worst moments.

use crate::backend::{Backend, on_every_backend};
use crate::support::{
    a_sink, copies, email_to, id_of_accepted, keyed_email_to, outcomes, run, submit, submit_fatal,
    until, until_healthy, verify,
};

on_every_backend! {
    killed_between_accept_and_send_it_is_sent_once_after_the_restart,
    killed_after_the_commit_and_before_the_answer_the_same_key_gives_the_same_email,
    killed_after_begin_it_is_sent_exactly_once,
    killed_before_the_gate_it_is_sent_exactly_once,
    ; with_tickets:
    a_scheduler_killed_after_its_claim_loses_and_doubles_nothing,
    a_scheduler_killed_after_publishing_loses_and_doubles_nothing,
}

async fn killed_between_accept_and_send_it_is_sent_once_after_the_restart(backend: &Backend) {
    let sink = a_sink().await;
    let mut accepting = backend.sending_to(&sink).role("api").start().await;
    let id = submit(&accepting, &email_to("ann@example.org")).await;
    accepting.kill9();
    assert_eq!(sink.report().messages, 0);

    // The answer does not wait for the ticket, which may be lost with the process.
    let server = backend.sending_to(&sink).env("RETRY_INTERVAL_SECONDS", "1");
    let server = server.start().await;

    until(&server, &id, "sent").await;
    assert_eq!(copies(&sink, &id, "ann@example.org"), 1);
    verify(&server).await;
}

async fn killed_after_the_commit_and_before_the_answer_the_same_key_gives_the_same_email(
    backend: &Backend,
) {
    let sink = a_sink().await;
    let mut server = backend
        .sending_to(&sink)
        .env("POSTHASTE_FAILPOINT", "intake.after_commit=kill")
        // A queue that others share may have got the ticket: only time tells that it has not.
        .env("RETRY_INTERVAL_SECONDS", "1")
        .start()
        .await;
    let email = keyed_email_to("ann@example.org");
    submit_fatal(&mut server, &email).await;

    server.restart(&[("POSTHASTE_FAILPOINT", "")]).await;
    let id = id_of_accepted(&server, &email).await;

    until(&server, &id, "sent").await;
    assert_eq!(copies(&sink, &id, "ann@example.org"), 1);
    assert_eq!(sink.report().messages, 1);
    verify(&server).await;
}

/// Kills the server at this point, before the gate.
async fn killed_before_the_gate(backend: &Backend, failpoint: &str) {
    let sink = a_sink().await;
    let mut server = backend
        .sending_to(&sink)
        .env("POSTHASTE_FAILPOINT", format!("{failpoint}=kill"))
        .start()
        .await;
    // Before RabbitMQ is connected, an email is begun without a ticket, which is another path.
    until_healthy(&server).await;
    let email = keyed_email_to("ann@example.org");
    submit_fatal(&mut server, &email).await;

    server.restart(&[("POSTHASTE_FAILPOINT", "")]).await;
    let id = id_of_accepted(&server, &email).await;

    let sent = until(&server, &id, "sent").await;
    assert_eq!(outcomes(&sent), ["lost", "sent"]);
    assert_eq!(sent["attempt_count"], 0, "a lost worker spends nothing");
    assert_eq!(sent["possible_duplicate"], false);
    assert_eq!(copies(&sink, &id, "ann@example.org"), 1);
    verify(&server).await;
}

async fn killed_after_begin_it_is_sent_exactly_once(backend: &Backend) {
    killed_before_the_gate(backend, "sender.after_begin").await;
}

async fn killed_before_the_gate_it_is_sent_exactly_once(backend: &Backend) {
    killed_before_the_gate(backend, "smtp.before_gate").await;
}

/// Kills the scheduler at this point.
async fn killed_while_scheduling(backend: &Backend, failpoint: &str) {
    let sink = a_sink().await;
    let mut server = backend
        .sending_to(&sink)
        .env("POSTHASTE_FAILPOINT", format!("{failpoint}=kill"))
        .start()
        .await;
    let email = keyed_email_to("fail1@example.org");
    submit_fatal(&mut server, &email).await;
    server.restart(&[("POSTHASTE_FAILPOINT", "")]).await;
    let id = id_of_accepted(&server, &email).await;
    until(&server, &id, "sent").await;
    assert_eq!(copies(&sink, &id, "fail1@example.org"), 1);
    verify(&server).await;
}

async fn a_scheduler_killed_after_its_claim_loses_and_doubles_nothing(backend: &Backend) {
    killed_while_scheduling(backend, "scheduler.after_claim").await;
}

async fn a_scheduler_killed_after_publishing_loses_and_doubles_nothing(backend: &Backend) {
    killed_while_scheduling(backend, "scheduler.after_publish").await;
}

#[tokio::test]
async fn a_second_server_on_the_same_file_is_refused() {
    let (backend, sink) = (Backend::sqlite().await, a_sink().await);
    let server = backend.sending_to(&sink).start().await;
    let output = run(&server, &["serve", "--listen", "127.0.0.1:0"]).await;
    assert_eq!(output.code, 2, "{}", output.stderr);
    assert!(output.stderr.contains("--data-dir"), "{}", output.stderr);
}
