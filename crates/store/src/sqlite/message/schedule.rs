//! Failures that arrived.

use posthaste_core::message::{Arrival, MessagePolicy};
use posthaste_core::port::{Scheduled, StoreResult};

use super::super::SqliteStore;
use super::count::record;
use super::row;
use crate::message::{Batch, Moves, count};

impl SqliteStore {
    pub(in crate::sqlite) async fn schedule_all(
        &self,
        arrivals: Vec<Arrival>,
        policy: &MessagePolicy,
    ) -> StoreResult<Vec<Scheduled>> {
        let policy = policy.clone();
        self.writer
            .run(move |flush| {
                let mut batch = Batch::new(&arrivals, &policy);
                let mut moves = Moves::new();
                for id in batch.ids() {
                    let known = row::load(flush, id)?;
                    let before = known.as_ref().map(|(_, state)| state);
                    let Some(change) = batch.decide(id, before, flush.now()) else {
                        continue;
                    };
                    let before = before.map(|state| state.status);
                    count(&mut moves, before, Some(change.state.status));
                    let number = match known {
                        None => row::insert(flush, change.failure)?,
                        Some((number, _)) => {
                            row::replace(flush, number, change.failure)?;
                            number
                        }
                    };
                    row::save(flush, number, &change.state)?;
                }
                record(flush, &moves)?;
                Ok(batch.into_answers())
            })
            .await
    }
}
