//! One consumer on one queue of tickets, on a channel of its own.

use std::pin::Pin;
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
use super::inbox::{Inbox, Lane, Settlement};
use super::ledger::Ledger;
use super::review::Review;
use super::ticket_body::decode_ticket;

/// How many settlements are taken together.
const MOST_SETTLEMENTS: usize = 1000;

/// A ticket that cannot be read, while it is put aside: its tag, and whether it is safe.
type PuttingAside<'a> = Pin<Box<dyn Future<Output = (u64, bool)> + Send + 'a>>;

/// A consumer that RabbitMQ has confirmed.
pub(super) struct Subscription {
    channel: Channel,
    consumer: lapin::Consumer,
}

impl Subscription {
    /// Subscribes to a queue that is there.
    pub(super) async fn open(
        connection: &Connection,
        queue: &str,
        prefetch: u16,
    ) -> Result<Self, Error> {
        let channel = connection.create_channel().await?;
        channel
            .basic_qos(prefetch, BasicQosOptions::default())
            .await?;
        let options = BasicConsumeOptions::default();
        let consumer =
            channel.basic_consume(queue.into(), "".into(), options, FieldTable::default());
        Ok(Self {
            consumer: consumer.await?,
            channel,
        })
    }

    /// Takes tickets until the channel is lost or no longer wanted. What is then still open goes
    /// back to the queue with the channel.
    pub(super) async fn serve(self, lane: TicketLane<'_>, mut stop: Stop) -> Ended {
        let Self {
            channel,
            mut consumer,
        } = self;
        let (place, mut settlements) = lane.inbox.open_lane();
        let mut desk = Desk {
            lane,
            place,
            channel,
            ledger: Ledger::default(),
            aside: FuturesUnordered::new(),
        };
        let pace = (desk.lane.give_back_after / 4).max(Duration::from_millis(1));
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

/// What a subscription needs to know.
#[derive(Clone, Copy)]
pub(super) struct TicketLane<'a> {
    pub(super) queue: &'a str,
    pub(super) priority: Priority,
    pub(super) give_back_after: Duration,
    pub(super) inbox: &'a Inbox,
    pub(super) review: &'a Review,
}

/// The deliveries of one channel, and all that is done with them.
struct Desk<'a> {
    lane: TicketLane<'a>,
    place: Lane<'a>,
    channel: Channel,
    ledger: Ledger,
    /// As many as the prefetch allows.
    aside: FuturesUnordered<PuttingAside<'a>>,
}

impl Desk<'_> {
    fn take_in(&mut self, delivery: Delivery) {
        let tag = delivery.delivery_tag;
        self.ledger.open(tag);
        match decode_ticket(&delivery.data, self.lane.priority) {
            Ok(ticket) => self.place.put(ticket, tag),
            Err(error) => {
                let TicketLane { review, queue, .. } = self.lane;
                let putting = async move { (tag, review.keep(delivery, queue, error).await) };
                self.aside.push(Box::pin(putting));
            }
        }
    }

    /// A ticket that cannot be read is forgotten here once it is safe elsewhere.
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
        let old = self.place.take_older(self.lane.give_back_after);
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
