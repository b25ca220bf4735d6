//! How fast a backlog of due messages gets back into its queue.

use std::time::{Duration, Instant};

use anyhow::ensure;

use super::lane::Lane;
use super::statements::{Claims, Statements};
use crate::processor::{Reading, Usage, wait_for_calm};
use crate::rig::journal::Journal;

/// How often the queue is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// When nothing moves for so long, nothing will.
const PATIENCE: Duration = Duration::from_secs(30);
/// The start of the process is left out: the rate is that of the rest.
const LEFT_OUT: f64 = 0.1;

/// What a backlog came to.
pub(super) struct Drained {
    /// Messages in a second.
    pub(super) rate: f64,
    pub(super) usage: Usage,
    pub(super) messages: f64,
    /// What claiming cost, if PostgreSQL counts that.
    pub(super) claims: Option<Claims>,
}

impl Lane<'_> {
    /// Forgets all messages.
    pub(super) async fn forget(&self) -> anyhow::Result<()> {
        self.database
            .batch_execute("TRUNCATE retry_queue, message_count")
            .await?;
        Ok(())
    }

    /// Stores messages as the process would have, due at `now()` and so much.
    pub(super) async fn store(&self, messages: u64, due: &str) -> anyhow::Result<()> {
        let payload = self.options.payload;
        let queue = self.original();
        let sql = format!(
            "INSERT INTO retry_queue (message_id, created_at, next_retry_at, delivery,
                 original_queue, error_reason, properties, original_payload)
             SELECT gen_random_uuid(), now(), now() + {due}, sha256(convert_to(i::text, 'UTF8')),
                 '{queue}', 'the database was away', '{{}}',
                 substr(decode(repeat(encode(sha512(convert_to(i::text, 'UTF8')), 'hex'),
                                      {payload} / 64 + 1), 'hex'), 1, {payload})
             FROM generate_series(1, {messages}) i;
             INSERT INTO message_count VALUES (0, 'pending', {messages})
             ON CONFLICT (slot, status) DO UPDATE SET n = message_count.n + excluded.n"
        );
        self.database.batch_execute(&sql).await?;
        for sql in ["VACUUM ANALYZE retry_queue", "CHECKPOINT"] {
            self.database.batch_execute(sql).await?;
        }
        Ok(())
    }

    /// Has so many due messages put back by a new process.
    pub(super) async fn drain(&self, journal: &Journal) -> anyhow::Result<Drained> {
        let (original, rows) = (self.original(), self.options.rows);
        self.store(rows, "- random() * interval '1 hour'").await?;
        let statements = Statements::begin(&self.database).await;
        wait_for_calm(self.options.calm.0).await;
        let bar = journal.bar(rows, "put back");
        let server = self.start().await?;
        let groups = self.groups(&server)?;
        let skipped = (rows as f64 * LEFT_OUT) as u64;
        let mut begun = None;
        let (mut last, mut moved_at) = (0, Instant::now());
        loop {
            let depth = self.rabbit.depth(&original).await?;
            bar.set_position(depth);
            if depth >= skipped && begun.is_none() {
                begun = Some((depth, Instant::now(), Reading::of(&groups)));
            }
            if depth >= rows {
                break;
            }
            if depth > last {
                (last, moved_at) = (depth, Instant::now());
            }
            ensure!(
                moved_at.elapsed() < PATIENCE,
                "{depth} of {rows} messages are back in their queue, and no further one comes"
            );
            tokio::time::sleep(LOOK_EVERY).await;
        }
        let ended = Instant::now();
        bar.finish_and_clear();
        let Some((before, begun, reading)) = begun else {
            anyhow::bail!("the backlog was gone at once");
        };
        let usage = reading.until_now();
        self.settle_all().await?;
        server.stop().await?;
        let depth = self.rabbit.depth(&original).await?;
        ensure!(depth == rows, "{depth} copies of {rows} messages");
        self.rabbit.purge(&original).await?;
        let messages = (rows - before) as f64;
        let claims = match statements {
            Some(statements) => statements.claims(&self.database).await?,
            None => None,
        };
        Ok(Drained {
            rate: messages / (ended - begun).as_secs_f64(),
            usage,
            messages,
            claims,
        })
    }

    /// Waits until nothing that is due is pending.
    pub(super) async fn settle_all(&self) -> anyhow::Result<()> {
        let sql = "SELECT count(*) FROM retry_queue
                   WHERE status = 'pending' AND next_retry_at <= now()";
        let give_up = Instant::now() + PATIENCE;
        loop {
            let left: i64 = self.database.query_one(sql, &[]).await?.try_get(0)?;
            if left == 0 {
                return Ok(());
            }
            ensure!(Instant::now() < give_up, "{left} messages are not settled");
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}
