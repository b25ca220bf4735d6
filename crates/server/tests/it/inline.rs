//! Emails whose callers wait for the first attempt.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::fixture::{Answer, Server, email};

/// Hands an email in to be sent at once, and does not wait for the answer yet.
fn post_inline(server: &Arc<Server>, key: &str) -> JoinHandle<Answer> {
    let server = Arc::clone(server);
    let email = email(json!({"message_key": key, "delivery": "inline"}));
    tokio::spawn(async move { server.post("/v1/emails", &email).await })
}

/// The email with this key, handed in to wait.
async fn post_queued(server: &Server, key: &str) -> Answer {
    let email = email(json!({"message_key": key}));
    server.post("/v1/emails", &email).await
}

/// The email as it is shown.
async fn shown(server: &Server, id: &str) -> Value {
    server.get(&format!("/v1/emails/{id}")).await.json()
}

/// Waits until the email is in this state.
async fn until(server: &Server, id: &str, status: &str) -> Value {
    loop {
        let email = shown(server, id).await;
        if email["status"] == status {
            return email;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn one_that_the_server_takes_is_200_and_sent() {
    let (server, mut attempts) = Server::start_sending();
    let posted = post_inline(&server, "k");
    let attempt = attempts.recv().await.unwrap();
    let id = attempt.id.clone();
    assert!(!posted.is_finished(), "answered before it was sent");
    attempt.accept();

    let answer = posted.await.unwrap();

    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("idempotent-replayed"), "");
    let body = json!({"id": id, "status": "sent", "message_key": "k"});
    assert_eq!(answer.json(), body);
    let email = shown(&server, &id).await;
    assert_eq!(email["delivery"], "inline");
    assert_eq!(email["attempts"][0]["outcome"], "sent");
}

#[tokio::test]
async fn one_that_fails_for_now_is_202_with_when_it_is_tried_again() {
    let (server, mut attempts) = Server::start_sending();
    let posted = post_inline(&server, "k");
    let attempt = attempts.recv().await.unwrap();
    attempt.refuse(451, "4.3.0 Come back later");

    let answer = posted.await.unwrap();

    assert_eq!(answer.status, 202, "{}", answer.text());
    let body = answer.json();
    let email = shown(&server, body["id"].as_str().unwrap()).await;
    let expected = json!({
        "id": email["id"],
        "status": "failed",
        "message_key": "k",
        "next_attempt_at": email["next_attempt_at"],
        "last_error": "451 4.3.0 Come back later",
    });
    assert_eq!(body, expected);
    assert!(email["next_attempt_at"].is_string(), "{email}");
    assert_eq!(
        (&email["attempt_count"], &email["delivery"]),
        (&json!(0), &json!("inline"))
    );
}

#[tokio::test]
async fn one_that_is_refused_for_good_is_202_and_dead_with_its_reason() {
    let (server, mut attempts) = Server::start_sending();
    let posted = post_inline(&server, "k");
    let attempt = attempts.recv().await.unwrap();
    let id = attempt.id.clone();
    attempt.refuse(550, "5.1.1 No such user");

    let answer = posted.await.unwrap();

    assert_eq!(
        answer.status, 202,
        "a naive client must not take it for sent"
    );
    let expected = json!({
        "id": id,
        "status": "dead",
        "message_key": "k",
        "dead_reason": "HardBounce",
        "last_error": "550 5.1.1 No such user",
    });
    assert_eq!(answer.json(), expected);
}

#[tokio::test]
async fn how_it_is_sent_is_no_part_of_what_it_is() {
    let (server, mut attempts) = Server::start_sending();
    let queued = post_queued(&server, "queued first").await;
    let id = queued.json()["id"].clone();
    assert_eq!(
        shown(&server, id.as_str().unwrap()).await["delivery"],
        "queued"
    );
    let again = post_inline(&server, "queued first").await.unwrap();
    assert_eq!(again.status, 200, "{}", again.text());
    assert_eq!(again.header("idempotent-replayed"), "true");
    assert_eq!(
        (&again.json()["id"], &again.json()["status"]),
        (&id, &json!("pending"))
    );

    let posted = post_inline(&server, "inline first");
    attempts
        .recv()
        .await
        .unwrap()
        .refuse(550, "5.1.1 No such user");
    let first = posted.await.unwrap().json();
    let again = post_queued(&server, "inline first").await;
    assert_eq!(again.status, 200);
    let expected = json!({"id": first["id"], "status": "dead", "message_key": "inline first"});
    assert_eq!(again.json(), expected);
    assert!(attempts.try_recv().is_err(), "nothing was sent again");
}

#[tokio::test]
async fn who_comes_second_with_the_same_key_gets_the_first_ones_answer() {
    let (server, mut attempts) = Server::start_sending();
    let first = post_inline(&server, "k");
    let attempt = attempts.recv().await.unwrap();
    let second = post_inline(&server, "k");
    attempt.accept();
    let (first, second) = (first.await.unwrap(), second.await.unwrap());
    assert_eq!((first.status.as_u16(), second.status.as_u16()), (200, 200));
    assert_eq!(first.json(), second.json());
    assert_eq!(first.header("idempotent-replayed"), "");
    assert_eq!(second.header("idempotent-replayed"), "true");
    assert!(attempts.try_recv().is_err(), "one attempt only");
}

#[tokio::test]
async fn where_nobody_can_send_at_once_it_waits_as_any_other() {
    let server = Server::start();
    let email = email(json!({"delivery": "inline"}));
    let answer = server.post("/v1/emails", &email).await;
    assert_eq!(answer.status, 202, "{}", answer.text());
    assert_eq!(answer.json()["status"], "pending");
    let shown = shown(&server, answer.json()["id"].as_str().unwrap()).await;
    assert_eq!(shown["delivery"], "queued");
}

#[tokio::test]
async fn what_else_is_asked_for_is_named_with_what_there_is() {
    let server = Server::start();
    let answer = server
        .post("/v1/emails", &email(json!({"delivery": "pigeon"})))
        .await;
    assert_eq!(answer.is_problem(422).fields(), ["delivery"]);
    let message = answer.json()["errors"][0]["message"].clone();
    assert_eq!(message, "`pigeon` is not one of: queued, inline");
}

#[tokio::test]
async fn one_for_later_is_refused_and_not_kept() {
    let (server, _attempts) = Server::start_sending();
    let later = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
    let email = email(json!({"delivery": "inline", "send_at": later.to_string()}));
    let answer = server.post("/v1/emails", &email).await;
    assert_eq!(answer.is_problem(422).fields(), ["send_at"]);
    assert_eq!(server.get("/v1/stats").await.json()["accepted"], 0);
}

#[tokio::test]
async fn a_caller_who_hangs_up_neither_loses_nor_doubles_the_mail() {
    let (server, mut attempts) = Server::start_sending();
    let posted = post_inline(&server, "k");
    let attempt = attempts.recv().await.unwrap();
    let id = attempt.id.clone();
    posted.abort();
    assert!(posted.await.is_err_and(|error| error.is_cancelled()));
    // Asked again, by one who does not hang up.
    let again = post_inline(&server, "k");
    attempt.accept();

    let answer = again.await.unwrap();

    assert_eq!(answer.status, 200, "{}", answer.text());
    let body = json!({"id": id, "status": "sent", "message_key": "k"});
    assert_eq!(answer.json(), body);
    assert!(attempts.try_recv().is_err(), "one attempt only");
    assert_eq!(server.get("/v1/stats").await.json()["accepted"], 1);
}

#[tokio::test]
async fn a_request_that_takes_too_long_neither_loses_nor_doubles_the_mail() {
    let (server, mut attempts) = Server::start_sending();
    let posted = post_inline(&server, "k");
    let attempt = attempts.recv().await.unwrap();
    let id = attempt.id.clone();
    // From here on time flies, for nobody has anything to do.
    tokio::time::pause();
    let answer = posted.await.unwrap();
    tokio::time::resume();
    answer.is_problem(503);
    assert!(
        answer.text().contains("same message_key"),
        "{}",
        answer.text()
    );

    attempt.accept();

    let email = until(&server, &id, "sent").await;
    assert_eq!(email["attempts"].as_array().unwrap().len(), 1, "{email}");
    let again = post_inline(&server, "k").await.unwrap();
    assert_eq!(again.status, 200, "{}", again.text());
    assert_eq!(again.json()["id"], id.as_str());
    assert!(attempts.try_recv().is_err(), "one attempt only");
}

#[tokio::test]
async fn the_page_of_an_email_says_that_its_caller_waited() {
    let (server, mut attempts) = Server::start_sending();
    let posted = post_inline(&server, "k");
    let attempt = attempts.recv().await.unwrap();
    let id = attempt.id.clone();
    attempt.refuse(451, "4.3.0 Come back later");
    posted.await.unwrap();
    let page = |id: String| {
        let server = Arc::clone(&server);
        async move { server.get(&format!("/admin/emails/{id}")).await.text() }
    };
    let text = page(id).await;
    assert_eq!(text.matches("(inline, not counted)").count(), 1, "{text}");
    assert!(text.contains("inline: its caller waited for the first attempt"));
    assert!(text.contains("1 attempt, 0 counted"), "{text}");
    let queued = server.dead(json!({})).await;
    let text = page(queued).await;
    assert!(text.contains("<dt>Delivery</dt><dd>queued</dd>"), "{text}");
    assert!(!text.contains("not counted"));
}
