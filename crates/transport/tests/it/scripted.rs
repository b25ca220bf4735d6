//! A server that does exactly what the test writes down, and keeps every byte it got.

use std::future::Future;
use std::io;

use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::fixture::PATIENCE;

pub(crate) struct Server {
    listener: TcpListener,
}

impl Server {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self { listener }
    }

    pub(crate) fn port(&self) -> u16 {
        self.listener.local_addr().unwrap().port()
    }

    pub(crate) async fn accept(&self) -> Peer {
        let (stream, _) = in_time(self.listener.accept()).await.unwrap();
        Peer::new(Box::new(stream))
    }

    /// Looks whether somebody wants to connect, which nobody must.
    pub(crate) async fn expect_no_connection(&self) {
        for _ in 0..10 {
            tokio::task::yield_now().await;
            tokio::select! {
                biased;
                _ = self.listener.accept() => panic!("there is one connection too many"),
                () = std::future::ready(()) => {}
            }
        }
    }

    /// Accepts, and says all that comes before MAIL.
    pub(crate) async fn greet(&self, extensions: &[&str]) -> Peer {
        let mut peer = self.accept().await;
        peer.say("220 scripted.test ready\r\n").await;
        peer.hear("EHLO client.test\r\n").await;
        peer.offer(extensions).await;
        peer
    }
}

impl From<TcpListener> for Server {
    fn from(listener: TcpListener) -> Self {
        Self { listener }
    }
}

trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

/// The server's end of a connection.
pub(crate) struct Peer {
    stream: Box<dyn Wire>,
    /// Everything that came, whether asked for or not.
    pub(crate) received: Vec<u8>,
    /// How much of that the script has looked at.
    used: usize,
}

impl Peer {
    fn new(stream: Box<dyn Wire>) -> Self {
        Self {
            stream,
            received: Vec::new(),
            used: 0,
        }
    }

    pub(crate) async fn say(&mut self, text: &str) {
        self.say_bytes(text.as_bytes()).await;
    }

    pub(crate) async fn say_bytes(&mut self, bytes: &[u8]) {
        in_time(self.stream.write_all(bytes)).await.unwrap();
        in_time(self.stream.flush()).await.unwrap();
    }

    /// Says it if the client listens; whether it did.
    pub(crate) async fn try_say_bytes(&mut self, bytes: &[u8]) -> bool {
        in_time(self.stream.write_all(bytes)).await.is_ok()
    }

    /// The answer to EHLO.
    pub(crate) async fn offer(&mut self, extensions: &[&str]) {
        let mut text = String::new();
        for extension in extensions {
            text += &format!("250-{extension}\r\n");
        }
        self.say(&format!("250-scripted.test\r\n{text}250 HELP\r\n"))
            .await;
    }

    /// Exactly these bytes come next.
    pub(crate) async fn hear(&mut self, expected: &str) {
        self.hear_bytes(expected.as_bytes()).await;
    }

    pub(crate) async fn hear_bytes(&mut self, expected: &[u8]) {
        while self.received.len() - self.used < expected.len() {
            assert!(
                self.read().await.unwrap() > 0,
                "the client hung up after {:?}, before {:?}",
                self.unused(),
                expected.escape_ascii().to_string(),
            );
        }
        let heard = &self.received[self.used..self.used + expected.len()];
        assert_eq!(
            heard.escape_ascii().to_string(),
            expected.escape_ascii().to_string()
        );
        self.used += expected.len();
    }

    /// Exactly these bytes come next, in one piece: the client wrote them at once.
    pub(crate) async fn hear_at_once(&mut self, expected: &str) {
        assert_eq!(self.unused(), "");
        self.received.reserve(64 * 1024);
        self.read().await.unwrap();
        let heard = self.unused();
        assert_eq!(heard, expected.as_bytes().escape_ascii().to_string());
        self.used += expected.len();
    }

    /// The next line, whatever it is.
    pub(crate) async fn hear_line(&mut self) -> String {
        loop {
            let unused = &self.received[self.used..];
            if let Some(end) = unused.iter().position(|&byte| byte == b'\n') {
                let line = String::from_utf8(unused[..=end].to_vec()).unwrap();
                self.used += end + 1;
                return line;
            }
            assert!(self.read().await.unwrap() > 0, "the client hung up");
        }
    }

    /// Looks whether the client has said something more, which it must not have.
    pub(crate) async fn hear_nothing(&mut self) {
        for _ in 0..10 {
            // Lets the runtime look at the sockets; loopback delivers what was written at once.
            tokio::task::yield_now().await;
            tokio::select! {
                biased;
                result = self.read() => panic!("{result:?}: {:?}", self.unused()),
                () = std::future::ready(()) => {}
            }
        }
        assert_eq!(self.unused(), "");
    }

    /// What came that the script has not looked at.
    pub(crate) fn unused(&self) -> String {
        self.received[self.used..].escape_ascii().to_string()
    }

    async fn read(&mut self) -> io::Result<usize> {
        in_time(self.stream.read_buf(&mut self.received)).await
    }

    /// Waits until the client closes; how it did, and what came before.
    pub(crate) async fn hear_end(&mut self) -> (io::Result<()>, String) {
        loop {
            match self.read().await {
                Ok(0) => return (Ok(()), self.unused()),
                Ok(_) => {}
                Err(error) => return (Err(error), self.unused()),
            }
        }
    }

    /// Takes a whole message over a pipelined connection.
    pub(crate) async fn take_message(&mut self, content: &str) {
        assert!(self.hear_line().await.starts_with("MAIL FROM:"));
        assert!(self.hear_line().await.starts_with("RCPT TO:"));
        self.hear("DATA\r\n").await;
        self.say("250 2.1.0 ok\r\n250 2.1.5 ok\r\n354 go on\r\n")
            .await;
        self.hear(content).await;
        self.hear(".\r\n").await;
        self.say("250 2.0.0 taken\r\n").await;
    }

    /// Shakes hands as the server.
    pub(crate) async fn secure(self, config: ServerConfig) -> Result<Self, io::Error> {
        assert_eq!(self.unused(), "");
        let acceptor = tokio_rustls::TlsAcceptor::from(std::sync::Arc::new(config));
        let stream = in_time(acceptor.accept(self.stream)).await?;
        Ok(Self::new(Box::new(stream)))
    }
}

/// A port on which nobody listens.
pub(crate) async fn closed_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap().port()
}

/// A listener that takes no more connections: they neither succeed nor fail.
pub(crate) async fn full_listener() -> (TcpListener, Vec<TcpStream>) {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut streams = Vec::new();
    let limit = std::time::Duration::from_millis(300);
    while let Ok(stream) = timeout(limit, TcpStream::connect(address)).await {
        streams.push(stream.unwrap());
    }
    (listener, streams)
}

pub(crate) async fn in_time<T>(future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future)
        .await
        .expect("the client should have done something by now")
}
