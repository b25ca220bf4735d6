//! Failures that arrived.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use deadpool_postgres::ClientWrapper;
use posthaste_core::Timestamp;
use posthaste_core::message::{Arrival, MessageId, MessagePolicy, MessageState, MessageStatus};
use posthaste_core::port::{Scheduled, StoreResult};
use uuid::Uuid;

use super::super::PostgresStore;
use super::super::books::{Pipeline, Value, values};
use super::super::error::{Trouble, corrupt};
use super::super::pool::Values;
use super::super::state_row::get;
use super::Patience;
use super::count::send_moves;
use super::row::{
    STATE_WIDTH, set_state, state_arrays, state_names, state_of, state_values, without_nul,
};
use crate::message::{Batch, Change, Moves, count};

/// The arrays are in the order of the key, so that two transactions never wait for each other in
/// a circle.
const INSERT: &str = concat!(
    "INSERT INTO retry_queue (",
    state_names!(""),
    ", message_id, original_queue, error_reason, properties, original_payload, created_at)
     SELECT u.*, $17::timestamptz FROM unnest(",
    state_arrays!(),
    ", $12::uuid[], $13::text[], $14::text[], $15::text[], $16::bytea[]) AS u
     ON CONFLICT (message_id) DO NOTHING RETURNING message_id"
);

const KNOWN: &str = concat!(
    "SELECT ",
    state_names!("q."),
    ", q.message_id FROM retry_queue q WHERE q.message_id = ANY($1) ORDER BY q.id FOR UPDATE"
);

const UPDATE: &str = concat!(
    "UPDATE retry_queue q SET ",
    set_state!(),
    ", token = u.token, original_queue = u.original_queue, error_reason = u.error_reason,
         properties = u.properties, original_payload = u.original_payload
     FROM unnest(",
    state_arrays!(),
    ", $12::uuid[], $13::text[], $14::text[], $15::text[], $16::bytea[]) AS u (",
    state_names!(""),
    ", message_id, original_queue, error_reason, properties, original_payload)
     WHERE q.message_id = u.message_id"
);

impl PostgresStore {
    pub(in crate::postgres) async fn schedule_all(
        &self,
        arrivals: Vec<Arrival>,
        policy: &MessagePolicy,
    ) -> StoreResult<Vec<Scheduled>> {
        if arrivals.is_empty() {
            return Ok(Vec::new());
        }
        let mut patience = Patience::default();
        loop {
            let scheduled = self.messages.run(async |client: &ClientWrapper| {
                let mut batch = Batch::new(&arrivals, policy);
                let is_done = self.take_in(client, &mut batch, &patience).await?;
                Ok::<_, Trouble>(is_done.then(|| batch.into_answers()))
            });
            let scheduled = scheduled.await;
            if let Some(Some(scheduled)) = patience.judge(scheduled)? {
                return Ok(scheduled);
            }
        }
    }

    /// Takes a batch in, in one transaction; `false` if that is to be done again.
    async fn take_in(
        &self,
        client: &ClientWrapper,
        batch: &mut Batch<'_>,
        patience: &Patience,
    ) -> Result<bool, Trouble> {
        let asked = Instant::now();
        let now = client.prepare_cached("SELECT posthaste_now()").await?;
        let (begun, now) = tokio::join!(
            biased;
            client.batch_execute("BEGIN"),
            client.query_one(&now, &[]),
        );
        begun?;
        let now: Timestamp = get(&now?, 0)?;
        self.clock.learn(now, asked);
        let mut moves = Moves::new();
        let mut changes = Vec::new();
        let mut rest = batch.ids();
        let inserted = insert(client, batch, &rest, now).await?;
        for _ in &inserted {
            count(&mut moves, None, Some(MessageStatus::Pending));
        }
        rest.retain(|id| !inserted.contains(id));
        if !rest.is_empty() {
            let known = self.known(client, &rest).await?;
            if known.states.len() < rest.len() {
                // One of them was pruned between the two: now it is new. Inserting it while others
                // are locked might end in a circle.
                client.batch_execute("ROLLBACK").await?;
                return Ok(false);
            }
            changes = decide(batch, &known, &mut moves);
        }
        let mut pipeline = Pipeline::new(client);
        if !changes.is_empty() {
            pipeline.send(UPDATE, change_values(&changes)?).await?;
        }
        send_moves(&mut pipeline, &moves).await?;
        patience.commits();
        pipeline.commit();
        pipeline.finish().await?;
        Ok(true)
    }

    /// Reads and locks messages that may be there.
    pub(super) async fn known(
        &self,
        client: &ClientWrapper,
        ids: &[MessageId],
    ) -> Result<Known, Trouble> {
        let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
        let lock = client.prepare_cached(KNOWN).await?;
        let now = client.prepare_cached("SELECT posthaste_now()").await?;
        let ids: Values<'_> = &[&ids];
        let asked = Instant::now();
        // After the locks: what is decided is decided now, not when we began to wait.
        let (rows, now) = tokio::join!(
            biased;
            client.query(&lock, ids),
            client.query_one(&now, &[]),
        );
        let mut states = HashMap::new();
        for row in &rows? {
            states.insert(MessageId(get(row, STATE_WIDTH)?), state_of(row)?);
        }
        let now = get(&now?, 0)?;
        self.clock.learn(now, asked);
        Ok(Known { states, now })
    }
}

/// Inserts those that are new, as if all were, and says which.
async fn insert(
    client: &ClientWrapper,
    batch: &mut Batch<'_>,
    ids: &[MessageId],
    now: Timestamp,
) -> Result<HashSet<MessageId>, Trouble> {
    let changes: Vec<Change<'_>> = ids
        .iter()
        .filter_map(|id| batch.decide(*id, None, now))
        .collect();
    let mut values = change_values(&changes)?;
    values.push(Box::new(now));
    let statement = client.prepare_cached(INSERT).await?;
    let values: Vec<_> = values.iter().map(|value| &**value as _).collect();
    let rows = client.query(&statement, &values).await?;
    rows.iter().map(|row| Ok(MessageId(get(row, 0)?))).collect()
}

/// The states of messages that were there before, and the time at which they were locked.
pub(super) struct Known {
    pub(super) states: HashMap<MessageId, MessageState>,
    pub(super) now: Timestamp,
}

/// What the failures make of messages that are known.
fn decide<'a>(batch: &mut Batch<'a>, known: &Known, moves: &mut Moves) -> Vec<Change<'a>> {
    let mut changes = Vec::new();
    for (id, state) in &known.states {
        if let Some(change) = batch.decide(*id, Some(state), known.now) {
            count(moves, Some(state.status), Some(change.state.status));
            changes.push(change);
        }
    }
    changes
}

fn change_values<'a>(changes: &'a [Change<'a>]) -> StoreResult<Vec<Value<'a>>> {
    let states: Vec<_> = changes.iter().map(|change| &change.state).collect();
    let all = || changes.iter().map(|change| change.failure);
    let properties: Vec<String> = all()
        .map(|failure| serde_json::to_string(&failure.properties).map_err(corrupt))
        .collect::<StoreResult<_>>()?;
    let mut values = state_values(&states);
    values.extend(values![
        all().map(|f| f.message_id.0).collect::<Vec<_>>(),
        all().map(|f| &f.original_queue[..]).collect::<Vec<_>>(),
        all()
            .map(|f| without_nul(&f.error_reason))
            .collect::<Vec<_>>(),
        properties,
        all().map(|f| &f.payload[..]).collect::<Vec<_>>(),
    ]);
    Ok(values)
}
