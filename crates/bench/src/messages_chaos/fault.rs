//! What is done to the servers, and when: by progress, so that it happens in the middle of
//! everything however fast the machine is.

use std::time::Duration;

use anyhow::Context as _;

use super::options::Options;
use super::stage::Stage;

const LOOK_EVERY: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    RestartRabbitMq,
    RestartPostgres,
}

/// Each fault with the share of retries that were made when it happens, in order.
fn plan(options: &Options) -> Vec<(f64, Fault)> {
    let of = |count: u32, offset: f64, fault: Fault| {
        let share = move |n: u32| (f64::from(n) + offset) / f64::from(count);
        (0..count).map(move |n| (share(n), fault))
    };
    let rabbitmq = of(options.rabbitmq_restarts, 0.4, Fault::RestartRabbitMq);
    let postgres = of(options.postgres_restarts, 0.8, Fault::RestartPostgres);
    let mut plan: Vec<_> = rabbitmq.chain(postgres).collect();
    plan.sort_by(|a, b| a.0.total_cmp(&b.0));
    plan
}

impl Stage<'_> {
    /// Does everything that is planned, each at its time.
    pub(super) async fn crash_all(&self) -> anyhow::Result<()> {
        for (share, fault) in plan(self.options) {
            let at = (self.ledger.expected_retries() as f64 * share) as u64;
            while self.ledger.retries() < at {
                tokio::time::sleep(LOOK_EVERY).await;
            }
            self.crash(fault)
                .await
                .with_context(|| format!("{fault:?}"))?;
        }
        Ok(())
    }

    async fn crash(&self, fault: Fault) -> anyhow::Result<()> {
        let journal = self.journal;
        match fault {
            Fault::RestartRabbitMq => {
                journal.line("fault: RabbitMQ is crashed");
                self.services.restart_rabbitmq().await?;
                journal.line("fault over: RabbitMQ answers again");
            }
            Fault::RestartPostgres => {
                journal.line("fault: PostgreSQL is crashed");
                let outage = self.outages.begin();
                let away = self.options.postgres_away.0;
                let restarted = self.services.restart_postgres(away).await;
                self.outages.end(outage);
                restarted?;
                journal.line("fault over: PostgreSQL answers again");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn the_servers_crash_in_turns() {
        let plan = plan(&Line::parse_from(["x"]).options);
        let faults: Vec<_> = plan.iter().map(|(_, fault)| *fault).collect();
        let (rabbitmq, postgres) = (Fault::RestartRabbitMq, Fault::RestartPostgres);
        assert_eq!(faults, [rabbitmq, postgres, rabbitmq, postgres]);
        assert!(plan.iter().all(|(share, _)| *share < 1.0));
    }
}
