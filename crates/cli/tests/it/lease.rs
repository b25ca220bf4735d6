//! A slow server costs no email its lease.

use std::time::Duration;

use posthaste_sink::{Sink, SinkConfig};
use serde_json::json;

use crate::backend::{Backend, on_every_backend};
use crate::support::{email_to, post, text, until, verify};

on_every_backend! {
    five_hundred_emails_through_a_server_that_takes_longer_than_the_lease,
}

async fn five_hundred_emails_through_a_server_that_takes_longer_than_the_lease(backend: &Backend) {
    let sink = Sink::start(SinkConfig {
        delay: Duration::from_secs(5),
        ..SinkConfig::default()
    })
    .await
    .unwrap();
    let server = backend
        .sending_to(&sink)
        .env("LEASE_SECONDS", "3")
        .env("POSTHASTE_SENDER__CONNECTIONS", "250")
        .start()
        .await;
    let emails: Vec<_> = (0..500)
        .map(|n| email_to(&format!("user{n}@example.org")))
        .collect();
    let answer = post(&server, "/v1/emails/batch", &json!({"emails": emails})).await;
    assert_eq!(answer.status, 202);
    for entry in answer.body["data"].as_array().unwrap() {
        let sent = until(&server, entry["id"].as_str().unwrap(), "sent").await;
        assert_eq!(sent["attempts"].as_array().unwrap().len(), 1, "{sent}");
    }
    assert_eq!(sink.report().messages, 500);
    let metrics = text(&server, "/metrics").await;
    for phase in ["idle", "preparing", "committing"] {
        let line = format!("posthaste_leases_rescued_total{{phase=\"{phase}\"}} 0");
        assert!(metrics.contains(&line), "{phase}: {metrics}");
    }
    verify(&server).await;
}
