//! An SMTP server that asks the test before it answers the final dot, and keeps every byte.
//! On request it asks before the body, too.

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
    /// `DATA` has arrived: whoever holds this decides when the body may come.
    pub(crate) bodies: mpsc::UnboundedReceiver<oneshot::Sender<()>>,
    /// Bodies whose connections ended before the dot.
    pub(crate) cut_off: mpsc::UnboundedReceiver<Vec<u8>>,
}

/// Where a conversation reports to.
#[derive(Clone)]
struct Recorder {
    asks_before_body: bool,
    dots: mpsc::UnboundedSender<DotArrived>,
    bodies: mpsc::UnboundedSender<oneshot::Sender<()>>,
    cut_off: mpsc::UnboundedSender<Vec<u8>>,
}

impl RecordingServer {
    pub(crate) async fn start() -> Self {
        Self::listen(false).await
    }

    /// One that asks before each body.
    pub(crate) async fn start_asking_before_the_body() -> Self {
        Self::listen(true).await
    }

    async fn listen(asks_before_body: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("smtp://{}?tls=none", listener.local_addr().unwrap());
        let (to_dots, dots) = mpsc::unbounded_channel();
        let (to_bodies, bodies) = mpsc::unbounded_channel();
        let (to_cut_off, cut_off) = mpsc::unbounded_channel();
        let recorder = Recorder {
            asks_before_body,
            dots: to_dots,
            bodies: to_bodies,
            cut_off: to_cut_off,
        };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, recorder.clone()));
            }
        });
        Self {
            url,
            dots,
            bodies,
            cut_off,
        }
    }
}

async fn serve(stream: TcpStream, recorder: Recorder) -> Option<()> {
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
        if verb == "DATA" && recorder.asks_before_body {
            let (allow, allowed) = oneshot::channel();
            recorder.bodies.send(allow).ok()?;
            allowed.await.ok()?;
        }
        let reply: &[u8] = match verb.as_str() {
            "EHLO" => b"250-recorder\r\n250 PIPELINING\r\n",
            "QUIT" => b"221 bye\r\n",
            "DATA" => b"354 go on\r\n",
            _ => b"250 ok\r\n",
        };
        stream.get_mut().write_all(reply).await.ok()?;
        if verb == "DATA" {
            let bytes = read_to_dot(&mut stream, &recorder).await?;
            let (answer, answered) = oneshot::channel();
            recorder.dots.send(DotArrived { bytes, answer }).ok()?;
            // A test that drops the answer leaves the client waiting.
            match answered.await {
                // The client may be gone by now; the next command tells.
                Ok(reply) => drop(stream.get_mut().write_all(reply.as_bytes()).await),
                Err(_) => std::future::pending().await,
            }
        }
    }
}

async fn read_to_dot(stream: &mut BufReader<TcpStream>, recorder: &Recorder) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n.\r\n") {
        let Ok(byte) = stream.read_u8().await else {
            let _ = recorder.cut_off.send(bytes);
            return None;
        };
        bytes.push(byte);
    }
    bytes.truncate(bytes.len() - 3);
    Some(bytes)
}
