//! The least HTTP client that keeps a connection open: the load generator must not be what is
//! measured.

use anyhow::{Context as _, bail};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// One connection.
pub(crate) struct Client {
    stream: TcpStream,
    host: String,
    buffer: Vec<u8>,
}

impl Client {
    /// Connects to `host:port`.
    pub(crate) async fn connect(host: &str) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(host)
            .await
            .with_context(|| format!("cannot connect to {host}"))?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            host: host.to_owned(),
            buffer: Vec::with_capacity(16 * 1024),
        })
    }

    /// Posts JSON and gives the status code and the body.
    pub(crate) async fn post(&mut self, path: &str, body: &str) -> anyhow::Result<(u16, String)> {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.host,
            body.len()
        );
        self.request(&head).await
    }

    /// Gets a path.
    pub(crate) async fn get(&mut self, path: &str) -> anyhow::Result<(u16, String)> {
        let head = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.host);
        self.request(&head).await
    }

    async fn request(&mut self, request: &str) -> anyhow::Result<(u16, String)> {
        self.stream.write_all(request.as_bytes()).await?;
        self.buffer.clear();
        let end = loop {
            if let Some(end) = self
                .buffer
                .windows(4)
                .position(|window| window == b"\r\n\r\n")
            {
                break end + 4;
            }
            self.read_more().await?;
        };
        let head = String::from_utf8_lossy(&self.buffer[..end]).into_owned();
        let status = head
            .get(9..12)
            .and_then(|code| code.parse().ok())
            .context("not an HTTP answer")?;
        let length: usize = head
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
            .and_then(|(_, value)| value.trim().parse().ok())
            .context("the answer has no Content-Length")?;
        while self.buffer.len() < end + length {
            self.read_more().await?;
        }
        Ok((
            status,
            String::from_utf8_lossy(&self.buffer[end..end + length]).into_owned(),
        ))
    }

    async fn read_more(&mut self) -> anyhow::Result<()> {
        if self.stream.read_buf(&mut self.buffer).await? == 0 {
            bail!("the server closed the connection");
        }
        Ok(())
    }
}
