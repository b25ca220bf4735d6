//! The server: listening, and what its owner may ask it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, error, warn};

use crate::config::SinkConfig;
use crate::connection;
use crate::ledger::{CopyCount, ReceivedMessage, Report};
use crate::mode::Mode;
use crate::shared::Shared;

/// How long to leave the listener alone when the system has no more sockets for it.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A running SMTP server. Dropping it stops it.
pub struct Sink {
    shared: Arc<Shared>,
    address: SocketAddr,
    stopping: CancellationToken,
    listening: TaskTracker,
}

impl Sink {
    /// Starts listening, on the current Tokio runtime. The port is open when this
    /// returns. Fails if the address is taken or the settings contradict each other.
    pub async fn start(config: SinkConfig) -> io::Result<Self> {
        config.validate()?;
        let listener = TcpListener::bind(config.listen).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::new(config));
        let stopping = CancellationToken::new();
        let listening = TaskTracker::new();
        listening.spawn(listen(listener, Arc::clone(&shared), stopping.clone()));
        listening.close();
        debug!(%address, "sink listening");
        Ok(Self {
            shared,
            address,
            stopping,
            listening,
        })
    }

    /// The address it listens on, with the port that was picked.
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// The address as a URL: `smtp://…`, or `smtps://…` with implicit TLS.
    pub fn url(&self) -> String {
        let scheme = match self.shared.config.implicit_tls {
            true => "smtps",
            false => "smtp",
        };
        format!("{scheme}://{}", self.address)
    }

    /// Changes how the server treats everybody from now on.
    pub fn set_mode(&self, mode: Mode) {
        self.shared.set_mode(mode);
    }

    /// Everything counted so far. Its size grows with the number of messages.
    pub fn report(&self) -> Report {
        self.shared.ledger.report()
    }

    /// The number of messages accepted so far. Cheap.
    pub fn accepted(&self) -> u64 {
        self.shared.ledger.accepted()
    }

    /// How many copies of a message a recipient has. The Message-ID may be given with
    /// or without angle brackets, the address in any case.
    pub fn copies(&self, message_id: &str, recipient: &str) -> u64 {
        self.shared.ledger.copies(message_id, recipient)
    }

    /// The messages and recipients with more than one copy.
    pub fn duplicates(&self) -> Vec<CopyCount> {
        self.shared.ledger.copies_from(2)
    }

    /// The accepted messages in order of arrival, if
    /// [`keep_messages`](SinkConfig::keep_messages) is on.
    pub fn messages(&self) -> Vec<Arc<ReceivedMessage>> {
        self.shared.ledger.messages()
    }

    /// Resolves as soon as at least `count` messages have been accepted since the
    /// start; for ever pending if that never happens.
    pub async fn wait_for(&self, count: u64) {
        self.shared.ledger.wait_for(count).await;
    }

    /// Stops listening and cuts all connections. When this returns the port is free;
    /// what was counted can still be asked for.
    pub async fn stop(&self) {
        self.stopping.cancel();
        self.listening.wait().await;
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.stopping.cancel();
    }
}

/// Accepts connections, and owns the tasks that serve them, until told to stop.
async fn listen(listener: TcpListener, shared: Arc<Shared>, stopping: CancellationToken) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stopping.cancelled() => break,
            Some(ended) = connections.join_next() => {
                if let Err(error) = ended {
                    error!(%error, "connection task failed");
                }
            }
            accepted = listener.accept(), if connections.len() < shared.config.max_connections => {
                match accepted {
                    Ok((tcp, peer)) => {
                        connections.spawn(connection::serve(tcp, peer, Arc::clone(&shared)));
                    }
                    Err(error) => {
                        warn!(%error, "cannot accept a connection");
                        sleep(ACCEPT_PAUSE).await;
                    }
                }
            }
        }
    }
    drop(listener);
    connections.shutdown().await;
}
