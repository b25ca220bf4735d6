//! One connection to the server: commands out, replies in, each with a deadline.
//!
//! It knows bytes and replies, not transactions. It must never wait without a deadline, and never
//! let an unfinished message look finished: closed in the middle of one, it resets the connection.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use posthaste_core::attempt::{Cause, Failure, Stage};
use posthaste_core::failpoint;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::config::SmtpConfig;
use super::extensions::Extensions;
use super::reply_reader::{RawReply, ReplyReader};
use super::stream::Stream;
use super::tls::TlsSetup;

/// Large writes are cut into pieces of this size, each with its own deadline.
const CHUNK: usize = 64 * 1024;
/// Pieces of a message from this size on are written as they are; smaller ones are collected.
const WORTH_ITS_OWN_WRITE: usize = 4 * 1024;
/// How long to look for the reason that a server gave before it hung up.
const PARTING: Duration = Duration::from_secs(1);
/// How long a goodbye may take.
const FAREWELL: Duration = Duration::from_secs(2);

/// An open connection.
pub(super) struct Connection {
    stream: Stream,
    reader: ReplyReader,
    /// What is to be written next; kept for its allocation.
    pub(super) outgoing: Vec<u8>,
    /// What the server offers.
    pub(super) extensions: Extensions,
    /// The server's greeting.
    pub(super) greeting: String,
    /// How many transactions were begun.
    pub(super) messages: u32,
    /// Whether the last transaction did not end well, so that RSET must come before the next.
    pub(super) needs_reset: bool,
    /// Whether the server is receiving a message whose final dot is withheld.
    pub(super) in_message: bool,
    /// Whether the server was told of a message that nobody has taken up yet: its replies are the
    /// next to come.
    pub(super) is_announced: bool,
    /// Whether the server was told of a message whose turn it is, and has not answered DATA yet.
    pub(super) awaits_data: bool,
    /// Whether the last final dot was answered promptly.
    pub(super) is_prompt: bool,
}

impl Connection {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self {
            stream: Stream::Plain(stream),
            reader: ReplyReader::new(),
            outgoing: Vec::with_capacity(CHUNK / 16),
            extensions: Extensions::default(),
            greeting: String::new(),
            messages: 0,
            needs_reset: false,
            in_message: false,
            is_announced: false,
            awaits_data: false,
            is_prompt: false,
        }
    }

    /// The TLS version, if encrypted.
    pub(super) fn tls_version(&self) -> Option<&'static str> {
        self.stream.tls_version()
    }

    /// Whether the server is on this machine.
    pub(super) fn is_loopback(&self) -> bool {
        self.stream
            .peer_address()
            .is_some_and(|address| address.ip().to_canonical().is_loopback())
    }

    /// Our address as a name for EHLO.
    pub(super) fn address_literal(&self) -> String {
        match self
            .stream
            .local_address()
            .map(|address| address.ip().to_canonical())
        {
            Some(std::net::IpAddr::V4(address)) => format!("[{address}]"),
            Some(std::net::IpAddr::V6(address)) => format!("[IPv6:{address}]"),
            None => "localhost".to_owned(),
        }
    }

    /// Encrypts the connection from here on, and forgets what was said before.
    pub(super) async fn secure(
        &mut self,
        tls: &TlsSetup,
        config: &SmtpConfig,
    ) -> Result<(), Failure> {
        let failed = |cause| Failure::new(Stage::Tls, cause);
        if !self.reader.is_empty() {
            // Someone put commands' answers before the handshake, to have them taken for ours.
            let text = "bytes in clear after the reply to STARTTLS".to_owned();
            return Err(failed(Cause::Protocol(text)));
        }
        self.extensions = Extensions::default();
        let Stream::Plain(stream) = std::mem::replace(&mut self.stream, Stream::Closed) else {
            return Err(failed(Cause::Tls("TLS inside TLS".to_owned())));
        };
        let stream = tls.handshake(stream, config).await.map_err(failed)?;
        self.stream = Stream::Tls(Box::new(stream));
        Ok(())
    }

    /// Sends one command, and waits for its reply.
    pub(super) async fn ask(
        &mut self,
        command: &str,
        stage: Stage,
        limit: Duration,
    ) -> Result<RawReply, Failure> {
        self.outgoing.clear();
        self.outgoing.extend_from_slice(command.as_bytes());
        self.outgoing.extend_from_slice(b"\r\n");
        self.write_outgoing(stage, limit).await?;
        self.reply(stage, limit).await
    }

    /// Writes what was collected in `outgoing`.
    pub(super) async fn write_outgoing(
        &mut self,
        stage: Stage,
        limit: Duration,
    ) -> Result<(), Failure> {
        let stream = &mut self.stream;
        let outgoing = &self.outgoing;
        let written = within(limit, async {
            stream.write_all(outgoing).await?;
            stream.flush().await
        });
        let result = written.await;
        self.outgoing.clear();
        self.explained(stage, result).await
    }

    /// Writes a message given in pieces. Small ones are collected, large ones written from where
    /// they are.
    pub(super) async fn write_message<'a>(
        &mut self,
        pieces: impl Iterator<Item = &'a [u8]>,
        limit: Duration,
    ) -> Result<(), Failure> {
        let result = self.try_write_message(pieces, limit).await;
        self.outgoing.clear();
        self.explained(Stage::Body, result).await
    }

    async fn try_write_message<'a>(
        &mut self,
        pieces: impl Iterator<Item = &'a [u8]>,
        limit: Duration,
    ) -> Result<(), Cause> {
        let stream = &mut self.stream;
        let outgoing = &mut self.outgoing;
        outgoing.clear();
        for piece in pieces {
            let is_large = piece.len() >= WORTH_ITS_OWN_WRITE;
            if is_large || outgoing.len() + piece.len() > CHUNK {
                within(limit, stream.write_all(outgoing)).await?;
                outgoing.clear();
                failpoint::hit("smtp.within_body");
            }
            if is_large {
                for chunk in piece.chunks(CHUNK) {
                    within(limit, stream.write_all(chunk)).await?;
                    failpoint::hit("smtp.within_body");
                }
            } else {
                outgoing.extend_from_slice(piece);
            }
        }
        within(limit, async {
            stream.write_all(outgoing).await?;
            stream.flush().await
        })
        .await
    }

    /// Writes what was collected in `outgoing`, the end of a message: its final dot is at `dot`.
    /// A failure is one of the body as long as nothing of the dot can have left. After that the
    /// message may have left, and the server's reply may be there all the same: then it is only said
    /// that not everything was written.
    pub(super) async fn write_ending(
        &mut self,
        dot: usize,
        limit: Duration,
    ) -> Result<bool, Failure> {
        let stream = &mut self.stream;
        let outgoing = &self.outgoing;
        let in_message = &mut self.in_message;
        if stream.is_buffered() {
            *in_message = false;
        }
        let mut written = 0;
        let result = within(limit, async {
            while written < outgoing.len() {
                match stream.write(&outgoing[written..]).await? {
                    0 => return Err(io::ErrorKind::WriteZero.into()),
                    count => written += count,
                }
                if written > dot {
                    *in_message = false;
                }
            }
            stream.flush().await
        });
        let result = result.await;
        self.outgoing.clear();
        if self.in_message {
            return self.explained(Stage::Body, result.map(|()| true)).await;
        }
        Ok(result.is_ok())
    }

    /// The next reply.
    pub(super) async fn reply(
        &mut self,
        stage: Stage,
        limit: Duration,
    ) -> Result<RawReply, Failure> {
        let result = match self.reader.next() {
            Ok(Some(reply)) => return Ok(reply),
            Ok(None) => timeout(limit, self.read_reply()).await,
            Err(text) => Ok(Err(Cause::Protocol(text))),
        };
        match result {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(cause)) => Err(Failure::new(stage, cause)),
            Err(_) => Err(Failure::new(stage, Cause::Timeout)),
        }
    }

    async fn read_reply(&mut self) -> Result<RawReply, Cause> {
        loop {
            match self.stream.read(self.reader.room()).await {
                Ok(0) => return Err(Cause::Disconnected),
                Ok(count) => self.reader.filled(count),
                Err(error) => return Err(cause_of(&error)),
            }
            if let Some(reply) = self.reader.next().map_err(Cause::Protocol)? {
                return Ok(reply);
            }
        }
    }

    /// Why the conversation cannot go on: the server said something unasked, or hung up. Does not
    /// wait: `None` as long as it keeps quiet.
    pub(super) async fn interruption(&mut self) -> Option<Cause> {
        if self.reader.is_empty() {
            let (stream, reader) = (&mut self.stream, &mut self.reader);
            let mut buffer = ReadBuf::new(reader.room());
            let outcome = poll_fn(|context| {
                Poll::Ready(
                    match Pin::new(&mut *stream).poll_read(context, &mut buffer) {
                        Poll::Pending => None,
                        Poll::Ready(result) => Some(result),
                    },
                )
            })
            .await?;
            let count = buffer.filled().len();
            match outcome {
                Ok(()) if count == 0 => return Some(Cause::Disconnected),
                Ok(()) => reader.filled(count),
                Err(error) => return Some(cause_of(&error)),
            }
        }
        match self.reply(Stage::Body, PARTING).await {
            Ok(reply) if reply.is_negative() => Some(Cause::Reply(reply.to_reply())),
            Ok(reply) => Some(Cause::Protocol(format!("{} unasked", reply.code))),
            Err(failure) => Some(failure.cause),
        }
    }

    /// Says goodbye.
    pub(super) async fn quit(mut self) {
        // Whether the server answers makes no difference any more.
        let _ = timeout(FAREWELL, async {
            let _ = self.ask("QUIT", Stage::Hello, FAREWELL).await;
            let _ = self.stream.shutdown().await;
        })
        .await;
    }

    /// A server that hangs up while we write has often said why.
    async fn explained<T>(&mut self, stage: Stage, result: Result<T, Cause>) -> Result<T, Failure> {
        let cause = match result {
            Ok(value) => return Ok(value),
            Err(Cause::Disconnected) => match self.reply(stage, PARTING).await {
                Ok(reply) if reply.is_negative() => Cause::Reply(reply.to_reply()),
                _ => Cause::Disconnected,
            },
            Err(cause) => cause,
        };
        Err(Failure::new(stage, cause))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.in_message || self.is_announced || self.awaits_data {
            self.stream.abort_on_close();
        }
    }
}

async fn within<T>(
    limit: Duration,
    operation: impl Future<Output = io::Result<T>>,
) -> Result<T, Cause> {
    match timeout(limit, operation).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(cause_of(&error)),
        Err(_) => Err(Cause::Timeout),
    }
}

fn cause_of(error: &io::Error) -> Cause {
    match error.kind() {
        io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::NotConnected
        | io::ErrorKind::WriteZero
        | io::ErrorKind::UnexpectedEof => Cause::Disconnected,
        io::ErrorKind::TimedOut => Cause::Timeout,
        // What rustls says about broken records.
        io::ErrorKind::InvalidData => Cause::Tls(error.to_string()),
        _ => Cause::Io(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// Writes far more than any buffer holds to a server that does not read; what comes of it, and
    /// whether the connection would end in an error for the server.
    async fn stuck(dot: impl FnOnce(usize) -> usize) -> (Result<bool, Failure>, bool) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (client, server) = tokio::join!(TcpStream::connect(address), listener.accept());
        let mut connection = Connection::new(client.unwrap());
        connection.in_message = true;
        connection.outgoing = vec![b'x'; 64_000_000];
        let dot = dot(connection.outgoing.len());
        let limit = Duration::from_millis(200);
        let written = connection.write_ending(dot, limit).await;
        drop(server);
        (written, connection.in_message)
    }

    #[tokio::test]
    async fn as_long_as_the_dot_was_not_taken_by_the_kernel_it_is_the_body_that_failed() {
        let failed = Failure::new(Stage::Body, Cause::Timeout);
        assert_eq!(stuck(|length| length - 3).await, (Err(failed), true));
        // After that only the server's reply can tell.
        assert_eq!(stuck(|_| 0).await, (Ok(false), false));
    }
}
