//! The service whose messages fail: takes them from their queue, and fails those that are planned
//! to fail.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use futures_util::StreamExt as _;
use lapin::message::Delivery;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicGetOptions, BasicQosOptions};
use lapin::types::{AMQPValue, FieldTable};
use tokio::sync::mpsc;
use uuid::Uuid;

use super::ledger::{HandIn, Ledger};
use crate::amqp::Rabbit;

/// How many deliveries it holds, and how many it acknowledges at a time.
const PREFETCH: u16 = 500;
const ACKNOWLEDGE: u64 = 100;
/// After so long without a further one it acknowledges what it has.
const IDLE: Duration = Duration::from_millis(20);
/// Between two tries to connect.
const REST: Duration = Duration::from_millis(200);

/// Takes messages, and passes on those that fail.
pub(super) struct Handler {
    pub(super) url: String,
    pub(super) queue: String,
    pub(super) ledger: Arc<Ledger>,
    pub(super) failures: mpsc::UnboundedSender<HandIn>,
}

impl Handler {
    /// Works for ever.
    pub(super) async fn run(self) {
        let mut lost_at = None;
        loop {
            // However it ended, it begins anew.
            let _ = self.consume(&mut lost_at).await;
            tokio::time::sleep(REST).await;
        }
    }

    /// Works over one connection until it fails.
    async fn consume(&self, lost_at: &mut Option<Instant>) -> anyhow::Result<()> {
        let rabbit = Rabbit::connect(&self.url).await?;
        let channel = &rabbit.channel;
        let qos = BasicQosOptions::default();
        channel.basic_qos(PREFETCH, qos).await?;
        let consuming = channel.basic_consume(
            self.queue.as_str().into(),
            "".into(),
            BasicConsumeOptions::default(),
            FieldTable::default(),
        );
        let mut consumer = consuming.await?;
        let (mut open, mut last) = (0, 0);
        let before = *lost_at;
        loop {
            let next = match open {
                0 => Some(consumer.next().await),
                _ => tokio::time::timeout(IDLE, consumer.next()).await.ok(),
            };
            if let Some(next) = next {
                let delivery = match next {
                    Some(Ok(delivery)) => delivery,
                    ended => {
                        *lost_at = Some(Instant::now());
                        bail!("the connection is lost: {ended:?}");
                    }
                };
                self.take(&delivery, before)?;
                (open, last) = (open + 1, delivery.delivery_tag);
                if open < ACKNOWLEDGE {
                    continue;
                }
            }
            let multiple = BasicAckOptions { multiple: true };
            if let Err(error) = channel.basic_ack(last, multiple).await {
                *lost_at = Some(Instant::now());
                bail!(error);
            }
            open = 0;
        }
    }

    fn take(&self, delivery: &Delivery, lost_at: Option<Instant>) -> anyhow::Result<()> {
        let Some((id, retry_count)) = name_of(delivery) else {
            let what = format!("STRANGE: a message without our headers: {delivery:?}");
            self.ledger.wonder(what);
            return Ok(());
        };
        let redelivered = delivery.redelivered;
        let payload = &delivery.data;
        let follows = self
            .ledger
            .see(id, retry_count, payload, redelivered, lost_at);
        if let Some(hand_in) = follows {
            self.failures.send(hand_in).context("nobody hands in")?;
        }
        Ok(())
    }
}

/// Which message it is, and which retry.
fn name_of(delivery: &Delivery) -> Option<(Uuid, u32)> {
    let headers = delivery.properties.headers().as_ref()?.inner();
    let id = match headers.get("x-message-id")? {
        AMQPValue::LongString(text) => text.to_string().parse().ok()?,
        _ => return None,
    };
    let count = match headers.get("x-retry-count")? {
        AMQPValue::LongLongInt(count) => u32::try_from(*count).ok()?,
        AMQPValue::LongInt(count) => u32::try_from(*count).ok()?,
        _ => return None,
    };
    Some((id, count))
}

/// Everything that waits in the review queue, taken for good: which messages with which count.
pub(super) async fn take_all(url: &str, queue: &str) -> anyhow::Result<Vec<Option<(Uuid, u32)>>> {
    let rabbit = Rabbit::connect(url).await?;
    let options = BasicGetOptions { no_ack: true };
    let mut taken = Vec::new();
    while let Some(message) = rabbit.channel.basic_get(queue.into(), options).await? {
        taken.push(name_of(&message.delivery));
    }
    Ok(taken)
}
