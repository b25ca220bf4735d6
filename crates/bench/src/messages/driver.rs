//! A service and its handler of failures in one: hands failures in at a rate, and gets the
//! messages back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, ensure};
use futures_util::future::try_join_all;
use futures_util::{FutureExt as _, StreamExt as _};
use lapin::message::Delivery;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions};
use lapin::types::FieldTable;
use lapin::{Channel, PublisherConfirm};
use tokio::sync::{Semaphore, mpsc};

use crate::amqp::{Rabbit, persistent};
use crate::retry_message::{RetryMessage, random_id};

/// How often messages are handed in.
const TICK: Duration = Duration::from_millis(5);
/// How many may be unconfirmed.
const WINDOW: usize = 4_000;
/// How many deliveries the consumer may hold, and how many it acknowledges at a time.
const PREFETCH: u16 = 2_000;
const ACKNOWLEDGE: u64 = 250;
/// For so long messages gather before the consumer looks at them. They seem so much later.
const GATHER: Duration = Duration::from_millis(2);
/// When no message comes for so long, none will.
const PATIENCE: Duration = Duration::from_secs(20);

/// What is handed in.
pub(super) struct Failures {
    pub(super) scheduled: String,
    pub(super) original: String,
    pub(super) payload: usize,
    /// How long before they are due.
    pub(super) lead: Duration,
    pub(super) rate: f64,
    pub(super) total: u64,
}

impl Failures {
    /// Hands all of them in, evenly. The answer is how long it took until the last one was
    /// confirmed.
    pub(super) async fn hand_in(&self, rabbit: &Rabbit) -> anyhow::Result<Duration> {
        let window = Arc::new(Semaphore::new(WINDOW));
        let (sent, confirms) = mpsc::unbounded_channel();
        let confirming = tokio::spawn(all_confirmed(confirms, Arc::clone(&window)));
        let begun = Instant::now();
        let mut tick = tokio::time::interval(TICK);
        let mut next = 0;
        while next < self.total {
            tick.tick().await;
            let wanted = (begun.elapsed().as_secs_f64() * self.rate) as u64;
            let until = wanted.min(self.total);
            if next >= until {
                continue;
            }
            let count = u32::try_from(until - next)?.min(WINDOW as u32);
            // They come back one by one, as the confirms do.
            window.acquire_many(count).await?.forget();
            let numbers = next..next + u64::from(count);
            let publishing = numbers.map(|number| self.publish(&rabbit.channel, number));
            for confirm in try_join_all(publishing).await? {
                sent.send(confirm).context("nobody waits for confirms")?;
            }
            next += u64::from(count);
        }
        drop(sent);
        confirming.await??;
        Ok(begun.elapsed())
    }

    async fn publish(&self, channel: &Channel, number: u64) -> anyhow::Result<PublisherConfirm> {
        let due_ms = now_ms() as u64 + self.lead.as_millis() as u64;
        let mut payload = vec![b'.'; self.payload.max(16)];
        payload[..8].copy_from_slice(&due_ms.to_le_bytes());
        payload[8..16].copy_from_slice(&number.to_le_bytes());
        let id = random_id(rand::random()).to_string();
        let message = RetryMessage {
            original_payload: payload,
            original_queue: self.original.clone(),
            error_reason: "the database was away".to_owned(),
            next_retry_at_ms: due_ms as i64,
            message_id: id.clone(),
            ..RetryMessage::default()
        };
        let body = message.to_bytes();
        let publishing = channel.basic_publish(
            "".into(),
            self.scheduled.as_str().into(),
            BasicPublishOptions::default(),
            &body,
            persistent().with_message_id(id.into()),
        );
        Ok(publishing.await?)
    }
}

/// Waits for each confirm in turn, and makes room for another message.
async fn all_confirmed(
    mut confirms: mpsc::UnboundedReceiver<PublisherConfirm>,
    window: Arc<Semaphore>,
) -> anyhow::Result<()> {
    while let Some(confirm) = confirms.recv().await {
        ensure!(confirm.await?.is_ack(), "RabbitMQ refused a message");
        window.add_permits(1);
    }
    Ok(())
}

/// What came back.
pub(super) struct Arrivals {
    /// When each was due and when it was seen, in milliseconds since 1970.
    pub(super) times: Vec<(u64, f64)>,
    seen: Vec<bool>,
    pub(super) doubled: u64,
}

impl Arrivals {
    /// How many never came.
    pub(super) fn missing(&self) -> u64 {
        self.seen.iter().filter(|seen| !**seen).count() as u64
    }

    fn note(&mut self, delivery: &Delivery) -> anyhow::Result<()> {
        let number = |at: usize| -> anyhow::Result<u64> {
            let bytes = delivery.data.get(at..at + 8).context("a short payload")?;
            Ok(u64::from_le_bytes(bytes.try_into()?))
        };
        let (due_ms, number) = (number(0)?, number(8)?);
        self.times.push((due_ms, now_ms()));
        let seen = self.seen.get_mut(number as usize);
        let before = std::mem::replace(seen.context("a strange message")?, true);
        self.doubled += u64::from(before);
        Ok(())
    }
}

/// Takes messages from a queue until so many have come, or no more come.
pub(super) async fn take_back(
    rabbit: Rabbit,
    queue: String,
    total: u64,
    lead: Duration,
    arrived: Arc<AtomicU64>,
) -> anyhow::Result<Arrivals> {
    let channel = &rabbit.channel;
    channel
        .basic_qos(PREFETCH, BasicQosOptions::default())
        .await?;
    let options = BasicConsumeOptions::default();
    let consuming = channel.basic_consume(
        queue.as_str().into(),
        "".into(),
        options,
        FieldTable::default(),
    );
    let mut consumer = consuming.await?;
    let mut arrivals = Arrivals {
        times: Vec::with_capacity(total as usize),
        seen: vec![false; total as usize],
        doubled: 0,
    };
    let mut unacknowledged = 0;
    while (arrivals.times.len() as u64) < total {
        let Ok(delivery) = tokio::time::timeout(lead + PATIENCE, consumer.next()).await else {
            break;
        };
        let mut next = Some(delivery);
        while let Some(delivery) = next {
            let delivery = delivery.context("the consumer was cancelled")??;
            arrivals.note(&delivery)?;
            unacknowledged += 1;
            if unacknowledged >= ACKNOWLEDGE || arrivals.times.len() as u64 == total {
                let multiple = BasicAckOptions { multiple: true };
                channel.basic_ack(delivery.delivery_tag, multiple).await?;
                unacknowledged = 0;
            }
            next = consumer.next().now_or_never();
        }
        arrived.store(arrivals.times.len() as u64, Ordering::Relaxed);
        // A little late, so that the driver is not woken for each of them.
        tokio::time::sleep(GATHER).await;
    }
    Ok(arrivals)
}

/// Milliseconds since 1970.
pub(super) fn now_ms() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs_f64() * 1e3
}
