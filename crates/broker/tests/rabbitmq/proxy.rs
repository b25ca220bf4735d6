//! A network that fails on request.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::server;

/// How the network is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Works,
    /// Nothing comes through, and nobody is told.
    Silent,
    /// Connections are cut, and new ones too.
    Cut,
}

/// Stands between a broker and the server.
pub(crate) struct Proxy {
    port: u16,
    mode: watch::Sender<Mode>,
}

impl Proxy {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mode = watch::Sender::new(Mode::Works);
        tokio::spawn(accept(listener, mode.subscribe()));
        Self { port, mode }
    }

    /// The server's address by way of this.
    pub(crate) fn url(&self) -> String {
        let url = server::url();
        url.replace(&server_address(), &format!("127.0.0.1:{}", self.port))
    }

    pub(crate) fn work(&self) {
        self.mode.send_replace(Mode::Works);
    }

    pub(crate) fn fall_silent(&self) {
        self.mode.send_replace(Mode::Silent);
    }

    pub(crate) fn cut(&self) {
        self.mode.send_replace(Mode::Cut);
    }
}

/// Host and port of the server.
fn server_address() -> String {
    let url = server::url();
    let address = url.rsplit('@').next().unwrap();
    address.split('/').next().unwrap().to_owned()
}

async fn accept(listener: TcpListener, mode: watch::Receiver<Mode>) {
    while let Ok((client, _)) = listener.accept().await {
        tokio::spawn(serve(client, mode.clone()));
    }
}

async fn serve(client: TcpStream, mut mode: watch::Receiver<Mode>) {
    if *mode.borrow() == Mode::Cut {
        return;
    }
    let server = TcpStream::connect(server_address()).await.unwrap();
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::select! {
        _ = pass_on(from_client, to_server, mode.clone()) => {}
        _ = pass_on(from_server, to_client, mode.clone()) => {}
        _ = mode.wait_for(|mode| *mode == Mode::Cut) => {}
        // No test lasts that long.
        () = tokio::time::sleep(Duration::from_secs(300)) => {}
    }
}

async fn pass_on(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut mode: watch::Receiver<Mode>,
) -> std::io::Result<()> {
    let mut buffer = [0; 16 * 1024];
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        // An error means that the test is over.
        let _ = mode.wait_for(|mode| *mode == Mode::Works).await;
        to.write_all(&buffer[..count]).await?;
    }
}
