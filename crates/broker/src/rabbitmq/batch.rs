//! What is known about messages that are being published.
//!
//! RabbitMQ returns a message that finds no queue, and confirms it then all the same. lapin hangs
//! a returned message on the next confirm of the channel, whichever that is. So a message that is
//! confirmed is in its queue only if it is not among those that came back so far, and if no return
//! can still be waiting for a confirm to hang on.

use std::collections::{BTreeSet, VecDeque};

use futures_util::stream::FuturesOrdered;
use futures_util::{FutureExt, TryStreamExt};
use lapin::message::BasicReturnMessage;
use lapin::options::BasicPublishOptions;
use lapin::types::ShortString;
use lapin::{Channel, Confirmation, Error, PublisherConfirm};
use posthaste_core::port::Handed;

use super::message::Message;

/// A queue and the id of a message in it.
type MessageName = (ShortString, ShortString);

/// What is known about one message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    /// It has not left this process.
    NotSent,
    /// It may have.
    Sent,
    /// It was confirmed, and all returns before that were heard of.
    Confirmed,
    /// It was confirmed, but its return may not have been heard of.
    ConfirmedOrReturned,
    /// It was refused.
    Refused,
}

/// Messages that are being published, and what is known about each of them.
pub(super) struct Batch {
    messages: Vec<Message>,
    known: Vec<Known>,
    /// Those of the messages under way that RabbitMQ has not answered, by their index.
    open: VecDeque<(usize, PublisherConfirm)>,
    /// Whether all messages under way are among those; if not, a return may hang on another.
    is_all_open: bool,
    returned: BTreeSet<MessageName>,
}

impl Batch {
    pub(super) fn new(messages: Vec<Message>) -> Self {
        Self {
            known: vec![Known::NotSent; messages.len()],
            messages,
            open: VecDeque::new(),
            is_all_open: true,
            returned: BTreeSet::new(),
        }
    }

    pub(super) fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// A message cannot be sent at all.
    pub(super) fn refuse(&mut self, index: usize) {
        self.known[index] = Known::Refused;
    }

    /// Sends some of the messages, over a channel that nobody else uses.
    pub(super) async fn send(&mut self, channel: &Channel, chunk: &[usize]) -> Result<(), Error> {
        let options = BasicPublishOptions {
            mandatory: true,
            ..BasicPublishOptions::default()
        };
        let messages = &self.messages;
        let publish = async |index: usize| {
            let message = &messages[index];
            let (queue, properties) = (message.queue.clone(), message.properties.clone());
            let body = &message.body;
            let publishing = channel.basic_publish("".into(), queue, options, body, properties);
            publishing.await.map(|confirm| (index, confirm))
        };
        for index in chunk {
            self.known[*index] = Known::Sent;
        }
        self.is_all_open = false;
        let mut publishing: FuturesOrdered<_> = chunk.iter().copied().map(publish).collect();
        while let Some(sent) = publishing.try_next().await? {
            self.open.push_back(sent);
        }
        self.is_all_open = true;
        Ok(())
    }

    /// Waits for all answers, and tells of each.
    pub(super) async fn settle(&mut self, answered: impl Fn()) -> Result<(), Error> {
        while let Some((index, confirm)) = self.open.front_mut() {
            let (index, confirmation) = (*index, confirm.await);
            self.open.pop_front();
            self.note(index, confirmation?);
            answered();
        }
        // Nothing is left for a return to hang on.
        for known in &mut self.known {
            if *known == Known::ConfirmedOrReturned {
                *known = Known::Confirmed;
            }
        }
        Ok(())
    }

    /// Takes note of the answers that are there already, and says whether there was one.
    pub(super) fn catch_up(&mut self) -> bool {
        let mut is_news = false;
        // Again after each finding: its return may hang on one that was looked at before.
        loop {
            let before = self.open.len();
            for (index, mut confirm) in std::mem::take(&mut self.open) {
                match (&mut confirm).now_or_never() {
                    Some(Ok(confirmation)) => self.note(index, confirmation),
                    Some(Err(_)) => {}
                    None => self.open.push_back((index, confirm)),
                }
            }
            if self.open.len() == before {
                return is_news;
            }
            is_news = true;
        }
    }

    fn note(&mut self, index: usize, confirmation: Confirmation) {
        self.known[index] = match &confirmation {
            Confirmation::Ack(None) if self.is_all_open => Known::Confirmed,
            Confirmation::Ack(_) => Known::ConfirmedOrReturned,
            Confirmation::Nack(_) => Known::Refused,
            Confirmation::NotRequested => Known::Sent,
        };
        let message = confirmation.take_message();
        self.returned
            .extend(message.map(|message| name_of(&message)));
    }

    /// How many messages came back.
    pub(super) fn returned(&self) -> usize {
        self.returned.len()
    }

    /// The queues that were not there.
    pub(super) fn missing_queues(&self) -> impl Iterator<Item = &str> {
        self.returned.iter().map(|(queue, _)| queue.as_str())
    }

    /// What became of each message.
    pub(super) fn answers(self) -> Vec<Handed> {
        let Self {
            messages,
            known,
            returned,
            ..
        } = self;
        let answer = |(message, known): (Message, Known)| match known {
            _ if returned.contains(&(message.queue, message.id)) => Handed::NoQueue,
            Known::NotSent => Handed::Away,
            Known::Sent | Known::ConfirmedOrReturned => Handed::Unconfirmed,
            Known::Confirmed => Handed::Confirmed,
            Known::Refused => Handed::Refused,
        };
        messages.into_iter().zip(known).map(answer).collect()
    }
}

fn name_of(message: &BasicReturnMessage) -> MessageName {
    let id = message.properties.message_id().clone();
    (message.routing_key.clone(), id.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use lapin::BasicProperties;
    use lapin::message::Delivery;

    use super::*;

    /// Messages for these queues, all of them sent.
    fn sent(queues: &[&str]) -> Batch {
        let message = |(id, queue): (usize, &&str)| {
            let id = ShortString::from(id.to_string());
            Message::json(queue, id, Vec::new())
        };
        let mut batch = Batch::new(queues.iter().enumerate().map(message).collect());
        batch.known.fill(Known::Sent);
        batch
    }

    /// The message with this number, as it comes back.
    fn returned(batch: &Batch, index: usize) -> Option<BasicReturnMessage> {
        let message = &batch.messages[index];
        let queue = message.queue.clone();
        let mut delivery = Delivery::mock(0, "".into(), queue, false, Vec::new());
        delivery.properties = BasicProperties::default().with_message_id(message.id.clone());
        Some(BasicReturnMessage {
            delivery,
            reply_code: 312,
            reply_text: "NO_ROUTE".into(),
        })
    }

    #[test]
    fn each_word_of_rabbitmq_has_its_answer() {
        let mut batch = sent(&["a", "b", "c", "d"]);
        batch.note(0, Confirmation::Ack(None));
        batch.note(1, Confirmation::Nack(None));
        let back = returned(&batch, 2);
        batch.note(2, Confirmation::Ack(back));
        batch.known[3] = Known::NotSent;
        assert_eq!(batch.missing_queues().collect::<Vec<_>>(), ["c"]);
        let expected = [
            Handed::Confirmed,
            Handed::Refused,
            Handed::NoQueue,
            Handed::Away,
        ];
        assert_eq!(batch.answers(), expected);
    }

    #[test]
    fn what_nobody_answered_may_be_there() {
        assert_eq!(sent(&["a"]).answers(), [Handed::Unconfirmed]);
    }

    #[tokio::test]
    async fn a_return_that_hangs_on_a_neighbour_counts_for_the_right_message() {
        let mut batch = sent(&["a", "missing", "a"]);
        let back = returned(&batch, 1);
        batch.note(0, Confirmation::Ack(back));
        batch.note(1, Confirmation::Ack(None));
        batch.note(2, Confirmation::Ack(None));
        batch.settle(|| {}).await.unwrap();
        let expected = [Handed::Confirmed, Handed::NoQueue, Handed::Confirmed];
        assert_eq!(batch.answers(), expected);
    }

    #[test]
    fn a_return_that_may_be_lost_leaves_the_answer_open() {
        let mut batch = sent(&["a"]);
        batch.is_all_open = false;
        batch.note(0, Confirmation::Ack(None));
        assert_eq!(batch.answers(), [Handed::Unconfirmed]);
    }

    #[test]
    fn a_return_that_may_still_come_leaves_the_answer_open() {
        // Both came back, but the other return waits for a confirm that never came.
        let mut batch = sent(&["missing", "missing"]);
        let back = returned(&batch, 0);
        batch.note(1, Confirmation::Ack(back));
        let expected = [Handed::NoQueue, Handed::Unconfirmed];
        assert_eq!(batch.answers(), expected);
    }
}
