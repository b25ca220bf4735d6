//! Checks the stored state against the promises.

use posthaste_core::email::EmailId;
use posthaste_core::port::{Statistics, StoreResult, Violation};
use posthaste_core::status::Status;
use rusqlite::Connection;

use super::statistics::statistics;
use super::{SqliteStore, message, micros};
use crate::statistics::disagreements;

/// A lease may be left over for this long: a rescuer comes by more often.
const LEASE_GRACE_MICROS: i64 = 5_000_000;
/// At most this many breaches of one kind are listed.
const MOST_LISTED: usize = 20;

impl SqliteStore {
    pub(super) async fn violations(&self, ledger: &[EmailId]) -> StoreResult<Vec<Violation>> {
        let ledger = ledger.to_vec();
        let now = micros(posthaste_core::port::Store::now(self));
        self.desk
            .run(move |connection| {
                // One snapshot for all checks, however long they take.
                let snapshot = connection.unchecked_transaction()?;
                let mut found = Vec::new();
                let counted = statistics(&snapshot, now)?;
                counters_match(&snapshot, &counted, &mut found)?;
                ledger_is_kept(&snapshot, &ledger, counted.pruned, &mut found)?;
                for (invariant, what, sql) in CHECKS {
                    list(&snapshot, "email", invariant, what, sql, now, &mut found)?;
                }
                message::verify::check(&snapshot, now, &mut found)?;
                Ok(found)
            })
            .await
    }
}

/// Queries that give the ids (and details) of rows that break a promise. `?1` is now.
const CHECKS: [(&str, &str, &str); 13] = [
    (
        "I1",
        "has content but no state",
        "SELECT hex(id), '' FROM posthaste_email
         WHERE id NOT IN (SELECT id FROM posthaste_email_log)",
    ),
    (
        "I1",
        "has a state but no content",
        "SELECT hex(id), '' FROM posthaste_email_log
         WHERE id NOT IN (SELECT id FROM posthaste_email)",
    ),
    (
        "I3",
        "was sent more than once without an attempt of unknown fate",
        // One that came back may have been sent again by an operator.
        "SELECT hex(a.email_id), sum(a.outcome = 'sent') || ' sent attempts'
         FROM posthaste_email_attempt a JOIN posthaste_email_log l ON l.id = a.email_id
         WHERE a.number > l.budget_from
           AND a.email_id NOT IN (SELECT email_id FROM posthaste_recipient)
         GROUP BY a.email_id
         HAVING sum(a.outcome = 'sent') > 1 + sum(a.outcome = 'unknown')",
    ),
    (
        "I4",
        "has an attempt that no lease was given for",
        "SELECT hex(a.email_id), 'attempt ' || a.number FROM posthaste_email_attempt a
         JOIN posthaste_email_log l ON l.id = a.email_id
         WHERE a.number > l.attempt_number OR l.attempt_number > l.lease_token",
    ),
    (
        "I5",
        "has a lease that is overdue",
        "SELECT hex(id), 'by ' || ((?1 - locked_until) / 1000000) || ' s more than allowed'
         FROM posthaste_email_log WHERE locked_until < ?1",
    ),
    (
        "I5",
        "is locked although nobody can be working on it",
        "SELECT hex(id), status FROM posthaste_email_log
         WHERE locked_until IS NOT NULL AND status NOT IN ('sending', 'retry_queued')",
    ),
    (
        "I5",
        "waits for a way out although it does not wait",
        "SELECT hex(id), status FROM posthaste_email_log
         WHERE (waiting_for IS NOT NULL OR waits_until IS NOT NULL) AND status <> 'failed'
            OR waits_until IS NOT NULL AND waiting_for IS NULL",
    ),
    (
        "I3",
        "may take another way out although one of its attempts may have sent it",
        "SELECT hex(l.id), 'attempt ' || a.number || ' by ' || a.transport
         FROM posthaste_email_log l JOIN posthaste_email_attempt a ON a.email_id = l.id
         WHERE l.unknown_count > 0 AND l.bound_to IS NULL AND l.finished_at IS NULL
           AND a.number > l.budget_from AND a.outcome = 'unknown' AND a.transport IS NOT NULL",
    ),
    (
        "I7",
        // Attempts that were removed after their retention bear nothing out.
        "has a count of attempts that its records do not bear out",
        "SELECT hex(l.id), l.attempt_count || ' counted, ' || (
             SELECT count(*) FROM posthaste_email_attempt a
             WHERE a.email_id = l.id AND a.number > l.budget_from
               AND a.outcome IN ('transient', 'permanent', 'unknown') AND NOT a.is_free
               AND NOT (l.inline AND a.number = 1)) || ' recorded'
         FROM posthaste_email_log l
         WHERE l.attempts_pruned_to <= l.budget_from
           AND (l.attempt_number > 0 OR l.attempt_count > 0) AND l.attempt_count <> (
             SELECT count(*) FROM posthaste_email_attempt a
             WHERE a.email_id = l.id AND a.number > l.budget_from
               AND a.outcome IN ('transient', 'permanent', 'unknown') AND NOT a.is_free
               AND NOT (l.inline AND a.number = 1))",
    ),
    (
        "I7",
        "has lost attempts that it still needs",
        "SELECT hex(id), 'up to attempt ' || attempts_pruned_to FROM posthaste_email_log
         WHERE attempts_pruned_to > budget_from AND status NOT IN ('sent', 'cancelled')
            OR attempts_pruned_to > attempt_number",
    ),
    (
        "I7",
        "was tried more often than its own budget allows",
        "SELECT hex(id), attempt_count || ' of ' || max_attempts FROM posthaste_email_log
         WHERE attempt_count > max_attempts",
    ),
    (
        // The budget as it was at each attempt: lowering it later is no breach.
        "I7",
        "was tried more often than its policy allowed",
        "SELECT hex(email_id), counted || ' of ' || budget FROM (
             SELECT a.email_id, a.budget,
                 count(*) OVER (PARTITION BY a.email_id ORDER BY a.number) AS counted
             FROM posthaste_email_attempt a JOIN posthaste_email_log l ON l.id = a.email_id
             WHERE a.number > l.budget_from
               AND a.outcome IN ('transient', 'permanent', 'unknown') AND NOT a.is_free
               AND NOT (l.inline AND a.number = 1))
         WHERE counted > budget",
    ),
    (
        "I7",
        "was tried earlier than allowed",
        "SELECT hex(a.email_id), 'attempt ' || a.number FROM posthaste_email_attempt a
         JOIN posthaste_email_attempt b ON b.email_id = a.email_id AND b.number = a.number - 1
         JOIN posthaste_email_log l ON l.id = a.email_id
         WHERE a.number > l.budget_from + 1 AND a.started_at < b.next_attempt_at",
    ),
];

/// Lists the rows that break a promise.
pub(super) fn list(
    connection: &Connection,
    noun: &str,
    invariant: &'static str,
    what: &str,
    sql: &str,
    now: i64,
    found: &mut Vec<Violation>,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(sql)?;
    let overdue = now - LEASE_GRACE_MICROS;
    let takes_time = statement.parameter_count() > 0;
    let mut rows = if takes_time {
        statement.query([overdue])?
    } else {
        statement.query([])?
    };
    let mut listed = 0;
    while let Some(row) = rows.next()? {
        listed += 1;
        if listed > MOST_LISTED {
            found.push(Violation {
                invariant,
                detail: format!("… and more {noun}s of which each {what}"),
            });
            break;
        }
        let id = shown_id(row.get_ref(0)?.as_str()?);
        let detail: String = row.get(1)?;
        let detail = if detail.is_empty() {
            detail
        } else {
            format!(" ({detail})")
        };
        found.push(Violation {
            invariant,
            detail: format!("{noun} {id} {what}{detail}"),
        });
    }
    Ok(())
}

fn shown_id(hex: &str) -> String {
    uuid::Uuid::try_parse(hex).map_or_else(|_| hex.to_owned(), |id| id.to_string())
}

fn counters_match(
    connection: &Connection,
    counted: &Statistics,
    found: &mut Vec<Violation>,
) -> rusqlite::Result<()> {
    let rows = connection
        .prepare("SELECT status, count(*) FROM posthaste_email_log GROUP BY status")?
        .query_map([], |row| {
            Ok((super::state_row::named::<Status>(row, 0)?, row.get(1)?))
        })?
        .collect::<Result<_, _>>()?;
    found.extend(disagreements(counted, &rows));
    Ok(())
}

fn ledger_is_kept(
    connection: &Connection,
    ledger: &[EmailId],
    pruned: u64,
    found: &mut Vec<Violation>,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare("SELECT 1 FROM posthaste_email_log WHERE id = ?1")?;
    let mut missing = Vec::new();
    for id in ledger {
        if !statement.exists([id.0])? {
            missing.push(id);
        }
    }
    // Emails that are removed after their retention leave only their number. As long as no more
    // are missing than were pruned, and I1 holds, nothing has vanished.
    if missing.len() as u64 <= pruned {
        return Ok(());
    }
    found.extend(missing.into_iter().map(|id| Violation {
        invariant: "I2",
        detail: format!("email {id} was accepted according to the ledger, but is not there"),
    }));
    Ok(())
}
