//! `delivery: inline` where the roles are in processes of their own.

use posthaste_testkit::process::Posthaste;
use serde_json::{Value, json};

use crate::backend::Backend;
use crate::inline::{id_in, inline};
use crate::recording_server::RecordingServer;
use crate::support::{
    a_sink, copies, email_to, id_of_accepted, keyed_email_to, outcomes, post, submit_fatal, text,
    until, verify,
};

#[tokio::test]
async fn an_api_process_sends_itself_and_leaves_the_rest_to_others() {
    an_api_process_sends_itself(&Backend::postgres_and_rabbitmq().await).await;
}

#[tokio::test]
async fn an_api_process_on_postgres_alone_sends_itself_and_leaves_the_rest_to_others() {
    an_api_process_sends_itself(&Backend::postgres().await).await;
}

async fn an_api_process_sends_itself(backend: &Backend) {
    let sink = a_sink().await;
    let process = |name: &str| {
        let process = backend.sending_to(&sink);
        process.env("POSTHASTE_SENDER__WORKER", name).role(name)
    };
    let mut api = process("api").start().await;
    let others = process("sender,scheduler").start().await;
    let answer = post(&api, "/v1/emails", &inline(email_to("ann@example.org"))).await;
    assert_eq!(
        (answer.status, &answer.body["status"]),
        (200, &json!("sent"))
    );
    let sent = until(&api, id_in(&answer), "sent").await;
    assert_eq!(sent["attempts"][0]["worker"], "api");

    let answer = post(&api, "/v1/emails", &inline(email_to("fail1@example.org"))).await;
    assert_eq!(
        (answer.status, &answer.body["status"]),
        (202, &json!("failed"))
    );
    let sent = until(&api, id_in(&answer), "sent").await;
    assert_eq!(sent["attempts"][1]["worker"], "sender,scheduler", "{sent}");

    // It takes only what callers wait for.
    let queued = post(&api, "/v1/emails", &email_to("bob@example.org")).await;
    let sent = until(&api, id_in(&queued), "sent").await;
    assert_eq!(sent["attempts"][0]["worker"], "sender,scheduler", "{sent}");

    api.restart(&[("POSTHASTE_FAILPOINT", "smtp.before_gate=kill")])
        .await;
    let email = inline(keyed_email_to("carl@example.org"));
    submit_fatal(&mut api, &email).await;
    api.restart(&[("POSTHASTE_FAILPOINT", "")]).await;
    let id = id_of_accepted(&api, &email).await;
    let sent = until(&api, &id, "sent").await;
    assert_eq!(outcomes(&sent), ["lost", "sent"]);
    assert_eq!(sent["attempts"][1]["worker"], "sender,scheduler", "{sent}");
    assert_eq!(copies(&sink, &id, "carl@example.org"), 1);
    verify(&api).await;
    drop(others);
}

/// One that was started without `SMTP_URL` does not send otherwise, so nobody missed it there.
#[tokio::test]
async fn an_api_process_without_a_mail_server_leaves_it_to_those_who_have_one() {
    let backend = Backend::postgres().await;
    let sink = a_sink().await;
    let api = backend.posthaste().role("api").start().await;
    let answer = post(&api, "/v1/emails", &inline(email_to("ann@example.org"))).await;
    assert_eq!(
        (answer.status, &answer.body["status"]),
        (202, &json!("pending"))
    );
    let id = id_in(&answer);

    let others = backend.sending_to(&sink).role("sender,scheduler");
    let others = others.start().await;

    let sent = until(&api, id, "sent").await;
    assert_eq!(outcomes(&sent), ["sent"]);
    assert_eq!(sent["attempts"][0]["transport"], "smtp", "{sent}");
    assert_eq!(copies(&sink, id, "ann@example.org"), 1);
    let inbox = text(&api, "/admin/inbox").await;
    assert!(!inbox.contains("ann@example.org"), "{inbox}");
    verify(&api).await;
    drop(others);
}

#[tokio::test]
async fn an_api_process_that_captures_on_purpose_does_so_while_callers_wait() {
    let backend = Backend::postgres().await;
    let capture = backend.posthaste().env("SMTP_URL", "capture");
    let api = capture.role("api").start().await;
    let answer = post(&api, "/v1/emails", &inline(email_to("ann@example.org"))).await;
    assert_eq!(
        (answer.status, &answer.body["status"]),
        (200, &json!("sent"))
    );
    let inbox = text(&api, "/admin/inbox").await;
    assert!(inbox.contains("ann@example.org"), "{inbox}");
    verify(&api).await;
}

#[tokio::test]
async fn the_same_key_at_another_process_waits_for_the_first_ones_answer() {
    let backend = Backend::postgres().await;
    let mut recorder = RecordingServer::start().await;
    let process = || backend.posthaste().env("SMTP_URL", &recorder.url);
    let (one, other) = (process().start().await, process().start().await);
    let email = inline(keyed_email_to("ann@example.org"));
    let call = |server: &Posthaste| {
        let request = server.request(reqwest::Method::POST, "/v1/emails");
        tokio::spawn(request.json(&email).send())
    };
    let first = call(&one);
    let dot = recorder.dots.recv().await.unwrap();
    let second = call(&other);
    dot.answer.send("250 2.0.0 kept\r\n").unwrap();
    for (call, is_replayed) in [(first, false), (second, true)] {
        let response = call.await.unwrap().unwrap();
        assert_eq!(response.status(), 200);
        let replayed = response.headers().contains_key("idempotent-replayed");
        assert_eq!(replayed, is_replayed);
        let body: Value = response.json().await.unwrap();
        assert_eq!(body["status"], "sent", "{body}");
    }
    assert!(recorder.dots.try_recv().is_err(), "no second copy");
    verify(&one).await;
}
