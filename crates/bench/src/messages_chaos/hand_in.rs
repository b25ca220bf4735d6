//! Hands failures in until RabbitMQ has confirmed each of them, whatever happens to it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use lapin::PublisherConfirm;
use lapin::options::BasicPublishOptions;
use tokio::sync::mpsc;

use super::ledger::{HandIn, Ledger};
use crate::amqp::{Rabbit, persistent};

/// How many failures may be unconfirmed.
const WINDOW: usize = 200;
/// How long RabbitMQ may take to confirm one.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two tries to connect.
const REST: Duration = Duration::from_millis(200);

/// Hands in what comes out of `failures`.
pub(super) struct Publisher {
    pub(super) url: String,
    pub(super) queue: String,
    pub(super) ledger: Arc<Ledger>,
    pub(super) failures: mpsc::UnboundedReceiver<HandIn>,
}

/// A failure that RabbitMQ has not confirmed.
struct Open {
    hand_in: HandIn,
    was_sent: bool,
    confirm: Option<PublisherConfirm>,
}

impl Publisher {
    /// Works for ever.
    pub(super) async fn run(mut self) {
        let mut open = VecDeque::new();
        loop {
            // However it ended, it begins anew.
            let _ = self.publish(&mut open).await;
            // Whatever was sent may be there or not: it goes out again as it was.
            for one in &mut open {
                one.confirm = None;
                if std::mem::take(&mut one.was_sent) {
                    self.ledger.doubt(one.hand_in);
                }
            }
            tokio::time::sleep(REST).await;
        }
    }

    /// Works over one connection until it fails.
    async fn publish(&mut self, open: &mut VecDeque<Open>) -> anyhow::Result<()> {
        let rabbit = Rabbit::connect_to_publish(&self.url).await?;
        for one in open.iter_mut() {
            self.send(&rabbit, one).await?;
        }
        loop {
            let (is_empty, has_room) = (open.is_empty(), open.len() < WINDOW);
            tokio::select! {
                biased;
                answer = answer_of(open), if !is_empty => {
                    answer?;
                    if let Some(one) = open.pop_front() {
                        self.ledger.confirm(one.hand_in);
                    }
                }
                failure = self.failures.recv(), if has_room => {
                    let hand_in = failure.context("nobody fails any more")?;
                    self.ledger.begin(hand_in);
                    let one = Open { hand_in, was_sent: false, confirm: None };
                    open.push_back(one);
                    if let Some(one) = open.back_mut() {
                        self.send(&rabbit, one).await?;
                    }
                }
            }
        }
    }

    async fn send(&self, rabbit: &Rabbit, one: &mut Open) -> anyhow::Result<()> {
        let (id, body) = self.ledger.body(one.hand_in);
        // One of its own for each failure, and the same each time that this failure is sent.
        let name = format!("{id}-{}", one.hand_in.retry_count);
        let publishing = rabbit.channel.basic_publish(
            "".into(),
            self.queue.as_str().into(),
            BasicPublishOptions::default(),
            &body,
            persistent().with_message_id(name.into()),
        );
        one.was_sent = true;
        one.confirm = Some(publishing.await?);
        Ok(())
    }
}

/// Waits until RabbitMQ has the oldest one.
async fn answer_of(open: &mut VecDeque<Open>) -> anyhow::Result<()> {
    let oldest = open.front_mut().and_then(|one| one.confirm.as_mut());
    let confirm = oldest.context("it was not sent")?;
    let answer = tokio::time::timeout(PATIENCE, confirm).await??;
    ensure!(answer.is_ack(), "RabbitMQ refused it");
    Ok(())
}
