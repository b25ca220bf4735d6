//! A mail server that fails in one way and is otherwise the sink behind it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use posthaste_sink::{Capabilities, Sink, SinkConfig};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpSocket, TcpStream};

/// What goes wrong.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Trouble {
    /// Nothing.
    None,
    /// The port is closed until someone opens it.
    Closed,
    /// The connection is taken, and nothing is ever said.
    Silent,
    /// The connection is taken and closed.
    HangsUp,
    /// The recipient gets this reply.
    Says(&'static str),
}

/// A front on a port of its own, and the sink behind it.
pub(crate) struct Front {
    pub(crate) sink: Sink,
    address: SocketAddr,
    socket: Mutex<Option<TcpSocket>>,
    shared: Arc<Shared>,
}

struct Shared {
    sink: SocketAddr,
    trouble: Trouble,
    /// How often it is still to happen.
    left: AtomicUsize,
    connections: AtomicUsize,
}

impl Shared {
    /// Whether it is to happen once more.
    fn happens(&self) -> bool {
        let less = |left: usize| left.checked_sub(1);
        let (set, get) = (Ordering::SeqCst, Ordering::SeqCst);
        self.left.fetch_update(set, get, less).is_ok()
    }
}

impl Front {
    /// A front with this trouble, so many times.
    pub(crate) async fn start(trouble: Trouble, times: usize) -> Self {
        let config = SinkConfig {
            keep_messages: true,
            // One command, one reply, so that a reply can stand in for the sink's.
            capabilities: Capabilities {
                pipelining: false,
                ..Capabilities::default()
            },
            ..SinkConfig::default()
        };
        let sink = Sink::start(config).await.unwrap();
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let front = Self {
            address: socket.local_addr().unwrap(),
            socket: Mutex::new(Some(socket)),
            shared: Arc::new(Shared {
                sink: sink.addr(),
                trouble,
                left: AtomicUsize::new(times),
                connections: AtomicUsize::new(0),
            }),
            sink,
        };
        if !matches!(trouble, Trouble::Closed) {
            front.open();
        }
        front
    }

    /// Listens from now on.
    pub(crate) fn open(&self) {
        let socket = self.socket.lock().unwrap().take().unwrap();
        let listener = socket.listen(1024).unwrap();
        let shared = Arc::clone(&self.shared);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                shared.connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(client, Arc::clone(&shared)));
            }
        });
    }

    /// Its URL.
    pub(crate) fn url(&self) -> String {
        format!("smtp://{}?tls=none", self.address)
    }

    /// How many connections it has had.
    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }
}

async fn serve(client: TcpStream, shared: Arc<Shared>) -> Option<()> {
    match shared.trouble {
        Trouble::Silent if shared.happens() => {
            let mut client = client;
            // Until the client leaves.
            let _ = client.read_u8().await;
            return None;
        }
        Trouble::HangsUp if shared.happens() => return None,
        _ => {}
    }
    let mut sink = TcpStream::connect(shared.sink).await.ok()?;
    let mut client = BufReader::new(client);
    let (mut line, mut replies) = (Vec::new(), vec![0; 16 * 1024]);
    loop {
        tokio::select! {
            read = client.read_until(b'\n', &mut line) => {
                if read.ok()? == 0 {
                    return None;
                }
                match shared.trouble {
                    Trouble::Says(reply) if line.starts_with(b"RCPT") && shared.happens() => {
                        let reply = format!("{reply}\r\n");
                        client.get_mut().write_all(reply.as_bytes()).await.ok()?;
                        if reply.starts_with("421") {
                            return None;
                        }
                    }
                    _ => sink.write_all(&line).await.ok()?,
                }
                line.clear();
            }
            read = sink.read(&mut replies) => {
                let count = read.ok().filter(|count| *count > 0)?;
                client.get_mut().write_all(&replies[..count]).await.ok()?;
            }
        }
    }
}
