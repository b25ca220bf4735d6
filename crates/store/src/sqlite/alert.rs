//! What channels have not told yet of emails that died, and of ways out.

use std::time::Duration;

use posthaste_core::Timestamp;
use posthaste_core::alert::AlertGroup;
use posthaste_core::email::EmailId;
use posthaste_core::lifecycle::State;
use posthaste_core::port::{ChannelState, Digest, StoreResult, Told};
use posthaste_core::status::DeadReason;
use rusqlite::OptionalExtension as _;

use super::state_row::{named, optional_time};
use super::writer::Flush;
use super::{SqliteStore, from_micros, micros};
use crate::way::News;

/// Adds the deaths up to a number to what a channel has to tell. The last one is the sample.
const ADD: &str = "INSERT INTO posthaste_alert_group
         (channel, fingerprint, reason, n, first_at, last_at, gathered_at, sample, email_id)
     SELECT ?1, g.fingerprint, d.reason, g.n, g.first_at, g.last_at, ?3, d.error, d.email_id
     FROM (SELECT fingerprint, count(*) AS n, min(at) AS first_at, max(at) AS last_at,
               max(seq) AS last
           FROM posthaste_death WHERE seq <= ?2 GROUP BY fingerprint) g
     JOIN posthaste_death d ON d.seq = g.last WHERE true
     ON CONFLICT (channel, taken, fingerprint) DO UPDATE SET n = n + excluded.n,
         reason = excluded.reason, last_at = max(last_at, excluded.last_at),
         sample = excluded.sample, email_id = excluded.email_id";

/// Whether a channel has something to tell and may. `?2`: now, `?3`: what came before has waited
/// long enough. What it began to tell need not wait.
const READY: &str = "SELECT EXISTS (SELECT 1 FROM posthaste_alert_channel
     WHERE name = ?1 AND rests_until <= ?2 AND (locked_until IS NULL OR locked_until <= ?2)
       AND EXISTS (SELECT 1 FROM posthaste_alert_group WHERE channel = ?1
                   AND (taken OR gathered_at <= ?3)))";

impl SqliteStore {
    pub(super) async fn count_deaths(
        &self,
        channels: &[String],
        most: usize,
    ) -> StoreResult<usize> {
        // Most of the time there is nothing: look before disturbing the writer.
        let any = self.desk.run(|connection| {
            connection
                .prepare_cached("SELECT EXISTS (SELECT 1 FROM posthaste_death)")?
                .query_row([], |row| row.get::<_, bool>(0))
        });
        if !any.await? {
            return Ok(0);
        }
        let channels = channels.to_vec();
        self.writer
            .run(move |flush| gather(flush, &channels, most))
            .await
    }

    pub(super) async fn digest_of(
        &self,
        channel: &str,
        gather: Duration,
        quiet: Duration,
        lease: Duration,
    ) -> StoreResult<Option<Digest>> {
        let channel = channel.to_owned();
        let (name, now) = (channel.clone(), posthaste_core::port::Store::now(self));
        let ready = self.desk.run(move |connection| {
            connection
                .prepare_cached(READY)?
                .query_row((name, micros(now), before(now, gather)), |row| {
                    row.get::<_, bool>(0)
                })
        });
        if !ready.await? {
            return Ok(None);
        }
        let new_id = uuid::Uuid::now_v7().to_string();
        self.writer
            .run(move |flush| take(flush, &channel, gather, quiet, lease, &new_id))
            .await
    }

    pub(super) async fn settle_told(
        &self,
        channel: &str,
        digest: &Digest,
        told: Told,
    ) -> StoreResult<()> {
        let (channel, digest) = (channel.to_owned(), digest.clone());
        self.writer
            .run(move |flush| match &told {
                Told::Told { rest } => take_off(flush, &channel, &digest, *rest),
                Told::Failed { rest, error } => flush
                    .prepare_cached(
                        "UPDATE posthaste_alert_channel SET rests_until = ?3, locked_until = NULL,
                             failures = failures + 1, last_error = ?4
                         WHERE name = ?1 AND digest_id = ?2",
                    )?
                    .execute((&channel, &digest.id, after(flush.now(), *rest), error))
                    .map(drop),
            })
            .await
    }

    pub(super) async fn all_channels(&self) -> StoreResult<Vec<ChannelState>> {
        self.desk
            .run(|connection| {
                connection
                    .prepare_cached(
                        "SELECT c.name, (SELECT coalesce(sum(n), 0) FROM posthaste_alert_group
                                         WHERE channel = c.name
                                           AND reason NOT IN ('TransportStopped',
                                                              'TransportRecovered')),
                             c.last_told_at, c.failures, c.last_error
                         FROM posthaste_alert_channel c ORDER BY c.name",
                    )?
                    .query_map([], |row| {
                        Ok(ChannelState {
                            name: row.get(0)?,
                            waiting: row.get(1)?,
                            last_told_at: optional_time(row, 2)?,
                            failures: row.get(3)?,
                            last_error: row.get(4)?,
                        })
                    })?
                    .collect()
            })
            .await
    }
}

fn before(now: Timestamp, age: Duration) -> i64 {
    micros(now.checked_sub(age).unwrap_or(Timestamp::MIN))
}

fn after(now: Timestamp, time: Duration) -> i64 {
    micros(now.checked_add(time).unwrap_or(Timestamp::MAX))
}

fn gather(flush: &Flush<'_>, channels: &[String], most: usize) -> rusqlite::Result<usize> {
    let last: Option<i64> = flush
        .prepare_cached(
            "SELECT max(seq) FROM (SELECT seq FROM posthaste_death ORDER BY seq LIMIT ?1)",
        )?
        .query_row([most], |row| row.get(0))?;
    let Some(last) = last else {
        return Ok(0);
    };
    let now = micros(flush.now());
    for channel in channels {
        flush
            .prepare_cached(
                "INSERT INTO posthaste_alert_channel (name, rests_until) VALUES (?1, ?2)
                 ON CONFLICT DO NOTHING",
            )?
            .execute((channel, now))?;
        flush.prepare_cached(ADD)?.execute((channel, last, now))?;
    }
    flush
        .prepare_cached("DELETE FROM posthaste_death WHERE seq <= ?1")?
        .execute([last])
}

fn take(
    flush: &Flush<'_>,
    channel: &str,
    gather: Duration,
    quiet: Duration,
    lease: Duration,
    new_id: &str,
) -> rusqlite::Result<Option<Digest>> {
    let now = flush.now();
    let ready: bool = flush
        .prepare_cached(READY)?
        .query_row((channel, micros(now), before(now, gather)), |row| {
            row.get(0)
        })?;
    if !ready {
        return Ok(None);
    }
    // What failed is told again as it was: a receiver may know the id already.
    let frozen = flush
        .prepare_cached(
            "UPDATE posthaste_alert_group SET taken = 1 WHERE channel = ?1
                 AND NOT EXISTS (SELECT 1 FROM posthaste_alert_group WHERE channel = ?1 AND taken)",
        )?
        .execute([channel])?;
    let groups = flush
        .prepare_cached(
            "SELECT fingerprint, reason, n, first_at, last_at, sample, email_id
             FROM posthaste_alert_group WHERE channel = ?1 AND taken ORDER BY n DESC, fingerprint",
        )?
        .query_map([channel], |row| {
            Ok(AlertGroup {
                fingerprint: row.get(0)?,
                reason: named(row, 1)?,
                count: row.get(2)?,
                first_at: from_micros(row.get(3)?),
                last_at: from_micros(row.get(4)?),
                sample: row.get(5)?,
                email_id: EmailId(row.get(6)?),
            })
        })?
        .collect::<Result<_, _>>()?;
    let id = (frozen > 0).then_some(new_id);
    flush
        .prepare_cached(
            "UPDATE posthaste_alert_channel
             SET locked_until = ?2, digest_id = coalesce(?3, digest_id),
                 streak = CASE WHEN rests_until <= ?4 THEN 0 ELSE streak END
             WHERE name = ?1 RETURNING failures, streak, digest_id",
        )?
        .query_row(
            (channel, after(now, lease), id, before(now, quiet)),
            |row| {
                Ok(Digest {
                    groups,
                    failures: row.get(0)?,
                    streak: row.get(1)?,
                    id: row.get(2)?,
                })
            },
        )
        .optional()
}

/// What was told is done with, unless someone else was faster.
fn take_off(
    flush: &Flush<'_>,
    channel: &str,
    digest: &Digest,
    rest: Duration,
) -> rusqlite::Result<()> {
    let now = flush.now();
    let settled = flush
        .prepare_cached(
            "UPDATE posthaste_alert_channel
             SET rests_until = ?3, locked_until = NULL, digest_id = NULL,
                 failures = 0, streak = streak + 1, last_told_at = ?4, last_error = NULL
             WHERE name = ?1 AND digest_id = ?2",
        )?
        .execute((channel, &digest.id, after(now, rest), micros(now)))?;
    if settled > 0 {
        flush
            .prepare_cached("DELETE FROM posthaste_alert_group WHERE channel = ?1 AND taken")?
            .execute([channel])?;
    }
    Ok(())
}

/// The email died with this state.
pub(super) fn insert_death(flush: &Flush<'_>, id: EmailId, state: &State) -> rusqlite::Result<()> {
    let reason = state.dead_reason.map_or("", DeadReason::as_str);
    flush
        .prepare_cached(
            "INSERT INTO posthaste_death (email_id, at, reason, fingerprint, error)
             VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute((
            id.0,
            micros(flush.now()),
            reason,
            state.fingerprint.as_deref().unwrap_or(reason),
            &state.last_error,
        ))
        .map(drop)
}

/// Something is to be told about a way out.
pub(super) fn insert_news(flush: &Flush<'_>, news: &News) -> rusqlite::Result<()> {
    flush
        .prepare_cached(
            "INSERT INTO posthaste_death (email_id, at, reason, fingerprint, error)
             VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute((
            news.email.0,
            micros(flush.now()),
            news.reason.as_str(),
            &news.fingerprint,
            &news.sentence,
        ))
        .map(drop)
}

/// Removes what the errors of an email say. What is said about ways out names nobody, and stays.
pub(super) fn erase(flush: &Flush<'_>, id: EmailId) -> rusqlite::Result<()> {
    for sql in [
        "UPDATE posthaste_death SET error = NULL WHERE email_id = ?1
             AND reason NOT IN ('TransportStopped', 'TransportRecovered')",
        "UPDATE posthaste_alert_group SET sample = NULL WHERE email_id = ?1
             AND reason NOT IN ('TransportStopped', 'TransportRecovered')",
    ] {
        flush.prepare_cached(sql)?.execute([id.0])?;
    }
    Ok(())
}
