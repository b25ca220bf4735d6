//! How the ways out do, and who waits for them.

use std::time::Duration;

use deadpool_postgres::ClientWrapper;
use posthaste_core::Timestamp;
use posthaste_core::email::EmailId;
use posthaste_core::port::{Actor, Parked, Store as _, StoreResult, WaysReport};
use posthaste_core::way::{BreakerRules, Way, WayAnswer, WayEvent, WayName};
use tokio_postgres::Row;
use uuid::Uuid;

use super::claim::lock_attempts;
use super::error::{Trouble, corrupt};
use super::state_row::{get, named};
use super::{PREFIX, PostgresStore, alert};
use crate::ledger::{self, Ledger as _};
use crate::way::{FORGOTTEN, LONG_GONE, Told, parked_query, presence, rest_ms, waiting_query};

const COLUMNS: &str = "name, condition, since, paused_by, faults::text, faults_since, last_error,
     next_probe_at, probe_rest_ms, probe, probe_until";

/// A row to lock, for a way of which nothing is known.
const INSERT: &str = "INSERT INTO way (name, condition, since, faults, probe_rest_ms)
     VALUES ($1, 'flowing', posthaste_now(), '[]', 0) ON CONFLICT DO NOTHING";

const UPDATE: &str = "UPDATE way SET condition = $2, since = $3, paused_by = $4,
         faults = $5::text::json, faults_since = $6, last_error = $7, next_probe_at = $8,
         probe_rest_ms = $9, probe = $10, probe_until = $11
     WHERE name = $1";

const DELETE: &str = "DELETE FROM way WHERE name = $1";

const ATTEND: &str = "INSERT INTO sender (name, present_until) VALUES ($1, $2)
     ON CONFLICT (name) DO UPDATE SET present_until = excluded.present_until";

/// Forgets ways that went well again long ago, or to which nobody has written since.
const FORGET_WAYS: &str = "DELETE FROM way WHERE name IN (
         SELECT name FROM way WHERE condition IN ('flowing', 'ramping') AND paused_by IS NULL
           AND greatest(since, faults_since) < $1 FOR UPDATE SKIP LOCKED)";

/// Forgets senders; one that comes back at this moment is left alone.
const FORGET: &str = "DELETE FROM sender WHERE name IN (
         SELECT name FROM sender WHERE present_until < $1 FOR UPDATE SKIP LOCKED)";

fn way_of(row: &Row) -> StoreResult<(WayName, Way)> {
    let Ok(name) = get::<&str>(row, 0)?.parse();
    let way = Way {
        condition: named(row, 1)?,
        since: get(row, 2)?,
        paused_by: get(row, 3)?,
        faults: serde_json::from_str(get(row, 4)?).map_err(corrupt)?,
        faults_since: get(row, 5)?,
        last_error: get(row, 6)?,
        next_probe_at: get(row, 7)?,
        probe_rest: Duration::from_millis(get::<i64>(row, 8)?.unsigned_abs()),
        probe: get::<Option<Uuid>>(row, 9)?.map(EmailId),
        probe_until: get(row, 10)?,
    };
    Ok((name, way))
}

impl PostgresStore {
    pub(super) async fn tell_one_way(
        &self,
        name: &WayName,
        event: WayEvent,
        rules: &BreakerRules,
        actor: Option<&Actor>,
    ) -> StoreResult<(Way, WayAnswer)> {
        let key = name.to_string();
        let told = self.keep_books(async |client, books| {
            let tell = |before: &Way, now| Told::new(name, before, &event, rules, now);
            let mut locked = lock(client, &key).await?;
            let told = loop {
                let now = present(client).await?;
                if let Some(before) = &locked {
                    let told = tell(before, now);
                    write(client, &key, before, &told.next).await?;
                    break told;
                }
                let told = tell(&Way::flowing(now), now);
                if told.is_nothing() {
                    break told;
                }
                // Whoever comes at the same time waits here, and then sees what this one wrote. One
                // that was there may be gone again before it is locked.
                let statement = client.prepare_cached(INSERT).await?;
                client.execute(&statement, &[&key]).await?;
                locked = lock(client, &key).await?;
            };
            lock_attempts(client, books, &told.refunds).await?;
            for refund in &told.refunds {
                let Ok(_) = ledger::refund(books, refund.email, refund.attempt);
            }
            if let Some(news) = &told.news {
                alert::insert_news(client, news, books.now()).await?;
            }
            if let Some((actor, action, result)) = told.audited(actor) {
                let Ok(()) = books.audit(actor, action, &key, result);
            }
            books.concerns_schedulers |= told.wakes;
            Ok((told.next, told.answer))
        });
        told.await.map(|(told, _)| told)
    }

    pub(super) async fn report_ways(
        &self,
        sender: Option<&str>,
        present: Duration,
    ) -> StoreResult<WaysReport> {
        if let Some(sender) = sender {
            self.attend(sender, present).await?;
        }
        let sql = "SELECT count(*) FROM sender WHERE present_until > posthaste_now()";
        let there = self.pool.query(sql, &[]).await?;
        let there = there.first().map_or(Ok(0), |row| get::<i64>(row, 0))?;
        let sql = format!("SELECT {COLUMNS} FROM way ORDER BY name COLLATE \"C\"");
        let ways = self.pool.query(&sql, &[]).await?;
        let waiting = self.pool.query(&waiting_query(PREFIX), &[]).await?;
        Ok(WaysReport {
            ways: ways.iter().map(way_of).collect::<StoreResult<_>>()?,
            waiting_for: waiting
                .iter()
                .map(|row| get(row, 0))
                .collect::<StoreResult<_>>()?,
            senders: u32::try_from(there)
                .unwrap_or(u32::MAX)
                .max(u32::from(sender.is_some())),
        })
    }

    /// Keeps that a sender is there. Mostly that is known.
    async fn attend(&self, sender: &str, present: Duration) -> StoreResult<()> {
        let sql = "SELECT present_until FROM sender WHERE name = $1";
        let known = self.pool.query(sql, &[&sender]).await?;
        let known = known.first().map(|row| get(row, 0)).transpose()?;
        let now = self.now();
        let Some(until) = presence(known, present, now) else {
            return Ok(());
        };
        let gone = now.checked_sub(LONG_GONE).unwrap_or(Timestamp::MIN);
        let forgotten = now.checked_sub(FORGOTTEN).unwrap_or(Timestamp::MIN);
        let attend = async |client: &ClientWrapper| {
            let statement = client.prepare_cached(ATTEND).await?;
            client.execute(&statement, &[&sender, &until]).await?;
            for (sql, before) in [(FORGET, gone), (FORGET_WAYS, forgotten)] {
                let statement = client.prepare_cached(sql).await?;
                client.execute(&statement, &[&before]).await?;
            }
            Ok::<(), tokio_postgres::Error>(())
        };
        Ok(self.pool.run(attend).await?)
    }

    pub(super) async fn count_parked(&self) -> StoreResult<Vec<Parked>> {
        let rows = self.desk.query(&parked_query(PREFIX), &[]).await?;
        rows.iter()
            .map(|row| {
                Ok(Parked {
                    waiting_for: get(row, 0)?,
                    count: u64::try_from(get::<i64>(row, 1)?).map_err(corrupt)?,
                    oldest: get::<Option<Timestamp>>(row, 2)?.unwrap_or(Timestamp::MIN),
                })
            })
            .collect()
    }
}

/// What is known of a way, held until the transaction ends.
async fn lock(client: &ClientWrapper, key: &str) -> Result<Option<Way>, Trouble> {
    let sql = format!("SELECT {COLUMNS} FROM way WHERE name = $1 FOR UPDATE");
    let statement = client.prepare_cached(&sql).await?;
    let row = client.query_opt(&statement, &[&key]).await?;
    Ok(row.as_ref().map(way_of).transpose()?.map(|(_, way)| way))
}

/// The time now, and not when we began to wait for a lock.
async fn present(client: &ClientWrapper) -> Result<Timestamp, Trouble> {
    let statement = client.prepare_cached("SELECT posthaste_now()").await?;
    Ok(get(&client.query_one(&statement, &[]).await?, 0)?)
}

async fn write(client: &ClientWrapper, key: &str, before: &Way, next: &Way) -> Result<(), Trouble> {
    if next.is_plain() {
        let statement = client.prepare_cached(DELETE).await?;
        client.execute(&statement, &[&key]).await?;
    } else if next != before {
        let faults = serde_json::to_string(&next.faults).map_err(corrupt)?;
        let statement = client.prepare_cached(UPDATE).await?;
        let values: super::pool::Values<'_> = &[
            &key,
            &next.condition.as_str(),
            &next.since,
            &next.paused_by,
            &faults,
            &next.faults_since,
            &next.last_error,
            &next.next_probe_at,
            &rest_ms(next),
            &next.probe.map(|email| email.0),
            &next.probe_until,
        ];
        client.execute(&statement, values).await?;
    }
    Ok(())
}
