//! A running server: started from its settings, stopped in order.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use posthaste_core::attempt::AttemptRecord;
use posthaste_core::port::{EmailFilter, SharedStore, Tracer};
use posthaste_core::status::Status;
use posthaste_engine::{Access, Engine, Roles};
use posthaste_server::{Limits, ServerParts};
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::command::ended_by_signal;
use crate::config::{CAPTURE, Database, Loaded, Settings};
use crate::data_dir::{self, ServerLock};
use crate::exit::{Exit, UsageError};
use crate::wiring;

/// The services and the HTTP server, at work.
pub(crate) struct Serving {
    /// The services, and the ways in.
    pub(crate) engine: Engine,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// Whether it asks who is there.
    pub(crate) guarded: bool,
    server: JoinHandle<std::io::Result<()>>,
    shutdown: CancellationToken,
    tracer: Arc<dyn Tracer>,
    drain: Duration,
    _lock: Option<ServerLock>,
}

impl Serving {
    /// Starts everything.
    pub(crate) async fn start(loaded: &Loaded, roles: Roles) -> anyhow::Result<Self> {
        posthaste_core::failpoint::hit("serve.start");
        let settings = &loaded.settings;
        let database = settings.database()?;
        let lock = match &database {
            Database::Sqlite(path) => {
                data_dir::create(path)?;
                Some(ServerLock::take(path)?)
            }
            Database::Postgres(_) => None,
        };
        let (parts, registry) = wiring::engine_parts(settings, roles).await?;
        let guarded = Access::new(Arc::clone(&parts.store))
            .has_credentials()
            .await?;
        let listener = listen(settings, guarded || !roles.api).await?;
        let address = listener.local_addr()?;
        if !settings.has_way_out() && roles.sender {
            refuse_to_swallow(&parts.store).await?;
        }
        if roles != Roles::ALL && matches!(database, Database::Sqlite(_)) {
            tracing::warn!(
                ?roles,
                "some roles are left out: with SQLite no other process can take them over"
            );
        }
        let tracer = Arc::clone(&parts.tracer);
        let engine = Engine::start(parts, wiring::engine_config(settings, roles)?);
        let transports = settings.transport_names().join(",");
        tracing::info!(service = settings.service.name, %address, transports, "serving");
        let shutdown = CancellationToken::new();
        let server = tokio::spawn(posthaste_server::serve(
            listener,
            ServerParts {
                intake: Arc::clone(&engine.intake),
                operator: Arc::clone(&engine.operator),
                access: Arc::clone(&engine.access),
                admins: Arc::clone(&engine.admins),
                opens_locally: true,
                secure_cookies: settings.admin.secure_cookies,
                trusted_proxies: settings.admin.trusted_proxies.clone(),
                configuration: loaded.shown(),
                metrics: Arc::clone(&engine.metrics),
                registry: Arc::new(registry),
                ways: Arc::clone(&engine.ways),
                feedback: Arc::clone(&engine.feedback),
                broker: engine.broker.clone(),
                message_desk: Arc::clone(&engine.message_desk),
                message_metrics: Arc::clone(&engine.message_metrics),
                message_broker: engine.message_broker.clone(),
                serves_api: roles.api,
                limits: Limits {
                    in_flight_requests: settings.server.max_in_flight,
                    request_timeout: settings.server.request_timeout.0,
                    ..Limits::default()
                },
                version: env!("CARGO_PKG_VERSION"),
            },
            shutdown.clone(),
        ));
        Ok(Self {
            engine,
            address,
            guarded,
            server,
            shutdown,
            tracer,
            drain: settings.shutdown.drain.0,
            _lock: lock,
        })
    }

    /// Drains what is under way; a second signal ends at once.
    pub(crate) async fn stop(self) -> anyhow::Result<Exit> {
        tracing::info!("stopping: draining what is under way; a second signal ends at once");
        let drain = async {
            // No new emails and no new attempts; then what is under way, all within one deadline.
            self.shutdown.cancel();
            let (stopped, ()) = tokio::join!(
                tokio::time::timeout(self.drain, self.server),
                self.engine.stop()
            );
            self.engine.close().await;
            let tracer = self.tracer;
            // In vain if the collector does not answer in time.
            let _ = tokio::task::spawn_blocking(move || tracer.stop()).await;
            stopped
        };
        let stopped = tokio::select! {
            stopped = drain => stopped,
            () = ended_by_signal() => return Ok(Exit::Failure),
        };
        if let Ok(Ok(Err(error))) = stopped {
            return Err(error).context("the server failed");
        }
        tracing::info!("stopped");
        Ok(Exit::Ok)
    }
}

/// Whoever reaches an API without a key could send mail: `guarded` says that nobody can.
async fn listen(settings: &Settings, guarded: bool) -> anyhow::Result<TcpListener> {
    let address = SocketAddr::new(settings.server.host, settings.server.port);
    if let Some(refusal) = posthaste_server::refuses_to_listen(address, guarded) {
        return Err(UsageError(refusal).into());
    }
    bind(address).with_context(|| {
        format!("cannot listen on {address}: choose another port with --listen or HTTP_PORT")
    })
}

/// So many connections may wait to be accepted. Of a burst that is larger, each that finds no place
/// is tried again by the caller's system only after a second.
const BACKLOG: u32 = 4096;

fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    // A port that was ours a moment ago is free; a stranger's is not.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// How many emails are looked at.
const LOOKED_AT: usize = 20;

/// A forgotten SMTP_URL must not turn real mail into captured mail. If emails wait and the newest
/// that were tried went over a mail server, those that wait are meant for one.
async fn refuse_to_swallow(store: &SharedStore) -> anyhow::Result<()> {
    let counted = store.statistics().await?.by_status;
    let waiting = |(status, n): (&Status, &u64)| !status.is_terminal() && *n > 0;
    if !counted.iter().any(waiting) {
        return Ok(());
    }
    let untried = [Status::Pending, Status::Cancelled];
    let tried = Status::ALL
        .iter()
        .filter(|status| !untried.contains(status));
    let filter = EmailFilter {
        statuses: tried.copied().collect(),
        limit: LOOKED_AT,
        ..EmailFilter::default()
    };
    for email in store.list(&filter).await? {
        let attempts = store
            .find(email.id)
            .await?
            .map(|email| email.attempts)
            .unwrap_or_default();
        let elsewhere = |attempt: &AttemptRecord| {
            attempt
                .transport
                .as_deref()
                .is_some_and(|name| name != CAPTURE)
        };
        if attempts.iter().any(elsewhere) {
            let message = "emails wait in a database that sent over SMTP, but no mail server is configured: set SMTP_URL, \
                           or SMTP_URL=capture to put them into the dev inbox on purpose";
            return Err(UsageError(message.to_owned()).into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;

    use super::*;

    /// More than fit into the usual backlog of 128.
    const BURST: usize = 500;

    #[tokio::test]
    async fn a_burst_of_connections_finds_a_place_before_any_is_accepted() {
        let listener = bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = listener.local_addr().unwrap();
        let mut waiting = Vec::new();
        for _ in 0..BURST {
            // Without a place it would be tried again in vain, until the system gives up.
            waiting.push(TcpStream::connect(address).await.unwrap());
        }
        assert_eq!(waiting.len(), BURST);
    }
}
