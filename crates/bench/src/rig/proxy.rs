//! A network that fails on request, between our processes and a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How the network is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Network {
    Works,
    /// Everything takes so much longer, in each direction.
    Slow(Duration),
    /// Nothing comes through, and nobody is told. What was held comes when it works again.
    Silent,
    /// What the server says is lost; what it is told arrives. Such a connection is of no use any
    /// more, and is cut when the network works again.
    LosesReplies,
    /// What the server is told is lost.
    LosesRequests,
    /// All connections end, and new ones at once.
    Cut,
}

/// Stands between processes and a server until dropped.
pub(crate) struct Proxy {
    /// Host and port of the server.
    server: String,
    port: u16,
    network: watch::Sender<Network>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// A way to the server of this URL, which works.
    pub(crate) async fn to(url: &str) -> anyhow::Result<Self> {
        let server = address_of(url).with_context(|| format!("no host in {url}"))?;
        let server = server.to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let network = watch::Sender::new(Network::Works);
        let accepting = tokio::spawn(accept(listener, server.clone(), network.subscribe()));
        Ok(Self {
            server,
            port,
            network,
            accepting,
        })
    }

    /// A URL of the server by way of this.
    pub(crate) fn by_way_of(&self, url: &str) -> String {
        url.replacen(&self.server, &format!("127.0.0.1:{}", self.port), 1)
    }

    /// Changes the network.
    pub(crate) fn set(&self, network: Network) {
        self.network.send_replace(network);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Host and port in `scheme://user:password@host:port/…`.
fn address_of(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?']).next()?;
    authority.rsplit('@').next()
}

async fn accept(listener: TcpListener, server: String, network: watch::Receiver<Network>) {
    while let Ok((client, _)) = listener.accept().await {
        tokio::spawn(serve(client, server.clone(), network.clone()));
    }
}

async fn serve(client: TcpStream, server: String, mut network: watch::Receiver<Network>) {
    if *network.borrow() == Network::Cut {
        return;
    }
    let Ok(server) = TcpStream::connect(server).await else {
        return;
    };
    // In vain at a connection that is gone.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let spoilt = Arc::new(AtomicBool::new(false));
    let way = |loses| Way {
        network: network.clone(),
        loses,
        spoilt: Arc::clone(&spoilt),
    };
    tokio::select! {
        _ = way(Network::LosesRequests).pass_on(from_client, to_server) => {}
        _ = way(Network::LosesReplies).pass_on(from_server, to_client) => {}
        _ = network.wait_for(|now| {
            *now == Network::Cut || (*now == Network::Works && spoilt.load(Ordering::SeqCst))
        }) => {}
    }
}

/// One direction of a connection.
struct Way {
    network: watch::Receiver<Network>,
    /// In which state of the network this direction loses everything.
    loses: Network,
    /// Whether something of this connection was lost.
    spoilt: Arc<AtomicBool>,
}

impl Way {
    async fn pass_on(
        mut self,
        mut from: OwnedReadHalf,
        mut to: OwnedWriteHalf,
    ) -> std::io::Result<()> {
        let mut buffer = vec![0; 16 * 1024];
        loop {
            let count = from.read(&mut buffer).await?;
            if count == 0 {
                return Ok(());
            }
            let now = *self.network.borrow();
            if now == self.loses {
                self.spoilt.store(true, Ordering::SeqCst);
                continue;
            }
            if let Network::Slow(by) = now {
                tokio::time::sleep(by).await;
            }
            // Should the run be over, so is this.
            let _ = self.network.wait_for(|now| *now != Network::Silent).await;
            to.write_all(&buffer[..count]).await?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn pair() -> (Proxy, TcpStream, TcpStream) {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("test://{}/x", server.local_addr().unwrap());
        let proxy = Proxy::to(&url).await.unwrap();
        let way = proxy.by_way_of(&url);
        let (client, served) = tokio::join!(
            async { TcpStream::connect(address_of(&way).unwrap()).await.unwrap() },
            async { server.accept().await.unwrap().0 }
        );
        (proxy, client, served)
    }

    #[tokio::test]
    async fn a_lost_reply_never_comes_and_its_connection_ends() {
        let (proxy, mut client, mut served) = pair().await;
        proxy.set(Network::LosesReplies);
        client.write_all(b"a").await.unwrap();
        assert_eq!(served.read_u8().await.unwrap(), b'a');
        served.write_all(b"b").await.unwrap();
        served.write_all(b"c").await.unwrap();
        // Only once something is lost is the connection of no use.
        tokio::time::timeout(Duration::from_millis(50), client.read_u8())
            .await
            .unwrap_err();
        proxy.set(Network::Works);
        assert!(client.read_u8().await.is_err());
    }

    #[tokio::test]
    async fn what_came_in_silence_comes_through_when_it_is_over() {
        let (proxy, mut client, mut served) = pair().await;
        proxy.set(Network::Silent);
        client.write_all(b"a").await.unwrap();
        proxy.set(Network::Works);
        assert_eq!(served.read_u8().await.unwrap(), b'a');
        proxy.set(Network::Cut);
        assert!(client.read_u8().await.is_err());
    }

    #[test]
    fn host_and_port_are_found_in_any_url() {
        for url in [
            "amqp://guest:guest@127.0.0.1:5672/%2f",
            "postgresql://postgres@127.0.0.1:5672/db?options=-csearch_path%3Da",
            "smtp://127.0.0.1:5672",
        ] {
            assert_eq!(address_of(url), Some("127.0.0.1:5672"), "{url}");
        }
    }
}
