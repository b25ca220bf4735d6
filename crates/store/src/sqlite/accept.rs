//! New emails.

use std::sync::Arc;
use std::time::Duration;

use posthaste_core::Timestamp;
use posthaste_core::address::Address;
use posthaste_core::email::NewEmail;
use posthaste_core::port::{Accepted, Opened, Opener, Started, StoreError, StoreResult};
use posthaste_core::status::Status;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::error::store_error;
use super::kept::{Execute, Known};
use super::state_row::{self, named};
use super::writer::{Flush, record_move};
use super::{SqliteStore, corrupt, micros, now_of, suppressed};
use crate::ledger::{First, begun, rounded_up};

impl SqliteStore {
    pub(super) async fn accept_all(
        &self,
        emails: Vec<NewEmail>,
        ticketed: bool,
    ) -> StoreResult<Vec<StoreResult<Accepted>>> {
        let first = if ticketed {
            First::Ticket
        } else {
            First::Finder
        };
        // Each entry stands for itself: one that fails spoils no other.
        let rows = NewRow::all_of(emails);
        self.writer
            .run_new(move |flush| {
                let each = |row: &Prepared| {
                    let row = row.as_ref().map_err(Clone::clone)?;
                    flush.isolated(|flush| accept(flush, row, first))
                };
                Ok(rows.iter().map(each).collect())
            })
            .await
    }

    pub(super) async fn accept_and_begin(
        &self,
        emails: Vec<NewEmail>,
        opener: Opener,
        worker: &str,
        lease: Duration,
    ) -> StoreResult<Vec<StoreResult<Opened>>> {
        let worker = worker.to_owned();
        let first = First::from(opener);
        let rows = NewRow::all_of(emails);
        self.writer
            .run_new(move |flush| {
                let each = |row: &Prepared| {
                    let row = row.as_ref().map_err(Clone::clone)?;
                    flush.isolated(|flush| open(flush, row, first, &worker, lease))
                };
                Ok(rows.iter().map(each).collect())
            })
            .await
    }

    /// Keeps a new email in a transaction of someone else's on the same file: it is there exactly
    /// if that one commits.
    ///
    /// # Errors
    ///
    /// If the file is another one, or cannot be written. The transaction is then as it was before.
    pub fn accept_in(
        &self,
        transaction: &mut rusqlite::Transaction<'_>,
        email: &NewEmail,
    ) -> StoreResult<Accepted> {
        let now = now_of(&*self.clock);
        within(transaction, |mut savepoint| {
            let columns = Columns::of(email)?;
            let accepted = insert(&mut savepoint, email, &columns, now)?;
            if accepted == Accepted::Created {
                let state = First::Finder.state(email, now);
                state_row::insert(&mut savepoint, email.id, email.priority, &state)?;
                record_move(savepoint, now, None, Some(Status::Pending), 1)?;
            }
            Ok(accepted)
        })
    }

    /// The same, with its first attempt begun: whoever put it there makes it after the commit.
    ///
    /// # Errors
    ///
    /// As above.
    pub fn accept_begun_in(
        &self,
        transaction: &mut rusqlite::Transaction<'_>,
        email: &NewEmail,
        worker: &str,
        lease: Duration,
    ) -> StoreResult<Opened> {
        let now = now_of(&*self.clock);
        within(transaction, |mut savepoint| {
            let columns = Columns::of(email)?;
            Ok(match insert(&mut savepoint, email, &columns, now)? {
                Accepted::Created => {
                    let begun = begin(&mut savepoint, email, First::Caller, worker, lease, now)?;
                    record_move(savepoint, now, None, Some(Status::Sending), 1)?;
                    Opened::Started(begun)
                }
                Accepted::Replayed(id, status) => Opened::Replayed(id, status),
                Accepted::KeyConflict(id) => Opened::KeyConflict(id),
            })
        })
    }

    pub(super) async fn accepted_earlier(
        &self,
        owner: &str,
        message_key: &str,
        payload_hash: [u8; 32],
    ) -> StoreResult<Option<Accepted>> {
        let (owner, message_key) = (owner.to_owned(), message_key.to_owned());
        // A caller waits for it who hands an email in, so it does not wait behind people's queries.
        self.readers
            .run(move |connection| {
                existing(connection, &owner, &message_key, &payload_hash).optional()
            })
            .await
    }
}

fn accept(flush: &mut Flush<'_>, row: &Arc<NewRow>, first: First) -> rusqlite::Result<Accepted> {
    let NewRow { email, columns } = &**row;
    let now = flush.now();
    let accepted = insert(flush, email, columns, now)?;
    if accepted == Accepted::Created {
        let state = first.state(email, now);
        state_row::insert(flush, email.id, email.priority, &state)?;
        flush.count(None, Some(Status::Pending), 1);
        if state.last_queued_at.is_some() {
            flush.memory.accepted(row, state, now);
        }
    }
    Ok(accepted)
}

/// Accepts an email and begins its first attempt.
fn open(
    flush: &mut Flush<'_>,
    row: &NewRow,
    first: First,
    worker: &str,
    lease: Duration,
) -> rusqlite::Result<Opened> {
    let NewRow { email, columns } = row;
    let now = flush.now();
    Ok(match insert(flush, email, columns, now)? {
        Accepted::Created => {
            let begun = begin(flush, email, first, worker, lease, now)?;
            flush.count(None, Some(Status::Pending), 1);
            flush.count(Some(Status::Pending), Some(Status::Sending), 1);
            flush.memory.keep_state(email.id, begun.state.clone());
            Opened::Started(begun)
        }
        Accepted::Replayed(id, status) => Opened::Replayed(id, status),
        Accepted::KeyConflict(id) => Opened::KeyConflict(id),
    })
}

/// Writes the state of a new email whose first attempt begins in the same breath.
fn begin(
    writer: &mut impl Execute,
    email: &NewEmail,
    first: First,
    worker: &str,
    lease: Duration,
    now: Timestamp,
) -> rusqlite::Result<Box<Started>> {
    let to = &email.envelope.recipients;
    let suppressed = suppressed::among(writer.connection(), &email.owner, to.iter())?;
    let begun = begun(email, first, suppressed, worker, lease, now).ok_or_else(not_begun)?;
    state_row::insert(writer, email.id, email.priority, &begun.state)?;
    Ok(Box::new(begun))
}

fn not_begun() -> rusqlite::Error {
    corrupt("an attempt that did not begin")
}

/// Does work that is undone as a whole if it fails, in a transaction of someone else's.
fn within<T>(
    transaction: &mut rusqlite::Transaction<'_>,
    work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> StoreResult<T> {
    let ours =
        "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'posthaste_email'";
    let has_ours = transaction.query_row(ours, [], |row| row.get::<_, i64>(0));
    if has_ours.map_err(store_error)? == 0 {
        return Err(StoreError::Failed(
            "the transaction is on a database without an outbox: begin it on the file that the \
             outbox was opened with"
                .into(),
        ));
    }
    let savepoint = transaction.savepoint().map_err(store_error)?;
    let done = work(&savepoint).map_err(store_error)?;
    savepoint.commit().map_err(store_error)?;
    Ok(done)
}

/// A new email with what is made of it before the writer gets it: there is only one writer.
pub(super) struct NewRow {
    pub(super) email: NewEmail,
    columns: Columns,
}

/// A row, or why it cannot be one.
type Prepared = StoreResult<Arc<NewRow>>;

impl NewRow {
    fn all_of(emails: Vec<NewEmail>) -> Vec<Prepared> {
        let prepare = |email| {
            let columns = Columns::of(&email).map_err(store_error)?;
            Ok(Arc::new(Self { email, columns }))
        };
        emails.into_iter().map(prepare).collect()
    }
}

/// The columns of an email that are not its fields.
struct Columns {
    recipients: String,
    first_recipient: String,
    header_to: String,
    metadata: String,
    policy: String,
}

impl Columns {
    fn of(email: &NewEmail) -> rusqlite::Result<Self> {
        let recipients = &email.envelope.recipients;
        let first_recipient = recipients.first().map(Address::folded);
        Ok(Self {
            recipients: json(recipients)?,
            first_recipient: first_recipient.unwrap_or_default(),
            header_to: json(&email.summary.to)?,
            metadata: json(&email.metadata)?,
            policy: json(&email.policy)?,
        })
    }
}

static INSERT: &str =
    "INSERT INTO posthaste_email (id, owner, message_key, payload_hash, template, priority,
         envelope_from, recipients, recipient_count, first_recipient, header_from, header_to,
         subject, metadata, policy, send_at, expires_at, traceparent, created_at, size_bytes,
         content, route)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19,
         ?20, ?21, ?22)
     ON CONFLICT (owner, message_key) DO NOTHING";

/// Inserts an email, unless the key was used before. Its state is the caller's to insert.
fn insert(
    writer: &mut impl Execute,
    email: &NewEmail,
    columns: &Columns,
    now: Timestamp,
) -> rusqlite::Result<Accepted> {
    let send_at = email.send_at.map(rounded_up);
    let inserted = writer.carry_out(
        Known::Text(INSERT),
        params![
            email.id.0.as_bytes().as_slice(),
            email.owner,
            email.message_key,
            email.payload_hash.as_slice(),
            email.template,
            email.priority.as_str(),
            email.envelope.from.as_str(),
            columns.recipients,
            email.envelope.recipients.len(),
            columns.first_recipient,
            email.summary.from,
            columns.header_to,
            email.summary.subject,
            columns.metadata,
            columns.policy,
            send_at.map(micros),
            email.expires_at.map(micros),
            email.traceparent,
            micros(now),
            email.content.len(),
            &email.content[..],
            email.route,
        ],
    )?;
    if inserted == 0 {
        let (owner, key) = (&email.owner, &email.message_key);
        return existing(writer.connection(), owner, key, &email.payload_hash);
    }
    Ok(Accepted::Created)
}

fn existing(
    connection: &Connection,
    owner: &str,
    message_key: &str,
    payload_hash: &[u8; 32],
) -> rusqlite::Result<Accepted> {
    connection
        .prepare_cached(
            "SELECT e.id, e.payload_hash, l.status
             FROM posthaste_email e JOIN posthaste_email_log l ON l.id = e.id
             WHERE e.owner = ?1 AND e.message_key = ?2",
        )?
        .query_row((owner, message_key), |row| {
            let id = posthaste_core::email::EmailId(row.get(0)?);
            let hash: [u8; 32] = row.get(1)?;
            Ok(if hash == *payload_hash {
                Accepted::Replayed(id, named(row, 2)?)
            } else {
                Accepted::KeyConflict(id)
            })
        })
}

pub(super) fn json<T: serde::Serialize + ?Sized>(value: &T) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(corrupt)
}
