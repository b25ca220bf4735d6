//! New emails.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::ClientWrapper;
use posthaste_core::Timestamp;
use posthaste_core::email::{EmailId, NewEmail};
use posthaste_core::port::{Accepted, Opened, Opener, StoreError, StoreResult};
use posthaste_core::status::Status;
use tokio_postgres::{Error, GenericClient, Row, Statement};
use uuid::Uuid;

use super::PostgresStore;
use super::attempt::hand_back;
use super::books::Books;
use super::error::{Trouble, corrupt};
use super::list::has_nul;
use super::pool::Values;
use super::state_row::{get, named};
use super::writer::Wants;
use crate::ledger::{First, Ledger as _, rounded_up};

impl PostgresStore {
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
        let accepting = emails.into_iter().map(async |email| {
            let id = email.id;
            let entry = NewEntry {
                email,
                first,
                begins: None,
            };
            let accepted = self.writer.run(Wants::new_email(entry), move |books| {
                books.accepted.get(&id).cloned()
            });
            accepted.await?.ok_or_else(not_inserted)
        });
        Ok(futures_util::future::join_all(accepting).await)
    }

    pub(super) async fn accept_and_begin(
        &self,
        emails: Vec<NewEmail>,
        opener: Opener,
        worker: &str,
        lease: Duration,
    ) -> StoreResult<Vec<StoreResult<Opened>>> {
        let worker: Arc<str> = worker.into();
        let opening = emails.into_iter().map(async |email: NewEmail| {
            let id = email.id;
            let open = move |books: &mut Books| match books.accepted.get(&id).cloned()? {
                Accepted::Created => books.opened(id).map(Opened::Started),
                Accepted::Replayed(id, status) => Some(Opened::Replayed(id, status)),
                Accepted::KeyConflict(id) => Some(Opened::KeyConflict(id)),
            };
            // Nobody would hold the lease of one that came too late for its caller.
            let writer = Arc::clone(&self.writer);
            let unclaimed = move |opened: Option<Opened>| {
                if let Some(Opened::Started(started)) = opened {
                    hand_back(writer, vec![started.lease]);
                }
            };
            let wants = Wants::new_email(NewEntry {
                email,
                first: opener.into(),
                begins: Some((Arc::clone(&worker), lease)),
            });
            let opened = self
                .writer
                .run_claimed(wants, open, Some(Box::new(unclaimed)));
            opened.await?.ok_or_else(not_inserted)
        });
        Ok(futures_util::future::join_all(opening).await)
    }

    pub(super) async fn accepted_earlier(
        &self,
        owner: &str,
        message_key: &str,
        payload_hash: [u8; 32],
    ) -> StoreResult<Option<Accepted>> {
        if has_nul(owner) || has_nul(message_key) {
            return Ok(None);
        }
        // A caller waits for it who hands an email in, so it does not wait behind people's queries.
        let rows = self
            .pool
            .query(EXISTING, &[&[message_key].as_slice(), &[owner].as_slice()])
            .await?;
        let row = rows.first();
        row.map(|row| Ok(Earlier::of(row)?.answer(&payload_hash)))
            .transpose()
    }
}

/// In the order of the keys, so that two transactions never wait for each other in a circle.
const INSERT_EMAILS: &str =
    "INSERT INTO email (id, owner, message_key, payload_hash, template, priority, envelope_from,
         recipients, recipient_count, first_recipient, header_from, header_to, subject, metadata,
         policy, send_at, expires_at, traceparent, created_at, size_bytes, content, route)
     SELECT u.id, u.owner, u.message_key, u.payload_hash, u.template, u.priority,
         u.envelope_from, u.recipients::jsonb, u.recipient_count, u.first_recipient,
         u.header_from, u.header_to::json, u.subject, u.metadata::json, u.policy::json, u.send_at,
         u.expires_at, u.traceparent, now.now, length(u.content), u.content, u.route
     FROM unnest($1::uuid[], $2::text[], $3::text[], $4::bytea[], $5::text[], $6::text[],
             $7::text[], $8::text[], $9::int4[], $10::text[], $11::text[], $12::text[],
             $13::text[], $14::text[], $15::text[], $16::timestamptz[], $17::timestamptz[],
             $18::text[], $19::bytea[], $20::text[])
         AS u (id, owner, message_key, payload_hash, template, priority, envelope_from,
             recipients, recipient_count, first_recipient, header_from, header_to, subject,
             metadata, policy, send_at, expires_at, traceparent, content, route),
         (SELECT posthaste_now() OFFSET 0) AS now (now)
     ORDER BY u.message_key, u.owner
     ON CONFLICT (message_key, owner) DO NOTHING RETURNING id, created_at";

/// The states of those that are new. Some begin at once. Of others the caller publishes a ticket
/// right after the commit, if they are due. If it cannot, it says so; if it dies before it can, the
/// sender finds the email by this time being long ago. (With OFFSET each is looked up by its id,
/// whatever the table looked like when this was planned.)
const INSERT_STATES: &str =
    "INSERT INTO email_log (id, status, phase, attempt_number, attempt_count, budget_from,
         max_attempts, next_attempt_at, locked_until, lease_token, worker, started_at, lost_count,
         unknown_count, possible_duplicate, last_queued_at, inline, priority)
     SELECT u.id, CASE WHEN u.begins THEN 'sending' ELSE 'pending' END,
         CASE WHEN u.begins THEN 'preparing' ELSE 'idle' END, u.begins::int, 0, 0, u.max_attempts,
         coalesce(e.send_at, e.created_at),
         CASE WHEN u.begins THEN e.created_at + $7::int8 * interval '1 microsecond' END,
         u.begins::int, CASE WHEN u.begins THEN $6::text END,
         CASE WHEN u.begins THEN e.created_at END, 0, 0, false,
         CASE WHEN u.ticketed AND coalesce(e.send_at, e.created_at) <= e.created_at
              THEN e.created_at END, u.inline,
         CASE e.priority WHEN 'high' THEN 0 WHEN 'low' THEN 2 ELSE 1 END
     FROM unnest($1::uuid[], $2::int4[], $3::bool[], $4::bool[], $5::bool[])
         AS u (id, max_attempts, ticketed, inline, begins)
     CROSS JOIN LATERAL (SELECT e.send_at, e.created_at, e.priority FROM email e
                         WHERE e.id = u.id OFFSET 0) AS e
     ON CONFLICT (id) DO NOTHING";

pub(super) const EXISTING: &str = "SELECT e.message_key, e.owner, e.id, e.payload_hash, l.status
     FROM unnest($1::text[], $2::text[]) AS u (message_key, owner)
     JOIN email e ON e.message_key = u.message_key AND e.owner = u.owner
     JOIN email_log l ON l.id = e.id";

pub(super) fn not_inserted() -> StoreError {
    StoreError::Failed("the email was not inserted".into())
}

/// A new email, and who makes its first attempt.
pub(super) struct NewEntry {
    pub(super) email: NewEmail,
    pub(super) first: First,
    /// Who begins it in the same breath, and for how long.
    pub(super) begins: Option<(Arc<str>, Duration)>,
}

/// The statements that insert emails and their states.
pub(super) const INSERT: [&str; 2] = [INSERT_EMAILS, INSERT_STATES];

/// The insertion of new emails.
pub(super) struct Insert<'a> {
    emails: &'a [&'a NewEntry],
    json: Vec<[String; 4]>,
    statements: Option<(Statement, Statement)>,
}

impl<'a> Insert<'a> {
    pub(super) async fn prepare(
        client: &ClientWrapper,
        emails: &'a [&'a NewEntry],
    ) -> Result<Self, Trouble> {
        let statements = if emails.is_empty() {
            None
        } else {
            let emails = client.prepare_cached(INSERT_EMAILS).await?;
            Some((emails, client.prepare_cached(INSERT_STATES).await?))
        };
        Ok(Self::new(emails, statements)?)
    }

    /// The insertion by statements that are prepared already; none for no emails.
    pub(super) fn new(
        emails: &'a [&'a NewEntry],
        statements: Option<(Statement, Statement)>,
    ) -> StoreResult<Self> {
        let json = emails
            .iter()
            .map(|NewEntry { email, .. }| {
                Ok([
                    json(&email.envelope.recipients)?,
                    json(&email.summary.to)?,
                    json(&email.metadata)?,
                    json(&email.policy)?,
                ])
            })
            .collect::<StoreResult<_>>()?;
        Ok(Self {
            emails,
            json,
            statements,
        })
    }

    /// Sends both statements, and gives the ids of those that are new, and when they came.
    pub(super) async fn run(&self, client: &impl GenericClient) -> Result<Vec<Row>, Error> {
        let Some((insert_emails, insert_states)) = &self.statements else {
            return Ok(Vec::new());
        };
        fn column<'a, T>(emails: &'a [&'a NewEntry], of: impl Fn(&'a NewEmail) -> T) -> Vec<T> {
            emails.iter().map(|entry| of(&entry.email)).collect()
        }
        let all = self.emails;
        let written = |at: usize| -> Vec<&str> { self.json.iter().map(|j| &*j[at]).collect() };
        let ids: Vec<Uuid> = column(all, |e| e.id.0);
        let count = |e: &NewEmail| i32::try_from(e.envelope.recipients.len()).unwrap_or(i32::MAX);
        let first = |e: &NewEmail| {
            let first = e.envelope.recipients.first();
            first
                .map(posthaste_core::address::Address::folded)
                .unwrap_or_default()
        };
        let budget = |e: &NewEmail| {
            e.max_attempts
                .map(|most| i32::try_from(most).unwrap_or(i32::MAX))
        };
        let is_first =
            |who: First| -> Vec<bool> { all.iter().map(|entry| entry.first == who).collect() };
        let begins: Vec<bool> = all.iter().map(|entry| entry.begins.is_some()).collect();
        // All of one process have the same sender.
        let holder = all.iter().find_map(|entry| entry.begins.as_ref());
        let worker = holder.map(|(worker, _)| &**worker);
        let lease = holder.map(|(_, lease)| i64::try_from(lease.as_micros()).unwrap_or(i64::MAX));
        let (ticketed, inline) = (is_first(First::Ticket), is_first(First::Caller));
        let (owners, keys) = (column(all, |e| &*e.owner), column(all, |e| &*e.message_key));
        let hashes = column(all, |e| e.payload_hash.as_slice());
        let templates = column(all, |e| e.template.as_deref());
        let priorities = column(all, |e| e.priority.as_str());
        let senders = column(all, |e| e.envelope.from.as_str());
        let (counts, firsts) = (column(all, count), column(all, first));
        let headers = column(all, |e| &*e.summary.from);
        let subjects = column(all, |e| &*e.summary.subject);
        let send_at = column(all, |e| e.send_at.map(rounded_up));
        let expires_at = column(all, |e| e.expires_at);
        let traces = column(all, |e| e.traceparent.as_deref());
        let contents = column(all, |e| &e.content[..]);
        let routes = column(all, |e| e.route.as_deref());
        let budgets = column(all, budget);
        let (recipients, to, metadata, policies) = (written(0), written(1), written(2), written(3));
        let emails: Values<'_> = &[
            &ids,
            &owners,
            &keys,
            &hashes,
            &templates,
            &priorities,
            &senders,
            &recipients,
            &counts,
            &firsts,
            &headers,
            &to,
            &subjects,
            &metadata,
            &policies,
            &send_at,
            &expires_at,
            &traces,
            &contents,
            &routes,
        ];
        let states: Values<'_> = &[&ids, &budgets, &ticketed, &inline, &begins, &worker, &lease];
        let (inserted, stated) = tokio::join!(
            biased;
            client.query(insert_emails, emails),
            client.execute(insert_states, states),
        );
        let inserted = inserted?;
        stated?;
        Ok(inserted)
    }

    /// Says of each what became of it.
    pub(super) async fn finish(
        self,
        client: &ClientWrapper,
        books: &mut Books,
        inserted: Vec<Row>,
    ) -> Result<(), Trouble> {
        if self.emails.is_empty() {
            return Ok(());
        }
        let new: HashMap<EmailId, Timestamp> = inserted
            .iter()
            .map(|row| Ok((EmailId(get(row, 0)?), get(row, 1)?)))
            .collect::<StoreResult<_>>()?;
        books.count(
            None,
            Some(Status::Pending),
            i64::try_from(new.len()).unwrap_or(i64::MAX),
        );
        let now = books.now();
        let mut replayed = Vec::new();
        for entry in self.emails.iter().copied() {
            let NewEntry { email, first, .. } = entry;
            let Some(created_at) = new.get(&email.id) else {
                replayed.push(entry);
                continue;
            };
            books.accepted.insert(email.id, Accepted::Created);
            match first {
                First::Ticket => {
                    books.concerns_schedulers |= email.send_at.is_some_and(|at| at > now);
                }
                First::Finder => books.concerns_schedulers = true,
                First::Caller | First::Sender => books.open(entry, *created_at),
            }
        }
        if replayed.is_empty() {
            return Ok(());
        }
        let existing = existing(client, &replayed).await?;
        for NewEntry { email, .. } in replayed {
            let key = (email.message_key.clone(), email.owner.clone());
            // It may have been sent and removed just now.
            let earlier = existing.get(&key).ok_or(Trouble::Vanished)?;
            let accepted = earlier.answer(&email.payload_hash);
            books.accepted.insert(email.id, accepted);
        }
        Ok(())
    }
}

/// An email that was accepted before under the same key.
pub(super) struct Earlier {
    id: EmailId,
    payload_hash: Vec<u8>,
    status: Status,
}

impl Earlier {
    pub(super) fn of(row: &Row) -> StoreResult<Self> {
        Ok(Self {
            id: EmailId(get(row, 2)?),
            payload_hash: get(row, 3)?,
            status: named(row, 4)?,
        })
    }

    /// The same again, or something else.
    pub(super) fn answer(&self, payload_hash: &[u8; 32]) -> Accepted {
        if self.payload_hash == payload_hash {
            Accepted::Replayed(self.id, self.status)
        } else {
            Accepted::KeyConflict(self.id)
        }
    }
}

/// Emails by key and owner.
type Existing = HashMap<(String, String), Earlier>;

async fn existing(client: &ClientWrapper, replayed: &[&NewEntry]) -> Result<Existing, Trouble> {
    let keys: Vec<&str> = replayed.iter().map(|one| &*one.email.message_key).collect();
    let owners: Vec<&str> = replayed.iter().map(|one| &*one.email.owner).collect();
    let statement = client.prepare_cached(EXISTING).await?;
    let rows = client.query(&statement, &[&keys, &owners]).await?;
    let read =
        |row: &Row| -> StoreResult<_> { Ok(((get(row, 0)?, get(row, 1)?), Earlier::of(row)?)) };
    Ok(rows.iter().map(read).collect::<StoreResult<_>>()?)
}

fn json<T: serde::Serialize + ?Sized>(value: &T) -> StoreResult<String> {
    serde_json::to_string(value).map_err(corrupt)
}
