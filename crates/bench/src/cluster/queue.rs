//! The queues of a run, and emptying them.

use anyhow::Context as _;
use lapin::options::{QueueDeleteOptions, QueuePurgeOptions};
use lapin::{Connection, ConnectionProperties};

/// The names of the queues of one run.
pub(super) struct Queues {
    send: String,
    retry: String,
    dead: String,
    review: String,
}

impl Queues {
    pub(super) fn of_run(run: &str) -> Self {
        let name = |what: &str| format!("{run}.{what}");
        Self {
            send: name("send"),
            retry: name("retry"),
            dead: name("dead"),
            review: name("review"),
        }
    }

    /// What tells a process their names.
    pub(super) fn variables(&self) -> [(String, String); 4] {
        [
            ("SEND", &self.send),
            ("RETRY", &self.retry),
            ("DEAD", &self.dead),
            ("REVIEW", &self.review),
        ]
        .map(|(what, name)| (format!("POSTHASTE_BROKER__{what}_QUEUE"), name.clone()))
    }

    fn all(&self) -> Vec<String> {
        let beside = ["high", "low"].map(|priority| format!("{}.{priority}", self.send));
        let named = [&self.send, &self.retry, &self.dead, &self.review].map(Clone::clone);
        named.into_iter().chain(beside).collect()
    }

    /// Empties every queue, and says how many messages are gone.
    pub(super) async fn purge(&self, url: &str) -> anyhow::Result<u32> {
        let connection = connect(url).await?;
        let mut gone = 0;
        for name in self.all() {
            // A queue that is not there closes the channel.
            let channel = connection.create_channel().await?;
            let purged = channel
                .queue_purge(name.as_str().into(), QueuePurgeOptions::default())
                .await;
            match purged {
                Ok(messages) => gone += messages,
                Err(error) if error.is_amqp_soft_error() => {}
                Err(error) => return Err(error).context(format!("cannot purge {name}")),
            }
        }
        // It is closed by dropping it as well.
        let _ = connection.close(200, "done".into()).await;
        Ok(gone)
    }

    /// Deletes every queue.
    pub(super) async fn delete(&self, url: &str) -> anyhow::Result<()> {
        let connection = connect(url).await?;
        for name in self.all() {
            let channel = connection.create_channel().await?;
            let _ = channel
                .queue_delete(name.as_str().into(), QueueDeleteOptions::default())
                .await;
        }
        let _ = connection.close(200, "done".into()).await;
        Ok(())
    }
}

async fn connect(url: &str) -> anyhow::Result<Connection> {
    Connection::connect(url, ConnectionProperties::default())
        .await
        .context("cannot connect to RabbitMQ")
}
