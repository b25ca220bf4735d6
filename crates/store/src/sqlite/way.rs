//! How the ways out do, and who waits for them.

use std::time::Duration;

use posthaste_core::Timestamp;
use posthaste_core::email::EmailId;
use posthaste_core::port::{Actor, Parked, StoreResult, WaysReport};
use posthaste_core::way::{BreakerRules, Way, WayAnswer, WayEvent, WayName};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::email_row::from_json;
use super::state_row::{named, optional_time};
use super::writer::Flush;
use super::{PREFIX, SqliteStore, accept, act, alert, from_micros, micros};
use crate::ledger;
use crate::way::{FORGOTTEN, LONG_GONE, Told, parked_query, presence, rest_ms, waiting_query};

const COLUMNS: &str = "name, condition, since, paused_by, faults, faults_since, last_error,
     next_probe_at, probe_rest_ms, probe, probe_until";

fn way_of(row: &Row<'_>) -> rusqlite::Result<(WayName, Way)> {
    let Ok(name) = row.get_ref(0)?.as_str()?.parse();
    let way = Way {
        condition: named(row, 1)?,
        since: from_micros(row.get(2)?),
        paused_by: row.get(3)?,
        faults: from_json(row, 4)?,
        faults_since: optional_time(row, 5)?,
        last_error: row.get(6)?,
        next_probe_at: optional_time(row, 7)?,
        probe_rest: Duration::from_millis(row.get::<_, i64>(8)?.unsigned_abs()),
        probe: row.get::<_, Option<_>>(9)?.map(EmailId),
        probe_until: optional_time(row, 10)?,
    };
    Ok((name, way))
}

impl SqliteStore {
    pub(super) async fn tell_one_way(
        &self,
        name: &WayName,
        event: WayEvent,
        rules: &BreakerRules,
        actor: Option<&Actor>,
    ) -> StoreResult<(Way, WayAnswer)> {
        let (name, rules, actor) = (name.clone(), *rules, actor.cloned());
        self.writer
            .run(move |flush| tell(flush, &name, &event, &rules, actor.as_ref()))
            .await
    }

    pub(super) async fn report_ways(
        &self,
        sender: Option<&str>,
        present: Duration,
    ) -> StoreResult<WaysReport> {
        if let Some(sender) = sender {
            self.attend(sender.to_owned(), present).await?;
        }
        let is_sender = sender.is_some();
        let now = micros(posthaste_core::port::Store::now(self));
        self.readers
            .run(move |connection| {
                let there: u32 = connection
                    .prepare_cached(
                        "SELECT count(*) FROM posthaste_sender WHERE present_until > ?1",
                    )?
                    .query_row([now], |row| row.get(0))?;
                Ok(WaysReport {
                    ways: all(connection)?,
                    waiting_for: connection
                        .prepare_cached(&waiting_query(PREFIX))?
                        .query_map([], |row| row.get(0))?
                        .collect::<Result<_, _>>()?,
                    senders: there.max(u32::from(is_sender)),
                })
            })
            .await
    }

    /// Keeps that a sender is there. Mostly that is known: look before disturbing the writer, and
    /// other processes, which look up whenever the file changes.
    async fn attend(&self, sender: String, present: Duration) -> StoreResult<()> {
        let (name, now) = (sender.clone(), posthaste_core::port::Store::now(self));
        let known = self
            .readers
            .run(move |connection| present_until(connection, &name))
            .await?;
        if presence(known, present, now).is_none() {
            return Ok(());
        }
        self.writer
            .run(move |flush| {
                let Some(until) = presence(None, present, flush.now()) else {
                    return Ok(());
                };
                flush
                    .prepare_cached(
                        "INSERT INTO posthaste_sender (name, present_until) VALUES (?1, ?2)
                         ON CONFLICT DO UPDATE SET present_until = excluded.present_until",
                    )?
                    .execute((&sender, micros(until)))?;
                let gone = flush.now().checked_sub(LONG_GONE).unwrap_or(Timestamp::MIN);
                flush
                    .prepare_cached("DELETE FROM posthaste_sender WHERE present_until < ?1")?
                    .execute([micros(gone)])?;
                let forgotten = flush.now().checked_sub(FORGOTTEN).unwrap_or(Timestamp::MIN);
                flush
                    .prepare_cached(
                        "DELETE FROM posthaste_way WHERE condition IN ('flowing', 'ramping')
                         AND paused_by IS NULL AND max(since, coalesce(faults_since, since)) < ?1",
                    )?
                    .execute([micros(forgotten)])
                    .map(drop)
            })
            .await
    }

    pub(super) async fn count_parked(&self) -> StoreResult<Vec<Parked>> {
        self.desk
            .run(|connection| {
                connection
                    .prepare_cached(&parked_query(PREFIX))?
                    .query_map([], |row| {
                        Ok(Parked {
                            waiting_for: row.get(0)?,
                            count: row.get(1)?,
                            oldest: optional_time(row, 2)?.unwrap_or(Timestamp::MIN),
                        })
                    })?
                    .collect()
            })
            .await
    }
}

fn present_until(connection: &Connection, sender: &str) -> rusqlite::Result<Option<Timestamp>> {
    let until: Option<i64> = connection
        .prepare_cached("SELECT present_until FROM posthaste_sender WHERE name = ?1")?
        .query_row([sender], |row| row.get(0))
        .optional()?;
    Ok(until.map(from_micros))
}

fn all(connection: &Connection) -> rusqlite::Result<Vec<(WayName, Way)>> {
    connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM posthaste_way ORDER BY name"
        ))?
        .query_map([], way_of)?
        .collect()
}

fn tell(
    flush: &mut Flush<'_>,
    name: &WayName,
    event: &WayEvent,
    rules: &BreakerRules,
    actor: Option<&Actor>,
) -> rusqlite::Result<(Way, WayAnswer)> {
    let (key, now) = (name.to_string(), flush.now());
    let known = flush
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM posthaste_way WHERE name = ?1"
        ))?
        .query_row([&key], way_of)
        .optional()?;
    let is_known = known.is_some();
    let before = known.map_or_else(|| Way::flowing(now), |(_, way)| way);
    let told = Told::new(name, &before, event, rules, now);
    if told.next.is_plain() {
        if is_known {
            flush
                .prepare_cached("DELETE FROM posthaste_way WHERE name = ?1")?
                .execute([&key])?;
        }
    } else if told.next != before {
        save(flush, &key, &told.next)?;
    }
    for refund in &told.refunds {
        ledger::refund(flush, refund.email, refund.attempt)?;
    }
    if let Some(news) = &told.news {
        alert::insert_news(flush, news)?;
    }
    if let Some((actor, action, result)) = told.audited(actor) {
        act::audit(flush, actor, action, &key, result)?;
    }
    Ok((told.next, told.answer))
}

fn save(flush: &Flush<'_>, key: &str, way: &Way) -> rusqlite::Result<()> {
    flush
        .prepare_cached(&format!(
            "INSERT OR REPLACE INTO posthaste_way ({COLUMNS})
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)"
        ))?
        .execute(params![
            key,
            way.condition.as_str(),
            micros(way.since),
            way.paused_by,
            accept::json(&way.faults)?,
            way.faults_since.map(micros),
            way.last_error,
            way.next_probe_at.map(micros),
            rest_ms(way),
            way.probe.map(|email| email.0),
            way.probe_until.map(micros),
        ])
        .map(drop)
}
