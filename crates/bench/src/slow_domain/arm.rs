//! One of the two that take turns: a process, its store, and a mail server of its own.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::bail;
use posthaste_sink::{Sink, SinkConfig};

use super::load::{Mix, Round};
use super::options::Options;
use crate::rig::journal::Journal;
use crate::rig::stand::Stand;

/// How often it is looked whether all of a round have arrived.
const LOOKS_EVERY: Duration = Duration::from_millis(100);
/// How many emails go before anything is measured.
const WARM_UP: usize = 400;

/// A process, its store and its mail server.
pub(super) struct Arm {
    pub(super) stand: Stand,
    pub(super) sink: Sink,
    name: &'static str,
    rounds: u32,
    pub(super) ids: Vec<String>,
}

impl Arm {
    /// Starts all of it, and sends some emails that are not measured.
    pub(super) async fn start(
        binary: &Path,
        folder: &Path,
        name: &'static str,
        options: &Options,
        journal: &Arc<Journal>,
    ) -> anyhow::Result<Self> {
        let config = SinkConfig {
            keep_messages: true,
            ..SinkConfig::default()
        };
        let sink = Sink::start(config).await?;
        let variables = [
            ("SMTP_URL", format!("{}?tls=none", sink.url())),
            ("POSTHASTE_SMTP__MESSAGES_PER_CONNECTION", "1000".to_owned()),
        ];
        let stand =
            Stand::start(binary, folder, name, &options.footing, &variables, journal).await?;
        let mut arm = Self {
            stand,
            sink,
            name,
            rounds: 0,
            ids: Vec::new(),
        };
        let mix = Mix {
            fast: WARM_UP,
            slow: 0,
            is_slow: false,
        };
        arm.round(options, mix).await?;
        Ok(arm)
    }

    /// Sends one round, and gives how long each email to a fast domain took from its moment to the
    /// mail server, in milliseconds and sorted.
    pub(super) async fn round(&mut self, options: &Options, mix: Mix) -> anyhow::Result<Vec<f64>> {
        let fast = mix.fast;
        let name = format!("{}{}", self.name, self.rounds);
        self.rounds += 1;
        let round = Arc::new(Round::plan(options, &name, mix));
        let handed_in = round.hand_in(options, &self.stand.addresses()?).await?;
        self.ids.extend(handed_in.ids);
        let give_up = Instant::now() + options.limit.0;
        loop {
            self.stand.check()?;
            let arrived = self.arrived(&round);
            if arrived.len() >= fast {
                let mut times: Vec<f64> = arrived
                    .into_iter()
                    .map(|(number, at)| at.duration_since(handed_in.moments[number]))
                    .map(|time| time.as_secs_f64() * 1000.0)
                    .collect();
                times.sort_by(f64::total_cmp);
                return Ok(times);
            }
            if Instant::now() > give_up {
                bail!(
                    "{} of {fast} emails to fast domains arrived within {}",
                    arrived.len(),
                    options.limit
                );
            }
            tokio::time::sleep(LOOKS_EVERY).await;
        }
    }

    /// The emails of a round to fast domains that have arrived, by number.
    fn arrived(&self, round: &Round) -> Vec<(usize, Instant)> {
        let messages = self.sink.messages();
        let known = messages.iter().filter_map(|message| {
            let number = round.number_of(message.recipients.first()?)?;
            Some((number, message.arrived_at))
        });
        known.collect()
    }

    /// How many messages of slow domains have arrived.
    pub(super) fn slow_arrived(&self) -> u64 {
        let messages = self.sink.messages();
        let is_slow = |to: &String| to.starts_with("slow");
        let slow = messages.iter().filter(|m| m.recipients.iter().any(is_slow));
        slow.count() as u64
    }

    /// How many emails wait for slow domains.
    pub(super) async fn waiting(&self) -> anyhow::Result<u64> {
        let answer = self.stand.ask("/v1/transports").await?;
        Ok(answer["data"][0]["waiting"].as_u64().unwrap_or(0))
    }
}
