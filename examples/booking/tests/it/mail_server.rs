//! A mail server that can be killed and started again at the same address.

use std::net::SocketAddr;
use std::sync::Arc;

use posthaste_sink::{Mode, ReceivedMessage, Sink, SinkConfig};
use tokio::net::TcpSocket;

use crate::world::eventually;

pub(crate) struct MailServer {
    sink: Sink,
    /// Bound, and never listening: while the server is down nobody answers here, and nobody else
    /// gets the address.
    _address: TcpSocket,
}

impl MailServer {
    pub(crate) async fn start() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        Self {
            sink: a_sink(socket.local_addr().unwrap()).await,
            _address: socket,
        }
    }

    pub(crate) fn url(&self) -> String {
        self.sink.url()
    }

    /// From now on nobody is there any more.
    pub(crate) async fn kill(&self) {
        self.sink.stop().await;
    }

    /// Another one takes its place. It has received nothing yet.
    pub(crate) async fn restart(&mut self) {
        self.kill().await;
        self.sink = a_sink(self.sink.addr()).await;
    }

    /// From now on it takes connections and says nothing.
    pub(crate) fn hang(&self) {
        self.sink.set_mode(Mode::HangAll);
    }

    /// Waits until someone talks to it.
    pub(crate) async fn until_connected(&self) {
        eventually("somebody connects", async || {
            self.sink.report().open_connections > 0
        })
        .await;
    }

    /// What it received.
    pub(crate) fn received(&self) -> Vec<Arc<ReceivedMessage>> {
        self.sink.messages()
    }

    /// The one email that it received.
    pub(crate) fn only_one(&self) -> Arc<ReceivedMessage> {
        let mut messages = self.received();
        assert_eq!(messages.len(), 1, "{messages:?}");
        messages.pop().unwrap()
    }
}

async fn a_sink(listen: SocketAddr) -> Sink {
    let config = SinkConfig {
        listen,
        keep_messages: true,
        ..SinkConfig::default()
    };
    Sink::start(config).await.unwrap()
}
