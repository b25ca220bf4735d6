//! A network that fails on request, between a process and a server.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// How the network is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Works,
    Silent,
    Cut,
}

/// When to give up waiting for something to be held.
const DEADLINE: Duration = Duration::from_secs(60);

/// Stands between a process and a server for as long as the test's runtime lives.
pub struct Proxy {
    /// Host and port of the server.
    server: String,
    port: u16,
    mode: watch::Sender<Mode>,
    held: Held,
}

/// What came in silence so far, in either direction.
type Held = Arc<Mutex<Vec<u8>>>;

impl Proxy {
    /// A way to the server of this URL, which works.
    pub async fn to(url: &str) -> Self {
        let server = address_of(url).to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let mode = watch::Sender::new(Mode::Works);
        let held = Held::default();
        let network = Network {
            server: server.clone(),
            mode: mode.subscribe(),
            held: Arc::clone(&held),
        };
        tokio::spawn(accept(listener, network));
        Self {
            server,
            port,
            mode,
            held,
        }
    }

    /// A URL of the server by way of this.
    #[must_use]
    pub fn by_way_of(&self, url: &str) -> String {
        url.replacen(&self.server, &format!("127.0.0.1:{}", self.port), 1)
    }

    /// Ends all connections, and new ones at once.
    pub fn cut(&self) {
        self.mode.send_replace(Mode::Cut);
    }

    /// Lets nothing through any more, and tells nobody.
    pub fn fall_silent(&self) {
        self.mode.send_replace(Mode::Silent);
    }

    /// Waits until something with this text in it is held back by the silence.
    pub async fn wait_for_held(&self, text: &str) {
        let is_held = || {
            let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            held.windows(text.len())
                .any(|bytes| bytes == text.as_bytes())
        };
        let waiting = async {
            while !is_held() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let waited = tokio::time::timeout(DEADLINE, waiting).await;
        assert!(waited.is_ok(), "nothing with `{text}` came");
    }

    /// Works again.
    pub fn restore(&self) {
        self.mode.send_replace(Mode::Works);
    }
}

/// Host and port in `scheme://user:password@host:port/…`.
fn address_of(url: &str) -> &str {
    let (_, rest) = url.split_once("://").expect("a URL");
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    authority.rsplit('@').next().unwrap_or_default()
}

/// What a connection needs to know.
#[derive(Clone)]
struct Network {
    server: String,
    mode: watch::Receiver<Mode>,
    held: Held,
}

async fn accept(listener: TcpListener, network: Network) {
    while let Ok((client, _)) = listener.accept().await {
        tokio::spawn(serve(client, network.clone()));
    }
}

async fn serve(client: TcpStream, network: Network) {
    let mut mode = network.mode.clone();
    if *mode.borrow() == Mode::Cut {
        return;
    }
    let Ok(server) = TcpStream::connect(&network.server).await else {
        return;
    };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::select! {
        _ = pass_on(from_client, to_server, network.clone()) => {}
        _ = pass_on(from_server, to_client, network) => {}
        // Also when the test is over.
        _ = mode.wait_for(|mode| *mode == Mode::Cut) => {}
    }
}

async fn pass_on(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut network: Network,
) -> std::io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        if *network.mode.borrow() == Mode::Silent {
            let mut held = network.held.lock().unwrap_or_else(PoisonError::into_inner);
            held.extend_from_slice(&buffer[..count]);
        }
        // What came in silence comes through when it is over.
        let _ = network.mode.wait_for(|mode| *mode == Mode::Works).await;
        to.write_all(&buffer[..count]).await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_and_port_are_found_in_any_url() {
        for url in [
            "amqp://guest:guest@127.0.0.1:5672/%2f",
            "postgresql://postgres@127.0.0.1:5672/db?options=-csearch_path%3Da",
            "postgresql://127.0.0.1:5672",
            "amqp://127.0.0.1:5672?heartbeat=1",
        ] {
            assert_eq!(address_of(url), "127.0.0.1:5672", "{url}");
        }
    }

    #[tokio::test]
    async fn a_connection_is_cut_and_a_new_one_works_after_the_repair() {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("test://{}/x", server.local_addr().unwrap());
        let proxy = Proxy::to(&url).await;
        let way = proxy.by_way_of(&url);
        let connect = async || TcpStream::connect(address_of(&way)).await.unwrap();

        let (mut client, (mut served, _)) =
            tokio::join!(connect(), async { server.accept().await.unwrap() });
        client.write_all(b"a").await.unwrap();
        assert_eq!(served.read_u8().await.unwrap(), b'a');
        proxy.cut();
        assert!(client.read_u8().await.is_err());
        assert!(connect().await.read_u8().await.is_err());

        proxy.restore();
        let (mut client, (mut served, _)) =
            tokio::join!(connect(), async { server.accept().await.unwrap() });
        proxy.fall_silent();
        client.write_all(b"b").await.unwrap();
        proxy.wait_for_held("b").await;
        proxy.restore();
        assert_eq!(served.read_u8().await.unwrap(), b'b');
    }
}
