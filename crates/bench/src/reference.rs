//! The yardstick: claim 500 rows of a narrow table, publish a short message for each, wait for all
//! confirms, commit. It is the least that anyone can do who puts messages back from a database,
//! and it does less than we do: nothing is taken in, and the rows carry no payload.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use lapin::options::BasicPublishOptions;
use serde_json::Value;
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio_postgres::Client;

use crate::amqp::{QueueType, Rabbit, persistent};
use crate::processor::{Group, Reading, Usage};
use crate::rig::services::Services;

/// How many are claimed at a time.
const LIMIT: i64 = 500;

const CLAIM: &str = "UPDATE due SET status = 3, attempts = attempts + 1,
         lease_until = now() + interval '60 s'
     WHERE id IN (SELECT id FROM due WHERE status = 2 AND next_attempt_at <= now()
                  ORDER BY next_attempt_at LIMIT $1 FOR UPDATE SKIP LOCKED)
     RETURNING id, attempts";

/// The narrow table, and who claims from it.
pub(crate) struct Reference<'a> {
    services: &'a Services,
    rabbitmq_url: &'a str,
    /// The program that the yardstick is taken from, if it is to be run itself.
    program: Option<PathBuf>,
    queue: String,
    servers: &'a [Group],
    database: Client,
    rabbit: Rabbit,
}

impl<'a> Reference<'a> {
    /// Fills the table with so many rows that are due.
    pub(crate) async fn set_up(
        services: &'a Services,
        servers: &'a [Group],
        run: &str,
        beside: Option<&Path>,
        rows: u64,
    ) -> anyhow::Result<Self> {
        let rabbitmq_url = services.rabbitmq_url.as_deref().context("no RabbitMQ")?;
        let database = services.database().await?;
        let sql = format!(
            "DROP TABLE IF EXISTS due;
             CREATE TABLE due (id bigint PRIMARY KEY, rcpt text NOT NULL, status smallint NOT NULL,
                 attempts int NOT NULL, next_attempt_at timestamptz NOT NULL,
                 lease_until timestamptz);
             INSERT INTO due SELECT i, 'user' || i || '@test.invalid', 2, 1,
                 now() - (random() * interval '1 hour'), NULL FROM generate_series(1, {rows}) i;
             CREATE INDEX due_idx ON due (next_attempt_at) WHERE status = 2"
        );
        database.batch_execute(&sql).await?;
        database.batch_execute("VACUUM ANALYZE due").await?;
        database.batch_execute("CHECKPOINT").await?;
        Ok(Self {
            services,
            rabbitmq_url,
            program: beside.map(program_in).transpose()?,
            queue: format!("{run}.reference"),
            servers,
            database,
            rabbit: Rabbit::connect(rabbitmq_url).await?,
        })
    }

    /// How many rows are claimed and published in a second, and what that costs.
    pub(crate) async fn measure(
        &self,
        queue_type: QueueType,
        workers: usize,
        time: Duration,
    ) -> anyhow::Result<(f64, Usage)> {
        let mut groups = self.servers.to_vec();
        groups.push(Group::alone("driver", std::process::id()));
        let reading = Reading::of(&groups);
        let rate = match &self.program {
            Some(program) => self.ask(program, queue_type, workers, time).await?,
            None => self.work(queue_type, workers, time).await?,
        };
        let usage = reading.until_now();
        // Everything as it was, for the next time.
        let database = &self.database;
        let again = "UPDATE due SET status = 2 WHERE status = 3";
        for sql in [again, "VACUUM due", "CHECKPOINT"] {
            database.batch_execute(sql).await?;
        }
        Ok((rate, usage))
    }

    /// Drops the table.
    pub(crate) async fn clean(self) -> anyhow::Result<()> {
        Ok(self.database.batch_execute("DROP TABLE due").await?)
    }

    /// Runs the original program.
    async fn ask(
        &self,
        program: &Path,
        queue_type: QueueType,
        workers: usize,
        time: Duration,
    ) -> anyhow::Result<f64> {
        let output = Command::new(program)
            .args([&self.services.database_url, "claimpub"])
            .args([workers.to_string(), LIMIT.to_string()])
            .args([&time.as_secs_f64().to_string(), self.rabbitmq_url])
            .arg(queue_type.name())
            .output()
            .await?;
        let text = String::from_utf8_lossy(&output.stdout);
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "{}: {complaint}",
            program.display()
        );
        let line: Value = serde_json::from_str(text.lines().last().unwrap_or_default())?;
        self.rabbit
            .delete(&[format!("anchors.{}", queue_type.name())])
            .await?;
        line["rate"].as_f64().context("no rate")
    }

    async fn work(
        &self,
        queue_type: QueueType,
        workers: usize,
        time: Duration,
    ) -> anyhow::Result<f64> {
        let queue = format!("{}.{}", self.queue, queue_type.name());
        self.rabbit.declare(&queue, queue_type).await?;
        let mut ready = Vec::new();
        for _ in 0..workers {
            let rabbit = Rabbit::connect_to_publish(self.rabbitmq_url).await?;
            ready.push((self.services.database().await?, rabbit));
        }
        let done = Arc::new(AtomicU64::new(0));
        let started = Instant::now();
        let mut working = JoinSet::new();
        for (database, rabbit) in ready {
            let (done, queue) = (Arc::clone(&done), queue.clone());
            working.spawn(async move {
                claim_and_publish(database, &rabbit, &queue, started + time, &done).await
            });
        }
        while let Some(worked) = working.join_next().await {
            worked??;
        }
        let rate = done.load(Ordering::Relaxed) as f64 / started.elapsed().as_secs_f64();
        self.rabbit.delete(&[queue]).await?;
        Ok(rate)
    }
}

async fn claim_and_publish(
    mut database: Client,
    rabbit: &Rabbit,
    queue: &str,
    until: Instant,
    done: &AtomicU64,
) -> anyhow::Result<()> {
    let claim = database.prepare(CLAIM).await?;
    let padding = "x".repeat(50);
    while Instant::now() < until {
        let transaction = database.transaction().await?;
        let rows = transaction.query(&claim, &[&LIMIT]).await?;
        ensure!(!rows.is_empty(), "the reference has run out of rows");
        let mut confirms = Vec::with_capacity(rows.len());
        for row in &rows {
            let (id, attempt): (i64, i32) = (row.get(0), row.get(1));
            let body =
                format!("{{\"id\":{id:020},\"attempt\":{attempt:04},\"pad\":\"{padding}\"}}");
            let options = BasicPublishOptions::default();
            let publishing = rabbit.channel.basic_publish(
                "".into(),
                queue.into(),
                options,
                body.as_bytes(),
                persistent(),
            );
            confirms.push(publishing.await?);
        }
        for confirm in confirms {
            ensure!(confirm.await?.is_ack(), "RabbitMQ refused a message");
        }
        transaction.commit().await?;
        done.fetch_add(rows.len() as u64, Ordering::Relaxed);
    }
    Ok(())
}

/// The original program, in the folder or where cargo puts it below.
fn program_in(folder: &Path) -> anyhow::Result<PathBuf> {
    let places = ["", "target/release", "rs/target/release"];
    let found = places.map(|place| folder.join(place).join("pg_bench"));
    let found = found.into_iter().find(|path| path.is_file());
    found.with_context(|| format!("no pg_bench in {}: build it there", folder.display()))
}
