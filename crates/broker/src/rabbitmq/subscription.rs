//! One consumer on one queue, on a channel of its own.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use futures_util::stream::FuturesUnordered;
use futures_util::{Future, StreamExt};
use lapin::message::Delivery;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicNackOptions, BasicQosOptions};
use lapin::types::FieldTable;
use lapin::{Channel, Connection, Error};
use posthaste_core::status::Priority;
use tokio::sync::mpsc;

use super::connection::{Ended, Stop};
use super::inbox::{Inbox, Place, Settlement};
use super::incoming::Incoming;
use super::ledger::Ledger;
use super::review::Review;
use super::topology::QueueSpec;

/// How many settlements are taken together.
const MOST_SETTLEMENTS: usize = 1000;

/// Reads what came from a queue, or says why it cannot.
pub(super) type Decode<T> = Box<dyn Fn(&Incoming) -> Result<T, String> + Send + Sync>;

/// A queue that is consumed.
pub(super) struct Source<T> {
    pub(super) spec: QueueSpec,
    /// How many deliveries may be open at a time.
    pub(super) prefetch: u16,
    /// How urgent is what comes from here.
    pub(super) priority: Priority,
    pub(super) decode: Decode<T>,
}

/// Where deliveries go.
pub(super) struct Intake<T> {
    /// To whoever works.
    pub(super) inbox: Arc<Inbox<T>>,
    /// To people.
    pub(super) review: Review,
    /// Back, after so long without a taker.
    pub(super) give_back_after: Duration,
}

/// What cannot be read, while it is put aside: its tag, and whether it is safe.
type PuttingAside<'a> = Pin<Box<dyn Future<Output = (u64, bool)> + Send + 'a>>;

/// A consumer that RabbitMQ has confirmed.
pub(super) struct Subscription {
    channel: Channel,
    consumer: lapin::Consumer,
}

impl Subscription {
    /// Subscribes to a queue that is there.
    pub(super) async fn open<T>(
        connection: &Connection,
        source: &Source<T>,
    ) -> Result<Self, Error> {
        let channel = connection.create_channel().await?;
        channel
            .basic_qos(source.prefetch, BasicQosOptions::default())
            .await?;
        let queue = source.spec.name.as_str().into();
        let options = BasicConsumeOptions::default();
        let consumer = channel.basic_consume(queue, "".into(), options, FieldTable::default());
        Ok(Self {
            consumer: consumer.await?,
            channel,
        })
    }

    /// Takes deliveries until the channel is lost or no longer wanted. What is then still open
    /// goes back to the queue with the channel.
    pub(super) async fn serve<T: Send>(
        self,
        source: &Source<T>,
        intake: &Intake<T>,
        mut stop: Stop,
    ) -> Ended {
        let Self {
            channel,
            mut consumer,
        } = self;
        let (place, mut settlements) = intake.inbox.open_place();
        let mut desk = Desk {
            source,
            intake,
            place,
            channel,
            ledger: Ledger::default(),
            aside: FuturesUnordered::new(),
        };
        let pace = (intake.give_back_after / 4).max(Duration::from_millis(1));
        let mut look = tokio::time::interval(pace);
        let mut settled = Vec::new();
        loop {
            let worked = tokio::select! {
                biased;
                () = stop.wanted() => {
                    desk.finish(&mut settlements).await;
                    return Ended::Stopped;
                }
                _ = settlements.recv_many(&mut settled, MOST_SETTLEMENTS) => {
                    desk.settle(settled.drain(..)).await
                }
                Some((tag, is_safe)) = desk.aside.next() => desk.put_aside(tag, is_safe).await,
                delivery = consumer.next() => match delivery {
                    Some(Ok(delivery)) => {
                        desk.take_in(delivery);
                        Ok(())
                    }
                    Some(Err(error)) => Err(error),
                    None => return Ended::Lost("the queue is gone".into()),
                },
                _ = look.tick() => desk.give_back_old().await,
            };
            if let Err(error) = worked {
                return Ended::Lost(error.to_string());
            }
        }
    }
}

/// The deliveries of one channel, and all that is done with them.
struct Desk<'a, T> {
    source: &'a Source<T>,
    intake: &'a Intake<T>,
    place: Place<'a, T>,
    channel: Channel,
    ledger: Ledger,
    /// As many as the prefetch allows.
    aside: FuturesUnordered<PuttingAside<'a>>,
}

impl<T> Desk<'_, T> {
    fn take_in(&mut self, delivery: Delivery) {
        let tag = delivery.delivery_tag;
        self.ledger.open(tag);
        let incoming = Incoming::from(delivery);
        let (source, review) = (self.source, &self.intake.review);
        match (source.decode)(&incoming) {
            Ok(item) => self.place.put(source.priority, item, tag),
            Err(reason) => {
                let queue = &source.spec.name;
                let putting = async move { (tag, review.keep(incoming, queue, &reason).await) };
                self.aside.push(Box::pin(putting));
            }
        }
    }

    /// What cannot be read is forgotten here once it is safe elsewhere.
    async fn put_aside(&mut self, tag: u64, is_safe: bool) -> Result<(), Error> {
        if is_safe {
            self.acknowledge(&[tag]).await
        } else {
            self.give_back(&[tag]).await
        }
    }

    async fn settle(&mut self, settlements: impl Iterator<Item = Settlement>) -> Result<(), Error> {
        let (mut done, mut back) = (Vec::new(), Vec::new());
        for settlement in settlements {
            match settlement {
                Settlement::Acknowledge(tags) => done.extend(tags),
                Settlement::GiveBack(tags) => back.extend(tags),
            }
        }
        self.give_back(&back).await?;
        self.acknowledge(&done).await
    }

    async fn acknowledge(&mut self, tags: &[u64]) -> Result<(), Error> {
        let channel = &self.channel;
        let acks = self.ledger.acknowledge(tags).into_iter().map(|ack| {
            let multiple = ack.multiple;
            channel.basic_ack(ack.delivery_tag, BasicAckOptions { multiple })
        });
        try_join_all(acks).await.map(drop)
    }

    async fn give_back(&mut self, tags: &[u64]) -> Result<(), Error> {
        let options = BasicNackOptions {
            multiple: false,
            requeue: true,
        };
        let channel = &self.channel;
        let tags = self.ledger.give_back(tags).into_iter();
        try_join_all(tags.map(|tag| channel.basic_nack(tag, options)))
            .await
            .map(drop)
    }

    /// Another process may have time for what nobody here takes; and RabbitMQ closes a channel
    /// that holds a delivery for too long.
    async fn give_back_old(&mut self) -> Result<(), Error> {
        let old = self.place.take_older(self.intake.give_back_after);
        self.give_back(&old).await
    }

    /// Says the last words; everything else goes back with the channel.
    async fn finish(mut self, settlements: &mut mpsc::UnboundedReceiver<Settlement>) {
        let rest = std::iter::from_fn(|| settlements.try_recv().ok());
        let rest: Vec<_> = rest.collect();
        if self.settle(rest.into_iter()).await.is_ok() {
            // The connection is closed next, whatever the answer.
            let _ = self.channel.close(200, "OK".into()).await;
        }
    }
}
