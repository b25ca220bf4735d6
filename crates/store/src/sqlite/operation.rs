//! Operations over many dead letters.

use posthaste_core::Timestamp;
use posthaste_core::email::EmailId;
use posthaste_core::operation::{
    DeadFilter, NewOperation, Operation, OperationChange, OperationId,
};
use posthaste_core::port::{Actor, OperationChanged, OperationStep, StoreResult};
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};

use super::accept::json;
use super::act::audit;
use super::email_row::from_json;
use super::list::{matching, source};
use super::state_row::{named, optional_time};
use super::writer::Flush;
use super::{SqliteStore, from_micros, micros};
use crate::operation::{
    DONE, Item, Running, Slice, audited_as, begun, change_audited_as, outcome, place, treat,
};

const COLUMNS: &str = "id, action, filter, rate_per_second, status, actor, total, done, skipped,
     created_at, finished_at, owner, next_step_at";

/// The running operation whose step has been due for the longest time. `?1` is now.
pub(super) const DUE: &str = "SELECT id FROM posthaste_operation
     WHERE status = 'running' AND next_step_at <= ?1 ORDER BY next_step_at LIMIT 1";

/// When the next step is due.
pub(super) const NEXT_STEP: &str =
    "SELECT min(next_step_at) FROM posthaste_operation WHERE status = 'running'";

const AUDIT_OF_MANY: &str =
    "INSERT INTO posthaste_audit_log (at, actor, action, subject, filter, count, result)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";

fn operation_of(row: &Row<'_>) -> rusqlite::Result<Operation> {
    Ok(Operation {
        id: OperationId(row.get(0)?),
        action: named(row, 1)?,
        filter: from_json(row, 2)?,
        rate_per_second: row.get(3)?,
        status: named(row, 4)?,
        actor: row.get(5)?,
        total: row.get(6)?,
        done: row.get(7)?,
        skipped: row.get(8)?,
        created_at: from_micros(row.get(9)?),
        finished_at: optional_time(row, 10)?,
    })
}

fn find(
    connection: &Connection,
    id: OperationId,
    owner: Option<&str>,
) -> rusqlite::Result<Option<Running>> {
    connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM posthaste_operation WHERE id = ?1 AND (?2 IS NULL OR owner = ?2)"
        ))?
        .query_row((id.0, owner), |row| {
            Ok(Running {
                operation: operation_of(row)?,
                owner: row.get(11)?,
                due: from_micros(row.get(12)?),
            })
        })
        .optional()
}

impl SqliteStore {
    pub(super) async fn dead_matching(
        &self,
        filter: &DeadFilter,
        owner: Option<&str>,
    ) -> StoreResult<u64> {
        let filter = filter.emails(owner);
        let (conditions, values) = matching(&filter);
        let from = source(&filter);
        self.desk
            .run(move |connection| {
                connection
                    .prepare_cached(&format!("SELECT count(*) FROM {from} WHERE {conditions}"))?
                    .query_row(params_from_iter(values), |row| row.get(0))
            })
            .await
    }

    pub(super) async fn insert_operation(
        &self,
        new: NewOperation,
        actor: &Actor,
    ) -> StoreResult<Operation> {
        let actor = actor.clone();
        self.writer
            .run(move |flush| {
                let total = insert_items(flush, &new, &actor)?;
                let operation = begun(new.clone(), &actor, total, flush.now());
                insert(flush, &operation, actor.owner.as_deref())?;
                Ok(operation)
            })
            .await
    }

    pub(super) async fn operation_of(
        &self,
        id: OperationId,
        owner: Option<&str>,
    ) -> StoreResult<Option<Operation>> {
        let owner = owner.map(str::to_owned);
        self.desk
            .run(move |connection| {
                let found = find(connection, id, owner.as_deref())?;
                Ok(found.map(|found| found.operation))
            })
            .await
    }

    pub(super) async fn newest_operations(
        &self,
        most: usize,
        owner: Option<&str>,
    ) -> StoreResult<Vec<Operation>> {
        let owner = owner.map(str::to_owned);
        self.desk
            .run(move |connection| {
                connection
                    .prepare_cached(&format!(
                        "SELECT {COLUMNS} FROM posthaste_operation WHERE ?1 IS NULL OR owner = ?1
                         ORDER BY id DESC LIMIT ?2"
                    ))?
                    .query_map((owner, most), operation_of)?
                    .collect()
            })
            .await
    }

    pub(super) async fn alter_operation(
        &self,
        id: OperationId,
        change: OperationChange,
        actor: &Actor,
    ) -> StoreResult<OperationChanged> {
        let actor = actor.clone();
        self.writer
            .run(move |flush| alter(flush, id, change, &actor))
            .await
    }

    pub(super) async fn step_operation(&self, most: usize) -> StoreResult<Option<OperationStep>> {
        // Most of the time there is nothing: look before disturbing the writer.
        let now = micros(posthaste_core::port::Store::now(self));
        let due = self.readers.run(move |connection| due(connection, now));
        if due.await?.is_none() {
            return Ok(None);
        }
        self.writer.run(move |flush| step(flush, most)).await
    }

    pub(super) async fn next_step_at(&self) -> StoreResult<Option<Timestamp>> {
        self.readers
            .run(|connection| {
                connection
                    .prepare_cached(NEXT_STEP)?
                    .query_row([], |row| optional_time(row, 0))
            })
            .await
    }
}

/// Keeps which emails match, and how many they are.
fn insert_items(flush: &Flush<'_>, new: &NewOperation, actor: &Actor) -> rusqlite::Result<u64> {
    let filter = new.filter.emails(actor.owner.as_deref());
    let (conditions, mut values) = matching(&filter);
    values.push(new.id.0.into_bytes().to_vec().into());
    let (from, id) = (source(&filter), values.len());
    let inserted = flush
        .prepare_cached(&format!(
            "INSERT INTO posthaste_operation_item (operation_id, position, email_id, lease_token)
             SELECT ?{id}, row_number() OVER (ORDER BY l.id) - 1, l.id, l.lease_token
             FROM {from} WHERE {conditions}"
        ))?
        .execute(params_from_iter(values))?;
    Ok(u64::try_from(inserted).unwrap_or(u64::MAX))
}

fn insert(flush: &Flush<'_>, new: &Operation, owner: Option<&str>) -> rusqlite::Result<()> {
    let filter = json(&new.filter)?;
    flush.execute(
        "INSERT INTO posthaste_operation
         (id, action, filter, owner, rate_per_second, status, actor, total,
             next_step_at, created_at, finished_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9, ?10)",
        params![
            new.id.0,
            new.action.as_str(),
            filter,
            owner,
            new.rate_per_second,
            new.status.as_str(),
            new.actor,
            place(new.total),
            micros(new.created_at),
            new.finished_at.map(micros),
        ],
    )?;
    flush.execute(
        AUDIT_OF_MANY,
        params![
            micros(new.created_at),
            new.actor,
            audited_as(new.action),
            new.id.to_string(),
            filter,
            place(new.total),
            new.status.as_str(),
        ],
    )?;
    Ok(())
}

/// Keeps what came of an operation that has ended by itself.
fn audit_end(flush: &Flush<'_>, ended: &Operation) -> rusqlite::Result<()> {
    flush
        .execute(
            AUDIT_OF_MANY,
            params![
                micros(flush.now()),
                ended.actor,
                DONE,
                ended.id.to_string(),
                None::<&str>,
                place(ended.done),
                outcome(ended),
            ],
        )
        .map(drop)
}

fn alter(
    flush: &Flush<'_>,
    id: OperationId,
    change: OperationChange,
    actor: &Actor,
) -> rusqlite::Result<OperationChanged> {
    let Some(found) = find(flush, id, actor.owner.as_deref())? else {
        return Ok(OperationChanged::NotFound);
    };
    let mut operation = found.operation;
    let Some(status) = change.applied_to(operation.status) else {
        return Ok(OperationChanged::Refused(operation.status));
    };
    if status == operation.status {
        return Ok(OperationChanged::Done(Box::new(operation)));
    }
    operation.status = status;
    operation.finished_at = status.is_over().then(|| flush.now());
    // It goes on from now: nothing that was missed is caught up with.
    keep(flush, &operation, flush.now())?;
    if status.is_over() {
        let sql = "DELETE FROM posthaste_operation_item WHERE operation_id = ?1";
        flush.prepare_cached(sql)?.execute([id.0])?;
    }
    audit(
        flush,
        &actor.name,
        change_audited_as(change),
        &id.to_string(),
        &outcome(&operation),
    )?;
    Ok(OperationChanged::Done(Box::new(operation)))
}

/// Keeps where an operation is now.
fn keep(flush: &Flush<'_>, operation: &Operation, next_step: Timestamp) -> rusqlite::Result<()> {
    flush
        .prepare_cached(
            "UPDATE posthaste_operation SET status = ?2, done = ?3, skipped = ?4, next_step_at = ?5,
                 finished_at = ?6
             WHERE id = ?1",
        )?
        .execute(params![
            operation.id.0,
            operation.status.as_str(),
            place(operation.done),
            place(operation.skipped),
            micros(next_step),
            operation.finished_at.map(micros),
        ])
        .map(drop)
}

fn due(connection: &Connection, now: i64) -> rusqlite::Result<Option<OperationId>> {
    connection
        .prepare_cached(DUE)?
        .query_row([now], |row| row.get(0).map(OperationId))
        .optional()
}

fn step(flush: &mut Flush<'_>, most: usize) -> rusqlite::Result<Option<OperationStep>> {
    let now = flush.now();
    let Some(id) = due(flush, micros(now))? else {
        return Ok(None);
    };
    let Some(running) = find(flush, id, None)? else {
        return Ok(None);
    };
    let slice = running.slice(most);
    let items = take_items(flush, id, &slice)?;
    let done = treat(flush, &items, &running)?;
    let (step, next) = running.after(&slice, done, now);
    keep(flush, &step.operation, next)?;
    if step.operation.status.is_over() {
        audit_end(flush, &step.operation)?;
    }
    Ok(Some(step))
}

/// Takes the items of a step off the list.
fn take_items(flush: &Flush<'_>, id: OperationId, slice: &Slice) -> rusqlite::Result<Vec<Item>> {
    flush
        .prepare_cached(
            "DELETE FROM posthaste_operation_item
             WHERE operation_id = ?1 AND position >= ?2 AND position < ?3
             RETURNING email_id, lease_token",
        )?
        .query_map((id.0, place(slice.start), place(slice.end)), |row| {
            Ok(Item {
                id: EmailId(row.get(0)?),
                token: row.get(1)?,
            })
        })?
        .collect()
}
