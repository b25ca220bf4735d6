//! A connection's bytes, in clear or through TLS.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// A connection's bytes.
pub(super) enum Stream {
    /// In clear.
    Plain(TcpStream),
    /// Encrypted.
    Tls(Box<TlsStream<TcpStream>>),
    /// In the middle of STARTTLS, or after it failed.
    Closed,
}

impl Stream {
    fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Self::Plain(tcp) => Some(tcp),
            Self::Tls(tls) => Some(tls.get_ref().0),
            Self::Closed => None,
        }
    }

    /// Our end.
    pub(super) fn local_address(&self) -> Option<SocketAddr> {
        self.tcp()?.local_addr().ok()
    }

    /// The server's end.
    pub(super) fn peer_address(&self) -> Option<SocketAddr> {
        self.tcp()?.peer_addr().ok()
    }

    /// The TLS version, if encrypted.
    pub(super) fn tls_version(&self) -> Option<&'static str> {
        match self {
            Self::Tls(tls) => match tls.get_ref().1.protocol_version() {
                Some(rustls::ProtocolVersion::TLSv1_2) => Some("TLS 1.2"),
                Some(rustls::ProtocolVersion::TLSv1_3) => Some("TLS 1.3"),
                _ => Some("TLS"),
            },
            Self::Plain(_) | Self::Closed => None,
        }
    }

    /// Whether bytes can leave that a failed or unfinished write was given.
    pub(super) fn is_buffered(&self) -> bool {
        !matches!(self, Self::Plain(_))
    }

    /// Makes closing the stream an error for the server instead of an end.
    pub(super) fn abort_on_close(&self) {
        if let Some(tcp) = self.tcp() {
            // If it fails the connection is gone already, or ends as any other does.
            let _ = tcp.set_zero_linger();
        }
    }
}

fn closed() -> io::Error {
    io::ErrorKind::NotConnected.into()
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_read(context, buffer),
            Self::Tls(tls) => Pin::new(tls).poll_read(context, buffer),
            Self::Closed => Poll::Ready(Err(closed())),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_write(context, bytes),
            Self::Tls(tls) => Pin::new(tls).poll_write(context, bytes),
            Self::Closed => Poll::Ready(Err(closed())),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_flush(context),
            Self::Tls(tls) => Pin::new(tls).poll_flush(context),
            Self::Closed => Poll::Ready(Err(closed())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_shutdown(context),
            Self::Tls(tls) => Pin::new(tls).poll_shutdown(context),
            Self::Closed => Poll::Ready(Ok(())),
        }
    }
}
