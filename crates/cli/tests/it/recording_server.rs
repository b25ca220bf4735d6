//! An SMTP server that asks the test before it answers the final dot, and kept every byte.

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};

/// The final dot has arrived; nothing was answered yet.
pub(crate) struct DotArrived {
    /// The message as it came over the wire, without the dot.
    pub(crate) bytes: Vec<u8>,
    /// Answers the dot.
    pub(crate) answer: oneshot::Sender<&'static str>,
}

/// A server on a free port.
pub(crate) struct RecordingServer {
    pub(crate) url: String,
    pub(crate) dots: mpsc::UnboundedReceiver<DotArrived>,
}

impl RecordingServer {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("smtp://{}?tls=none", listener.local_addr().unwrap());
        let (arrived, dots) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, arrived.clone()));
            }
        });
        Self { url, dots }
    }
}

async fn serve(stream: TcpStream, arrived: mpsc::UnboundedSender<DotArrived>) -> Option<()> {
    let mut stream = BufReader::new(stream);
    stream.get_mut().write_all(b"220 recorder\r\n").await.ok()?;
    let mut line = String::new();
    loop {
        line.clear();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        let verb = line
            .split_whitespace()
            .next()
            .unwrap_or_default()
            .to_ascii_uppercase();
        let reply: &[u8] = match verb.as_str() {
            "EHLO" => b"250-recorder\r\n250 PIPELINING\r\n",
            "QUIT" => b"221 bye\r\n",
            "DATA" => b"354 go on\r\n",
            _ => b"250 ok\r\n",
        };
        stream.get_mut().write_all(reply).await.ok()?;
        if verb == "DATA" {
            let bytes = read_to_dot(&mut stream).await?;
            let (answer, answered) = oneshot::channel();
            arrived.send(DotArrived { bytes, answer }).ok()?;
            // A test that drops the answer leaves the client waiting.
            match answered.await {
                Ok(reply) => stream.get_mut().write_all(reply.as_bytes()).await.ok()?,
                Err(_) => std::future::pending().await,
            }
        }
    }
}

async fn read_to_dot(stream: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n.\r\n") {
        bytes.push(stream.read_u8().await.ok()?);
    }
    bytes.truncate(bytes.len() - 3);
    Some(bytes)
}
