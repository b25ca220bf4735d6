//! An email that is too late is worth nothing: it is tried while there is time, and then dead.

use posthaste_sink::Mode;
use serde_json::{Value, json};

use crate::backend::{Backend, on_every_backend};
use crate::support::{a_sink, copies, email_to, outcomes, post, run, submit, until, verify};
use crate::ways_support::{emails_to_many, is_parked, quick, submit_all, until_all_are_parked};

on_every_backend! {
    the_last_attempt_is_made_in_time_and_then_it_is_dead,
    what_waits_for_a_way_out_dies_in_time_and_is_replayed_only_on_purpose,
}

fn time(value: &Value) -> jiff::Timestamp {
    value.as_str().unwrap().parse().unwrap()
}

fn expiring(to: &str, after: &str) -> Value {
    let mut email = email_to(to);
    email["expire_after"] = json!(after);
    email
}

async fn the_last_attempt_is_made_in_time_and_then_it_is_dead(backend: &Backend) {
    let sink = a_sink().await;
    // By the policy alone, the second attempt would come far too late.
    let server = backend
        .sending_to(&sink)
        .env("BACKOFF_SCHEDULE", "1h")
        .start()
        .await;
    let id = submit(&server, &expiring("tempfail@example.org", "11s")).await;
    let dead = until(&server, &id, "dead").await;
    assert_eq!(dead["dead_reason"], "Expired", "{dead}");
    assert_eq!(outcomes(&dead), ["transient", "transient"], "{dead}");
    let end = time(&dead["expires_at"]);
    assert!(time(&dead["attempts"][1]["started_at"]) < end, "{dead}");
    assert!(
        dead["last_error"].as_str().unwrap().starts_with("451"),
        "the last error is kept"
    );
    let wrong = post(&server, "/v1/emails", &expiring("ann@example.org", "soon")).await;
    assert_eq!(
        (wrong.status, &wrong.body["errors"][0]["field"]),
        (422, &json!("expire_after")),
        "{}",
        wrong.body
    );
    verify(&server).await;
}

async fn what_waits_for_a_way_out_dies_in_time_and_is_replayed_only_on_purpose(backend: &Backend) {
    let sink = a_sink().await;
    let server = quick(backend.sending_to(&sink)).start().await;
    sink.set_mode(Mode::RefuseConnections);
    let others = submit_all(&server, &emails_to_many(12)).await;
    until_all_are_parked(&server, 12).await;
    let by_api = submit(&server, &expiring("ann@example.org", "2s")).await;
    let by_hand = submit(&server, &expiring("bob@example.org", "2s")).await;
    for id in [&by_api, &by_hand] {
        let dead = until(&server, id, "dead").await;
        assert_eq!(dead["dead_reason"], "Expired", "{dead}");
        assert_eq!(dead["attempt_count"], 0, "{dead}");
        assert!(
            time(&dead["finished_at"]) >= time(&dead["expires_at"]),
            "{dead}"
        );
    }
    let waits = |email: &Value| is_parked(email) || email["status"] == "sending";
    for id in &others {
        server.wait_for_email(id, waits).await;
    }

    let path = format!("/v1/dead-letters/{by_api}/retry");
    let refused = post(&server, &path, &json!({})).await;
    assert_eq!(refused.status, 409, "{}", refused.body);
    assert!(
        refused.body.to_string().contains("even_if_expired"),
        "{}",
        refused.body
    );
    let refused = run(&server, &["emails", "retry", &by_hand]).await;
    assert_ne!(refused.code, 0, "{}", refused.stdout);
    let said = format!("{}{}", refused.stdout, refused.stderr);
    assert!(said.contains("--even-if-expired"), "{said}");
    let replayed = post(&server, &path, &json!({"even_if_expired": true})).await;
    assert_eq!(replayed.status, 200, "{}", replayed.body);
    let replayed = run(&server, &["emails", "retry", &by_hand, "--even-if-expired"]).await;
    assert_eq!(replayed.code, 0, "{}{}", replayed.stdout, replayed.stderr);

    sink.set_mode(Mode::Normal);
    for (id, to) in [(&by_api, "ann@example.org"), (&by_hand, "bob@example.org")] {
        until(&server, id, "sent").await;
        assert_eq!(copies(&sink, id, to), 1);
    }
    for id in &others {
        until(&server, id, "sent").await;
    }
    verify(&server).await;
}
