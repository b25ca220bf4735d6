//! A deliberately simple SMTP client: it sends what the test says and shows what
//! comes back.

use std::time::Duration;

use posthaste_sink::{Sink, SinkConfig};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A test that waits this long for a reply has failed.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long silence must last to count as silence.
const SILENCE: Duration = Duration::from_millis(150);

pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

pub(crate) struct Client<S = TcpStream> {
    stream: BufReader<S>,
}

/// A sink that keeps its messages, otherwise with the default settings.
pub(crate) async fn sink() -> Sink {
    sink_with(|_| {}).await
}

/// The same with some settings changed.
pub(crate) async fn sink_with(change: impl FnOnce(&mut SinkConfig)) -> Sink {
    let mut config = SinkConfig {
        keep_messages: true,
        ..SinkConfig::default()
    };
    change(&mut config);
    Sink::start(config).await.expect("the sink starts")
}

/// A message with this Message-ID, ready to be sent as data.
pub(crate) fn message(id: &str) -> String {
    format!("Subject: test\r\nMessage-ID: <{id}>\r\n\r\nHello\r\n.\r\n")
}

impl Client {
    /// Connects without expecting anything.
    pub(crate) async fn dial(sink: &Sink) -> Self {
        let stream = TcpStream::connect(sink.addr()).await.expect("connects");
        Self::over(stream)
    }

    /// Connects and introduces itself.
    pub(crate) async fn greet(sink: &Sink) -> Self {
        let mut client = Self::dial(sink).await;
        client.hello().await;
        client
    }
}

impl<S: Stream> Client<S> {
    pub(crate) fn over(stream: S) -> Self {
        Self {
            stream: BufReader::new(stream),
        }
    }

    pub(crate) fn into_stream(self) -> S {
        assert!(self.stream.buffer().is_empty(), "nothing is left unread");
        self.stream.into_inner()
    }

    /// Reads the greeting and says EHLO; gives the answer to that.
    pub(crate) async fn hello(&mut self) -> String {
        let greeting = self.reply().await;
        assert!(greeting.starts_with("220 "), "{greeting}");
        self.ask("EHLO client.test").await
    }

    pub(crate) async fn send(&mut self, text: &str) {
        let stream = self.stream.get_mut();
        stream.write_all(text.as_bytes()).await.expect("sends");
        stream.flush().await.expect("flushes");
    }

    /// The next reply with all its lines; empty when the connection is closed.
    pub(crate) async fn reply(&mut self) -> String {
        let mut reply = String::new();
        loop {
            let start = reply.len();
            let reading = self.stream.read_line(&mut reply);
            match timeout(PATIENCE, reading).await.expect("a reply in time") {
                Err(_) | Ok(0) => return String::new(),
                Ok(_) if reply.as_bytes().get(start + 3) == Some(&b'-') => {}
                Ok(_) => return reply.trim_end().to_owned(),
            }
        }
    }

    /// Sends a command and gives the reply.
    pub(crate) async fn ask(&mut self, command: &str) -> String {
        self.send(&format!("{command}\r\n")).await;
        self.reply().await
    }

    /// Sends a command whose reply must begin like this.
    pub(crate) async fn expect(&mut self, command: &str, expected: &str) -> String {
        let reply = self.ask(command).await;
        assert!(reply.starts_with(expected), "{command}: {reply}");
        reply
    }

    /// Starts a transaction and names a recipient; gives the reply to RCPT.
    pub(crate) async fn name(&mut self, recipient: &str) -> String {
        self.expect("MAIL FROM:<from@test>", "250 ").await;
        self.ask(&format!("RCPT TO:<{recipient}>")).await
    }

    /// Sends all of a transaction but its message; the recipients must be accepted.
    pub(crate) async fn envelope(&mut self, recipients: &[&str]) {
        self.expect("MAIL FROM:<from@test>", "250 ").await;
        for recipient in recipients {
            let command = format!("RCPT TO:<{recipient}>");
            self.expect(&command, "250 ").await;
        }
        self.expect("DATA", "354 ").await;
    }

    /// Delivers a message with this Message-ID; gives the reply to the final dot.
    pub(crate) async fn deliver(&mut self, id: &str, recipients: &[&str]) -> String {
        self.envelope(recipients).await;
        self.send(&message(id)).await;
        self.reply().await
    }

    /// Whether the server says nothing and stays.
    pub(crate) async fn hears_nothing(&mut self) -> bool {
        timeout(SILENCE, self.stream.read_u8()).await.is_err()
    }

    /// Whether the server has closed the connection, with nothing left to read.
    pub(crate) async fn is_closed(&mut self) -> bool {
        let reading = self.stream.read_u8();
        timeout(PATIENCE, reading)
            .await
            .expect("a close in time")
            .is_err()
    }

    /// The next line as it comes.
    pub(crate) async fn raw_line(&mut self) -> Vec<u8> {
        let mut line = Vec::new();
        let reading = self.stream.read_until(b'\n', &mut line);
        timeout(PATIENCE, reading)
            .await
            .expect("a line in time")
            .expect("reads");
        line
    }
}
