//! The past in a SQLite file that no process has open: rows are made by SQLite itself, and indexes
//! are built afterwards.

use std::path::Path;

use rusqlite::Connection;

use super::Past;
use crate::rig::journal::Journal;

/// So many emails at once: for progress, and so that no transaction is huge.
const SLICE: u64 = 100_000;

/// Durability is for what is measured, not for what is made up.
const HASTE: &str = "
    PRAGMA journal_mode = OFF;
    PRAGMA synchronous = OFF;
    PRAGMA temp_store = MEMORY;
    PRAGMA cache_size = -1000000";

/// One slice of emails. The other states have their usual small shares. Times are microseconds; 29
/// days up to an hour ago.
const EMAILS: &str = "
    CREATE TEMPORARY TABLE slice AS
    WITH RECURSIVE numbers (i) AS (
        VALUES ($1) UNION ALL SELECT i + 1 FROM numbers WHERE i < $2),
    numbered AS (
        SELECT i, ((unixepoch() - 3600) * 1000 - 2505600000 * ($3 - i) / $3) * 1000 AS at,
            lower(hex(randomblob(16))) AS mark,
            CASE WHEN i * $4 / $3 <> (i - 1) * $4 / $3 THEN 'dead'
                 WHEN i % 500 = 4 THEN 'discarded' WHEN i % 600 = 5 THEN 'cancelled'
                 WHEN NOT $5 THEN 'sent'
                 WHEN i % 250 = 1 THEN 'failed' WHEN i % 500 = 2 THEN 'pending'
                 WHEN i % 2500 = 3 THEN 'unknown' ELSE 'sent' END AS status
        FROM numbers)
    SELECT *, unhex(printf('%012x', at / 1000) || '7' || substr(mark, 1, 3) || '8'
        || substr(mark, 4, 3) || substr(mark, 7, 12)) AS id
    FROM numbered";

const INTO_EMAIL: &str = "
    INSERT INTO posthaste_email (id, owner, message_key, payload_hash, template, priority,
        envelope_from, recipients, recipient_count, first_recipient, header_from, header_to,
        subject, metadata, policy, created_at, size_bytes, content)
    SELECT id, 'default', lower(substr(hex(id), 1, 8) || '-' || substr(hex(id), 9, 4) || '-'
            || substr(hex(id), 13, 4) || '-' || substr(hex(id), 17, 4) || '-'
            || substr(hex(id), 21)), unhex(mark || mark),
        CASE WHEN i % 3 = 0 THEN 'receipt' WHEN i % 50000 = 7 THEN 'rare' END, 'normal',
        'shop@example.org', '[\"user' || i % 100000 || '@example.org\"]', 1,
        'user' || i % 100000 || '@example.org', 'Shop <shop@example.org>',
        '[\"user' || i % 100000 || '@example.org\"]',
        CASE WHEN i % 3 = 0 THEN 'Receipt ' ELSE 'Order ' END || i, '{}', '\"email\"', at, 90,
        CAST('From: shop@example.org' || char(13, 10, 13, 10) || mark || ' ' || mark AS BLOB)
    FROM slice ORDER BY i";

const INTO_LOG: &str = "
    INSERT INTO posthaste_email_log (id, status, phase, attempt_number, attempt_count, budget_from,
        next_attempt_at, lease_token, lost_count, unknown_count, possible_duplicate, last_error,
        error_class, dead_reason, fingerprint, sent_at, finished_at, last_queued_at, transport)
    SELECT id, status, 'idle', CASE WHEN status IN ('pending', 'cancelled') THEN 0 ELSE 1 END,
        CASE WHEN status IN ('failed', 'dead', 'discarded', 'unknown') THEN 1 ELSE 0 END, 0,
        CASE WHEN status IN ('failed', 'pending')
            THEN (unixepoch() + 2592000) * 1000000 END, 1, 0, 0,
        0, CASE WHEN status IN ('failed', 'dead', 'discarded')
            THEN '550 5.1.' || i % 7 || ' no such user ' || i END,
        CASE WHEN status IN ('failed', 'dead', 'discarded') THEN 'mailbox_unknown' END,
        CASE WHEN status IN ('dead', 'discarded') THEN 'HardBounce' END,
        CASE WHEN status IN ('failed', 'dead', 'discarded') THEN 'group' || i % 7 END,
        CASE WHEN status = 'sent' THEN at END,
        CASE WHEN status IN ('sent', 'dead', 'discarded', 'cancelled') THEN at END, at,
        CASE WHEN status = 'sent' THEN 'smtp' END
    FROM slice ORDER BY i";

const INTO_ATTEMPT: &str = "
    INSERT INTO posthaste_email_attempt (email_id, number, started_at, finished_at, outcome, reply,
        transport, worker, budget)
    SELECT id, 1, at, at, CASE status WHEN 'sent' THEN 'sent' WHEN 'unknown' THEN 'unknown'
        WHEN 'failed' THEN 'transient' ELSE 'permanent' END,
        CASE status WHEN 'sent' THEN '250 2.0.0 OK' ELSE '550 5.1.1 no such user' END, 'smtp',
        'bench:1', 8
    FROM slice WHERE status NOT IN ('pending', 'cancelled') ORDER BY i";

/// The counters of these emails: by minute for two days, by hour before, as pruning leaves them.
const INTO_STAT: &str = "
    WITH steps AS (
        SELECT CASE WHEN at / 1000000 > unixepoch() - 172800 THEN at / 60000000
            ELSE at / 3600000000 * 60 END AS minute, status, count(*) AS n
        FROM slice GROUP BY 1, 2),
    moves (status, source, target) AS (
        SELECT status, '', 'pending' FROM steps
        UNION SELECT status, 'pending', 'sending' FROM steps
            WHERE status NOT IN ('pending', 'cancelled')
        UNION SELECT status, 'sending', CASE status WHEN 'discarded' THEN 'dead' ELSE status END
            FROM steps WHERE status NOT IN ('pending', 'cancelled')
        UNION SELECT status, 'pending', 'cancelled' FROM steps WHERE status = 'cancelled'
        UNION SELECT status, 'dead', 'discarded' FROM steps WHERE status = 'discarded')
    INSERT INTO posthaste_stat (minute, from_status, to_status, n)
    SELECT minute, source, target, sum(steps.n) FROM steps JOIN moves USING (status) WHERE true
    GROUP BY 1, 2, 3
    ON CONFLICT (minute, from_status, to_status) DO UPDATE SET n = n + excluded.n";

/// What operators did: one entry for each email that they discarded or cancelled.
const INTO_AUDIT: &str = "
    INSERT INTO posthaste_audit_log (at, actor, action, subject, result)
    SELECT at, CASE i % 3 WHEN 0 THEN 'admin:ann' WHEN 1 THEN 'admin:bob' ELSE 'key:1234' END,
        CASE status WHEN 'discarded' THEN 'discard' ELSE 'cancel' END, lower(hex(id)), 'done'
    FROM slice WHERE status IN ('discarded', 'cancelled') ORDER BY i";

/// The indexes that no constraint needs, with what makes them.
const INDEXES: &str = "
    SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL AND tbl_name IN
        ('posthaste_email', 'posthaste_email_log', 'posthaste_email_attempt') ORDER BY name";

/// Fills the tables of an up-to-date file that holds nothing yet. The answer is its size in octets.
pub(crate) async fn fill(path: &Path, past: Past, journal: &Journal) -> anyhow::Result<u64> {
    if past.emails > 0 {
        let (emails, dead) = (past.emails, past.dead);
        journal.line(&format!(
            "filling SQLite with {emails} emails, {dead} of them dead"
        ));
        let database = Connection::open(path)?;
        // On a thread of its own in between: whoever wants the program to end is heard.
        tokio::task::block_in_place(|| fill_tables(&database, past, journal))?;
        database.close().map_err(|(_, error)| error)?;
    }
    Ok(std::fs::metadata(path)?.len())
}

fn fill_tables(database: &Connection, past: Past, journal: &Journal) -> anyhow::Result<()> {
    database.execute_batch(HASTE)?;
    let indexes: Vec<(String, String)> = database
        .prepare(INDEXES)?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    for (name, _) in &indexes {
        database.execute_batch(&format!("DROP INDEX {name}"))?;
    }
    let bar = journal.bar(past.emails, "emails");
    for (from, to) in past.slices(SLICE) {
        database.execute_batch("BEGIN")?;
        let made = past.slice(EMAILS, from, to);
        let all = [
            &made,
            INTO_EMAIL,
            INTO_LOG,
            INTO_ATTEMPT,
            INTO_STAT,
            INTO_AUDIT,
        ];
        for sql in all {
            database.execute_batch(sql)?;
        }
        database.execute_batch("COMMIT")?;
        database.execute_batch("DROP TABLE slice")?;
        bar.set_position(to);
        if to.is_multiple_of(10 * SLICE) {
            journal.line(&format!("{to} emails"));
        }
    }
    bar.finish_and_clear();
    for (_, definition) in &indexes {
        database.execute_batch(definition)?;
    }
    Ok(database.execute_batch("PRAGMA journal_mode = WAL")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The product's own schema, as its migrations make it.
    fn up_to_date() -> anyhow::Result<Connection> {
        let database = Connection::open_in_memory()?;
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../store/migrations/sqlite");
        let mut files: Vec<_> = std::fs::read_dir(folder)?
            .map(|file| Ok(file?.path()))
            .collect::<std::io::Result<_>>()?;
        files.sort();
        for file in files {
            database.execute_batch(&std::fs::read_to_string(file)?)?;
        }
        Ok(database)
    }

    #[test]
    fn the_past_fits_the_schema_and_its_counters_count_its_rows() -> anyhow::Result<()> {
        let database = up_to_date()?;
        let indexes = "SELECT count(*) FROM sqlite_schema WHERE type = 'index'";
        let count =
            |sql: &str| -> rusqlite::Result<i64> { database.query_row(sql, [], |row| row.get(0)) };
        let before = count(indexes)?;
        let past = Past::over(3_000);
        fill_tables(&database, past, &Journal::new())?;
        assert_eq!(count(indexes)?, before);
        assert_eq!(count("SELECT count(*) FROM posthaste_email")?, 3_000);
        for status in [
            "sent",
            "dead",
            "discarded",
            "cancelled",
            "pending",
            "sending",
        ] {
            let rows =
                format!("SELECT count(*) FROM posthaste_email_log WHERE status = '{status}'");
            let counted = format!(
                "SELECT coalesce(sum(CASE '{status}' WHEN to_status THEN n ELSE 0 END
                     - CASE '{status}' WHEN from_status THEN n ELSE 0 END), 0)
                 FROM posthaste_stat"
            );
            assert_eq!(count(&rows)?, count(&counted)?, "{status}");
        }
        assert_eq!(
            count("SELECT count(*) FROM posthaste_email_log WHERE status = 'dead'")?,
            3
        );
        Ok(())
    }
}
