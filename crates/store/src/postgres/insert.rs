//! The one statement that takes new emails in.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::ClientWrapper;
use posthaste_core::Timestamp;
use posthaste_core::address::Address;
use posthaste_core::email::{EmailId, NewEmail};
use posthaste_core::port::{Accepted, StoreResult};
use tokio_postgres::{Error, GenericClient, Row, Statement};
use uuid::Uuid;

use super::books::{Books, int, sparse};
use super::error::{Trouble, corrupt};
use super::pool::Values;
use super::state_row::get;
use crate::ledger::{First, rounded_up};

/// Inserts those emails whose keys are new, with their states, counts them, and gives their ids and
/// when they came. Being one statement, it can be a transaction without further words.
///
/// Some begin at once. Of others the caller publishes a ticket right after the commit, if they are
/// due. If it cannot, it says so; if it dies before it can, the sender finds the email by this time
/// being long ago. (`IS TRUE` makes PostgreSQL look each id up in a table of the new ones instead of
/// going through all of them for each.)
///
/// A list that ends before the others is filled up with nulls; see [`sparse`]. (Taken apart in a SELECT
/// they are read as they are; in FROM, PostgreSQL copies each of them first.)
pub(super) const INSERT: &str = "WITH now (now) AS MATERIALIZED (SELECT posthaste_now()),
     fresh AS (
         INSERT INTO email (id, owner, message_key, payload_hash, template, priority,
             envelope_from, recipients, recipient_count, first_recipient, header_from, header_to,
             subject, metadata, policy, send_at, expires_at, traceparent, created_at, size_bytes,
             content, route)
         SELECT u.id, u.owner, u.message_key, u.payload_hash, u.template, u.priority,
             u.envelope_from, u.recipients::jsonb, u.recipient_count, u.first_recipient,
             u.header_from, u.header_to::json, u.subject, u.metadata::json, u.policy::json,
             u.send_at, u.expires_at, u.traceparent, (SELECT now FROM now), length(u.content),
             u.content, u.route
         FROM (SELECT unnest($1::uuid[]) AS id, unnest($2::text[]) AS owner,
                 unnest($3::text[]) AS message_key, unnest($4::bytea[]) AS payload_hash,
                 unnest($5::text[]) AS template, unnest($6::text[]) AS priority,
                 unnest($7::text[]) AS envelope_from, unnest($8::text[]) AS recipients,
                 unnest($9::int4[]) AS recipient_count, unnest($10::text[]) AS first_recipient,
                 unnest($11::text[]) AS header_from, unnest($12::text[]) AS header_to,
                 unnest($13::text[]) AS subject, unnest($14::text[]) AS metadata,
                 unnest($15::text[]) AS policy, unnest($16::timestamptz[]) AS send_at,
                 unnest($17::timestamptz[]) AS expires_at, unnest($18::text[]) AS traceparent,
                 unnest($19::bytea[]) AS content, unnest($20::text[]) AS route) AS u
         ON CONFLICT (message_key, owner) DO NOTHING RETURNING id, created_at),
     stated AS (
         INSERT INTO email_log (id, status, phase, attempt_number, attempt_count, budget_from,
             max_attempts, next_attempt_at, locked_until, lease_token, worker, started_at,
             lost_count, unknown_count, possible_duplicate, last_queued_at, inline, priority)
         SELECT u.id, CASE WHEN u.begins THEN 'sending' ELSE 'pending' END,
             CASE WHEN u.begins THEN 'preparing' ELSE 'idle' END, (u.begins IS TRUE)::int, 0, 0,
             u.max_attempts, coalesce(u.send_at, now.now),
             CASE WHEN u.begins THEN now.now + $26::int8 * interval '1 microsecond' END,
             (u.begins IS TRUE)::int, CASE WHEN u.begins THEN $25::text END,
             CASE WHEN u.begins THEN now.now END, 0, 0, false,
             CASE WHEN u.ticketed AND coalesce(u.send_at, now.now) <= now.now THEN now.now END,
             u.inline IS TRUE, CASE u.priority WHEN 'high' THEN 0 WHEN 'low' THEN 2 ELSE 1 END
         FROM now, (SELECT unnest($1::uuid[]) AS id, unnest($6::text[]) AS priority,
                 unnest($16::timestamptz[]) AS send_at, unnest($21::int4[]) AS max_attempts,
                 unnest($22::bool[]) AS ticketed, unnest($23::bool[]) AS inline,
                 unnest($24::bool[]) AS begins) AS u
         WHERE (u.id IN (SELECT id FROM fresh)) IS TRUE
         RETURNING status),
     counted AS (
         INSERT INTO stat (minute, from_status, to_status, slot, n)
         SELECT floor(extract(epoch FROM now.now) / 60)::int8, step.before, step.after, $27::int4,
             step.n
         FROM now, (SELECT '', 'pending', count(*) FROM stated
                    UNION ALL
                    SELECT 'pending', 'sending', count(*) FROM stated WHERE status = 'sending')
             AS step (before, after, n)
         WHERE step.n > 0
         ORDER BY 2, 3
         ON CONFLICT (minute, from_status, to_status, slot) DO UPDATE SET n = stat.n + excluded.n)
     SELECT id, created_at FROM fresh";

/// A new email, and who makes its first attempt.
pub(super) struct NewEntry {
    pub(super) email: NewEmail,
    pub(super) first: First,
    /// Who begins it in the same breath, and for how long.
    pub(super) begins: Option<(Arc<str>, Duration)>,
}

/// The insertion of new emails.
pub(super) struct Insert<'a> {
    /// In the order of their keys, so that two transactions never wait for each other in a circle.
    emails: Vec<&'a NewEntry>,
    json: Vec<[String; 4]>,
    statement: Statement,
    /// Where they are counted.
    slot: i32,
}

impl<'a> Insert<'a> {
    /// Of at least one email.
    pub(super) async fn prepare(
        client: &ClientWrapper,
        emails: Vec<&'a NewEntry>,
        slot: i32,
    ) -> Result<Self, Trouble> {
        let statement = client.prepare_cached(INSERT).await?;
        Ok(Self::new(emails, statement, slot)?)
    }

    /// By a statement that is prepared already.
    pub(super) fn new(
        mut emails: Vec<&'a NewEntry>,
        statement: Statement,
        slot: i32,
    ) -> StoreResult<Self> {
        fn key(entry: &NewEntry) -> (&str, &str) {
            (&entry.email.message_key, &entry.email.owner)
        }
        emails.sort_by(|one, other| key(one).cmp(&key(other)));
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
            statement,
            slot,
        })
    }

    /// Sends the statement, and gives the ids of those that are new, and when they came.
    pub(super) async fn run(&self, client: &impl GenericClient) -> Result<Vec<Row>, Error> {
        fn column<'a, T>(emails: &[&'a NewEntry], of: impl Fn(&'a NewEmail) -> T) -> Vec<T> {
            emails.iter().map(|entry| of(&entry.email)).collect()
        }
        fn maybe<'a, T>(
            emails: &[&'a NewEntry],
            of: impl Fn(&'a NewEmail) -> Option<T>,
        ) -> Vec<Option<T>> {
            sparse(emails.iter().map(|entry| of(&entry.email)))
        }
        let all = &*self.emails;
        let written = |at: usize| -> Vec<&str> { self.json.iter().map(|j| &*j[at]).collect() };
        let count = |e: &NewEmail| i32::try_from(e.envelope.recipients.len()).unwrap_or(i32::MAX);
        let first = |e: &NewEmail| {
            let first = e.envelope.recipients.first();
            first.map(Address::folded).unwrap_or_default()
        };
        let those = |chosen: &dyn Fn(&NewEntry) -> bool| -> Vec<Option<bool>> {
            sparse(all.iter().map(|entry| chosen(entry).then_some(true)))
        };
        // All of one process have the same sender.
        let holder = all.iter().find_map(|entry| entry.begins.as_ref());
        let worker = holder.map(|(worker, _)| &**worker);
        let lease = holder.map(|(_, lease)| i64::try_from(lease.as_micros()).unwrap_or(i64::MAX));
        let values: Values<'_> = &[
            &column(all, |e| e.id.0),
            &column(all, |e| &*e.owner),
            &column(all, |e| &*e.message_key),
            &column(all, |e| e.payload_hash.as_slice()),
            &maybe(all, |e| e.template.as_deref()),
            &column(all, |e| e.priority.as_str()),
            &column(all, |e| e.envelope.from.as_str()),
            &written(0),
            &column(all, count),
            &column(all, first),
            &column(all, |e| &*e.summary.from),
            &written(1),
            &column(all, |e| &*e.summary.subject),
            &written(2),
            &written(3),
            &maybe(all, |e| e.send_at.map(rounded_up)),
            &maybe(all, |e| e.expires_at),
            &maybe(all, |e| e.traceparent.as_deref()),
            &column(all, |e| &e.content[..]),
            &maybe(all, |e| e.route.as_deref()),
            &maybe(all, |e| e.max_attempts.map(int)),
            &those(&|entry| entry.first == First::Ticket),
            &those(&|entry| entry.first == First::Caller),
            &those(&|entry| entry.begins.is_some()),
            &worker,
            &lease,
            &self.slot,
        ];
        client.query(&self.statement, values).await
    }

    /// Says of those that are new what became of them, and gives the others: there is an email of
    /// the same key.
    pub(super) fn enter(
        &self,
        inserted: &[Row],
        books: &mut Books,
    ) -> StoreResult<Vec<&'a NewEntry>> {
        let new: HashMap<EmailId, Timestamp> = inserted
            .iter()
            .map(|row| Ok((EmailId(get::<Uuid>(row, 0)?), get(row, 1)?)))
            .collect::<StoreResult<_>>()?;
        let mut others = Vec::new();
        for entry in self.emails.iter().copied() {
            let NewEntry { email, first, .. } = entry;
            let Some(created_at) = new.get(&email.id) else {
                others.push(entry);
                continue;
            };
            books.accepted.insert(email.id, Accepted::Created);
            match first {
                First::Ticket => {
                    books.concerns_schedulers |= email.send_at.is_some_and(|at| at > *created_at);
                }
                First::Finder => books.concerns_schedulers = true,
                First::Caller | First::Sender => books.open(entry, *created_at),
            }
        }
        Ok(others)
    }
}

fn json<T: serde::Serialize + ?Sized>(value: &T) -> StoreResult<String> {
    serde_json::to_string(value).map_err(corrupt)
}
