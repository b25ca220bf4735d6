//! Accepts connections, and ends them in order.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
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
    let router = crate::router_until(parts, shutdown.clone());
    let tasks = TaskTracker::new();
    while let Some((stream, peer, permit)) = next(&listener, &connections, &shutdown).await {
        let connection = connection(stream, peer, router.clone(), shutdown.clone());
        tasks.spawn(async move {
            connection.await;
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

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    shutdown: CancellationToken,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY could not be set");
    }
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ConnectInfo(peer));
        router.clone().call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_header_size(LARGEST_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let result = tokio::select! {
        result = connection.as_mut() => result,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = result {
        // Clients come and go as they like.
        tracing::debug!(%error, %peer, "a connection ended early");
    }
}
