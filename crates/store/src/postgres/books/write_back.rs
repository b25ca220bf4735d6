//! Writes the books back: a few statements, all sent before the first is answered.

use std::collections::BTreeSet;

use deadpool_postgres::ClientWrapper;
use posthaste_core::attempt::{AttemptRecord, Stage};
use posthaste_core::email::{EmailId, Recipient};
use posthaste_core::lifecycle::State;
use posthaste_core::status::{DeadReason, Status};
use tokio_postgres::Error;
use uuid::Uuid;

use super::Books;
use super::statement::{
    CHECK_ASSUMED, CONCLUDE, COUNT, ERASE, GIVE_UP, INSERT_ALERTS, INSERT_ATTEMPTS, INSERT_AUDIT,
    INSERT_DEATHS, REACH, REMOVE, REVIVE, REVIVE_ALIKE, SAVE_RECIPIENTS, SET_FREE, UPDATE_BEGUN,
    UPDATE_CLAIMED, UPDATE_GATED, UPDATE_GATED_FENCED, UPDATE_SENT, UPDATE_SENT_FENCED,
    UPDATE_STATES,
};
use crate::postgres::listener::{Bell, NOTIFY};

/// So many whole states are written by one statement.
const WHOLE_AT_ONCE: usize = 64;

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
    /// Whether the transaction begins with the first of them.
    begins: bool,
}

impl<'a> Pipeline<'a> {
    pub(in crate::postgres) fn new(client: &'a ClientWrapper) -> Self {
        Self {
            client,
            answers: Vec::new(),
            begins: false,
        }
    }

    /// Begins a transaction with the first statement.
    pub(in crate::postgres) fn begin(&mut self) {
        self.begins = true;
    }

    /// Commits the transaction. A single statement needs no words around it.
    pub(in crate::postgres) fn commit(&mut self) {
        if self.begins && self.answers.len() == 1 {
            return;
        }
        if self.begins {
            let begin = self.said("BEGIN");
            self.answers.insert(0, begin);
        }
        let commit = self.said("COMMIT");
        self.answers.push(commit);
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

    fn said(&self, sql: &'static str) -> futures_util::future::BoxFuture<'a, Result<(), Error>> {
        let client = self.client;
        Box::pin(async move { client.batch_execute(sql).await })
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
        if self.are_mere_successes() {
            return self.conclude(pipeline, slot).await;
        }
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

    /// Whether there is nothing to write but attempts that succeeded and were taken for granted.
    fn are_mere_successes(&self) -> bool {
        !self.sent.is_empty()
            && self.sent.iter().all(|id| self.assumed.contains_key(id))
            && [&self.changed, &self.claimed, &self.begun]
                .iter()
                .all(|some| some.is_empty())
            && self.gated.is_subset(&self.sent)
            && [&self.revived, &self.reached, &self.erased, &self.removed]
                .iter()
                .all(|some| some.is_empty())
            && self.recipients.is_empty()
            && self.given_up.is_empty()
            && self.refunded.is_empty()
            && self.deaths.is_empty()
            && self.audit.is_empty()
            && !self.concerns_schedulers
    }

    /// Writes these by one statement.
    async fn conclude(&self, pipeline: &mut Pipeline<'_>, slot: i32) -> Result<(), Error> {
        let rows = self.those(&self.sent);
        let ids: Vec<EmailId> = rows.iter().map(|(id, _)| **id).collect();
        let mut values = self.fence(&ids);
        values.extend(sent_values(&rows));
        values.extend(self.attempt_values());
        values.extend(self.move_values(slot));
        pipeline.send(CONCLUDE, values).await
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
        for few in whole.chunks(WHOLE_AT_ONCE) {
            pipeline.send(UPDATE_STATES, state_values(few)).await?;
        }
        // Whatever is written as a whole is not written in part.
        let only = |some: &BTreeSet<EmailId>| -> BTreeSet<EmailId> {
            some.difference(&self.changed).copied().collect()
        };
        let mut claimed = only(&self.claimed);
        claimed.retain(|id| !self.begun.contains(id));
        if !claimed.is_empty() {
            let claimed = self.those(&claimed);
            let ids = uuids(claimed.iter().map(|(id, _)| *id));
            let values = values![ids, column(&claimed, |s| s.locked_until)];
            pipeline.send(UPDATE_CLAIMED, values).await?;
        }
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
        .await
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
        pipeline.send(INSERT_ATTEMPTS, self.attempt_values()).await
    }

    /// The values of `INSERT_ATTEMPTS`.
    fn attempt_values(&self) -> Vec<Value<'static>> {
        let all = || self.attempts.iter().map(|(_, attempt)| attempt);
        let texts =
            |of: fn(&AttemptRecord) -> &Option<String>| sparse(all().map(|a| of(a).clone()));
        values![
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
            sparse(all().map(|a| a.budget.map(int))),
            sparse(all().map(|a| a.next_attempt_at)),
            sparse(all().map(|a| a.stage.map(Stage::as_str))),
            texts(|a| &a.provider_id),
            sparse(all().map(|a| a.is_free.then_some(true))),
        ]
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
        pipeline.send(COUNT, self.move_values(slot)).await
    }

    /// The values of `COUNT`.
    fn move_values(&self, slot: i32) -> Vec<Value<'static>> {
        let name = |status: &Option<Status>| status.map_or("", Status::as_str);
        let moves = || self.moves.keys();
        values![
            self.now.as_second().div_euclid(60),
            slot,
            moves().map(|(from, _)| name(from)).collect::<Vec<_>>(),
            moves().map(|(_, to)| name(to)).collect::<Vec<_>>(),
            self.moves.values().copied().collect::<Vec<i64>>(),
        ]
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

/// The values of a column, or none at all if all are null. PostgreSQL fills up what is missing, and
/// a list without values costs it nothing.
pub(in crate::postgres) fn sparse<T>(
    values: impl Iterator<Item = Option<T>> + Clone,
) -> Vec<Option<T>> {
    match values.clone().all(|value| value.is_none()) {
        true => Vec::new(),
        false => values.collect(),
    }
}

fn column<T>(rows: &[(&EmailId, &State)], of: impl Fn(&State) -> T) -> Vec<T> {
    rows.iter().map(|(_, state)| of(state)).collect()
}

/// The values of `UPDATE_STATES`.
fn state_values(rows: &[(&EmailId, &State)]) -> Vec<Value<'static>> {
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
