//! Removes what is over for long enough. Never a row that is not terminal, whatever its age.

use posthaste_core::Timestamp;
use posthaste_core::email::EmailId;
use posthaste_core::port::{Pruned, Retention, StoreResult};
use posthaste_core::status::Status;

use super::state_row::named;
use super::writer::Flush;
use super::{SqliteStore, micros};
use crate::prune::{Purge, before};
use crate::statistics::{MINUTES_KEPT, QUARTER, QUARTERS_KEPT};
use crate::sweep::smallest_id;

const MICROS_PER_MINUTE: i64 = 60_000_000;

impl SqliteStore {
    pub(super) async fn prune_old(&self, retention: Retention, most: usize) -> StoreResult<Pruned> {
        let removed = self
            .writer
            .run(move |flush| {
                let emails = prune_emails(flush, retention, most)?;
                let (captures, audit_entries) = prune_records(flush, retention, most)?;
                compact_statistics(flush)?;
                return_pages(flush)?;
                Ok(Pruned {
                    emails,
                    captures,
                    audit_entries,
                    ..Pruned::default()
                })
            })
            .await?;
        let attempts = self.prune_attempts(retention.attempts, most).await?;
        let contents = self.prune_contents(retention.content, most).await?;
        Ok(Pruned {
            attempts: attempts.stripped,
            contents: contents.stripped,
            is_unfinished: attempts.more || contents.more,
            ..removed
        })
    }
}

/// Ids sort by time of acceptance and an email ends after it began, so the oldest ids are the
/// candidates: no index on the end is needed.
const SENT: &str = "SELECT id, status FROM posthaste_email_log
     WHERE id < ?1 AND status IN ('sent', 'cancelled') AND finished_at < ?2
     ORDER BY id LIMIT ?3";
/// One for each state, so that SQLite sees that the index holds it: sent emails that are kept for
/// longer are not looked at.
const DEAD: [&str; 2] = [
    "SELECT id, status FROM posthaste_email_log INDEXED BY posthaste_email_log_desk
     WHERE status = 'dead' AND id < ?1 AND finished_at < ?2 ORDER BY id LIMIT ?3",
    "SELECT id, status FROM posthaste_email_log INDEXED BY posthaste_email_log_desk
     WHERE status = 'discarded' AND id < ?1 AND finished_at < ?2 ORDER BY id LIMIT ?3",
];

fn prune_emails(flush: &mut Flush<'_>, retention: Retention, most: usize) -> rusqlite::Result<u64> {
    let ended = before(flush.now(), retention.dead);
    let mut purged = 0;
    for sql in DEAD {
        purged += remove(flush, sql, ended, most - purged)?;
    }
    if purged > 0 {
        let purge = Purge::of(retention.dead);
        flush
            .prepare_cached(
                "INSERT INTO posthaste_audit_log (at, actor, action, subject, filter, count, result)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?
            .execute((
                micros(flush.now()),
                purge.actor,
                purge.action,
                purge.subject,
                purge.filter,
                purged,
                purge.result,
            ))?;
    }
    let ended = before(flush.now(), retention.sent);
    let sent = remove(flush, SENT, ended, most - purged)?;
    Ok((purged + sent) as u64)
}

/// Removes emails that ended before a time, and all that is about them.
fn remove(
    flush: &mut Flush<'_>,
    sql: &str,
    ended_before: Timestamp,
    most: usize,
) -> rusqlite::Result<usize> {
    let oldest = smallest_id(ended_before);
    let found: Vec<(EmailId, Status)> = flush
        .prepare_cached(sql)?
        .query_map((oldest, micros(ended_before), most), |row| {
            Ok((EmailId(row.get(0)?), named(row, 1)?))
        })?
        .collect::<Result<_, _>>()?;
    for (id, status) in &found {
        remove_one(flush, *id, *status)?;
    }
    Ok(found.len())
}

/// Removes an email and all that is about it.
pub(super) fn remove_one(
    flush: &mut Flush<'_>,
    id: EmailId,
    status: Status,
) -> rusqlite::Result<()> {
    for sql in [
        "DELETE FROM posthaste_email_log WHERE id = ?1",
        "DELETE FROM posthaste_email WHERE id = ?1",
        "DELETE FROM posthaste_email_attempt WHERE email_id = ?1",
        "DELETE FROM posthaste_recipient WHERE email_id = ?1",
    ] {
        flush.prepare_cached(sql)?.execute([id.0])?;
    }
    flush.count(Some(status), None, 1);
    Ok(())
}

/// Removes captured mail, the audit entries and operations of long ago, logins that have run out,
/// and what waited to be told by a channel that is not there any more.
fn prune_records(
    flush: &Flush<'_>,
    retention: Retention,
    most: usize,
) -> rusqlite::Result<(u64, u64)> {
    let age = |kept| micros(before(flush.now(), kept));
    let captures = flush.execute(
        "DELETE FROM posthaste_capture WHERE seq IN
             (SELECT seq FROM posthaste_capture WHERE captured_at < ?1 ORDER BY seq LIMIT ?2)",
        (age(retention.captures), most),
    )?;
    let audit_entries = flush.execute(
        "DELETE FROM posthaste_audit_log WHERE seq IN
             (SELECT seq FROM posthaste_audit_log WHERE at < ?1 ORDER BY seq LIMIT ?2)",
        (age(retention.audit), most),
    )?;
    for sql in [
        "DELETE FROM posthaste_operation_item WHERE operation_id IN
             (SELECT id FROM posthaste_operation WHERE finished_at < ?1)",
        "DELETE FROM posthaste_operation WHERE finished_at < ?1",
    ] {
        flush.execute(sql, [age(retention.audit)])?;
    }
    flush.execute(
        "DELETE FROM posthaste_admin_session WHERE expires_at <= ?1",
        [micros(flush.now())],
    )?;
    flush.execute(
        "DELETE FROM posthaste_alert_group WHERE gathered_at < ?1 AND channel IN
             (SELECT name FROM posthaste_alert_channel WHERE rests_until < ?1)",
        [age(retention.dead)],
    )?;
    Ok((captures as u64, audit_entries as u64))
}

/// Gives free pages back to the file system. The statement answers a row per page and does no
/// more than it is asked for, so all rows are read.
pub(super) fn return_pages(flush: &Flush<'_>) -> rusqlite::Result<()> {
    let mut statement = flush.prepare_cached("PRAGMA incremental_vacuum(64)")?;
    let mut rows = statement.query([])?;
    while rows.next()?.is_some() {}
    Ok(())
}

/// Adds up old minutes by the quarter of an hour, and old quarters into the number for minute 0. Sums
/// stay the same.
fn compact_statistics(flush: &Flush<'_>) -> rusqlite::Result<()> {
    let minute = micros(flush.now()) / MICROS_PER_MINUTE;
    let rounds = [
        (minute - MINUTES_KEPT, QUARTER),
        (minute - QUARTERS_KEPT, i64::MAX),
    ];
    for (before, bucket) in rounds {
        flush.execute(
            "INSERT INTO posthaste_stat (minute, from_status, to_status, n)
             SELECT minute - minute % ?2, from_status, to_status, sum(n) FROM posthaste_stat
             WHERE minute < ?1 AND minute % ?2 <> 0 GROUP BY 1, 2, 3
             ON CONFLICT DO UPDATE SET n = n + excluded.n",
            (before, bucket),
        )?;
        flush.execute(
            "DELETE FROM posthaste_stat WHERE minute < ?1 AND minute % ?2 <> 0",
            (before, bucket),
        )?;
    }
    Ok(())
}
