//! What became of claimed messages.

use std::collections::HashSet;

use posthaste_core::port::{Settled, StoreResult};

use super::super::PostgresStore;
use super::super::state_row::get;
use super::count::slot;
use super::row::{set_state, state_arrays, state_names, state_values};
use crate::message::kept;

/// The arrays are in the order of the ids, so that two transactions do not wait for each other in
/// a circle; if they ever do, one of them is done again. What is claimed waits; that it does is not
/// asked for, or PostgreSQL might look for each row among all that wait.
pub(in crate::postgres) const SETTLE: &str = concat!(
    "WITH settled AS (
         UPDATE retry_queue q SET ",
    set_state!(),
    " FROM unnest(",
    state_arrays!(),
    ", $12::int8[]) AS u (",
    state_names!(""),
    ", id)
         WHERE q.id = u.id AND q.token = u.token AND q.locked_until IS NOT NULL
         RETURNING q.id, q.token, q.status),
     counted AS (
         INSERT INTO message_count (slot, status, n) SELECT ",
    slot!(),
    ", moved.status, sum(moved.n) FROM (
             SELECT status, 1 AS n FROM settled WHERE status <> 'pending'
             UNION ALL
             SELECT 'pending', -1 FROM settled WHERE status <> 'pending') AS moved
         GROUP BY moved.status ORDER BY moved.status
         ON CONFLICT (slot, status) DO UPDATE SET n = message_count.n + excluded.n)
     SELECT id, token FROM settled"
);

impl PostgresStore {
    pub(in crate::postgres) async fn settle_claims(
        &self,
        settled: Vec<Settled>,
    ) -> StoreResult<Vec<bool>> {
        if settled.is_empty() {
            return Ok(Vec::new());
        }
        let claims: Vec<_> = settled
            .iter()
            .map(|one| (one.number, one.state.token))
            .collect();
        let mut sorted: Vec<_> = settled
            .into_iter()
            .map(|one| (one.number, kept(one.state)))
            .collect();
        // A claim is settled once, by the first who does.
        sorted.sort_by_key(|(number, state)| (*number, state.token));
        sorted.dedup_by_key(|(number, state)| (*number, state.token));
        let states: Vec<_> = sorted.iter().map(|(_, state)| state).collect();
        let ids: Vec<i64> = sorted.iter().map(|(number, _)| *number).collect();
        let mut values = state_values(&states);
        values.push(Box::new(ids));
        let values: Vec<_> = values.iter().map(|value| &**value as _).collect();
        let rows = self.ask(SETTLE, &values).await?;
        let mut done: HashSet<(i64, i64)> = rows
            .iter()
            .map(|row| Ok((get(row, 0)?, get(row, 1)?)))
            .collect::<StoreResult<_>>()?;
        Ok(claims.iter().map(|claim| done.remove(claim)).collect())
    }
}
