//! Operations over many dead letters.
//!
//! A step holds the row of its operation first and then its emails, in the order of their ids; a
//! change holds that row alone. Nobody who holds emails waits for an operation, so nobody waits in a
//! circle, and once a change has answered no step goes on.

use deadpool_postgres::ClientWrapper;
use posthaste_core::Timestamp;
use posthaste_core::email::EmailId;
use posthaste_core::operation::{
    DeadFilter, NewOperation, Operation, OperationChange, OperationId,
};
use posthaste_core::port::{Actor, OperationChanged, OperationStep, StoreResult};
use tokio_postgres::Row;
use uuid::Uuid;

use super::PostgresStore;
use super::books::{Books, INSERT_AUDIT};
use super::claim::read_facts;
use super::email_row::from_json;
use super::error::{Trouble, corrupt};
use super::list::{bound, cannot_match, has_nul, matching, source};
use super::listener::{Bell, NOTIFY};
use super::state_row::{STATE_WIDTH, get, lock_states, named};
use crate::ledger::Ledger as _;
use crate::operation::{
    DONE, Item, Running, Slice, audited_as, begun, change_audited_as, outcome, place, treat,
};

const COLUMNS: &str = "id, action, filter::text, rate_per_second, status, actor, total, done,
     skipped, created_at, finished_at, owner, next_step_at";

/// When the next step is due.
pub(super) const NEXT_STEP: &str =
    "SELECT min(next_step_at) FROM operation WHERE status = 'running'";

const INSERT: &str = "INSERT INTO operation (id, action, filter, owner, rate_per_second, status,
         actor, total, next_step_at, created_at, finished_at)
     VALUES ($1, $2, $3::text::json, $4, $5, $6, $7, $8, $9, $9, $10)";

const INSERT_AUDIT_OF_MANY: &str =
    "INSERT INTO audit_log (at, actor, action, subject, filter, count, result)
     VALUES ($1, $2, $3, $4, $5, $6, $7)";

const KEEP: &str = "UPDATE operation SET status = $2, done = $3, skipped = $4, next_step_at = $5,
         finished_at = $6
     WHERE id = $1";

const TAKE_ITEMS: &str = "DELETE FROM operation_item
     WHERE operation_id = $1 AND position >= $2 AND position < $3
     RETURNING email_id, lease_token";

const FORGET_ITEMS: &str = "DELETE FROM operation_item WHERE operation_id = $1";

/// The running operation whose step has been due for the longest time, unless someone is at it.
pub(super) fn due() -> String {
    format!(
        "SELECT {COLUMNS} FROM operation
         WHERE status = 'running' AND next_step_at <= posthaste_now()
         ORDER BY next_step_at LIMIT 1 FOR UPDATE SKIP LOCKED"
    )
}

fn running_of(row: &Row) -> StoreResult<Running> {
    let count = |at| u64::try_from(get::<i64>(row, at)?).map_err(corrupt);
    let rate = get::<Option<i32>>(row, 3)?.map(u32::try_from).transpose();
    Ok(Running {
        operation: Operation {
            id: OperationId(get(row, 0)?),
            action: named(row, 1)?,
            filter: from_json(row, 2)?,
            rate_per_second: rate.map_err(corrupt)?,
            status: named(row, 4)?,
            actor: get(row, 5)?,
            total: count(6)?,
            done: count(7)?,
            skipped: count(8)?,
            created_at: get(row, 9)?,
            finished_at: get(row, 10)?,
        },
        owner: get(row, 11)?,
        due: get(row, 12)?,
    })
}

impl PostgresStore {
    pub(super) async fn dead_matching(
        &self,
        filter: &DeadFilter,
        owner: Option<&str>,
    ) -> StoreResult<u64> {
        let filter = filter.emails(owner);
        if cannot_match(&filter) {
            return Ok(0);
        }
        let (conditions, values) = matching(&filter);
        let sql = format!(
            "SELECT count(*) FROM {} WHERE {conditions}",
            source(&filter)
        );
        let rows = self.desk.query(&sql, &bound(&values)).await?;
        let count = rows.first().map_or(Ok(0), |row| get::<i64>(row, 0))?;
        u64::try_from(count).map_err(corrupt)
    }

    pub(super) async fn insert_operation(
        &self,
        new: NewOperation,
        actor: &Actor,
    ) -> StoreResult<Operation> {
        // As long as it takes: there may be millions.
        let begin = "BEGIN; SET LOCAL statement_timeout = 0";
        let operation = self
            .desk
            .long_transaction(begin, async |client| {
                let total = insert_items(client, &new, actor).await?;
                let now: Timestamp = client
                    .query_one("SELECT posthaste_now()", &[])
                    .await?
                    .get(0);
                let operation = begun(new, actor, total, now);
                insert(client, &operation, actor.owner.as_deref()).await?;
                ring_inside(client, &self.bell).await?;
                Ok::<_, Trouble>(operation)
            })
            .await?;
        self.bell.ring();
        Ok(operation)
    }

    pub(super) async fn operation_of(
        &self,
        id: OperationId,
        owner: Option<&str>,
    ) -> StoreResult<Option<Operation>> {
        if owner.is_some_and(has_nul) {
            return Ok(None);
        }
        let sql = format!("SELECT {COLUMNS} FROM operation WHERE id = $1");
        let rows = self.desk.query(&sql, &[&id.0]).await?;
        let found = rows.first().map(running_of).transpose()?;
        Ok(found
            .filter(|found| is_of(found, owner))
            .map(|found| found.operation))
    }

    pub(super) async fn newest_operations(
        &self,
        most: usize,
        owner: Option<&str>,
    ) -> StoreResult<Vec<Operation>> {
        if owner.is_some_and(has_nul) {
            return Ok(Vec::new());
        }
        let sql = format!(
            "SELECT {COLUMNS} FROM operation WHERE $1::text IS NULL OR owner = $1
             ORDER BY id DESC LIMIT $2"
        );
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let rows = self.desk.query(&sql, &[&owner, &most]).await?;
        rows.iter()
            .map(|row| running_of(row).map(|found| found.operation))
            .collect()
    }

    pub(super) async fn alter_operation(
        &self,
        id: OperationId,
        change: OperationChange,
        actor: &Actor,
    ) -> StoreResult<OperationChanged> {
        // As long as it takes: what is cancelled may have millions of items.
        let begin = "BEGIN; SET LOCAL statement_timeout = 0";
        let changed = self
            .desk
            .long_transaction(begin, async |client| {
                let changed = alter(client, id, change, actor).await?;
                ring_inside(client, &self.bell).await?;
                Ok::<_, Trouble>(changed)
            })
            .await?;
        self.bell.ring();
        Ok(changed)
    }

    pub(super) async fn step_operation(&self, most: usize) -> StoreResult<Option<OperationStep>> {
        let (step, _) = self
            .keep_books(async |client, books| step(client, books, most).await)
            .await?;
        Ok(step)
    }

    pub(super) async fn next_step_at(&self) -> StoreResult<Option<Timestamp>> {
        let rows = self.pool.query(NEXT_STEP, &[]).await?;
        rows.first().map_or(Ok(None), |row| get(row, 0))
    }
}

fn is_of(found: &Running, owner: Option<&str>) -> bool {
    owner.is_none_or(|owner| found.owner.as_deref() == Some(owner))
}

/// Rings within the transaction, for one who may be gone a moment after it.
async fn ring_inside(client: &ClientWrapper, bell: &Bell) -> Result<(), Trouble> {
    if let Some((channel, us)) = bell.inside() {
        client.execute(NOTIFY, &[&channel, &us]).await?;
    }
    Ok(())
}

/// Keeps which emails match, and how many they are. One statement sees one moment.
async fn insert_items(
    client: &ClientWrapper,
    new: &NewOperation,
    actor: &Actor,
) -> Result<u64, Trouble> {
    let filter = new.filter.emails(actor.owner.as_deref());
    if cannot_match(&filter) {
        return Ok(0);
    }
    let (conditions, mut values) = matching(&filter);
    values.push(Box::new(new.id.0));
    let (from, id) = (source(&filter), values.len());
    let sql = format!(
        "INSERT INTO operation_item (operation_id, position, email_id, lease_token)
         SELECT ${id}, row_number() OVER (ORDER BY l.id) - 1, l.id, l.lease_token
         FROM {from} WHERE {conditions}"
    );
    Ok(client.execute(&sql, &bound(&values)).await?)
}

async fn insert(
    client: &ClientWrapper,
    new: &Operation,
    owner: Option<&str>,
) -> Result<(), Trouble> {
    let filter = serde_json::to_string(&new.filter).map_err(corrupt)?;
    let rate = new.rate_per_second.map(super::books::int);
    let (status, total) = (new.status.as_str(), place(new.total));
    client
        .execute(
            INSERT,
            &[
                &new.id.0,
                &new.action.as_str(),
                &filter,
                &owner,
                &rate,
                &status,
                &new.actor,
                &total,
                &new.created_at,
                &new.finished_at,
            ],
        )
        .await?;
    client
        .execute(
            INSERT_AUDIT_OF_MANY,
            &[
                &new.created_at,
                &new.actor,
                &audited_as(new.action),
                &new.id.to_string(),
                &filter,
                &total,
                &status,
            ],
        )
        .await?;
    Ok(())
}

/// Keeps what came of an operation that has ended by itself.
async fn audit_end(
    client: &ClientWrapper,
    ended: &Operation,
    now: Timestamp,
) -> Result<(), Trouble> {
    let statement = client.prepare_cached(INSERT_AUDIT_OF_MANY).await?;
    client
        .execute(
            &statement,
            &[
                &now,
                &ended.actor,
                &DONE,
                &ended.id.to_string(),
                &None::<&str>,
                &place(ended.done),
                &outcome(ended),
            ],
        )
        .await?;
    Ok(())
}

async fn alter(
    client: &ClientWrapper,
    id: OperationId,
    change: OperationChange,
    actor: &Actor,
) -> Result<OperationChanged, Trouble> {
    // Waits for the step under way, if there is one.
    let sql = format!("SELECT {COLUMNS} FROM operation WHERE id = $1 FOR UPDATE");
    let row = client.query_opt(&sql, &[&id.0]).await?;
    let found = row.as_ref().map(running_of).transpose()?;
    let Some(found) = found.filter(|found| is_of(found, actor.owner.as_deref())) else {
        return Ok(OperationChanged::NotFound);
    };
    let mut operation = found.operation;
    let Some(status) = change.applied_to(operation.status) else {
        return Ok(OperationChanged::Refused(operation.status));
    };
    if status == operation.status {
        return Ok(OperationChanged::Done(Box::new(operation)));
    }
    let now: Timestamp = client
        .query_one("SELECT posthaste_now()", &[])
        .await?
        .get(0);
    operation.status = status;
    operation.finished_at = status.is_over().then_some(now);
    // It goes on from now: nothing that was missed is caught up with.
    keep(client, &operation, now).await?;
    if status.is_over() {
        client.execute(FORGET_ITEMS, &[&id.0]).await?;
    }
    let (what, about) = (change_audited_as(change), id.to_string());
    let result = outcome(&operation);
    client
        .execute(
            INSERT_AUDIT,
            &[
                &[&actor.name[..]].as_slice(),
                &[what].as_slice(),
                &[&about[..]].as_slice(),
                &[&result[..]].as_slice(),
                &now,
            ],
        )
        .await?;
    Ok(OperationChanged::Done(Box::new(operation)))
}

/// Keeps where an operation is now.
async fn keep(
    client: &ClientWrapper,
    operation: &Operation,
    next_step: Timestamp,
) -> Result<(), Trouble> {
    let statement = client.prepare_cached(KEEP).await?;
    client
        .execute(
            &statement,
            &[
                &operation.id.0,
                &operation.status.as_str(),
                &place(operation.done),
                &place(operation.skipped),
                &next_step,
                &operation.finished_at,
            ],
        )
        .await?;
    Ok(())
}

async fn step(
    client: &ClientWrapper,
    books: &mut Books,
    most: usize,
) -> Result<Option<OperationStep>, Trouble> {
    let statement = client.prepare_cached(&due()).await?;
    let Some(row) = client.query_opt(&statement, &[]).await? else {
        return Ok(None);
    };
    let running = running_of(&row)?;
    let slice = running.slice(most);
    let items = take_items(client, running.operation.id, &slice).await?;
    read_items(client, books, &items).await?;
    let Ok(done) = treat(books, &items, &running);
    let (step, next) = running.after(&slice, done, books.now());
    keep(client, &step.operation, next).await?;
    if step.operation.status.is_over() {
        audit_end(client, &step.operation, books.now()).await?;
    }
    Ok(Some(step))
}

/// Takes the items of a step off the list.
async fn take_items(
    client: &ClientWrapper,
    id: OperationId,
    slice: &Slice,
) -> Result<Vec<Item>, Trouble> {
    let statement = client.prepare_cached(TAKE_ITEMS).await?;
    let (from, to) = (place(slice.start), place(slice.end));
    let rows = client.query(&statement, &[&id.0, &from, &to]).await?;
    let items: StoreResult<_> = rows
        .iter()
        .map(|row| {
            Ok(Item {
                id: EmailId(get(row, 0)?),
                token: get(row, 1)?,
            })
        })
        .collect();
    Ok(items?)
}

/// Locks the emails of a step and reads what matters of them.
async fn read_items(
    client: &ClientWrapper,
    books: &mut Books,
    items: &[Item],
) -> Result<(), Trouble> {
    let ids: Vec<Uuid> = items.iter().map(|item| item.id.0).collect();
    let statement = client.prepare_cached(&lock_states()).await?;
    let mut there = Vec::with_capacity(ids.len());
    for row in client.query(&statement, &[&ids]).await? {
        there.push(books.read_state(&row, STATE_WIDTH)?);
    }
    read_facts(client, books, &there).await
}
