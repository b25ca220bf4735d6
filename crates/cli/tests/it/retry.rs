//! Seed 001, sections 2 to 4: transient, permanent, exhausted, replayed.

use posthaste_sink::Mode;
use serde_json::Value;

use crate::backend::{Backend, on_every_backend};
use crate::support::{a_sink, copies, email_to, get, post, submit, until, verify};

on_every_backend! {
    a_transient_failure_is_retried_at_the_right_time_and_delivered,
    a_permanent_failure_is_dead_at_once_with_its_reason,
    an_exhausted_budget_is_dead_with_max_attempts_exceeded,
    a_replayed_dead_letter_is_delivered_with_a_fresh_budget,
    lowering_the_budget_ends_emails_that_already_wait,
    an_outage_of_the_mail_server_costs_nothing,
}

fn time(value: &Value) -> f64 {
    let text = value.as_str().unwrap();
    let at: jiff::Timestamp = text.parse().unwrap();
    at.as_microsecond() as f64 / 1e6
}

async fn a_transient_failure_is_retried_at_the_right_time_and_delivered(backend: &Backend) {
    let sink = a_sink().await;
    let server = backend
        .sending_to(&sink)
        .env("BACKOFF_SCHEDULE", "2s,5m")
        .start()
        .await;
    let id = submit(&server, &email_to("fail1@example.org")).await;
    let failed = until(&server, &id, "failed").await;
    assert_eq!(failed["attempt_count"], 1);
    assert_eq!(failed["status_text"], "Retrying (attempt 2 of 8)");
    assert!(
        failed["last_error"].as_str().unwrap().starts_with("451"),
        "{failed}"
    );
    let delay = time(&failed["next_attempt_at"]) - time(&failed["attempts"][0]["finished_at"]);
    assert!(
        (delay - 2.0).abs() < 0.000_01,
        "the backoff after the first failure is 2 s, not {delay}"
    );

    let sent = until(&server, &id, "sent").await;

    assert_eq!(sent["attempts"].as_array().unwrap().len(), 2);
    assert!(time(&sent["attempts"][1]["started_at"]) >= time(&failed["next_attempt_at"]));
    assert_eq!(copies(&sink, &id, "fail1@example.org"), 1);
    verify(&server).await;
}

async fn a_permanent_failure_is_dead_at_once_with_its_reason(backend: &Backend) {
    let sink = a_sink().await;
    let server = backend.sending_to(&sink).start().await;
    for (recipient, reason) in [
        ("reject@example.org", "HardBounce"),
        ("reject-data@example.org", "MessageRejected"),
        ("spam@example.org", "PolicyBlocked"),
    ] {
        let id = submit(&server, &email_to(recipient)).await;
        let dead = until(&server, &id, "dead").await;
        assert_eq!(dead["dead_reason"], reason, "{recipient}");
        assert_eq!(dead["attempt_count"], 1, "{recipient}");
        assert_eq!(dead["attempts"][0]["outcome"], "permanent", "{recipient}");
        assert_eq!(dead["status_text"], "Failed (moved to dead letter queue)");
        assert!(!dead["last_error"].is_null());
    }
    verify(&server).await;
}

async fn an_exhausted_budget_is_dead_with_max_attempts_exceeded(backend: &Backend) {
    let sink = a_sink().await;
    let server = backend
        .sending_to(&sink)
        .env("MAX_ATTEMPTS", "3")
        .start()
        .await;
    let id = submit(&server, &email_to("tempfail@example.org")).await;
    let dead = until(&server, &id, "dead").await;
    assert_eq!(dead["dead_reason"], "MaxAttemptsExceeded");
    assert_eq!(
        (&dead["attempt_count"], &dead["max_attempts"]),
        (&3.into(), &3.into())
    );
    assert_eq!(dead["attempts"].as_array().unwrap().len(), 3);
    assert!(
        dead["last_error"].as_str().unwrap().starts_with("451"),
        "the last error is kept"
    );
    verify(&server).await;
}

async fn a_replayed_dead_letter_is_delivered_with_a_fresh_budget(backend: &Backend) {
    let sink = a_sink().await;
    let server = backend
        .sending_to(&sink)
        .env("MAX_ATTEMPTS", "2")
        .env("BACKOFF_SCHEDULE", "1s")
        .start()
        .await;
    sink.set_mode(Mode::TempfailAll);
    let id = submit(&server, &email_to("ann@example.org")).await;
    until(&server, &id, "dead").await;
    let listed = get(&server, "/v1/dead-letters").await;
    assert_eq!(listed.body["data"][0]["id"], id.as_str());
    let groups = get(&server, "/v1/dead-letters/groups").await;
    assert_eq!(groups.body["data"][0]["count"], 1);

    // It fails once more after the replay, which a spent budget would not allow.
    let retried = post(
        &server,
        &format!("/v1/dead-letters/{id}/retry"),
        &serde_json::json!({}),
    )
    .await;
    assert_eq!(retried.status, 200, "{}", retried.body);
    server
        .wait_for_email(&id, |email| email["attempt_count"] == 1)
        .await;
    sink.set_mode(Mode::Normal);

    let sent = until(&server, &id, "sent").await;
    let numbers: Vec<_> = sent["attempts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|a| a["number"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    assert!(
        numbers.len() >= 4,
        "two before, at least one failed and one sent after: {sent}"
    );
    assert_eq!(copies(&sink, &id, "ann@example.org"), 1);
    verify(&server).await;
}

async fn lowering_the_budget_ends_emails_that_already_wait(backend: &Backend) {
    let sink = a_sink().await;
    let mut server = backend
        .sending_to(&sink)
        .env("BACKOFF_SCHEDULE", "100ms,100ms,5s")
        .start()
        .await;
    let id = submit(&server, &email_to("tempfail@example.org")).await;
    server
        .wait_for_email(&id, |email| email["attempt_count"] == 3)
        .await;
    assert_eq!(server.terminate().await, Some(0));
    server.restart(&[("MAX_ATTEMPTS", "3")]).await;
    let dead = until(&server, &id, "dead").await;
    assert_eq!(dead["dead_reason"], "MaxAttemptsExceeded");
    assert_eq!(dead["attempts"].as_array().unwrap().len(), 3);
    verify(&server).await;
}

async fn an_outage_of_the_mail_server_costs_nothing(backend: &Backend) {
    let sink = a_sink().await;
    let server = backend.sending_to(&sink);
    let server = server.env("BACKOFF_SCHEDULE", "500ms").start().await;
    sink.set_mode(Mode::RefuseConnections);
    let mut ids = Vec::new();
    // Too few to say that it is the server's fault: they spend attempts. `outage` has many.
    for n in 0..5 {
        ids.push(submit(&server, &email_to(&format!("user{n}@example.org"))).await);
    }
    for id in &ids {
        server
            .wait_for_email(id, |email| email["attempt_count"].as_u64() >= Some(1))
            .await;
    }
    sink.set_mode(Mode::Normal);
    for (n, id) in ids.iter().enumerate() {
        until(&server, id, "sent").await;
        assert_eq!(copies(&sink, id, &format!("user{n}@example.org")), 1);
    }
    verify(&server).await;
}
