//! Tickets that nobody of ours published: doubled, out of order, made up, and not to be read.

use lapin::options::BasicPublishOptions;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::json;
use uuid::Uuid;

use super::Stage;
use crate::amqp::persistent;
use crate::rig::stand::queues;

/// How many emails get further tickets.
const DOUBLED: usize = 60;
const FORGED: usize = 20;

impl Stage<'_> {
    pub(super) async fn forge_tickets(&self, choice: usize) -> anyhow::Result<()> {
        let mut dice = StdRng::seed_from_u64(choice as u64);
        let known: Vec<_> = self
            .ledger
            .entries()
            .iter()
            .filter_map(|entry| entry.id)
            .collect();
        let ticket = |id: Uuid| json!({"email_id": id}).to_string().into_bytes();
        let mut bodies: Vec<Vec<u8>> = Vec::new();
        for _ in 0..DOUBLED {
            // Of any age: what is over must stay so, what is under way must not begin twice.
            let Some(id) = known.choose(&mut dice) else {
                continue;
            };
            bodies.extend([ticket(*id), ticket(*id)]);
        }
        bodies.extend((0..FORGED).map(|_| ticket(Uuid::now_v7())));
        bodies.extend([
            Vec::new(),
            b"not a ticket".to_vec(),
            b"{\"email_id\": 7}".to_vec(),
            b"{\"email_id\": \"\\ud800\"}".to_vec(),
            vec![0xff; 100_000],
        ]);
        let rabbit = self.rabbit().await?;
        let [send, high, low, ..] = queues(self.run);
        while !bodies.is_empty() {
            let body = bodies.swap_remove(dice.random_range(0..bodies.len()));
            let queue = [&send, &high, &low][dice.random_range(0..3)];
            let publishing = rabbit.channel.basic_publish(
                "".into(),
                queue.as_str().into(),
                BasicPublishOptions::default(),
                &body,
                persistent(),
            );
            // The queues may just have been deleted by another fault: then it is lost.
            let _ = publishing.await;
        }
        Ok(())
    }
}
