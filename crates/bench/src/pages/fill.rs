//! Fills a database as if it had worked for a month, with operators who did much.

use tokio_postgres::Client;

use crate::history::past::{Past, fill_postgres};
use crate::rig::journal::Journal;

const AUDIT: &str = "
    INSERT INTO audit_log (at, actor, action, subject, result)
    SELECT now() - interval '1 second' * (200000 - i),
        CASE i % 3 WHEN 0 THEN 'admin:ann' WHEN 1 THEN 'admin:bob' ELSE 'key:1234' END,
        CASE i % 4 WHEN 0 THEN 'discard' ELSE 'retry' END, md5(i::text)::uuid::text, 'done'
    FROM generate_series(1, 200000) AS i";

/// Fills the tables.
pub(super) async fn fill(
    database: &Client,
    url: &str,
    past: Past,
    journal: &Journal,
) -> anyhow::Result<()> {
    fill_postgres(url, past, journal).await?;
    database.batch_execute(AUDIT).await?;
    database.batch_execute("VACUUM ANALYZE audit_log").await?;
    journal.line("filled");
    Ok(())
}
