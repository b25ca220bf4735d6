//! `delivery: inline`: the caller waits for the first attempt, whatever goes wrong with it.

use std::collections::BTreeSet;

use jiff::Timestamp;
use posthaste_sink::Mode;
use serde_json::{Value, json};

use crate::backend::{Backend, on_every_backend};
use crate::recording_server::RecordingServer;
use crate::support::{Reply, a_sink, copies, email_to, get, outcomes, post, until, verify};

on_every_backend! {
    it_is_at_the_mail_server_before_the_answer,
    while_the_mail_server_is_down_it_waits_uncounted_and_is_then_delivered_once,
    refused_for_good_it_is_dead_and_nothing_is_counted,
    a_server_that_hangs_costs_the_caller_bounded_time,
    a_server_that_hangs_after_the_dot_is_waited_for_without_the_caller,
    a_lost_reply_is_on_record_and_at_most_one_more_copy_leaves,
    a_lost_reply_with_hold_waits_for_an_operator,
    fifty_requests_with_ten_keys_at_once_are_ten_emails,
    the_budget_is_for_what_comes_after_the_first_try,
}

/// The email, to be sent while its caller waits.
pub(crate) fn inline(mut email: Value) -> Value {
    email["delivery"] = json!("inline");
    email
}

/// The id in an answer.
pub(crate) fn id_in(answer: &Reply) -> &str {
    answer.body["id"].as_str().unwrap()
}

fn time(value: &Value) -> Timestamp {
    value.as_str().unwrap().parse().unwrap()
}

/// How many milliseconds after the end of each attempt the next one was due.
fn delays_ms(email: &Value) -> Vec<i128> {
    let attempts = email["attempts"].as_array().unwrap().iter();
    let due = attempts.filter(|attempt| attempt["next_attempt_at"].is_string());
    due.map(|attempt| {
        let ended = time(&attempt["finished_at"]);
        let wait = time(&attempt["next_attempt_at"]).duration_since(ended);
        wait.as_millis()
    })
    .collect()
}

async fn it_is_at_the_mail_server_before_the_answer(backend: &Backend) {
    let sink = a_sink().await;
    let server = backend.sending_to(&sink).start().await;
    for n in 1..=5 {
        let answer = post(&server, "/v1/emails", &inline(email_to("ann@example.org"))).await;
        assert_eq!(sink.accepted(), n, "it was there before the answer");
        assert_eq!(
            (answer.status, &answer.body["status"]),
            (200, &json!("sent"))
        );
        assert_eq!(answer.header("idempotent-replayed"), None);
        let sent = get(&server, &format!("/v1/emails/{}", id_in(&answer)))
            .await
            .body;
        assert_eq!(outcomes(&sent), ["sent"]);
        assert_eq!(sent["delivery"], "inline");
        assert_eq!(copies(&sink, id_in(&answer), "ann@example.org"), 1);
    }
    verify(&server).await;
}

async fn while_the_mail_server_is_down_it_waits_uncounted_and_is_then_delivered_once(
    backend: &Backend,
) {
    let sink = a_sink().await;
    let server = backend
        .sending_to(&sink)
        .env("BACKOFF_SCHEDULE", "3s,5m")
        .start()
        .await;
    sink.set_mode(Mode::RefuseConnections);
    let answer = post(&server, "/v1/emails", &inline(email_to("ann@example.org"))).await;
    assert_eq!(
        (answer.status, &answer.body["status"]),
        (202, &json!("failed"))
    );
    assert!(answer.body["last_error"].is_string(), "{}", answer.body);
    let id = id_in(&answer);
    let failed = get(&server, &format!("/v1/emails/{id}")).await.body;
    assert_eq!(failed["attempt_count"], 0, "{failed}");
    assert_eq!(failed["status_text"], "Retrying (attempt 1 of 8)");
    assert_eq!(failed["next_attempt_at"], answer.body["next_attempt_at"]);
    assert_eq!(delays_ms(&failed), [3_000], "the first delay of the policy");

    sink.set_mode(Mode::Normal);

    let sent = until(&server, id, "sent").await;
    assert_eq!(outcomes(&sent), ["transient", "sent"]);
    assert_eq!(copies(&sink, id, "ann@example.org"), 1);
    verify(&server).await;
}

async fn refused_for_good_it_is_dead_and_nothing_is_counted(backend: &Backend) {
    let sink = a_sink().await;
    let server = backend.sending_to(&sink).start().await;
    let answer = post(
        &server,
        "/v1/emails",
        &inline(email_to("reject@example.org")),
    )
    .await;
    assert_eq!(answer.status, 202, "who looks only at the code: not sent");
    assert_eq!(answer.body["status"], "dead");
    assert_eq!(answer.body["dead_reason"], "HardBounce");
    let dead = until(&server, id_in(&answer), "dead").await;
    assert_eq!(dead["attempt_count"], 0, "{dead}");
    assert_eq!(outcomes(&dead), ["permanent"]);
    verify(&server).await;
}

async fn a_server_that_hangs_costs_the_caller_bounded_time(backend: &Backend) {
    let sink = a_sink().await;
    let server = backend
        .sending_to(&sink)
        .env("BACKOFF_SCHEDULE", "1h")
        .env("POSTHASTE_SENDER__INLINE_TIMEOUT", "200ms")
        .start()
        .await;
    let answer = post(&server, "/v1/emails", &inline(email_to("hang@example.org"))).await;
    assert_eq!(
        (answer.status, &answer.body["status"]),
        (202, &json!("failed"))
    );
    let failed = until(&server, id_in(&answer), "failed").await;
    assert_eq!(failed["attempt_count"], 0, "{failed}");
    assert_eq!(outcomes(&failed), ["transient"]);
    assert_eq!(delays_ms(&failed), [3_600_000]);
    verify(&server).await;
}

async fn a_server_that_hangs_after_the_dot_is_waited_for_without_the_caller(backend: &Backend) {
    let mut recorder = RecordingServer::start().await;
    let server = backend
        .posthaste()
        .env("SMTP_URL", &recorder.url)
        .env("POSTHASTE_SENDER__INLINE_TIMEOUT", "200ms")
        .start()
        .await;
    let answer = post(&server, "/v1/emails", &inline(email_to("ann@example.org"))).await;
    assert_eq!(
        (answer.status, &answer.body["status"]),
        (202, &json!("sending"))
    );
    let dot = recorder.dots.recv().await.unwrap();
    dot.answer.send("250 2.0.0 kept\r\n").unwrap();
    let sent = until(&server, id_in(&answer), "sent").await;
    assert_eq!(outcomes(&sent), ["sent"]);
    assert!(recorder.dots.try_recv().is_err(), "no second copy");
    verify(&server).await;
}

async fn a_lost_reply_is_on_record_and_at_most_one_more_copy_leaves(backend: &Backend) {
    let sink = a_sink().await;
    let server = backend.sending_to(&sink).start().await;
    let to = "drop-after-dot@example.org";
    let answer = post(&server, "/v1/emails", &inline(email_to(to))).await;
    assert_eq!(
        (answer.status, &answer.body["status"]),
        (202, &json!("failed"))
    );
    let id = id_in(&answer);
    // The second reply is lost, too, and then it is not sent again by itself.
    let held = until(&server, id, "unknown").await;
    assert_eq!(outcomes(&held), ["unknown", "unknown"]);
    assert_eq!(held["possible_duplicate"], true);
    assert_eq!(held["attempt_count"], 1, "the first one is not counted");
    assert_eq!(copies(&sink, id, to), 2, "one, and one more on record");
    verify(&server).await;
}

async fn a_lost_reply_with_hold_waits_for_an_operator(backend: &Backend) {
    let sink = a_sink().await;
    let server = backend
        .sending_to(&sink)
        .env("POSTHASTE_RETRY__ON_UNKNOWN", "hold")
        .start()
        .await;
    let to = "drop-after-dot@example.org";
    let answer = post(&server, "/v1/emails", &inline(email_to(to))).await;
    assert_eq!(
        (answer.status, &answer.body["status"]),
        (202, &json!("unknown"))
    );
    let held = until(&server, id_in(&answer), "unknown").await;
    assert_eq!(held["attempt_count"], 0, "{held}");
    assert_eq!(copies(&sink, id_in(&answer), to), 1);
    verify(&server).await;
}

async fn fifty_requests_with_ten_keys_at_once_are_ten_emails(backend: &Backend) {
    let sink = a_sink().await;
    let server = backend.sending_to(&sink).start().await;
    let posts = (0..50).map(|n| {
        let mut email = inline(email_to("ann@example.org"));
        email["message_key"] = json!(format!("order-{}", n % 10));
        let request = server.request(reqwest::Method::POST, "/v1/emails");
        tokio::spawn(request.json(&email).send())
    });
    let mut ids = BTreeSet::new();
    let mut new = 0;
    for post in posts.collect::<Vec<_>>() {
        let response = post.await.unwrap().unwrap();
        new += u32::from(!response.headers().contains_key("idempotent-replayed"));
        let status = response.status().as_u16();
        let body: Value = response.json().await.unwrap();
        assert!(status == 200 || status == 202, "{status}: {body}");
        ids.insert(body["id"].as_str().unwrap().to_owned());
    }
    assert_eq!((ids.len(), new), (10, 10));
    for id in &ids {
        until(&server, id, "sent").await;
        assert_eq!(copies(&sink, id, "ann@example.org"), 1);
    }
    assert_eq!(sink.report().messages, 10);
    verify(&server).await;
}

async fn the_budget_is_for_what_comes_after_the_first_try(backend: &Backend) {
    let sink = a_sink().await;
    let server = backend.sending_to(&sink).start().await;
    let mut email = inline(email_to("tempfail@example.org"));
    // The policy `outbox` with a 300th of its delays.
    email["retry_policy"] = json!({
        "max_attempts": 5,
        "backoff": {"base": "100ms", "factor": 2.0, "cap": "1h"},
    });
    let answer = post(&server, "/v1/emails", &email).await;
    assert_eq!(
        (answer.status, &answer.body["status"]),
        (202, &json!("failed"))
    );
    let dead = until(&server, id_in(&answer), "dead").await;
    assert_eq!(dead["dead_reason"], "MaxAttemptsExceeded");
    assert_eq!(dead["attempt_count"], 5, "{dead}");
    assert_eq!(outcomes(&dead), ["transient"; 6]);
    assert_eq!(delays_ms(&dead), [100, 200, 400, 800, 1_600]);
    verify(&server).await;
}

/// The policy by its name, with its own times: each try is made due behind everyone's back.
#[tokio::test]
async fn the_policy_outbox_has_its_tries_at_the_times_of_seed_004() {
    let (backend, sink) = (Backend::postgres().await, a_sink().await);
    let server = backend.sending_to(&sink).env("RETRY_INTERVAL_SECONDS", "1");
    let server = server.start().await;
    let mut email = inline(email_to("tempfail@example.org"));
    email["retry_policy"] = json!("outbox");
    let answer = post(&server, "/v1/emails", &email).await;
    let id = id_in(&answer);
    let mut since_the_first = 0;
    for (count, due) in (0..).zip([30, 90, 210, 450, 930]) {
        let waits = |email: &Value| email["status"] == "failed" && email["attempt_count"] == count;
        let failed = server.wait_for_email(id, waits).await;
        let last = failed["attempts"].as_array().unwrap().last().unwrap();
        let (ended, next) = (time(&last["finished_at"]), time(&failed["next_attempt_at"]));
        since_the_first += next.duration_since(ended).as_secs();
        assert_eq!(since_the_first, due, "{failed}");
        assert_eq!(backend.make_failed_due().await, 1);
    }
    let dead = until(&server, id, "dead").await;
    assert_eq!(dead["dead_reason"], "MaxAttemptsExceeded");
    assert_eq!(
        (&dead["attempt_count"], &dead["max_attempts"]),
        (&json!(5), &json!(5))
    );
    verify(&server).await;
}
