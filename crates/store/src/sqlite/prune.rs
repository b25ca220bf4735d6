//! Removes what is over for long enough. Never a row that is not terminal, whatever its age.

use posthaste_core::email::EmailId;
use posthaste_core::port::{Pruned, Retention, StoreResult};
use posthaste_core::status::Status;

use super::state_row::named;
use super::writer::Flush;
use super::{SqliteStore, micros};
use crate::statistics::{HOURS_KEPT, MINUTES_KEPT};

const MICROS_PER_MINUTE: i64 = 60_000_000;

impl SqliteStore {
    pub(super) async fn prune_old(&self, retention: Retention, most: usize) -> StoreResult<Pruned> {
        self.writer
            .run(move |flush| {
                let before = |age: std::time::Duration| {
                    micros(flush.now())
                        .saturating_sub(i64::try_from(age.as_micros()).unwrap_or(i64::MAX))
                };
                let (sent, dead) = (before(retention.sent), before(retention.dead));
                let (captures, audit) = (before(retention.captures), before(retention.audit));
                let emails = prune_emails(flush, sent, dead, most)?;
                let captures = flush.execute(
                    "DELETE FROM capture WHERE seq IN
                         (SELECT seq FROM capture WHERE captured_at < ?1 ORDER BY seq LIMIT ?2)",
                    (captures, most),
                )?;
                let audit_entries = flush.execute(
                    "DELETE FROM audit_log WHERE seq IN
                         (SELECT seq FROM audit_log WHERE at < ?1 ORDER BY seq LIMIT ?2)",
                    (audit, most),
                )?;
                compact_statistics(flush)?;
                return_pages(flush)?;
                Ok(Pruned {
                    emails,
                    captures: captures as u64,
                    audit_entries: audit_entries as u64,
                    ..Pruned::default()
                })
            })
            .await
    }
}

fn prune_emails(flush: &mut Flush<'_>, sent: i64, dead: i64, most: usize) -> rusqlite::Result<u64> {
    // Ids sort by time of acceptance and an email ends after it began, so the oldest ids are
    // the candidates: no index on the end is needed.
    let newest = EmailId(uuid_at(sent.max(dead)));
    let found: Vec<(EmailId, Status)> = flush
        .prepare_cached(
            "SELECT id, status FROM email_log WHERE id < ?1
               AND ((status IN ('sent', 'cancelled') AND finished_at < ?2)
                 OR (status IN ('dead', 'discarded') AND finished_at < ?3))
             ORDER BY id LIMIT ?4",
        )?
        .query_map((newest.0, sent, dead, most), |row| {
            Ok((EmailId(row.get(0)?), named(row, 1)?))
        })?
        .collect::<Result<_, _>>()?;
    for (id, status) in &found {
        for sql in [
            "DELETE FROM email_log WHERE id = ?1",
            "DELETE FROM email WHERE id = ?1",
            "DELETE FROM email_attempt WHERE email_id = ?1",
            "DELETE FROM recipient WHERE email_id = ?1",
        ] {
            flush.prepare_cached(sql)?.execute([id.0])?;
        }
        flush.count(Some(*status), None, 1);
    }
    Ok(found.len() as u64)
}

/// Gives free pages back to the file system. The statement answers a row per page and does no
/// more than it is asked for, so all rows are read.
pub(super) fn return_pages(flush: &Flush<'_>) -> rusqlite::Result<()> {
    let mut statement = flush.prepare_cached("PRAGMA incremental_vacuum(64)")?;
    let mut rows = statement.query([])?;
    while rows.next()?.is_some() {}
    Ok(())
}

/// The smallest id that an email accepted at this time could have.
fn uuid_at(micros: i64) -> uuid::Uuid {
    let millis = u64::try_from(micros / 1000).unwrap_or(0);
    uuid::Builder::from_unix_timestamp_millis(millis, &[0; 10]).into_uuid()
}

/// Adds up old minutes by hour, and old hours into the number for minute 0. Sums stay the same.
fn compact_statistics(flush: &Flush<'_>) -> rusqlite::Result<()> {
    let minute = micros(flush.now()) / MICROS_PER_MINUTE;
    for (before, bucket) in [(minute - MINUTES_KEPT, 60), (minute - HOURS_KEPT, i64::MAX)] {
        flush.execute(
            "INSERT INTO stat (minute, from_status, to_status, n)
             SELECT minute - minute % ?2, from_status, to_status, sum(n) FROM stat
             WHERE minute < ?1 AND minute % ?2 <> 0 GROUP BY 1, 2, 3
             ON CONFLICT DO UPDATE SET n = n + excluded.n",
            (before, bucket),
        )?;
        flush.execute(
            "DELETE FROM stat WHERE minute < ?1 AND minute % ?2 <> 0",
            (before, bucket),
        )?;
    }
    Ok(())
}
