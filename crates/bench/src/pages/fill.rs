//! Fills a database as if it had worked for 30 days.

use tokio_postgres::Client;

use crate::rig::journal::Journal;

/// So many emails at once: for progress, and so that no transaction is huge.
const SLICE: u32 = 250_000;

/// One slice of emails: `$1` to `$2` of `$3`, of which `$4` are dead letters, spread evenly. The
/// other states have their usual small shares, unless `$5` is false: then all else was sent. Nothing
/// of it is due while it is looked at.
const EMAILS: &str = "
    CREATE TEMPORARY TABLE slice ON COMMIT DROP AS
    WITH numbered AS (
        SELECT i, now() - interval '30 days' * (1 - i / $3::float8) AS at, md5(i::text) AS mark,
            CASE WHEN i * $4::bigint / $3 <> (i - 1) * $4::bigint / $3 THEN 'dead'
                 WHEN NOT $5 THEN 'sent'
                 WHEN i % 250 = 1 THEN 'failed' WHEN i % 500 = 2 THEN 'pending'
                 WHEN i % 2500 = 3 THEN 'unknown' WHEN i % 500 = 4 THEN 'discarded'
                 WHEN i % 600 = 5 THEN 'cancelled' ELSE 'sent' END AS status
        FROM generate_series($1::bigint, $2::bigint) AS i)
    SELECT *, (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7'
        || substr(mark, 1, 3) || '8' || substr(mark, 4, 3) || substr(mark, 7, 12))::uuid AS id
    FROM numbered";

const INTO_EMAIL: &str = "
    INSERT INTO email (id, owner, message_key, payload_hash, template, priority, envelope_from,
        recipients, recipient_count, first_recipient, header_from, header_to, subject, metadata,
        policy, created_at, size_bytes, content)
    SELECT id, 'default', id::text, '\\x00'::bytea,
        CASE WHEN i % 3 = 0 THEN 'receipt' WHEN i % 50000 = 7 THEN 'rare' END, 'normal',
        'shop@example.org', jsonb_build_array('user' || i % 100000 || '@example.org'), 1,
        'user' || i % 100000 || '@example.org', 'Shop <shop@example.org>',
        json_build_array('user' || i % 100000 || '@example.org'),
        CASE WHEN i % 3 = 0 THEN 'Receipt ' ELSE 'Order ' END || i, '{}', '\"email\"', at, 300,
        convert_to('From: shop@example.org' || chr(13) || chr(10) || chr(13) || chr(10)
            || repeat(mark || ' ', 8), 'UTF8')
    FROM slice";

const INTO_LOG: &str = "
    INSERT INTO email_log (id, status, phase, attempt_number, attempt_count, budget_from,
        next_attempt_at, lease_token, lost_count, unknown_count, possible_duplicate, last_error,
        error_class, dead_reason, fingerprint, sent_at, finished_at, last_queued_at)
    SELECT id, status, 'idle', CASE WHEN status = 'pending' THEN 0 ELSE 1 END,
        CASE WHEN status IN ('failed', 'dead', 'discarded', 'unknown') THEN 1 ELSE 0 END, 0,
        CASE WHEN status IN ('failed', 'pending') THEN now() + interval '30 days' END, 1, 0, 0,
        false, CASE WHEN status IN ('failed', 'dead', 'discarded')
            THEN '550 5.1.' || i % 7 || ' no such user ' || i END,
        CASE WHEN status IN ('failed', 'dead', 'discarded') THEN 'mailbox_unknown' END,
        CASE WHEN status IN ('dead', 'discarded') THEN 'HardBounce' END,
        CASE WHEN status IN ('failed', 'dead', 'discarded') THEN 'group' || i % 7 END,
        CASE WHEN status = 'sent' THEN at END,
        CASE WHEN status IN ('sent', 'dead', 'discarded', 'cancelled') THEN at END, at
    FROM slice";

const INTO_ATTEMPT: &str = "
    INSERT INTO email_attempt (email_id, number, started_at, finished_at, outcome, reply,
        transport, worker, budget)
    SELECT id, 1, at, at, CASE status WHEN 'sent' THEN 'sent' WHEN 'unknown' THEN 'unknown'
        WHEN 'failed' THEN 'transient' ELSE 'permanent' END, '250 2.0.0 OK', 'smtp', 'bench', 8
    FROM slice WHERE status <> 'pending'";

/// The counters of 30 days: by minute for two days, by hour before.
const STATISTICS: &str = "
    WITH steps AS (
        SELECT floor(extract(epoch FROM posthaste_now()) / 60)::bigint - m AS minute
        FROM generate_series(1, 2880) AS m
        UNION ALL
        SELECT (floor(extract(epoch FROM posthaste_now()) / 3600)::bigint - h) * 60
        FROM generate_series(49, 700) AS h),
    moves (source, target, n) AS (VALUES ('', 'pending', 120), ('pending', 'sending', 120),
        ('sending', 'sent', 117), ('sending', 'failed', 2), ('failed', 'retry_queued', 1),
        ('retry_queued', 'sending', 1), ('sending', 'dead', 1), ('sending', 'unknown', 1))
    INSERT INTO stat (minute, from_status, to_status, slot, n)
    SELECT minute, source, target, 0, n FROM steps, moves ON CONFLICT DO NOTHING";

const AUDIT: &str = "
    INSERT INTO audit_log (at, actor, action, subject, result)
    SELECT now() - interval '1 second' * (200000 - i),
        CASE i % 3 WHEN 0 THEN 'admin:ann' WHEN 1 THEN 'admin:bob' ELSE 'key:1234' END,
        CASE i % 4 WHEN 0 THEN 'discard' ELSE 'retry' END, md5(i::text)::uuid::text, 'done'
    FROM generate_series(1, 200000) AS i";

/// Fills the tables.
pub(super) async fn fill(
    database: &Client,
    emails: u32,
    dead: u32,
    is_busy: bool,
    journal: &Journal,
) -> anyhow::Result<()> {
    journal.line(&format!(
        "filling the database with {emails} emails, {dead} of them dead"
    ));
    let bar = journal.bar(u64::from(emails), "emails");
    let (total, dead) = (i64::from(emails), i64::from(dead));
    let mut from = 1;
    while from <= emails {
        let to = (from + SLICE - 1).min(emails);
        database.batch_execute("BEGIN").await?;
        let range = EMAILS
            .replace("$1", &from.to_string())
            .replace("$2", &to.to_string())
            .replace("$3", &total.to_string())
            .replace("$4", &dead.to_string())
            .replace("$5", &is_busy.to_string());
        for sql in [range.as_str(), INTO_EMAIL, INTO_LOG, INTO_ATTEMPT] {
            database.batch_execute(sql).await?;
        }
        database.batch_execute("COMMIT").await?;
        bar.set_position(u64::from(to));
        from = to + 1;
    }
    bar.finish_and_clear();
    for sql in [STATISTICS, AUDIT, "VACUUM ANALYZE"] {
        database.batch_execute(sql).await?;
    }
    journal.line("filled");
    Ok(())
}
