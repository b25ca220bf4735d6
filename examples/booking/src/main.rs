//! Serves the studio until it is told to stop, and sends its mail meanwhile.

use std::net::SocketAddr;

use anyhow::Context as _;
use posthaste_booking::settings::Settings;
use posthaste_booking::studio::Studio;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).init();
    let settings = Settings::from_env()?;
    let outbox = posthaste_booking::outbox(&settings).open().await?;
    let studio = Studio::open(&settings, outbox.clone())?;
    let listener = TcpListener::bind(settings.listen)
        .await
        .with_context(|| format!("cannot listen on {}; set LISTEN", settings.listen))?;
    greet(listener.local_addr()?);

    let worker = outbox.start();
    let (mut interrupt, mut terminate) = (
        signal(SignalKind::interrupt())?,
        signal(SignalKind::terminate())?,
    );
    let shutdown = async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        // What is being sent is waited for. Everything else waits in the outbox for the next start.
        worker.stop().await;
        outbox.close().await;
    };
    let app = posthaste_booking::router(studio);
    axum::serve(
        listener,
        app.into_make_service_with_connect_info::<SocketAddr>(),
    )
    .with_graceful_shutdown(shutdown)
    .await?;
    Ok(())
}

/// Says what to do next.
#[expect(clippy::print_stdout, reason = "it is for the person at the terminal")]
fn greet(address: SocketAddr) {
    println!("Book the wheel:             http://{address}/");
    println!("See mail that still waits:  http://{address}/admin/email-queue");
    println!("No mail server at hand?     cargo run -- sink");
}
