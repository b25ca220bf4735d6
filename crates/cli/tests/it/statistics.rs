//! The numbers equal the rows after a mixed run.

use serde_json::{Value, json};

use crate::backend::{Backend, on_every_backend};
use crate::support::{a_sink, email_to, get, post, text, verify};

on_every_backend! {
    stats_and_gauges_equal_the_rows_after_a_mixed_run,
}

async fn stats_and_gauges_equal_the_rows_after_a_mixed_run(backend: &Backend) {
    let sink = a_sink().await;
    let server = backend
        .sending_to(&sink)
        .env("MAX_ATTEMPTS", "3")
        .env("POSTHASTE_RETRY__ON_UNKNOWN", "hold")
        // Many in a row may be dropped, which is no reason to stop here.
        .env("POSTHASTE_BREAKER__ENABLED", "false")
        .start()
        .await;
    let kinds = [
        "ann",
        "flaky50",
        "reject",
        "tempfail",
        "fail1",
        "drop-after-dot",
        "drop",
        "spam",
    ];
    let emails: Vec<_> = (0..160)
        .map(|n| email_to(&format!("{}+{n}@example.org", kinds[n % kinds.len()])))
        .collect();
    let answer = post(&server, "/v1/emails/batch", &json!({"emails": emails})).await;
    let ids: Vec<String> = answer.body["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["id"].as_str().unwrap().to_owned())
        .collect();
    for id in &ids {
        server
            .wait_for_email(id, |email| {
                matches!(email["status"].as_str(), Some("sent" | "dead" | "unknown"))
            })
            .await;
    }
    let dead = get(&server, "/v1/dead-letters?limit=10").await;
    for entry in dead.body["data"].as_array().unwrap().iter().take(5) {
        let path = format!("/v1/dead-letters/{}/discard", entry["id"].as_str().unwrap());
        assert_eq!(post(&server, &path, &json!({})).await.status, 200);
    }

    let rows = backend.rows_by_status().await;
    let stats = get(&server, "/v1/stats").await.body;
    let metrics = text(&server, "/metrics").await;
    for (status, counted) in stats["emails"].as_object().unwrap() {
        let there = rows.get(status).copied().unwrap_or(0);
        assert_eq!(counted, &Value::from(there), "{status}");
        let gauge = format!("posthaste_emails{{status=\"{status}\"}} {there}");
        assert!(metrics.contains(&gauge), "{gauge} is not in {metrics}");
    }
    assert_eq!(rows["discarded"], 5);
    assert!(
        metrics.contains("posthaste_emails_accepted_total{source=\"api\"} 160"),
        "{metrics}"
    );
    verify(&server).await;
}
