//! The past in PostgreSQL: rows are made by the server itself, and indexes are built afterwards.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context as _;
use tokio_postgres::{Client, NoTls};

use super::Past;
use crate::rig::journal::Journal;

/// So many emails at once: for progress, and so that no transaction is huge.
const SLICE: u64 = 100_000;
/// How many fill at the same time.
const HANDS: usize = 2;

/// Durability is for what is measured, not for what is made up.
const HASTE: &str = "
    SET synchronous_commit = off;
    SET maintenance_work_mem = '512MB';
    SET temp_buffers = '128MB';
    SET work_mem = '64MB'";

/// One slice of emails. The other states have their usual small shares.
const EMAILS: &str = "
    CREATE TEMPORARY TABLE slice ON COMMIT DROP AS
    WITH numbered AS (
        SELECT i, date_trunc('hour', now()) - interval '1 hour'
                - interval '29 days' * (1 - i / $3::float8) AS at, md5(i::text) AS mark,
            CASE WHEN i * $4::bigint / $3 <> (i - 1) * $4::bigint / $3 THEN 'dead'
                 WHEN i % 500 = 4 THEN 'discarded' WHEN i % 600 = 5 THEN 'cancelled'
                 WHEN NOT $5 THEN 'sent'
                 WHEN i % 250 = 1 THEN 'failed' WHEN i % 500 = 2 THEN 'pending'
                 WHEN i % 2500 = 3 THEN 'unknown' ELSE 'sent' END AS status
        FROM generate_series($1::bigint, $2::bigint) AS i)
    SELECT *, (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7'
        || substr(mark, 1, 3) || '8' || substr(mark, 4, 3) || substr(mark, 7, 12))::uuid AS id
    FROM numbered";

const INTO_EMAIL: &str = "
    INSERT INTO email (id, owner, message_key, payload_hash, template, priority, envelope_from,
        recipients, recipient_count, first_recipient, header_from, header_to, subject, metadata,
        policy, created_at, size_bytes, content)
    SELECT id, 'default', id::text, decode(mark || mark, 'hex'),
        CASE WHEN i % 3 = 0 THEN 'receipt' WHEN i % 50000 = 7 THEN 'rare' END, 'normal',
        'shop@example.org', jsonb_build_array('user' || i % 100000 || '@example.org'), 1,
        'user' || i % 100000 || '@example.org', 'Shop <shop@example.org>',
        json_build_array('user' || i % 100000 || '@example.org'),
        CASE WHEN i % 3 = 0 THEN 'Receipt ' ELSE 'Order ' END || i, '{}', '\"email\"', at, 90,
        convert_to('From: shop@example.org' || chr(13) || chr(10) || chr(13) || chr(10)
            || repeat(mark || ' ', 2), 'UTF8')
    FROM slice ORDER BY i";

const INTO_LOG: &str = "
    INSERT INTO email_log (id, status, phase, attempt_number, attempt_count, budget_from,
        next_attempt_at, lease_token, lost_count, unknown_count, possible_duplicate, last_error,
        error_class, dead_reason, fingerprint, sent_at, finished_at, last_queued_at, transport)
    SELECT id, status, 'idle', CASE WHEN status IN ('pending', 'cancelled') THEN 0 ELSE 1 END,
        CASE WHEN status IN ('failed', 'dead', 'discarded', 'unknown') THEN 1 ELSE 0 END, 0,
        CASE WHEN status IN ('failed', 'pending') THEN now() + interval '30 days' END, 1, 0, 0,
        false, CASE WHEN status IN ('failed', 'dead', 'discarded')
            THEN '550 5.1.' || i % 7 || ' no such user ' || i END,
        CASE WHEN status IN ('failed', 'dead', 'discarded') THEN 'mailbox_unknown' END,
        CASE WHEN status IN ('dead', 'discarded') THEN 'HardBounce' END,
        CASE WHEN status IN ('failed', 'dead', 'discarded') THEN 'group' || i % 7 END,
        CASE WHEN status = 'sent' THEN at END,
        CASE WHEN status IN ('sent', 'dead', 'discarded', 'cancelled') THEN at END, at,
        CASE WHEN status = 'sent' THEN 'smtp' END
    FROM slice ORDER BY i";

const INTO_ATTEMPT: &str = "
    INSERT INTO email_attempt (email_id, number, started_at, finished_at, outcome, reply,
        transport, worker, budget)
    SELECT id, 1, at, at, CASE status WHEN 'sent' THEN 'sent' WHEN 'unknown' THEN 'unknown'
        WHEN 'failed' THEN 'transient' ELSE 'permanent' END,
        CASE status WHEN 'sent' THEN '250 2.0.0 OK' ELSE '550 5.1.1 no such user' END, 'smtp',
        'bench:1', 8
    FROM slice WHERE status NOT IN ('pending', 'cancelled') ORDER BY i";

/// The counters of these emails: by minute for two days, by hour before, as pruning leaves them.
const INTO_STAT: &str = "
    WITH steps AS (
        SELECT CASE WHEN at > now() - interval '2 days'
            THEN floor(extract(epoch FROM at) / 60)::bigint
            ELSE floor(extract(epoch FROM at) / 3600)::bigint * 60 END AS minute, status,
            count(*) AS n
        FROM slice GROUP BY 1, 2),
    moves (status, source, target) AS (
        SELECT status, '', 'pending' FROM steps
        UNION SELECT status, 'pending', 'sending' FROM steps
            WHERE status NOT IN ('pending', 'cancelled')
        UNION SELECT status, 'sending', CASE status WHEN 'discarded' THEN 'dead' ELSE status END
            FROM steps WHERE status NOT IN ('pending', 'cancelled')
        UNION SELECT status, 'pending', 'cancelled' FROM steps WHERE status = 'cancelled'
        UNION SELECT status, 'dead', 'discarded' FROM steps WHERE status = 'discarded')
    INSERT INTO stat AS s (minute, from_status, to_status, slot, n)
    SELECT minute, source, target, 0, sum(n) FROM steps JOIN moves USING (status) GROUP BY 1, 2, 3
    ORDER BY 1, 2, 3
    ON CONFLICT (minute, from_status, to_status, slot) DO UPDATE SET n = s.n + excluded.n";

/// What operators did: one entry for each email that they discarded or cancelled.
const INTO_AUDIT: &str = "
    INSERT INTO audit_log (at, actor, action, subject, result)
    SELECT at, CASE i % 3 WHEN 0 THEN 'admin:ann' WHEN 1 THEN 'admin:bob' ELSE 'key:1234' END,
        CASE status WHEN 'discarded' THEN 'discard' ELSE 'cancel' END, id::text, 'done'
    FROM slice WHERE status IN ('discarded', 'cancelled') ORDER BY i";

/// The indexes that no constraint needs, with what makes them.
const INDEXES: &str = "
    SELECT i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid)
    FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
    WHERE c.relname IN ('email', 'email_log', 'email_attempt')
      AND c.relnamespace = current_schema()::regnamespace
      AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = i.indexrelid)
    ORDER BY 1";

/// All tables, and what they take on disk with all that belongs to them.
const TABLES: &str = "
    SELECT oid::regclass::text, pg_total_relation_size(oid) FROM pg_class
    WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace";

/// Fills the tables of an up-to-date database that holds nothing yet. The answer is its size in
/// octets.
pub(crate) async fn fill(url: &str, past: Past, journal: &Journal) -> anyhow::Result<u64> {
    let database = connect(url).await?;
    if past.emails > 0 {
        let (emails, dead) = (past.emails, past.dead);
        journal.line(&format!(
            "filling PostgreSQL with {emails} emails, {dead} of them dead"
        ));
        let mut indexes: Vec<(String, String)> = Vec::new();
        for row in database.query(INDEXES, &[]).await? {
            indexes.push((row.try_get(0)?, row.try_get(1)?));
        }
        for (name, _) in &indexes {
            database
                .batch_execute(&format!("DROP INDEX {name}"))
                .await?;
        }
        fill_tables(url, past, journal).await?;
        for (name, definition) in &indexes {
            journal.line(&format!("building {name}"));
            database.batch_execute(definition).await?;
        }
    }
    // Other schemas may be large and none of our business.
    let (mut tables, mut size_bytes) = (Vec::new(), 0);
    for row in database.query(TABLES, &[]).await? {
        tables.push(row.try_get::<_, String>(0)?);
        size_bytes += row.try_get::<_, i64>(1)?.unsigned_abs();
    }
    let vacuum = format!("VACUUM (FREEZE, ANALYZE) {}", tables.join(", "));
    database.batch_execute(&vacuum).await?;
    database.batch_execute("CHECKPOINT").await?;
    Ok(size_bytes)
}

/// Fills slice after slice, several at the same time.
async fn fill_tables(url: &str, past: Past, journal: &Journal) -> anyhow::Result<()> {
    let bar = journal.bar(past.emails, "emails");
    let (slices, done) = (past.slices(SLICE), AtomicU64::new(0));
    let slices = std::sync::Mutex::new(slices);
    let hands = (0..HANDS).map(async |_| -> anyhow::Result<()> {
        let database = connect(url).await?;
        loop {
            let next = slices
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .next();
            let Some((from, to)) = next else {
                return Ok(());
            };
            fill_slice(&database, past, from, to).await?;
            let done = done.fetch_add(to - from + 1, Ordering::Relaxed) + to - from + 1;
            bar.set_position(done);
            if done.is_multiple_of(10 * SLICE) {
                journal.line(&format!("{done} emails"));
            }
        }
    });
    futures_util::future::try_join_all(hands).await?;
    bar.finish_and_clear();
    Ok(())
}

async fn fill_slice(database: &Client, past: Past, from: u64, to: u64) -> anyhow::Result<()> {
    database.batch_execute("BEGIN").await?;
    let made = past.slice(EMAILS, from, to);
    // The counters last: others wait for them.
    let all = [
        &made,
        INTO_EMAIL,
        INTO_LOG,
        INTO_ATTEMPT,
        INTO_AUDIT,
        INTO_STAT,
    ];
    for sql in all {
        database.batch_execute(sql).await?;
    }
    Ok(database.batch_execute("COMMIT").await?)
}

/// A connection that is in a hurry.
async fn connect(url: &str) -> anyhow::Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls)
        .await
        .context("cannot connect to PostgreSQL")?;
    tokio::spawn(connection);
    client.batch_execute(HASTE).await?;
    Ok(client)
}
