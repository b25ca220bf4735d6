//! Writes the books back: one statement per table, all sent before the first is answered.

use std::collections::BTreeSet;

use deadpool_postgres::ClientWrapper;
use posthaste_core::Timestamp;
use posthaste_core::attempt::{AttemptRecord, Stage};
use posthaste_core::email::{EmailId, Recipient};
use posthaste_core::lifecycle::State;
use posthaste_core::status::{DeadReason, Status};
use tokio_postgres::Error;
use uuid::Uuid;

use super::Books;
use crate::postgres::listener::{Bell, NOTIFY};

/// Writes whole states.
pub(in crate::postgres) const UPDATE_STATES: &str =
    "UPDATE email_log l SET status = u.status, phase = u.phase,
         attempt_number = u.attempt_number, attempt_count = u.attempt_count,
         budget_from = u.budget_from, max_attempts = u.max_attempts,
         next_attempt_at = u.next_attempt_at, locked_until = u.locked_until,
         lease_token = u.lease_token, worker = u.worker, started_at = u.started_at,
         lost_count = u.lost_count, unknown_count = u.unknown_count,
         possible_duplicate = u.possible_duplicate, last_queued_at = u.last_queued_at,
         last_error = u.last_error, error_class = u.error_class, dead_reason = u.dead_reason,
         fingerprint = u.fingerprint, sent_at = u.sent_at, finished_at = u.finished_at,
         inline = u.inline, waiting_for = u.waiting_for, waits_until = u.waits_until,
         transport = u.transport, bound_to = u.bound_to, tried = u.tried,
         ignores_expiry = u.ignores_expiry
     FROM unnest($1::uuid[], $2::text[], $3::text[], $4::int4[], $5::int4[], $6::int4[],
             $7::int4[], $8::timestamptz[], $9::timestamptz[], $10::int8[], $11::text[],
             $12::timestamptz[], $13::int4[], $14::int4[], $15::bool[], $16::timestamptz[],
             $17::text[], $18::text[], $19::text[], $20::text[], $21::timestamptz[],
             $22::timestamptz[], $23::bool[], $24::text[], $25::timestamptz[], $26::text[],
             $27::text[], $28::text[], $29::bool[])
         AS u (id, status, phase, attempt_number, attempt_count, budget_from, max_attempts,
             next_attempt_at, locked_until, lease_token, worker, started_at, lost_count,
             unknown_count, possible_duplicate, last_queued_at, last_error, error_class,
             dead_reason, fingerprint, sent_at, finished_at, inline, waiting_for, waits_until,
             transport, bound_to, tried, ignores_expiry)
     WHERE l.id = u.id";

/// Those of states that were taken for granted. Unless all of them were right, nothing may be
/// committed: that is what the division is for. `$1` to `$3` are what must still hold.
macro_rules! fenced {
    ($set:literal, $values:literal, $columns:literal) => {
        concat!(
            "WITH done AS (UPDATE email_log l SET ",
            $set,
            " FROM unnest($1::uuid[], $2::int8[], $3::text[]",
            $values,
            ") AS u (id, held_token, held_phase",
            $columns,
            ") WHERE l.id = u.id AND l.status = 'sending' AND l.lease_token = u.held_token
                 AND l.phase = u.held_phase RETURNING 1)
             SELECT 1 / (cardinality($1) = (SELECT count(*) FROM done))::int"
        )
    };
}

/// What a beginning changes.
const UPDATE_BEGUN: &str = "UPDATE email_log l SET status = 'sending', phase = u.phase,
         attempt_number = u.attempt_number, locked_until = u.locked_until,
         lease_token = u.lease_token, worker = u.worker, started_at = u.started_at
     FROM unnest($1::uuid[], $2::text[], $3::int4[], $4::timestamptz[], $5::int8[], $6::text[],
             $7::timestamptz[])
         AS u (id, phase, attempt_number, locked_until, lease_token, worker, started_at)
     WHERE l.id = u.id";

/// No index holds these columns.
const UPDATE_GATED: &str = "UPDATE email_log l SET phase = 'committing', transport = u.transport
     FROM unnest($1::uuid[], $2::text[]) AS u (id, transport) WHERE l.id = u.id";
const UPDATE_GATED_FENCED: &str = fenced!(
    "phase = 'committing', transport = u.transport",
    ", $4::text[]",
    ", transport"
);

/// What the end of an attempt that succeeded changes, mostly.
const UPDATE_SENT: &str = "UPDATE email_log l SET status = 'sent', phase = 'idle',
         attempt_count = u.attempt_count, next_attempt_at = NULL, locked_until = NULL,
         worker = NULL, started_at = NULL, sent_at = u.sent_at, finished_at = u.finished_at
     FROM unnest($1::uuid[], $2::int4[], $3::timestamptz[], $4::timestamptz[])
         AS u (id, attempt_count, sent_at, finished_at)
     WHERE l.id = u.id";
const UPDATE_SENT_FENCED: &str = fenced!(
    "status = 'sent', phase = 'idle', attempt_count = u.attempt_count, next_attempt_at = NULL,
     locked_until = NULL, worker = NULL, started_at = NULL, sent_at = u.sent_at,
     finished_at = u.finished_at",
    ", $4::int4[], $5::timestamptz[], $6::timestamptz[]",
    ", attempt_count, sent_at, finished_at"
);

/// Says whether rows that are about to be written as a whole are as they were taken for granted,
/// and locks them.
const CHECK_ASSUMED: &str = "WITH held AS (SELECT l.id FROM email_log l
         JOIN unnest($1::uuid[], $2::int8[], $3::text[]) AS u (id, token, phase) ON l.id = u.id
         WHERE l.status = 'sending' AND l.lease_token = u.token AND l.phase = u.phase
         FOR UPDATE OF l)
     SELECT 1 / (cardinality($1) = (SELECT count(*) FROM held))::int";

const UPDATE_RENEWED: &str = "UPDATE email_log l SET locked_until = u.locked_until
     FROM unnest($1::uuid[], $2::timestamptz[]) AS u (id, locked_until) WHERE l.id = u.id";

/// The same number again is late proof: it replaces what was assumed.
const INSERT_ATTEMPTS: &str =
    "INSERT INTO email_attempt (email_id, number, started_at, finished_at, outcome, error_class,
         error, reply, transport, worker, budget, next_attempt_at, stage, provider_id, is_free)
     SELECT * FROM unnest($1::uuid[], $2::int4[], $3::timestamptz[], $4::timestamptz[],
         $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[], $11::int4[],
         $12::timestamptz[], $13::text[], $14::text[], $15::bool[])
     ON CONFLICT (email_id, number) DO UPDATE SET finished_at = excluded.finished_at,
         outcome = excluded.outcome, error_class = excluded.error_class, error = excluded.error,
         reply = excluded.reply, transport = excluded.transport, budget = excluded.budget,
         next_attempt_at = excluded.next_attempt_at, stage = excluded.stage,
         provider_id = excluded.provider_id, is_free = excluded.is_free";

const SET_FREE: &str = "UPDATE email_attempt a SET is_free = true
     FROM unnest($1::uuid[], $2::int4[]) AS u (id, number)
     WHERE a.email_id = u.id AND a.number = u.number";

const SAVE_RECIPIENTS: &str =
    "INSERT INTO recipient (email_id, position, address, status, detail, reason)
     SELECT * FROM unnest($1::uuid[], $2::int4[], $3::text[], $4::text[], $5::text[], $6::text[])
     ON CONFLICT (email_id, position) DO UPDATE SET status = excluded.status,
         detail = excluded.detail, reason = excluded.reason";

const REVIVE_ALIKE: &str = "DELETE FROM recipient r WHERE r.email_id = ANY($1) AND NOT EXISTS
         (SELECT 1 FROM recipient o WHERE o.email_id = r.email_id AND o.status = 'accepted')";
const REVIVE: &str = "UPDATE recipient SET status = 'waiting', reason = NULL
     WHERE email_id = ANY($1) AND status = 'dead'";

const GIVE_UP: &str = "UPDATE recipient r SET status = 'dead', reason = u.reason
     FROM unnest($1::uuid[], $2::text[]) AS u (id, reason)
     WHERE r.email_id = u.id AND r.status = 'waiting'";

const REACH: &str =
    "UPDATE recipient SET status = 'accepted' WHERE email_id = ANY($1) AND status = 'waiting'";

const INSERT_DEATHS: &str = "INSERT INTO event (kind, email_id, at, reason, error, attempts)
     SELECT 'email_dead', u.id, $5::timestamptz, u.reason, u.error, u.attempts
     FROM unnest($1::uuid[], $2::text[], $3::text[], $4::int4[]) AS u (id, reason, error, attempts)";

/// For the alerts. An error that nobody has a fingerprint of goes by its reason.
const INSERT_ALERTS: &str = "INSERT INTO death (email_id, at, reason, fingerprint, error)
     SELECT u.id, $5::timestamptz, u.reason, coalesce(u.fingerprint, u.reason), u.error
     FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[])
         AS u (id, reason, error, fingerprint)";

/// Entries of the audit log, one after the other.
pub(in crate::postgres) const INSERT_AUDIT: &str =
    "INSERT INTO audit_log (at, actor, action, subject, result)
     SELECT $5::timestamptz, u.actor, u.action, u.subject, u.result
     FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) WITH ORDINALITY
         AS u (actor, action, subject, result, n) ORDER BY u.n";

/// In the order of the key, so that two transactions never wait for each other in a circle.
pub(in crate::postgres) const COUNT: &str =
    "INSERT INTO stat (minute, from_status, to_status, slot, n)
     SELECT $1::int8, u.from_status, u.to_status, $2::int4, u.n
     FROM unnest($3::text[], $4::text[], $5::int8[]) AS u (from_status, to_status, n)
     ORDER BY 2, 3
     ON CONFLICT (minute, from_status, to_status, slot) DO UPDATE SET n = stat.n + excluded.n";

/// What erasing does. Who accepted the email stays on record: it explains attempts that were
/// sent more than once. Replies and errors often repeat the address.
pub(in crate::postgres) const ERASE: [&str; 9] = [
    "UPDATE email SET content = '', subject = '', header_from = '', header_to = '[]',
         recipients = '[]', first_recipient = '', metadata = '{}', envelope_from = '',
         erased_at = posthaste_now()
     WHERE id = ANY($1)",
    "UPDATE recipient SET address = '', detail = NULL WHERE email_id = ANY($1)",
    "DELETE FROM capture WHERE email_id = ANY($1)",
    "UPDATE email_attempt SET error = NULL, reply = NULL WHERE email_id = ANY($1)",
    "UPDATE email_log SET last_error = NULL WHERE id = ANY($1)",
    "UPDATE event SET error = NULL WHERE email_id = ANY($1)",
    // What is said about ways out names nobody, and stays.
    "UPDATE death SET error = NULL WHERE email_id = ANY($1)
         AND reason NOT IN ('TransportStopped', 'TransportRecovered')",
    // In the order of the key, as whoever counts deaths.
    "SELECT 1 FROM alert_group WHERE email_id = ANY($1)
     ORDER BY channel, taken, fingerprint FOR UPDATE",
    "UPDATE alert_group SET sample = NULL WHERE email_id = ANY($1)
         AND reason NOT IN ('TransportStopped', 'TransportRecovered')",
];

/// What removing does.
const REMOVE: [&str; 4] = [
    "DELETE FROM email_log WHERE id = ANY($1)",
    "DELETE FROM email WHERE id = ANY($1)",
    "DELETE FROM email_attempt WHERE email_id = ANY($1)",
    "DELETE FROM recipient WHERE email_id = ANY($1)",
];

fn uuids<'a>(ids: impl IntoIterator<Item = &'a EmailId>) -> Vec<Uuid> {
    ids.into_iter().map(|id| id.0).collect()
}

/// A number as it is kept; one that is too large is as large as possible.
pub(in crate::postgres) fn int(n: u32) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

/// A value that waits to be sent.
pub(in crate::postgres) type Value<'a> = Box<dyn tokio_postgres::types::ToSql + Sync + Send + 'a>;

/// Statements that were sent, each waiting for its answer. They are answered in their order;
/// sending one does not wait for the answer to the one before.
pub(in crate::postgres) struct Pipeline<'a> {
    client: &'a ClientWrapper,
    answers: Vec<futures_util::future::BoxFuture<'a, Result<(), Error>>>,
}

impl<'a> Pipeline<'a> {
    pub(in crate::postgres) fn new(client: &'a ClientWrapper) -> Self {
        Self {
            client,
            answers: Vec::new(),
        }
    }

    /// Sends a statement with the values it needs.
    pub(in crate::postgres) async fn send(
        &mut self,
        sql: &'static str,
        values: Vec<Value<'a>>,
    ) -> Result<(), Error> {
        let statement = self.client.prepare_cached(sql).await?;
        let client = self.client;
        self.answers.push(Box::pin(async move {
            let values: Vec<&(dyn tokio_postgres::types::ToSql + Sync)> =
                values.iter().map(|value| &**value as _).collect();
            client.execute(&statement, &values).await.map(drop)
        }));
        Ok(())
    }

    /// Begins or commits.
    pub(in crate::postgres) fn say(&mut self, sql: &'static str) {
        let client = self.client;
        self.answers
            .push(Box::pin(async move { client.batch_execute(sql).await }));
    }

    /// Waits for all answers. The first error is the one that counts.
    pub(in crate::postgres) async fn finish(self) -> Result<(), Error> {
        let answers = futures_util::future::join_all(self.answers).await;
        answers.into_iter().collect()
    }
}

macro_rules! values {
    ($($value:expr),+ $(,)?) => {
        vec![$(Box::new($value) as $crate::postgres::books::Value<'_>),+]
    };
}
pub(in crate::postgres) use values;

impl Books {
    /// Sends everything that is to be written. `slot` is where this connection counts.
    pub(in crate::postgres) async fn write_back(
        &self,
        pipeline: &mut Pipeline<'_>,
        slot: i32,
        bell: &Bell,
    ) -> Result<(), Error> {
        self.write_states(pipeline).await?;
        self.write_attempts(pipeline).await?;
        self.write_recipients(pipeline).await?;
        self.write_news(pipeline).await?;
        if !self.erased.is_empty() {
            for sql in ERASE {
                pipeline.send(sql, values![uuids(&self.erased)]).await?;
            }
        }
        if !self.removed.is_empty() {
            for sql in REMOVE {
                pipeline.send(sql, values![uuids(&self.removed)]).await?;
            }
        }
        if self.concerns_schedulers
            && let Some((channel, us)) = bell.inside()
        {
            pipeline.send(NOTIFY, values![channel, us]).await?;
        }
        self.write_moves(pipeline, slot).await
    }

    async fn write_states(&self, pipeline: &mut Pipeline<'_>) -> Result<(), Error> {
        let whole = self.those(&self.changed);
        let assumed: Vec<EmailId> = self
            .changed
            .iter()
            .copied()
            .filter(|id| self.assumed.contains_key(id))
            .collect();
        if !assumed.is_empty() {
            pipeline.send(CHECK_ASSUMED, self.fence(&assumed)).await?;
        }
        if !whole.is_empty() {
            pipeline.send(UPDATE_STATES, state_values(&whole)).await?;
        }
        // Whatever is written as a whole is not written in part.
        let only = |some: &BTreeSet<EmailId>| -> BTreeSet<EmailId> {
            some.difference(&self.changed).copied().collect()
        };
        let begun = only(&self.begun);
        if !begun.is_empty() {
            let begun = self.those(&begun);
            pipeline.send(UPDATE_BEGUN, begun_values(&begun)).await?;
        }
        // One that passes the gate and is sent in one breath is written as sent.
        let sent = only(&self.sent);
        let gated = only(&self.gated).difference(&sent).copied().collect();
        self.write_held(
            pipeline,
            &sent,
            sent_values,
            [UPDATE_SENT, UPDATE_SENT_FENCED],
        )
        .await?;
        self.write_held(
            pipeline,
            &gated,
            gated_values,
            [UPDATE_GATED, UPDATE_GATED_FENCED],
        )
        .await?;
        let renewed: BTreeSet<EmailId> = only(&self.renewed).difference(&sent).copied().collect();
        if !renewed.is_empty() {
            let (ids, until): (Vec<EmailId>, Vec<Option<Timestamp>>) = self
                .those(&renewed)
                .into_iter()
                .map(|(id, state)| (*id, state.locked_until))
                .unzip();
            pipeline
                .send(UPDATE_RENEWED, values![uuids(&ids), until])
                .await?;
        }
        Ok(())
    }

    /// Writes a part of states: of those that were read by the first statement, of those that were
    /// taken for granted by the second.
    async fn write_held(
        &self,
        pipeline: &mut Pipeline<'_>,
        all: &BTreeSet<EmailId>,
        values: fn(&[(&EmailId, &State)]) -> Vec<Value<'static>>,
        [plain, fenced]: [&'static str; 2],
    ) -> Result<(), Error> {
        let (assumed, read): (BTreeSet<EmailId>, BTreeSet<EmailId>) =
            all.iter().partition(|id| self.assumed.contains_key(id));
        if !read.is_empty() {
            let rows = self.those(&read);
            let mut all = values![uuids(&read)];
            all.extend(values(&rows));
            pipeline.send(plain, all).await?;
        }
        if !assumed.is_empty() {
            let rows = self.those(&assumed);
            let ids: Vec<EmailId> = rows.iter().map(|(id, _)| **id).collect();
            let mut all = self.fence(&ids);
            all.extend(values(&rows));
            pipeline.send(fenced, all).await?;
        }
        Ok(())
    }

    /// What must still hold of these: ids, tokens and phases.
    fn fence(&self, ids: &[EmailId]) -> Vec<Value<'static>> {
        let all = || ids.iter().filter_map(|id| self.assumed.get(id));
        values![
            uuids(ids),
            all().map(|one| one.token).collect::<Vec<_>>(),
            all().map(|one| one.phase.as_str()).collect::<Vec<_>>(),
        ]
    }

    /// The states of these, in the order of their ids.
    fn those<'a>(&'a self, some: &'a BTreeSet<EmailId>) -> Vec<(&'a EmailId, &'a State)> {
        some.iter()
            .filter_map(|id| Some((id, self.states.get(id)?)))
            .collect()
    }

    async fn write_attempts(&self, pipeline: &mut Pipeline<'_>) -> Result<(), Error> {
        if !self.refunded.is_empty() {
            let ids = uuids(self.refunded.iter().map(|(id, _)| id));
            let numbers: Vec<i32> = self.refunded.iter().map(|(_, n)| int(*n)).collect();
            pipeline.send(SET_FREE, values![ids, numbers]).await?;
        }
        if self.attempts.is_empty() {
            return Ok(());
        }
        let texts = |of: fn(&AttemptRecord) -> &Option<String>| -> Vec<Option<String>> {
            self.attempts.iter().map(|(_, a)| of(a).clone()).collect()
        };
        let all = || self.attempts.iter().map(|(_, attempt)| attempt);
        let values = values![
            uuids(self.attempts.iter().map(|(id, _)| id)),
            all().map(|a| int(a.number)).collect::<Vec<_>>(),
            all().map(|a| a.started_at).collect::<Vec<_>>(),
            all().map(|a| a.finished_at).collect::<Vec<_>>(),
            all().map(|a| a.outcome.as_str()).collect::<Vec<_>>(),
            texts(|a| &a.error_class),
            texts(|a| &a.error),
            texts(|a| &a.reply),
            texts(|a| &a.transport),
            texts(|a| &a.worker),
            all().map(|a| a.budget.map(int)).collect::<Vec<_>>(),
            all().map(|a| a.next_attempt_at).collect::<Vec<_>>(),
            all()
                .map(|a| a.stage.map(Stage::as_str))
                .collect::<Vec<_>>(),
            texts(|a| &a.provider_id),
            all().map(|a| a.is_free).collect::<Vec<_>>(),
        ];
        pipeline.send(INSERT_ATTEMPTS, values).await
    }

    async fn write_recipients(&self, pipeline: &mut Pipeline<'_>) -> Result<(), Error> {
        if !self.revived.is_empty() {
            for sql in [REVIVE_ALIKE, REVIVE] {
                pipeline.send(sql, values![uuids(&self.revived)]).await?;
            }
        }
        if !self.given_up.is_empty() {
            let reasons: Vec<Option<&'static str>> = self
                .given_up
                .iter()
                .map(|(_, reason)| reason.map(DeadReason::as_str))
                .collect();
            let ids = uuids(self.given_up.iter().map(|(id, _)| id));
            pipeline.send(GIVE_UP, values![ids, reasons]).await?;
        }
        if !self.reached.is_empty() {
            pipeline.send(REACH, values![uuids(&self.reached)]).await?;
        }
        // Last: what an attempt said of each recipient stands above what became of all.
        let rows: Vec<(Uuid, i32, &Recipient)> = self
            .recipients
            .iter()
            .flat_map(|(id, all)| (0..).zip(all).map(|(position, one)| (id.0, position, one)))
            .collect();
        if rows.is_empty() {
            return Ok(());
        }
        let values = values![
            rows.iter().map(|(id, ..)| *id).collect::<Vec<_>>(),
            rows.iter()
                .map(|(_, position, _)| *position)
                .collect::<Vec<i32>>(),
            rows.iter()
                .map(|(.., r)| r.address.as_str().to_owned())
                .collect::<Vec<_>>(),
            rows.iter()
                .map(|(.., r)| r.status.as_str())
                .collect::<Vec<_>>(),
            rows.iter()
                .map(|(.., r)| r.detail.clone())
                .collect::<Vec<_>>(),
            rows.iter()
                .map(|(.., r)| r.reason.map(DeadReason::as_str))
                .collect::<Vec<_>>(),
        ];
        pipeline.send(SAVE_RECIPIENTS, values).await
    }

    /// Deaths that are to be told, and the audit log.
    async fn write_news(&self, pipeline: &mut Pipeline<'_>) -> Result<(), Error> {
        if !self.deaths.is_empty() {
            let all = || self.deaths.iter().map(|(_, state)| state);
            let reason = |state: &State| state.dead_reason.map_or("", DeadReason::as_str);
            let values = values![
                uuids(self.deaths.iter().map(|(id, _)| id)),
                all().map(reason).collect::<Vec<_>>(),
                all().map(|s| s.last_error.clone()).collect::<Vec<_>>(),
                all().map(|s| int(s.attempt_count)).collect::<Vec<_>>(),
                self.now,
            ];
            pipeline.send(INSERT_DEATHS, values).await?;
            let values = values![
                uuids(self.deaths.iter().map(|(id, _)| id)),
                all().map(reason).collect::<Vec<_>>(),
                all().map(|s| s.last_error.clone()).collect::<Vec<_>>(),
                all().map(|s| s.fingerprint.clone()).collect::<Vec<_>>(),
                self.now,
            ];
            pipeline.send(INSERT_ALERTS, values).await?;
        }
        if !self.audit.is_empty() {
            let column = |at: usize| -> Vec<String> {
                self.audit.iter().map(|entry| entry[at].clone()).collect()
            };
            let values = values![column(0), column(1), column(2), column(3), self.now];
            pipeline.send(INSERT_AUDIT, values).await?;
        }
        Ok(())
    }

    async fn write_moves(&self, pipeline: &mut Pipeline<'_>, slot: i32) -> Result<(), Error> {
        if self.moves.is_empty() {
            return Ok(());
        }
        let name = |status: Option<Status>| status.map_or("", Status::as_str);
        let minute = self.now.as_second().div_euclid(60);
        let values = values![
            minute,
            slot,
            self.moves
                .keys()
                .map(|(from, _)| name(*from))
                .collect::<Vec<_>>(),
            self.moves
                .keys()
                .map(|(_, to)| name(*to))
                .collect::<Vec<_>>(),
            self.moves.values().copied().collect::<Vec<i64>>(),
        ];
        pipeline.send(COUNT, values).await
    }
}

fn begun_values(rows: &[(&EmailId, &State)]) -> Vec<Value<'static>> {
    values![
        uuids(rows.iter().map(|(id, _)| *id)),
        column(rows, |s| s.phase.as_str()),
        column(rows, |s| int(s.attempt_number)),
        column(rows, |s| s.locked_until),
        column(rows, |s| s.lease_token),
        column(rows, |s| s.worker.clone()),
        column(rows, |s| s.started_at),
    ]
}

fn gated_values(rows: &[(&EmailId, &State)]) -> Vec<Value<'static>> {
    values![column(rows, |s| s.transport.clone())]
}

fn sent_values(rows: &[(&EmailId, &State)]) -> Vec<Value<'static>> {
    values![
        column(rows, |s| int(s.attempt_count)),
        column(rows, |s| s.sent_at),
        column(rows, |s| s.finished_at),
    ]
}

fn column<T>(rows: &[(&EmailId, &State)], of: impl Fn(&State) -> T) -> Vec<T> {
    rows.iter().map(|(_, state)| of(state)).collect()
}

/// The values of `UPDATE_STATES`.
pub(in crate::postgres) fn state_values(rows: &[(&EmailId, &State)]) -> Vec<Value<'static>> {
    values![
        uuids(rows.iter().map(|(id, _)| *id)),
        column(rows, |s| s.status.as_str()),
        column(rows, |s| s.phase.as_str()),
        column(rows, |s| int(s.attempt_number)),
        column(rows, |s| int(s.attempt_count)),
        column(rows, |s| int(s.budget_from)),
        column(rows, |s| s.max_attempts.map(int)),
        column(rows, |s| s.next_attempt_at),
        column(rows, |s| s.locked_until),
        column(rows, |s| s.lease_token),
        column(rows, |s| s.worker.clone()),
        column(rows, |s| s.started_at),
        column(rows, |s| int(s.lost_count)),
        column(rows, |s| int(s.unknown_count)),
        column(rows, |s| s.possible_duplicate),
        column(rows, |s| s.last_queued_at),
        column(rows, |s| s.last_error.clone()),
        column(rows, |s| s.error_class.clone()),
        column(rows, |s| s.dead_reason.map(DeadReason::as_str)),
        column(rows, |s| s.fingerprint.clone()),
        column(rows, |s| s.sent_at),
        column(rows, |s| s.finished_at),
        column(rows, |s| s.inline),
        column(rows, |s| s.waiting_for.clone()),
        column(rows, |s| s.waits_until),
        column(rows, |s| s.transport.clone()),
        column(rows, |s| s.bound_to.clone()),
        column(rows, |s| s.tried.clone()),
        column(rows, |s| s.ignores_expiry),
    ]
}
