//! Removes what is over for long enough. Never a row that is not terminal, whatever its age.
//!
//! Several instances may do so at the same time: each takes what no other is at.

use std::time::Duration;

use deadpool_postgres::ClientWrapper;
use posthaste_core::Timestamp;
use posthaste_core::port::{Pruned, Retention, StoreResult};
use tokio_postgres::Error;

use super::PostgresStore;
use crate::prune::{Purge, before};
use crate::statistics::{MINUTES_KEPT, QUARTER, QUARTERS_KEPT};
use crate::sweep::smallest_id;

/// Counters of a minute are added up over their slots once it is over for this many minutes:
/// no transaction that counts in it is still under way.
const MINUTES_UNTIL_SETTLED: i64 = 2;

/// At most this many counters are added up at once, so that it ends in time after a long absence.
const MOST_COMPACTED: i64 = 50_000;

/// Removes emails and all that is about them, and answers how many were in which state. A row
/// that someone holds is left for another time. Ids sort by time of acceptance and an email ends
/// after it began, so the oldest ids are the candidates: no index on the end is needed.
macro_rules! delete_emails {
    ($statuses:literal) => {
        concat!(
            "WITH old AS MATERIALIZED (
                 SELECT id FROM email_log WHERE id < $1 AND status IN ",
            $statuses,
            " AND finished_at < $2 ORDER BY id LIMIT $3 FOR UPDATE SKIP LOCKED),
             states AS (DELETE FROM email_log l USING old WHERE l.id = old.id RETURNING l.status),
             emails AS (DELETE FROM email e USING old WHERE e.id = old.id),
             attempts AS (DELETE FROM email_attempt a USING old WHERE a.email_id = old.id),
             recipients AS (DELETE FROM recipient r USING old WHERE r.email_id = old.id)
             SELECT status, count(*) FROM states GROUP BY status ORDER BY status"
        )
    };
}
const DELETE_SENT: &str = delete_emails!("('sent', 'cancelled')");
/// The index of the desk holds these: sent emails that are kept for longer are not looked at.
const DELETE_DEAD: &str = delete_emails!("('dead', 'discarded')");

const AUDIT_PURGE: &str =
    "INSERT INTO audit_log (at, actor, action, subject, filter, count, result)
     VALUES ($1, $2, $3, $4, $5, $6, $7)";

/// Counts what was removed, in the order of the key.
const COUNT_PRUNED: &str = "INSERT INTO stat (minute, from_status, to_status, slot, n)
     SELECT $1, pruned.status, '', 0, pruned.number
     FROM unnest($2::text[], $3::bigint[]) AS pruned(status, number) ORDER BY pruned.status
     ON CONFLICT (minute, from_status, to_status, slot) DO UPDATE SET n = stat.n + excluded.n";

const DELETE_CAPTURES: &str = "WITH old AS MATERIALIZED (
         SELECT seq FROM capture WHERE captured_at < $1 ORDER BY seq LIMIT $2
         FOR UPDATE SKIP LOCKED)
     DELETE FROM capture c USING old WHERE c.seq = old.seq";

const DELETE_AUDIT: &str = "WITH old AS MATERIALIZED (
         SELECT seq FROM audit_log WHERE at < $1 ORDER BY seq LIMIT $2
         FOR UPDATE SKIP LOCKED)
     DELETE FROM audit_log a USING old WHERE a.seq = old.seq";

/// Operations that are over since before `$1`.
const DELETE_OPERATIONS: [&str; 2] = [
    "DELETE FROM operation_item i USING operation o
     WHERE i.operation_id = o.id AND o.finished_at < $1",
    "DELETE FROM operation WHERE finished_at < $1",
];

/// What waited to be told by a channel that is not there any more.
const DELETE_UNTOLD: &str = "WITH old AS MATERIALIZED (
         SELECT g.channel, g.taken, g.fingerprint
         FROM alert_group g JOIN alert_channel c ON c.name = g.channel
         WHERE g.gathered_at < $1 AND c.rests_until < $1
         ORDER BY 1, 2, 3 FOR UPDATE OF g SKIP LOCKED)
     DELETE FROM alert_group g USING old
     WHERE g.channel = old.channel AND g.taken = old.taken AND g.fingerprint = old.fingerprint";

/// Logins that have run out. They are few.
const DELETE_SESSIONS: &str = "DELETE FROM admin_session WHERE expires_at <= $1";

/// Adds up the slots of minutes that are over, old minutes by quarters of an hour (`$5`), and old
/// quarters into the number for minute 0. Sums stay the same. `$1`: minutes before this one are
/// over, `$2`: are old, `$3`: so are their quarters. What is too much for once, or someone holds, is left for another
/// time.
const COMPACT: &str = "WITH old AS MATERIALIZED (
         SELECT minute, from_status, to_status, slot,
             CASE WHEN minute - minute % $5 < $3 THEN 0
                  WHEN minute < $2 THEN minute - minute % $5
                  ELSE minute END AS bucket
         FROM stat
         WHERE minute < $1 AND (slot <> 0
             OR (minute < $2 AND minute % $5 <> 0)
             OR (minute - minute % $5 < $3 AND minute <> 0))
         ORDER BY minute, from_status, to_status, slot LIMIT $4 FOR UPDATE SKIP LOCKED),
     moved AS (
         DELETE FROM stat s USING old
         WHERE s.minute = old.minute AND s.from_status = old.from_status
           AND s.to_status = old.to_status AND s.slot = old.slot
         RETURNING old.bucket, s.from_status, s.to_status, s.n)
     INSERT INTO stat (minute, from_status, to_status, slot, n)
     SELECT bucket, from_status, to_status, 0, sum(n)::bigint FROM moved
     GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
     ON CONFLICT (minute, from_status, to_status, slot) DO UPDATE SET n = stat.n + excluded.n";

impl PostgresStore {
    pub(super) async fn prune_old(&self, retention: Retention, most: usize) -> StoreResult<Pruned> {
        let rows = i64::try_from(most).unwrap_or(i64::MAX);
        let emails = self
            .desk
            .transaction("BEGIN", async |client| {
                prune_emails(client, retention, rows).await
            })
            .await?;
        let (captures, audit_entries) = self
            .desk
            .transaction("BEGIN", async |client| {
                prune_records(client, retention, rows).await
            })
            .await?;
        self.desk
            .transaction("BEGIN", async |client| compact_statistics(client).await)
            .await?;
        let attempts = self.prune_attempts(retention.attempts, most).await?;
        let contents = self.prune_contents(retention.content, most).await?;
        Ok(Pruned {
            emails,
            captures,
            audit_entries,
            attempts: attempts.stripped,
            contents: contents.stripped,
            is_unfinished: attempts.more || contents.more,
        })
    }
}

/// The store's time.
pub(super) async fn present(client: &ClientWrapper) -> Result<Timestamp, Error> {
    let now = client.prepare_cached("SELECT posthaste_now()").await?;
    client.query_one(&now, &[]).await?.try_get(0)
}

fn minute_of(at: Timestamp) -> i64 {
    at.as_second().div_euclid(60)
}

async fn prune_emails(
    client: &ClientWrapper,
    retention: Retention,
    most: i64,
) -> Result<u64, Error> {
    let now = present(client).await?;
    let purged = remove(client, now, DELETE_DEAD, retention.dead, most).await?;
    if purged > 0 {
        let purge = Purge::of(retention.dead);
        let audit = client.prepare_cached(AUDIT_PURGE).await?;
        let values: super::pool::Values<'_> = &[
            &now,
            &purge.actor,
            &purge.action,
            &purge.subject,
            &purge.filter,
            &purged,
            &purge.result,
        ];
        client.execute(&audit, values).await?;
    }
    let sent = remove(client, now, DELETE_SENT, retention.sent, most - purged).await?;
    Ok((purged + sent).unsigned_abs())
}

/// Removes emails that are kept no longer, and counts them.
async fn remove(
    client: &ClientWrapper,
    now: Timestamp,
    sql: &'static str,
    kept: Duration,
    most: i64,
) -> Result<i64, Error> {
    let ended = before(now, kept);
    let delete = client.prepare_cached(sql).await?;
    let rows = client
        .query(&delete, &[&smallest_id(ended), &ended, &most])
        .await?;
    let mut statuses: Vec<&str> = Vec::with_capacity(rows.len());
    let mut numbers: Vec<i64> = Vec::with_capacity(rows.len());
    for row in &rows {
        statuses.push(row.try_get(0)?);
        numbers.push(row.try_get(1)?);
    }
    if rows.is_empty() {
        return Ok(0);
    }
    let count = client.prepare_cached(COUNT_PRUNED).await?;
    client
        .execute(&count, &[&minute_of(now), &statuses, &numbers])
        .await?;
    Ok(numbers.iter().sum())
}

/// Removes captured mail, the audit entries and operations of long ago, logins that have run out,
/// and what waited to be told by a channel that is not there any more.
async fn prune_records(
    client: &ClientWrapper,
    retention: Retention,
    most: i64,
) -> Result<(u64, u64), Error> {
    let now = present(client).await?;
    let delete = client.prepare_cached(DELETE_CAPTURES).await?;
    let captured = before(now, retention.captures);
    let captures = client.execute(&delete, &[&captured, &most]).await?;
    let delete = client.prepare_cached(DELETE_AUDIT).await?;
    let written = before(now, retention.audit);
    let audit_entries = client.execute(&delete, &[&written, &most]).await?;
    for sql in DELETE_OPERATIONS {
        let delete = client.prepare_cached(sql).await?;
        client.execute(&delete, &[&written]).await?;
    }
    let delete = client.prepare_cached(DELETE_UNTOLD).await?;
    let died = before(now, retention.dead);
    client.execute(&delete, &[&died]).await?;
    let delete = client.prepare_cached(DELETE_SESSIONS).await?;
    client.execute(&delete, &[&now]).await?;
    Ok((captures, audit_entries))
}

/// One instance at a time is enough: the others leave it to that one.
async fn compact_statistics(client: &ClientWrapper) -> Result<(), Error> {
    let lock = client
        .prepare_cached(
            "SELECT pg_try_advisory_xact_lock(
                 hashtextextended('posthaste compaction ' || current_schema(), 0))",
        )
        .await?;
    if !client.query_one(&lock, &[]).await?.try_get::<_, bool>(0)? {
        return Ok(());
    }
    let minute = minute_of(present(client).await?);
    let compact = client.prepare_cached(COMPACT).await?;
    client
        .execute(
            &compact,
            &[
                &(minute - MINUTES_UNTIL_SETTLED),
                &(minute - MINUTES_KEPT),
                &(minute - QUARTERS_KEPT),
                &MOST_COMPACTED,
                &QUARTER,
            ],
        )
        .await
        .map(drop)
}
