//! What became of every email, by what the API says of each.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use jiff::Timestamp;
use serde_json::Value;
use tokio::task::JoinSet;

use crate::client::Client;

/// How many connections ask.
const CLIENTS: usize = 8;

/// What became of all emails.
#[derive(Debug, Default)]
pub(super) struct Census {
    pub(super) by_status: BTreeMap<String, u64>,
    pub(super) dead_by_reason: BTreeMap<String, u64>,
    /// Attempts on record.
    pub(super) attempts: u64,
    /// Those that failed.
    pub(super) failed: u64,
    /// Those that spent something of their email's budget.
    pub(super) counted: u64,
    /// The sum of what the emails have spent now; those that were counted and given back are not
    /// among them.
    pub(super) spent: u64,
    /// Those that failed and began when the way could have been tested for the first time, or later.
    pub(super) probes: u64,
    /// The most attempts that one email had.
    pub(super) most_of_one: u64,
}

impl Census {
    /// Asks for each of these. `tested_from`: when the way could be tested for the first time. Up to
    /// then processes may not have heard that it is stopped.
    pub(super) async fn take(
        addresses: &[String],
        ids: &[String],
        tested_from: Option<Timestamp>,
    ) -> anyhow::Result<Self> {
        let ids: Arc<[String]> = ids.into();
        let mut clients = JoinSet::new();
        for place in 0..CLIENTS {
            let (address, ids) = (addresses[place % addresses.len()].clone(), Arc::clone(&ids));
            clients.spawn(async move {
                let mut client = Client::connect(&address).await?;
                let mut census = Self::default();
                for id in ids.iter().skip(place).step_by(CLIENTS) {
                    let (status, answer) = client.get(&format!("/v1/emails/{id}")).await?;
                    ensure!(status == 200, "{id} was answered {status}: {answer}");
                    census.enter(&serde_json::from_str(&answer)?, tested_from)?;
                }
                anyhow::Ok(census)
            });
        }
        let mut all = Self::default();
        while let Some(ended) = clients.join_next().await {
            all.add(ended??);
        }
        Ok(all)
    }

    /// How many are in this state.
    pub(super) fn status(&self, name: &str) -> u64 {
        self.by_status.get(name).copied().unwrap_or(0)
    }

    fn enter(&mut self, email: &Value, tested_from: Option<Timestamp>) -> anyhow::Result<()> {
        let status = email["status"].as_str().context("no status")?;
        *self.by_status.entry(status.to_owned()).or_default() += 1;
        if let Some(reason) = email["dead_reason"].as_str() {
            *self.dead_by_reason.entry(reason.to_owned()).or_default() += 1;
        }
        self.spent += email["attempt_count"].as_u64().context("no count")?;
        let attempts = email["attempts"].as_array().context("no attempts")?;
        self.attempts += attempts.len() as u64;
        self.most_of_one = self.most_of_one.max(attempts.len() as u64);
        for attempt in attempts.iter().filter(|one| one["outcome"] != "sent") {
            self.failed += 1;
            self.counted += u64::from(attempt["counted"] == true);
            let began: Timestamp = attempt["started_at"].as_str().context("no time")?.parse()?;
            self.probes += u64::from(tested_from.is_some_and(|first| began >= first));
        }
        Ok(())
    }

    fn add(&mut self, other: Self) {
        for (mine, others) in [
            (&mut self.by_status, other.by_status),
            (&mut self.dead_by_reason, other.dead_by_reason),
        ] {
            for (name, n) in others {
                *mine.entry(name).or_default() += n;
            }
        }
        self.attempts += other.attempts;
        self.failed += other.failed;
        self.counted += other.counted;
        self.spent += other.spent;
        self.probes += other.probes;
        self.most_of_one = self.most_of_one.max(other.most_of_one);
    }
}
