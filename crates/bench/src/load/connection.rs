//! One connection of the load.

use std::net::SocketAddr;

use anyhow::{Context as _, bail, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Longer than any answer to an accepted email.
const MOST: usize = 8 * 1024;

/// A connection that stays open.
pub(super) struct Connection {
    stream: TcpStream,
    buffer: Box<[u8]>,
}

impl Connection {
    pub(super) async fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address)
            .await
            .with_context(|| format!("cannot connect to {address}"))?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            buffer: vec![0; MOST].into_boxed_slice(),
        })
    }

    /// Sends a request and waits until it is accepted.
    pub(super) async fn ask(&mut self, request: &[u8]) -> anyhow::Result<()> {
        self.stream.write_all(request).await?;
        let mut filled = 0;
        loop {
            let read = self.stream.read(&mut self.buffer[filled..]).await?;
            ensure!(read > 0, "the server closed the connection");
            filled += read;
            let answer = &self.buffer[..filled];
            if let Some(length) = length(answer)? {
                if filled < length {
                    ensure!(length <= MOST, "an answer of {length} octets is too long");
                    continue;
                }
                if !answer.starts_with(b"HTTP/1.1 202") {
                    bail!("not accepted: {}", String::from_utf8_lossy(answer));
                }
                return Ok(());
            }
            ensure!(filled < MOST, "the head of an answer is too long");
        }
    }
}

/// How long an answer is in all, if its head is complete.
fn length(answer: &[u8]) -> anyhow::Result<Option<usize>> {
    const NAME: &[u8] = b"content-length:";
    let mut at = 0;
    let mut content = None;
    while let Some(line) = answer[at..].iter().position(|octet| *octet == b'\n') {
        let end = at + line;
        let text = answer[at..end].trim_ascii_end();
        at = end + 1;
        if text.is_empty() {
            let content = content.context("an answer has no Content-Length")?;
            return Ok(Some(at + content));
        }
        if text.len() > NAME.len() && text[..NAME.len()].eq_ignore_ascii_case(NAME) {
            let digits = std::str::from_utf8(&text[NAME.len()..])?;
            content = Some(digits.trim().parse::<usize>()?);
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_an_answer_is_known_once_its_head_is_there() {
        let head = b"HTTP/1.1 202 Accepted\r\nContent-Length: 5\r\n\r\n";
        for end in 0..head.len() {
            assert_eq!(length(&head[..end]).expect("so far"), None);
        }
        assert_eq!(length(head).expect("all"), Some(head.len() + 5));
        assert!(length(b"HTTP/1.1 202 Accepted\r\n\r\n").is_err());
    }
}
