//! What is done to servers, network, disk and processes, besides killing.

mod broker;
mod database;
mod disk;
mod mail;
mod process;
mod ticket;

use std::time::Duration;

use anyhow::Context as _;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

pub(super) use self::disk::Disk;

use super::stage::Stage;
use crate::rig::stand::Store;

/// One kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    /// SIGSTOP for longer than a lease.
    Freeze,
    /// SIGTERM, under load.
    Terminate,
    MailRefuses,
    MailHangs,
    MailPutsOff,
    MailIsSlow,
    MailIsCut,
    MailLosesReplies,
    DatabaseRestarts,
    DatabaseIsCut,
    DatabaseIsSilent,
    DatabaseIsSlow,
    DatabaseIsLocked,
    DatabaseLosesReplies,
    RabbitMqRestarts,
    RabbitMqIsPurged,
    RabbitMqQueuesGone,
    RabbitMqIsInAlarm,
    RabbitMqIsCut,
    RabbitMqIsSilent,
    RabbitMqLosesReplies,
    ForgedTickets,
    DiskIsFull,
}

impl Fault {
    const ALL: [Self; 23] = [
        Self::Freeze,
        Self::Terminate,
        Self::MailRefuses,
        Self::MailHangs,
        Self::MailPutsOff,
        Self::MailIsSlow,
        Self::MailIsCut,
        Self::MailLosesReplies,
        Self::DatabaseRestarts,
        Self::DatabaseIsCut,
        Self::DatabaseIsSilent,
        Self::DatabaseIsSlow,
        Self::DatabaseIsLocked,
        Self::DatabaseLosesReplies,
        Self::RabbitMqRestarts,
        Self::RabbitMqIsPurged,
        Self::RabbitMqQueuesGone,
        Self::RabbitMqIsInAlarm,
        Self::RabbitMqIsCut,
        Self::RabbitMqIsSilent,
        Self::RabbitMqLosesReplies,
        Self::ForgedTickets,
        Self::DiskIsFull,
    ];

    /// For the report.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Freeze => "process frozen past its leases",
            Self::Terminate => "process asked to end",
            Self::MailRefuses => "mail server refuses connections",
            Self::MailHangs => "mail server hangs",
            Self::MailPutsOff => "mail server puts everyone off",
            Self::MailIsSlow => "mail server is slow",
            Self::MailIsCut => "mail server cut off",
            Self::MailLosesReplies => "mail server's replies lost",
            Self::DatabaseRestarts => "database crashed",
            Self::DatabaseIsCut => "database cut off",
            Self::DatabaseIsSilent => "database silent",
            Self::DatabaseIsSlow => "database slow",
            Self::DatabaseIsLocked => "database locked",
            Self::DatabaseLosesReplies => "database's replies lost",
            Self::RabbitMqRestarts => "RabbitMQ crashed",
            Self::RabbitMqIsPurged => "RabbitMQ's queues purged",
            Self::RabbitMqQueuesGone => "RabbitMQ's queues deleted",
            Self::RabbitMqIsInAlarm => "RabbitMQ in memory alarm",
            Self::RabbitMqIsCut => "RabbitMQ cut off",
            Self::RabbitMqIsSilent => "RabbitMQ silent",
            Self::RabbitMqLosesReplies => "RabbitMQ's replies lost",
            Self::ForgedTickets => "tickets doubled, forged, broken",
            Self::DiskIsFull => "disk full",
        }
    }

    /// Whether it can happen there.
    fn happens_on(self, store: Store) -> bool {
        match self {
            Self::Freeze
            | Self::Terminate
            | Self::MailRefuses
            | Self::MailHangs
            | Self::MailPutsOff
            | Self::MailIsSlow
            | Self::MailIsCut
            | Self::MailLosesReplies
            | Self::DatabaseIsLocked => true,
            Self::DatabaseRestarts
            | Self::DatabaseIsCut
            | Self::DatabaseIsSilent
            | Self::DatabaseIsSlow
            | Self::DatabaseLosesReplies => store != Store::Sqlite,
            Self::DiskIsFull => store == Store::Sqlite,
            _ => store == Store::Rabbitmq,
        }
    }
}

/// The faults of a run in their order: all of them, shuffled, and again.
pub(super) struct Plan {
    dice: StdRng,
    possible: Vec<Fault>,
    left: Vec<Fault>,
    gap: Duration,
}

impl Plan {
    pub(super) fn new(store: Store, seed: u64, gap: Duration, disk_can_be_full: bool) -> Self {
        let faults = Fault::ALL.into_iter();
        let possible: Vec<_> = faults
            .filter(|fault| fault.happens_on(store))
            .filter(|fault| *fault != Fault::DiskIsFull || disk_can_be_full)
            .collect();
        Self {
            dice: StdRng::seed_from_u64(seed.rotate_left(33)),
            left: Vec::new(),
            possible,
            gap,
        }
    }

    /// The next fault, and how long to wait for it.
    fn next(&mut self) -> (Duration, Fault) {
        if self.left.is_empty() {
            self.left = self.possible.clone();
        }
        let at = self.dice.random_range(0..self.left.len());
        let fault = self.left.swap_remove(at);
        (self.gap.mul_f64(self.dice.random_range(0.3..1.7)), fault)
    }
}

impl Stage<'_> {
    /// Waits for the next fault and inflicts it; its end is waited for. The answer is whether it
    /// was the last of all that there are.
    pub(super) async fn inflict_next(
        &self,
        plan: &mut Plan,
        is_enough: impl Fn() -> bool,
    ) -> anyhow::Result<bool> {
        let (wait, fault) = plan.next();
        self.wait(wait, is_enough).await;
        let length = Duration::from_millis(plan.dice.random_range(500..2500));
        let choice = plan.dice.random_range(0..1000);
        self.journal.line(&format!("fault: {}", fault.name()));
        self.inflict(fault, length, choice)
            .await
            .with_context(|| fault.name())?;
        self.count(fault.name());
        Ok(plan.left.is_empty())
    }

    async fn inflict(&self, fault: Fault, length: Duration, choice: usize) -> anyhow::Result<()> {
        match fault {
            Fault::Freeze => self.freeze(choice).await,
            Fault::Terminate => self.terminate(choice),
            Fault::MailRefuses
            | Fault::MailHangs
            | Fault::MailPutsOff
            | Fault::MailIsSlow
            | Fault::MailIsCut
            | Fault::MailLosesReplies => self.trouble_mail(fault, length).await,
            Fault::DatabaseRestarts
            | Fault::DatabaseIsCut
            | Fault::DatabaseIsSilent
            | Fault::DatabaseIsSlow
            | Fault::DatabaseIsLocked
            | Fault::DatabaseLosesReplies => {
                let outage = self.outages.begin();
                let troubled = self.trouble_database(fault, length).await;
                self.outages.end(outage);
                return troubled;
            }
            Fault::DiskIsFull => {
                let outage = self.outages.begin();
                let filled = self.fill_disk(length).await;
                self.outages.end(outage);
                return filled;
            }
            Fault::ForgedTickets => return self.forge_tickets(choice).await,
            Fault::RabbitMqRestarts
            | Fault::RabbitMqIsPurged
            | Fault::RabbitMqQueuesGone
            | Fault::RabbitMqIsInAlarm
            | Fault::RabbitMqIsCut
            | Fault::RabbitMqIsSilent
            | Fault::RabbitMqLosesReplies => return self.trouble_broker(fault, length).await,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_brings_the_same_faults_and_each_of_them() {
        let faults = |seed| -> Vec<Fault> {
            let mut plan = Plan::new(Store::Rabbitmq, seed, Duration::ZERO, true);
            (0..22).map(|_| plan.next().1).collect()
        };
        assert_eq!(faults(1), faults(1));
        assert_ne!(faults(1), faults(2));
        let mut once = faults(3);
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), 22);
    }
}
