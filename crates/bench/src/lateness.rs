//! How late retries are sent. Each email fails once and is due again at a moment of its own;
//! its second attempt's start, as recorded, tells how late it was.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::Args;
use posthaste_sink::{Sink, SinkConfig};
use serde_json::{Value, json};

use crate::client::Client;
use crate::rig::journal::progress_bar;
use crate::server::Server;

/// How much load.
#[derive(Debug, Args)]
pub(crate) struct Load {
    /// How many retries
    #[arg(long, default_value_t = 1_000)]
    retries: usize,
    /// Over how many seconds they fall due
    #[arg(long, default_value_t = 10)]
    seconds: u64,
}

/// Runs the load and reports.
pub(crate) async fn run(binary: &Path, load: &Load) -> anyhow::Result<Value> {
    let sink = Sink::start(SinkConfig::default()).await?;
    let environment = [
        ("SMTP_URL", format!("{}?tls=none", sink.url())),
        ("BACKOFF_SCHEDULE", "2s".to_owned()),
        ("POSTHASTE_RETRY__JITTER", format!("{}s", load.seconds)),
        // A poll would show as steps of this size.
        ("RETRY_INTERVAL_SECONDS", "60".to_owned()),
    ];
    let server = Server::start(binary, &[], &environment).await?;
    let mut client = Client::connect(&server.address).await?;
    let emails: Vec<Value> = (0..load.retries)
        .map(|n| json!({"from": "bench@example.org", "to": format!("fail1+{n}@example.org"), "subject": "x", "text": "x"}))
        .collect();
    let mut ids = Vec::new();
    for batch in emails.chunks(500) {
        let (status, answer) = client
            .post("/v1/emails/batch", &json!({"emails": batch}).to_string())
            .await?;
        ensure!(status == 202, "the server answered {status}: {answer}");
        let answer: Value = serde_json::from_str(&answer)?;
        let data = answer["data"].as_array().context("no data")?;
        ids.extend(
            data.iter()
                .filter_map(|entry| entry["id"].as_str().map(str::to_owned)),
        );
    }
    let progress = progress_bar(load.retries as u64, "retried");
    let all = sink.wait_for(load.retries as u64);
    tokio::pin!(all);
    loop {
        tokio::select! {
            () = &mut all => break,
            () = tokio::time::sleep(Duration::from_millis(200)) => progress.set_position(sink.accepted()),
        }
    }
    progress.finish_and_clear();
    // The first connection may have been closed for idling.
    let mut client = Client::connect(&server.address).await?;
    let mut late = Vec::with_capacity(ids.len());
    for id in &ids {
        late.push(lateness(&mut client, id).await?);
    }
    late.sort_by(f64::total_cmp);
    ensure!(late[0] >= 0.0, "a retry was {} ms early", -late[0]);
    let at = |share: f64| late[((late.len() - 1) as f64 * share) as usize];
    Ok(json!({
        "what": "start of the second attempt after its due time, milliseconds",
        "retries": late.len(),
        "over_seconds": load.seconds,
        "p50_ms": at(0.5),
        "p90_ms": at(0.9),
        "p99_ms": at(0.99),
        "max_ms": at(1.0),
    }))
}

/// How long after it was due the second attempt began, in milliseconds.
async fn lateness(client: &mut Client, id: &str) -> anyhow::Result<f64> {
    loop {
        let (status, answer) = client.get(&format!("/v1/emails/{id}")).await?;
        ensure!(status == 200, "the server answered {status}: {answer}");
        let email: Value = serde_json::from_str(&answer)?;
        if email["status"] != "sent" {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        }
        let attempts = email["attempts"].as_array().context("no attempts")?;
        ensure!(attempts.len() == 2, "expected two attempts: {answer}");
        let due = seconds(&attempts[0]["next_attempt_at"])?;
        return Ok((seconds(&attempts[1]["started_at"])? - due) * 1000.0);
    }
}

/// The seconds of the day of an RFC 3339 time in UTC. A run does not last over midnight twice.
fn seconds(time: &Value) -> anyhow::Result<f64> {
    let text = time.as_str().context("no time")?;
    let clock = text
        .split_once('T')
        .context("not a time")?
        .1
        .trim_end_matches('Z');
    let parts: Vec<f64> = clock.split(':').map(str::parse).collect::<Result<_, _>>()?;
    ensure!(parts.len() == 3, "not a time: {text}");
    Ok(parts[0] * 3600.0 + parts[1] * 60.0 + parts[2])
}
