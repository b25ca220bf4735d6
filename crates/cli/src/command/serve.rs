//! Runs the server.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use posthaste_engine::{Engine, Roles};
use posthaste_server::{Limits, ServerParts};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::arguments::{Global, Role, ServeArguments};
use crate::config::Settings;
use crate::data_dir::ServerLock;
use crate::exit::{Exit, UsageError};
use crate::{logging, output, wiring};

pub(crate) async fn run(global: &Global, arguments: ServeArguments) -> anyhow::Result<Exit> {
    let settings = wiring::load_config(global, arguments.listen)?.settings;
    logging::start(&settings)?;
    let database = settings.sqlite_path()?;
    crate::data_dir::create_parent(&database)?;
    let _lock = ServerLock::take(&database)?;
    let (parts, registry) = wiring::engine_parts(&settings)?;
    let listener = listen(&settings, &parts.store).await?;
    let address = listener.local_addr()?;
    let roles = roles_of(&arguments.roles);
    let ended = ended_by_signal();
    let engine = Engine::start(parts, wiring::engine_config(&settings, roles));
    welcome(&settings, address, engine.transport.name());

    let shutdown = CancellationToken::new();
    let server = tokio::spawn(posthaste_server::serve(
        listener,
        ServerParts {
            intake: Arc::clone(&engine.intake),
            operator: Arc::clone(&engine.operator),
            access: Arc::clone(&engine.access),
            metrics: Arc::clone(&engine.metrics),
            registry: Arc::new(registry),
            transport: Arc::clone(&engine.transport),
            limits: Limits {
                in_flight_requests: settings.server.max_in_flight,
                request_timeout: settings.server.request_timeout.0,
                ..Limits::default()
            },
            version: env!("CARGO_PKG_VERSION"),
        },
        shutdown.clone(),
    ));
    ended.await;
    // In this order: no new emails, no new attempts, then what is under way.
    tracing::info!("stopping: draining what is under way");
    shutdown.cancel();
    let stopped = tokio::time::timeout(settings.shutdown.drain.0, server).await;
    engine.stop().await;
    if let Ok(Ok(Err(error))) = stopped {
        return Err(error).context("the server failed");
    }
    tracing::info!("stopped");
    Ok(Exit::Ok)
}

async fn listen(
    settings: &Settings,
    store: &posthaste_core::port::SharedStore,
) -> anyhow::Result<TcpListener> {
    let address = SocketAddr::new(settings.server.host, settings.server.port);
    let has_keys = !store.keys().await?.is_empty();
    if let Some(refusal) = posthaste_server::refuses_to_listen(address, has_keys) {
        return Err(UsageError(refusal).into());
    }
    TcpListener::bind(address).await.with_context(|| {
        format!("cannot listen on {address}: choose another port with --listen or HTTP_PORT")
    })
}

fn roles_of(chosen: &[Role]) -> Roles {
    if chosen.is_empty() {
        return Roles::ALL;
    }
    Roles {
        api: chosen.contains(&Role::Api),
        sender: chosen.contains(&Role::Sender),
        scheduler: chosen.contains(&Role::Scheduler),
    }
}

/// Resolves at SIGTERM or Ctrl-C. The handlers are set at once, not at the first poll.
pub(crate) fn ended_by_signal() -> impl Future<Output = ()> {
    let terminate = signal(SignalKind::terminate());
    let interrupt = signal(SignalKind::interrupt());
    async move {
        match (terminate, interrupt) {
            (Ok(mut terminate), Ok(mut interrupt)) => {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
            }
            // Without handlers the signals end the process as usual.
            _ => std::future::pending().await,
        }
    }
}

fn welcome(settings: &Settings, address: SocketAddr, transport: &str) {
    let url = format!("http://{address}");
    let mail = match transport {
        "capture" => "to the dev inbox; set SMTP_URL to send it for real".to_owned(),
        _ => format!("to {}", super::config::without_password(&settings.smtp.url)),
    };
    let database = settings
        .sqlite_path()
        .map(|path| path.display().to_string())
        .unwrap_or_default();
    output::announce(&format!(
        "Posthaste {version} is ready.

  Dashboard  {url}/admin
  API        {url}/docs
  Mail goes  {mail}
  Database   {database}

Try it:

  curl {url}/v1/emails -H 'Content-Type: application/json' \\
    -d '{{\"from\":\"app@example.org\",\"to\":\"you@example.org\",\"subject\":\"Hello\",\"text\":\"It works.\"}}'
",
        version = env!("CARGO_PKG_VERSION"),
    ));
}
