//! Checks the stored state against the promises.

use std::collections::BTreeMap;
use std::time::Duration;

use deadpool_postgres::ClientWrapper;
use posthaste_core::Timestamp;
use posthaste_core::email::EmailId;
use posthaste_core::port::{StoreResult, Violation};
use posthaste_core::status::Status;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};
use uuid::Uuid;

use super::PostgresStore;
use super::error::corrupt;
use super::message::verify::{self as messages, Counted};
use super::state_row::{get, named};
use super::statistics::{counters, numbers_of};
use crate::message;
use crate::statistics::disagreements;

/// A lease may be left over for this long: a rescuer comes by more often.
const LEASE_GRACE: Duration = Duration::from_secs(5);
/// At most this many breaches of one kind are listed.
const MOST_LISTED: usize = 20;

/// One snapshot for all checks, however long they take.
const BEGIN: &str =
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = 0";

/// What was read in one snapshot.
struct Evidence {
    counters: Vec<Row>,
    statuses: Vec<Row>,
    missing: Vec<Row>,
    breaches: Vec<Vec<Row>>,
    messages: Counted,
    message_breaches: Vec<Vec<Row>>,
}

impl PostgresStore {
    pub(super) async fn violations(&self, ledger: &[EmailId]) -> StoreResult<Vec<Violation>> {
        let ledger: Vec<Uuid> = ledger.iter().map(|id| id.0).collect();
        let evidence = self
            .desk
            .long_transaction(BEGIN, async |client| gather(client, &ledger).await)
            .await?;
        let counted = numbers_of(&evidence.counters)?;
        let mut rows = BTreeMap::new();
        for row in &evidence.statuses {
            let there = u64::try_from(get::<i64>(row, 1)?).map_err(corrupt)?;
            rows.insert(named::<Status>(row, 0)?, there);
        }
        let mut found = disagreements(&counted, &rows);
        ledger_is_kept(&evidence.missing, counted.pruned, &mut found)?;
        for ((invariant, what, _), rows) in CHECKS.iter().zip(&evidence.breaches) {
            list("email", invariant, what, rows, &mut found)?;
        }
        found.extend(evidence.messages.violations()?);
        for (check, rows) in message::CHECKS.iter().zip(&evidence.message_breaches) {
            list("message", check.invariant, check.what, rows, &mut found)?;
        }
        Ok(found)
    }
}

async fn gather(client: &ClientWrapper, ledger: &[Uuid]) -> Result<Evidence, Error> {
    // The first question fixes the snapshot; leases are judged by the time of that moment.
    let now = client.query_one("SELECT posthaste_now()", &[]).await?;
    let now: Timestamp = now.try_get(0)?;
    let overdue = now.checked_sub(LEASE_GRACE).unwrap_or(now);
    let counters = counters(client, [0, i64::MAX, 0]).await?;
    let sql = "SELECT status, count(*) FROM email_log GROUP BY status";
    let statuses = client.query(sql, &[]).await?;
    let missing = client
        .query(
            "SELECT kept.id FROM unnest($1::uuid[]) WITH ORDINALITY AS kept(id, place)
             WHERE NOT EXISTS (SELECT 1 FROM email_log l WHERE l.id = kept.id)
             ORDER BY kept.place",
            &[&ledger],
        )
        .await?;
    let mut breaches = Vec::with_capacity(CHECKS.len());
    for (_, _, sql) in CHECKS {
        breaches.push(breaches_of(client, sql, overdue).await?);
    }
    let mut message_breaches = Vec::with_capacity(message::CHECKS.len());
    for check in &message::CHECKS {
        let sql = messages::query(check);
        message_breaches.push(breaches_of(client, &sql, overdue).await?);
    }
    Ok(Evidence {
        counters,
        statuses,
        missing,
        breaches,
        messages: Counted::gather(client).await?,
        message_breaches,
    })
}

/// The first rows that break a promise, and one more if there are too many to list.
async fn breaches_of(
    client: &ClientWrapper,
    sql: &str,
    overdue: Timestamp,
) -> Result<Vec<Row>, Error> {
    let most = MOST_LISTED + 1;
    let check = client
        .prepare(&format!("SELECT * FROM ({sql}) AS breach LIMIT {most}"))
        .await?;
    let time: [&(dyn ToSql + Sync); 1] = [&overdue];
    let values = &time[..check.params().len().min(1)];
    client.query(&check, values).await
}

/// Queries that give the ids (and details) of rows that break a promise. A lease that ended
/// before `$1` is overdue.
const CHECKS: [(&str, &str, &str); 13] = [
    (
        "I1",
        "has content but no state",
        "SELECT e.id, '' FROM email e
         WHERE NOT EXISTS (SELECT 1 FROM email_log l WHERE l.id = e.id)",
    ),
    (
        "I1",
        "has a state but no content",
        "SELECT l.id, '' FROM email_log l
         WHERE NOT EXISTS (SELECT 1 FROM email e WHERE e.id = l.id)",
    ),
    (
        "I3",
        "was sent more than once without an attempt of unknown fate",
        // One that came back may have been sent again by an operator.
        "SELECT a.email_id, count(*) FILTER (WHERE a.outcome = 'sent') || ' sent attempts'
         FROM email_attempt a JOIN email_log l ON l.id = a.email_id
         WHERE a.number > l.budget_from
           AND NOT EXISTS (SELECT 1 FROM recipient r WHERE r.email_id = a.email_id)
         GROUP BY a.email_id
         HAVING count(*) FILTER (WHERE a.outcome = 'sent')
             > 1 + count(*) FILTER (WHERE a.outcome = 'unknown')",
    ),
    (
        "I4",
        "has an attempt that no lease was given for",
        "SELECT a.email_id, 'attempt ' || a.number FROM email_attempt a
         JOIN email_log l ON l.id = a.email_id
         WHERE a.number > l.attempt_number OR l.attempt_number > l.lease_token",
    ),
    (
        "I5",
        "has a lease that is overdue",
        "SELECT id, 'by ' || floor(extract(epoch FROM $1::timestamptz - locked_until))::bigint
             || ' s more than allowed'
         FROM email_log WHERE locked_until < $1",
    ),
    (
        "I5",
        "is locked although nobody can be working on it",
        "SELECT id, status FROM email_log
         WHERE locked_until IS NOT NULL AND status NOT IN ('sending', 'retry_queued')",
    ),
    (
        "I5",
        "waits for a way out although it does not wait",
        "SELECT id, status FROM email_log
         WHERE (waiting_for IS NOT NULL OR waits_until IS NOT NULL) AND status <> 'failed'
            OR waits_until IS NOT NULL AND waiting_for IS NULL",
    ),
    (
        "I3",
        "may take another way out although one of its attempts may have sent it",
        "SELECT l.id, 'attempt ' || a.number || ' by ' || a.transport
         FROM email_log l JOIN email_attempt a ON a.email_id = l.id
         WHERE l.unknown_count > 0 AND l.bound_to IS NULL AND l.finished_at IS NULL
           AND a.number > l.budget_from AND a.outcome = 'unknown' AND a.transport IS NOT NULL",
    ),
    (
        "I7",
        // Attempts that were removed after their retention bear nothing out.
        "has a count of attempts that its records do not bear out",
        "SELECT l.id, l.attempt_count || ' counted, ' || coalesce(a.recorded, 0) || ' recorded'
         FROM email_log l LEFT JOIN (
             SELECT t.email_id, count(*) AS recorded FROM email_attempt t
             JOIN email_log b ON b.id = t.email_id
             WHERE t.number > b.budget_from AND t.outcome IN ('transient', 'permanent', 'unknown')
               AND NOT t.is_free AND NOT (b.inline AND t.number = 1)
             GROUP BY t.email_id) AS a ON a.email_id = l.id
         WHERE l.attempt_count <> coalesce(a.recorded, 0)
           AND l.attempts_pruned_to <= l.budget_from
           AND (l.attempt_number > 0 OR l.attempt_count > 0)",
    ),
    (
        "I7",
        "has lost attempts that it still needs",
        "SELECT id, 'up to attempt ' || attempts_pruned_to FROM email_log
         WHERE attempts_pruned_to > budget_from AND status NOT IN ('sent', 'cancelled')
            OR attempts_pruned_to > attempt_number",
    ),
    (
        "I7",
        "was tried more often than its own budget allows",
        "SELECT id, attempt_count || ' of ' || max_attempts FROM email_log
         WHERE attempt_count > max_attempts",
    ),
    (
        // The budget as it was at each attempt: lowering it later is no breach.
        "I7",
        "was tried more often than its policy allowed",
        "SELECT email_id, counted || ' of ' || budget FROM (
             SELECT a.email_id, a.budget,
                 count(*) OVER (PARTITION BY a.email_id ORDER BY a.number) AS counted
             FROM email_attempt a JOIN email_log l ON l.id = a.email_id
             WHERE a.number > l.budget_from
               AND a.outcome IN ('transient', 'permanent', 'unknown') AND NOT a.is_free
               AND NOT (l.inline AND a.number = 1)) AS spent
         WHERE counted > budget",
    ),
    (
        "I7",
        "was tried earlier than allowed",
        "SELECT a.email_id, 'attempt ' || a.number FROM email_attempt a
         JOIN email_attempt b ON b.email_id = a.email_id AND b.number = a.number - 1
         JOIN email_log l ON l.id = a.email_id
         WHERE a.number > l.budget_from + 1 AND a.started_at < b.next_attempt_at",
    ),
];

fn list(
    noun: &str,
    invariant: &'static str,
    what: &str,
    rows: &[Row],
    found: &mut Vec<Violation>,
) -> StoreResult<()> {
    for row in rows.iter().take(MOST_LISTED) {
        let id: Uuid = get(row, 0)?;
        let detail: &str = get(row, 1)?;
        let detail = if detail.is_empty() {
            String::new()
        } else {
            format!(" ({detail})")
        };
        found.push(Violation {
            invariant,
            detail: format!("{noun} {id} {what}{detail}"),
        });
    }
    if rows.len() > MOST_LISTED {
        found.push(Violation {
            invariant,
            detail: format!("… and more {noun}s of which each {what}"),
        });
    }
    Ok(())
}

fn ledger_is_kept(missing: &[Row], pruned: u64, found: &mut Vec<Violation>) -> StoreResult<()> {
    // Emails that are removed after their retention leave only their number. As long as no more
    // are missing than were pruned, and I1 holds, nothing has vanished.
    if missing.len() as u64 <= pruned {
        return Ok(());
    }
    for row in missing {
        let id: Uuid = get(row, 0)?;
        found.push(Violation {
            invariant: "I2",
            detail: format!("email {id} was accepted according to the ledger, but is not there"),
        });
    }
    Ok(())
}
