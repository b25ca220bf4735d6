//! RabbitMQ as a program of another service uses it.

use anyhow::Context as _;
use clap::ValueEnum;
use lapin::options::{
    ConfirmSelectOptions, QueueDeclareOptions, QueueDeleteOptions, QueuePurgeOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::uri::AMQPUri;
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Which kind of queue is declared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum QueueType {
    /// On one node, as by default in the product
    #[default]
    Classic,
    /// Replicated over the nodes of a cluster
    Quorum,
}

impl QueueType {
    /// Its name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Quorum => "quorum",
        }
    }
}

/// A connection with one channel.
pub(crate) struct Rabbit {
    /// Closed when dropped.
    _connection: Connection,
    pub(crate) channel: Channel,
}

impl Rabbit {
    /// Connects.
    pub(crate) async fn connect(url: &str) -> anyhow::Result<Self> {
        let connection = Connection::connect(url, ConnectionProperties::default())
            .await
            .context("cannot connect to RabbitMQ")?;
        Ok(Self {
            channel: connection.create_channel().await?,
            _connection: connection,
        })
    }

    /// Connects, with a word from RabbitMQ about each message that is published.
    pub(crate) async fn connect_to_publish(url: &str) -> anyhow::Result<Self> {
        let rabbit = Self::connect(url).await?;
        let confirming = ConfirmSelectOptions::default();
        rabbit.channel.confirm_select(confirming).await?;
        Ok(rabbit)
    }

    /// Makes a durable queue.
    pub(crate) async fn declare(&self, queue: &str, queue_type: QueueType) -> anyhow::Result<()> {
        let mut arguments = FieldTable::default();
        let name = AMQPValue::LongString(queue_type.name().into());
        arguments.insert("x-queue-type".into(), name);
        let options = QueueDeclareOptions {
            durable: true,
            ..QueueDeclareOptions::default()
        };
        let declaring = self.channel.queue_declare(queue.into(), options, arguments);
        declaring.await?;
        Ok(())
    }

    /// How many messages wait in a queue that is there.
    pub(crate) async fn depth(&self, queue: &str) -> anyhow::Result<u64> {
        let options = QueueDeclareOptions {
            passive: true,
            ..QueueDeclareOptions::default()
        };
        let arguments = FieldTable::default();
        let asking = self.channel.queue_declare(queue.into(), options, arguments);
        Ok(asking.await?.message_count().into())
    }

    /// Empties a queue.
    pub(crate) async fn purge(&self, queue: &str) -> anyhow::Result<()> {
        let purging = self
            .channel
            .queue_purge(queue.into(), QueuePurgeOptions::default());
        purging.await?;
        Ok(())
    }

    /// Deletes queues, whether they are there or not.
    pub(crate) async fn delete(&self, queues: &[String]) -> anyhow::Result<()> {
        for queue in queues {
            let options = QueueDeleteOptions::default();
            self.channel
                .queue_delete(queue.as_str().into(), options)
                .await?;
        }
        Ok(())
    }
}

/// The server's version, as its greeting tells; the client keeps that to itself.
pub(crate) async fn version(url: &str) -> anyhow::Result<String> {
    const NAME: &[u8] = b"\x07versionS";
    let uri: AMQPUri = url.parse().map_err(anyhow::Error::msg)?;
    let address = (uri.authority.host.as_str(), uri.authority.port);
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"AMQP\x00\x00\x09\x01").await?;
    let mut greeting = Vec::new();
    loop {
        if let Some(at) = greeting.windows(NAME.len()).position(|part| part == NAME) {
            let text: &[u8] = &greeting[at + NAME.len()..];
            if let Some((length, text)) = text.split_first_chunk::<4>()
                && let Some(text) = text.get(..u32::from_be_bytes(*length) as usize)
            {
                return Ok(String::from_utf8_lossy(text).into_owned());
            }
        }
        let read = stream.read_buf(&mut greeting).await?;
        anyhow::ensure!(read > 0, "RabbitMQ does not say its version");
    }
}

/// What a message says that outlives a restart of the server.
pub(crate) fn persistent() -> BasicProperties {
    BasicProperties::default().with_delivery_mode(2)
}
