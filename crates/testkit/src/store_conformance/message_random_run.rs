//! A long random life of messages: whatever happens in whatever order, the books balance.

use std::collections::BTreeSet;

use posthaste_core::message::{MessageAction, MessageRecord, MessageStatus, Outcome};
use posthaste_core::port::{MessageRetention, Scheduled};

use super::message_scene::{Messages, failing, id_of, settled};
use super::random_run::Random;
use super::scene::{HALF, HOUR, LEASE};
use super::{StoreFixture, assert_consistent};

/// So few that they meet again and again.
const NAMES: usize = 40;

struct Run<'a, F> {
    messages: Messages<'a, F>,
    random: Random,
    claimed: Vec<MessageRecord>,
}

impl<F: StoreFixture> Run<'_, F> {
    async fn step(&mut self) {
        match self.random.below(10) {
            0..=2 => self.arrive().await,
            3 | 4 => {
                let most = 1 + self.random.below(8);
                let claimed = self.messages.claim(most).await;
                assert!(claimed.is_sorted_by_key(|message| message.state.next_retry_at));
                self.claimed.extend(claimed);
            }
            5 | 6 => self.settle().await,
            7 => {
                let steps = [HALF, HOUR, LEASE + HALF];
                let by = self.random.pick(&steps).expect("a step");
                self.messages.scene.advance(by).await;
            }
            8 => {
                let id = id_of(&self.random.below(NAMES).to_string());
                let actions = [MessageAction::Retry, MessageAction::Discard];
                let action = self.random.pick(&actions).expect("an action");
                self.messages.act(id, action).await;
            }
            _ => {
                let retention = MessageRetention {
                    retried: 2 * HOUR,
                    failed: 4 * HOUR,
                };
                let most = self.random.below(4);
                let pruned = self.messages.store.prune_messages(retention, most).await;
                assert!(pruned.expect("prune") <= most as u64);
            }
        }
    }

    /// Some failures at once, also of messages that are known.
    async fn arrive(&mut self) {
        let names: Vec<_> = (0..1 + self.random.below(6))
            .map(|_| self.random.below(NAMES).to_string())
            .collect();
        let mut batch = Vec::new();
        for name in &names {
            let delivery = u8::try_from(self.random.below(3)).unwrap_or(0);
            let count = u32::try_from(self.random.below(4)).unwrap_or(0);
            let failing = failing(name).count(count).delivery(delivery);
            let again = self.random.below(3) == 0;
            batch.push(if again {
                failing.redelivered()
            } else {
                failing
            });
        }
        let answers = self.messages.arrive_all(batch).await;
        // The last word about each is what is kept.
        let mut seen = BTreeSet::new();
        for (name, answer) in names.iter().zip(&answers).rev() {
            if let Scheduled::Scheduled(state) = answer
                && seen.insert(name)
            {
                assert_eq!(self.messages.state(id_of(name)).await, *state);
            }
        }
    }

    /// Settles some of the claims, in any order, also such that were lost long ago.
    async fn settle(&mut self) {
        let now = self.messages.scene.now();
        let mut batch = Vec::new();
        for _ in 0..self.random.below(6).min(self.claimed.len()) {
            let message = self
                .claimed
                .swap_remove(self.random.below(self.claimed.len()));
            let outcome = match self.random.below(6) {
                0..=2 => Outcome::Done,
                3 => Outcome::Refused("no queue".into()),
                4 => Outcome::Unconfirmed("no answer".into()),
                _ => Outcome::Away("no connection".into()),
            };
            batch.push((message.id, settled(&message, &outcome, now)));
        }
        let all = batch.iter().map(|(_, settled)| settled.clone()).collect();
        let answers = self
            .messages
            .store
            .settle_messages(all)
            .await
            .expect("settle");
        for ((id, settled), applied) in batch.iter().zip(answers) {
            if applied {
                assert_eq!(self.messages.state(*id).await, settled.state);
            }
        }
    }
}

pub async fn the_books_of_messages_balance_after_a_random_run(fixture: &impl StoreFixture) {
    for seed in [1, 7, 4711] {
        let mut run = Run {
            messages: Messages::new(fixture),
            random: Random(seed),
            claimed: Vec::new(),
        };
        for step in 0..300 {
            run.step().await;
            if step % 25 == 0 {
                assert_consistent(fixture).await;
            }
        }
        // Whoever comes last finishes everything that waits.
        let messages = &run.messages;
        for _ in 0..40 {
            messages.scene.advance(25 * HOUR).await;
            for message in messages.claim(NAMES).await {
                assert!(messages.settle(&message, &Outcome::Done).await);
            }
        }
        let numbers = messages
            .store
            .message_statistics()
            .await
            .expect("statistics");
        assert_eq!(numbers.by_status[&MessageStatus::Pending], 0);
    }
}
