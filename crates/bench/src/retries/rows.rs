//! Emails whose first attempt has failed, written straight into their rows.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use tokio_postgres::Client;

use crate::amqp::Rabbit;
use crate::figures::Latency;
use crate::ground::Room;
use crate::rig::services::connect;

/// The emails of a room, which are made to fail again and again.
pub(super) struct Rows {
    /// How many there are.
    pub(super) count: u64,
    database: Client,
}

impl Rows {
    /// Numbers them, and writes down an attempt of each that failed.
    pub(super) async fn of(room: &Room, count: u64) -> anyhow::Result<Self> {
        let database = connect(&room.database_url).await?;
        let sql = "CREATE TABLE bench_due AS
                SELECT id, row_number() OVER (ORDER BY id) - 1 AS number, now() AS due
                FROM email_log;
            ALTER TABLE bench_due ADD PRIMARY KEY (id);
            INSERT INTO email_attempt (email_id, number, started_at, finished_at, outcome, reply,
                transport, worker, budget)
            SELECT id, 1, now(), now(), 'transient', '451 4.3.0 later', 'smtp', 'bench', 8
            FROM bench_due";
        database.batch_execute(sql).await?;
        let made = database.query_one("SELECT count(*) FROM bench_due", &[]);
        let made: i64 = made.await?.try_get(0)?;
        ensure!(
            u64::try_from(made) == Ok(count),
            "{made} emails are stored of {count}"
        );
        Ok(Self { count, database })
    }

    /// All are due, and have been for a moment.
    pub(super) async fn fail_all_due_now(&self, room: &Room) -> anyhow::Result<()> {
        self.fail(room, "now() - interval '1 second'").await
    }

    /// They fall due one after the other, the first after some time.
    pub(super) async fn fail_due_evenly(
        &self,
        room: &Room,
        lead: Duration,
        rate: f64,
    ) -> anyhow::Result<()> {
        // From the end of what is done before: vacuuming takes a moment.
        let lead = lead.as_secs_f64();
        let due = format!("now() + interval '1 second' * ({lead} + number / {rate}::float8)");
        self.fail(room, "now() + interval '1 hour'").await?;
        let sql = format!(
            "UPDATE bench_due SET due = {due};
             UPDATE email_log l SET next_attempt_at = d.due FROM bench_due d WHERE d.id = l.id"
        );
        Ok(self.database.batch_execute(&sql).await?)
    }

    async fn fail(&self, room: &Room, due: &str) -> anyhow::Result<()> {
        let sql = format!(
            "UPDATE bench_due SET due = {due};
             UPDATE email_log l SET status = 'failed', phase = 'idle', attempt_number = 1,
                 attempt_count = 1, next_attempt_at = d.due, locked_until = NULL, worker = NULL,
                 started_at = NULL, last_queued_at = NULL, last_error = '451 4.3.0 later'
             FROM bench_due d WHERE d.id = l.id"
        );
        self.database.batch_execute(&sql).await?;
        for sql in ["VACUUM ANALYZE email_log", "CHECKPOINT"] {
            self.database.batch_execute(sql).await?;
        }
        let url = room.rabbitmq_url.as_deref().context("no RabbitMQ")?;
        let rabbit = Rabbit::connect(url).await?;
        // Tickets of before would only be in the way.
        for queue in ["send", "send.high", "send.low", "retry"] {
            rabbit.purge(&room.queue(queue)).await?;
        }
        Ok(())
    }

    /// How long after they were due they were in the queue, by the database's clock and with the
    /// confirm of RabbitMQ.
    pub(super) async fn lateness(&self) -> anyhow::Result<Latency> {
        let sql = "SELECT percentile_disc(ARRAY[0, 0.5, 0.99, 1]::float8[]) WITHIN GROUP (
                ORDER BY extract(epoch FROM l.last_queued_at - d.due)::float8 * 1000),
                count(l.last_queued_at)
            FROM email_log l JOIN bench_due d ON d.id = l.id";
        let row = self.database.query_one(sql, &[]).await?;
        let (late, known): (Vec<f64>, i64) = (row.try_get(0)?, row.try_get(1)?);
        ensure!(
            u64::try_from(known) == Ok(self.count),
            "{known} of {} retries are marked as queued",
            self.count
        );
        let [earliest, p50_ms, p99_ms, max_ms] = late[..] else {
            anyhow::bail!("no percentiles")
        };
        ensure!(earliest >= 0.0, "a retry was {} ms early", -earliest);
        Ok(Latency {
            p50_ms,
            p99_ms,
            max_ms,
        })
    }
}
