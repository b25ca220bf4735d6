//! Accepts connections, and ends them in order.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service as _;

use crate::app::ServerParts;

/// How long a client may take to send the head of a request; an idle connection is closed
/// after this time.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// The most octets that the head of a request may have.
const LARGEST_HEAD: usize = 64 * 1024;
/// How long a connection may still begin its first request after the server began to drain.
const LAST_CALL: Duration = Duration::from_secs(1);
/// How long to wait when the system cannot give another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until `shutdown` is cancelled. Then it is not ready any more, accepts nothing more,
/// closes idle connections, and ends when the requests that are under way are answered.
pub async fn serve(
    listener: TcpListener,
    parts: ServerParts,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let connections = Arc::new(Semaphore::new(parts.limits.connections));
    let service = Service {
        longest_request: parts.limits.longest_request(),
        router: crate::router_until(parts, shutdown.clone()),
        shutdown: shutdown.clone(),
    };
    let tasks = TaskTracker::new();
    while let Some((stream, peer, permit)) = next(&listener, &connections, &shutdown).await {
        let conversation = service.clone().converse(stream, peer);
        tasks.spawn(async move {
            conversation.await;
            drop(permit);
        });
    }
    drop(listener);
    tasks.close();
    tasks.wait().await;
    Ok(())
}

/// The next connection, once there is room for it; `None` at shutdown.
async fn next(
    listener: &TcpListener,
    connections: &Arc<Semaphore>,
    shutdown: &CancellationToken,
) -> Option<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let accept = async {
        let permit = Arc::clone(connections).acquire_owned().await.ok()?;
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => return Some((stream, peer, permit)),
                Err(error) if is_of_the_connection(&error) => {}
                Err(error) => {
                    tracing::error!(%error, "no connection can be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    };
    tokio::select! {
        biased;
        () = shutdown.cancelled() => None,
        accepted = accept => accepted,
    }
}

fn is_of_the_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
    )
}

/// What all connections share.
#[derive(Clone)]
struct Service {
    router: Router,
    shutdown: CancellationToken,
    longest_request: Duration,
}

impl Service {
    async fn converse(self, stream: TcpStream, peer: SocketAddr) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY could not be set");
        }
        let has_begun = Arc::new(AtomicBool::new(false));
        let begins = Arc::clone(&has_begun);
        let router = self.router;
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            begins.store(true, Ordering::Relaxed);
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(ConnectInfo(peer));
            router.clone().call(request)
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .max_header_size(LARGEST_HEAD)
            // Answers are small: to copy them behind their head costs less than a vectored write.
            .writev(false)
            .serve_connection(TokioIo::new(stream), service);
        tokio::pin!(connection);
        let result = tokio::select! {
            result = connection.as_mut() => result,
            () = self.shutdown.cancelled() => {
                // Closes an idle connection, and any other after its present request.
                connection.as_mut().graceful_shutdown();
                tokio::select! {
                    result = connection.as_mut() => result,
                    () = outstayed(&has_begun, self.longest_request) => return,
                }
            }
        };
        if let Err(error) = result {
            // Clients come and go as they like.
            tracing::debug!(%error, %peer, "a connection ended early");
        }
    }
}

/// Resolves when a connection has no business to be open any more: it has not begun a request
/// although it had the time, or it does not take its answer.
async fn outstayed(has_begun: &AtomicBool, longest_request: Duration) {
    tokio::time::sleep(LAST_CALL).await;
    if has_begun.load(Ordering::Relaxed) {
        tokio::time::sleep(longest_request).await;
    }
}
