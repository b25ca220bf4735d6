//! Faults of RabbitMQ and of the way to it. None of them may be seen at the API.

use std::time::Duration;

use anyhow::Context as _;

use super::{Fault, Stage};
use crate::amqp::Rabbit;
use crate::rig::proxy::Network;
use crate::rig::stand::queues;

/// As good as no memory at all, and RabbitMQ's own default.
const NO_MEMORY: &str = "0.00001";
const ITS_MEMORY: &str = "0.4";

impl Stage<'_> {
    pub(super) async fn trouble_broker(
        &self,
        fault: Fault,
        length: Duration,
    ) -> anyhow::Result<()> {
        let services = self.services.context("no RabbitMQ")?;
        let network = match fault {
            Fault::RabbitMqRestarts => return services.restart_rabbitmq_after(length).await,
            Fault::RabbitMqIsInAlarm => {
                services.limit_rabbitmq_memory(NO_MEMORY).await?;
                tokio::time::sleep(length).await;
                return services.limit_rabbitmq_memory(ITS_MEMORY).await;
            }
            Fault::RabbitMqIsPurged => return self.purge().await,
            Fault::RabbitMqQueuesGone => {
                let rabbit = self.rabbit().await?;
                return rabbit.delete(&queues(self.run)).await;
            }
            Fault::RabbitMqIsCut => Network::Cut,
            Fault::RabbitMqIsSilent => Network::Silent,
            _ => Network::LosesReplies,
        };
        let way = self.rabbitmq_network.context("no RabbitMQ")?;
        way.set(network);
        tokio::time::sleep(length).await;
        way.set(Network::Works);
        Ok(())
    }

    /// A connection of our own.
    pub(super) async fn rabbit(&self) -> anyhow::Result<Rabbit> {
        let services = self.services.context("no RabbitMQ")?;
        let url = services.rabbitmq_url.as_deref();
        Rabbit::connect(url.context("no RabbitMQ")?).await
    }

    async fn purge(&self) -> anyhow::Result<()> {
        for queue in queues(self.run) {
            // A queue that is not there closes the channel.
            let rabbit = self.rabbit().await?;
            let _ = rabbit.purge(&queue).await;
        }
        Ok(())
    }
}
