//! Bytes in, bytes out: one buffer each way, so that pipelined commands cost one read
//! and their replies one write.
//!
//! Replies are written only when there is nothing left to do with what was read. That
//! is never too late: [`Wire::fill`] writes them before it waits for the client.

use std::io::{self, BufRead};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;

use crate::body::Body;
use crate::stream::Stream;

/// The longest command line including CRLF: what RFC 4954 asks for AUTH, which is far
/// above the 512 of RFC 5321.
pub(crate) const MAX_LINE_BYTES: usize = 12_288;

/// Must be larger than [`MAX_LINE_BYTES`], or a long line could never be told apart
/// from one that is still arriving.
const INPUT_BYTES: usize = 32 * 1024;

/// What [`Wire::read_line`] found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A line ended by CRLF.
    Complete,
    /// A line ended by LF alone, which SMTP does not know.
    BareLineFeed,
    /// A line over [`MAX_LINE_BYTES`]; it has been skipped to its end.
    TooLong,
    /// The client has gone.
    Closed,
}

/// A buffered connection.
pub(crate) struct Wire {
    stream: Stream,
    input: Box<[u8]>,
    /// Unread input is `input[start..end]`.
    start: usize,
    end: usize,
    /// Replies that are not written yet.
    pub(crate) output: Vec<u8>,
}

impl Wire {
    pub(crate) fn new(stream: Stream) -> Self {
        Self {
            stream,
            input: vec![0; INPUT_BYTES].into_boxed_slice(),
            start: 0,
            end: 0,
            output: Vec::with_capacity(1024),
        }
    }

    /// Writes pending replies, then performs the TLS handshake. Whatever the client
    /// sent in clear behind STARTTLS is dropped: it may have been injected.
    pub(crate) async fn start_tls(mut self, acceptor: &TlsAcceptor) -> io::Result<Self> {
        self.flush().await?;
        self.start = 0;
        self.end = 0;
        self.stream = self.stream.encrypt(acceptor).await?;
        Ok(self)
    }

    /// Whether more has been read than was used.
    pub(crate) fn has_input(&self) -> bool {
        self.start < self.end
    }

    /// Forgets what has been read and not used.
    pub(crate) fn discard_input(&mut self) {
        self.start = self.end;
    }

    /// Writes all pending replies.
    pub(crate) async fn flush(&mut self) -> io::Result<()> {
        if !self.output.is_empty() {
            self.stream.write_all(&self.output).await?;
            self.output.clear();
            self.stream.flush().await?;
        }
        Ok(())
    }

    /// Writes pending replies and says goodbye; the client may still be sending.
    pub(crate) async fn finish_writing(&mut self) -> io::Result<()> {
        self.flush().await?;
        self.stream.shutdown().await
    }

    /// Writes pending replies, then waits for more input. False: the client has gone.
    pub(crate) async fn fill(&mut self) -> io::Result<bool> {
        self.flush().await?;
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        } else if self.end == self.input.len() {
            self.input.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        let count = self.stream.read(&mut self.input[self.end..]).await?;
        self.end += count;
        Ok(count > 0)
    }

    /// Reads one command line into `line`, without its line ending.
    pub(crate) async fn read_line(&mut self, line: &mut Vec<u8>) -> io::Result<Line> {
        let mut too_long = false;
        loop {
            let unread = &self.input[self.start..self.end];
            if let Some(newline) = find_newline(unread) {
                self.start += newline + 1;
                if too_long || newline >= MAX_LINE_BYTES {
                    return Ok(Line::TooLong);
                }
                line.clear();
                return Ok(match unread[..newline].strip_suffix(b"\r") {
                    Some(content) => {
                        line.extend_from_slice(content);
                        Line::Complete
                    }
                    None => Line::BareLineFeed,
                });
            }
            if unread.len() >= MAX_LINE_BYTES {
                too_long = true;
                self.start = self.end;
            }
            if !self.fill().await? {
                return Ok(Line::Closed);
            }
        }
    }

    /// Reads a message up to and including its final dot. False: the client has gone.
    pub(crate) async fn read_body(&mut self, body: &mut Body) -> io::Result<bool> {
        loop {
            let progress = body.consume(&self.input[self.start..self.end]);
            self.start += progress.consumed;
            if progress.complete {
                return Ok(true);
            }
            if !self.fill().await? {
                return Ok(false);
            }
        }
    }
}

/// The position of the first line feed. `skip_until` is the standard library's way to
/// its vectorised byte search.
pub(crate) fn find_newline(bytes: &[u8]) -> Option<usize> {
    let mut rest = bytes;
    let skipped = rest.skip_until(b'\n').ok()?;
    let last = skipped.checked_sub(1)?;
    (bytes[last] == b'\n').then_some(last)
}
