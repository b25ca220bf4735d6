//! What is done to the servers, and when: by progress, so that it happens in the middle of the
//! load however fast the machine is.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;

use super::options::Options;
use super::stage::Stage;

const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Purges are spread between these shares of the load.
const PURGES: (f64, f64) = (0.3, 0.6);
const RABBITMQ: f64 = 0.45;
const POSTGRES: f64 = 0.75;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    Purge,
    RestartRabbitMq,
    RestartPostgres,
}

/// How many faults happened.
#[derive(Debug, Default)]
pub(super) struct Faults {
    pub(super) purges: u32,
    pub(super) purged_messages: u32,
    pub(super) rabbitmq_restarts: u32,
    pub(super) postgres_restarts: u32,
}

/// Each fault with the share of accepted emails at which it happens, in order.
fn plan(options: &Options) -> Vec<(f64, Fault)> {
    let (first, last) = PURGES;
    let steps = f64::from(options.purge.saturating_sub(1).max(1));
    let mut plan: Vec<_> = (0..options.purge)
        .map(|n| (first + (last - first) * f64::from(n) / steps, Fault::Purge))
        .collect();
    if options.restart_rabbitmq {
        plan.push((RABBITMQ, Fault::RestartRabbitMq));
    }
    if options.restart_postgres {
        plan.push((POSTGRES, Fault::RestartPostgres));
    }
    plan.sort_by(|a, b| a.0.total_cmp(&b.0));
    plan
}

impl Stage<'_> {
    /// Does everything that is planned, each at its time. What happens to one server does not
    /// wait for the other.
    pub(super) async fn inflict_all(&self, faults: &Mutex<Faults>) -> anyhow::Result<()> {
        let (postgres, rabbitmq): (Vec<_>, Vec<_>) = plan(self.options)
            .into_iter()
            .partition(|(_, fault)| *fault == Fault::RestartPostgres);
        tokio::try_join!(
            self.inflict_each(postgres, faults),
            self.inflict_each(rabbitmq, faults)
        )?;
        Ok(())
    }

    async fn inflict_each(
        &self,
        plan: Vec<(f64, Fault)>,
        faults: &Mutex<Faults>,
    ) -> anyhow::Result<()> {
        for (share, fault) in plan {
            let at = (self.options.emails as f64 * share) as u64;
            while self.ledger.accepted() < at {
                tokio::time::sleep(LOOK_EVERY).await;
            }
            self.inflict(fault, faults)
                .await
                .with_context(|| format!("{fault:?}"))?;
        }
        Ok(())
    }

    async fn inflict(&self, fault: Fault, faults: &Mutex<Faults>) -> anyhow::Result<()> {
        let journal = self.journal;
        let faults = || faults.lock().unwrap_or_else(PoisonError::into_inner);
        match fault {
            Fault::Purge => {
                let url = self.services.rabbitmq_url.as_deref();
                let gone = self.queues.purge(url.context("no RabbitMQ")?).await?;
                journal.line(&format!("fault: all queues purged, {gone} messages gone"));
                faults().purges += 1;
                faults().purged_messages += gone;
            }
            Fault::RestartRabbitMq => {
                journal.line("fault: RabbitMQ is crashed");
                self.services.restart_rabbitmq().await?;
                journal.line("fault over: RabbitMQ answers again");
                faults().rabbitmq_restarts += 1;
            }
            Fault::RestartPostgres => {
                journal.line("fault: PostgreSQL is crashed");
                let outage = self.outages.begin();
                let away = self.options.postgres_away.0;
                let restarted = self.services.restart_postgres(away).await;
                self.outages.end(outage);
                restarted?;
                journal.line("fault over: PostgreSQL answers again");
                faults().postgres_restarts += 1;
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
    fn faults_come_one_after_the_other_in_the_middle_of_the_load() {
        let line = "x --purge 2 --restart-rabbitmq --restart-postgres".split(' ');
        let faults: Vec<_> = plan(&Line::parse_from(line).options)
            .into_iter()
            .map(|(_, fault)| fault)
            .collect();
        assert_eq!(
            faults,
            [
                Fault::Purge,
                Fault::RestartRabbitMq,
                Fault::Purge,
                Fault::RestartPostgres
            ]
        );
    }
}
