//! HTTP in, SMTP out: on the embedded default, or on what DATABASE_URL and RABBITMQ_URL name.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use clap::Args;
use posthaste_sink::{Sink, SinkConfig};
use serde_json::{Value, json};

use crate::client::Client;
use crate::rig::journal::progress_bar;
use crate::server::Server;

/// How much load.
#[derive(Debug, Args)]
pub(crate) struct Load {
    /// How many emails
    #[arg(long, default_value_t = 20_000)]
    emails: u64,
    /// How many HTTP clients at the same time
    #[arg(long, default_value_t = 64)]
    clients: u64,
    /// The size of each body in octets
    #[arg(long, default_value_t = 4096)]
    body: usize,
    /// How many SMTP connections
    #[arg(long, default_value_t = 16)]
    connections: u64,
    /// How many emails to send before the measurement begins
    #[arg(long, default_value_t = 1_000)]
    warm_up: u64,
}

/// Runs the load and reports.
pub(crate) async fn run(binary: &Path, load: &Load) -> anyhow::Result<Value> {
    let sink = Sink::start(SinkConfig::default()).await?;
    let environment = [
        ("SMTP_URL", format!("{}?tls=none", sink.url())),
        (
            "POSTHASTE_SENDER__CONNECTIONS",
            load.connections.to_string(),
        ),
        ("POSTHASTE_SMTP__MESSAGES_PER_CONNECTION", "1000".to_owned()),
    ];
    let server = Server::start(binary, &[], &environment).await?;
    submit(&server.address, load, load.warm_up).await?;
    sink.wait_for(load.warm_up).await;

    let total = load.warm_up + load.emails;
    let progress = progress_bar(load.emails, "delivered");
    let processor = server.processor_seconds()?;
    let started = Instant::now();
    let (accepted, delivered) = tokio::join!(
        async {
            submit(&server.address, load, load.emails)
                .await
                .map(|()| started.elapsed())
        },
        async {
            let done = sink.wait_for(total);
            tokio::pin!(done);
            loop {
                tokio::select! {
                    () = &mut done => break started.elapsed(),
                    () = tokio::time::sleep(Duration::from_millis(100)) => {
                        progress.set_position(sink.accepted().saturating_sub(load.warm_up));
                    }
                }
            }
        }
    );
    progress.finish_and_clear();
    let processor = server.processor_seconds()? - processor;
    let accepted = accepted?;
    let duplicates = sink.duplicates().len();
    ensure!(
        duplicates == 0,
        "{duplicates} emails arrived more than once"
    );
    let rate = |time: Duration| (load.emails as f64 / time.as_secs_f64()).round();
    Ok(json!({
        "what": "HTTP -> posthaste -> SMTP sink",
        "emails": load.emails,
        "clients": load.clients,
        "connections": load.connections,
        "body_bytes": load.body,
        "accepted_per_second": rate(accepted),
        "delivered_per_second": rate(delivered),
        "server_processor_us_per_email": (processor * 1e6 / load.emails as f64).round(),
        "peak_memory_mib": server.peak_memory_mib()?.round(),
        "copies_too_many": duplicates,
    }))
}

async fn submit(address: &str, load: &Load, emails: u64) -> anyhow::Result<()> {
    let next = Arc::new(AtomicU64::new(0));
    // Text that does not compress, in lines of an ordinary length.
    let text: String = (0..load.body)
        .map(|at| {
            if at % 72 == 71 {
                '\n'
            } else {
                char::from(b'a' + ((at * at * 31 + at * 7) % 26) as u8)
            }
        })
        .collect();
    let body = json!({
        "from": "bench@example.org", "to": "someone@example.org", "subject": "Bench", "text": text
    })
    .to_string();
    let body: Arc<str> = body.into();
    let clients: Vec<_> = (0..load.clients)
        .map(|_| {
            let (next, body, address) = (Arc::clone(&next), Arc::clone(&body), address.to_owned());
            tokio::spawn(async move {
                let mut client = Client::connect(&address).await?;
                while next.fetch_add(1, Ordering::Relaxed) < emails {
                    let (status, answer) = client.post("/v1/emails", &body).await?;
                    ensure!(status == 202, "the server answered {status}: {answer}");
                }
                Ok(())
            })
        })
        .collect();
    for client in clients {
        client.await??;
    }
    Ok(())
}
