//! What a run is made of.

use clap::Args;
use posthaste_core::duration::HumanDuration;

use crate::messages::variable;

/// How many processes, how many messages, which faults.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// How many messages
    #[arg(long, default_value_t = 20_000)]
    pub(super) messages: usize,
    /// How many processes with the role messages
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) instances: u64,
    /// How many messages fail for the first time in a second
    #[arg(long, default_value_t = 500.0)]
    pub(super) rate: f64,
    /// The share of messages that fail again after a retry: once, twice or for ever
    #[arg(long, default_value_t = 0.4)]
    pub(super) failing: f64,
    /// The size of each payload in octets
    #[arg(long, default_value_t = 256)]
    pub(super) payload: usize,
    /// How often a process is killed; 0s for never
    #[arg(long, default_value = "2s")]
    pub(super) kill_every: HumanDuration,
    /// How often a process is frozen for a while; 0s for never
    #[arg(long, default_value = "0s")]
    pub(super) freeze_every: HumanDuration,
    /// Killing goes on until all messages were handed in and this share of the retries was made
    #[arg(long, default_value_t = 0.9)]
    pub(super) kill_until: f64,
    /// How often RabbitMQ is crashed and restarted
    #[arg(long, default_value_t = 2)]
    pub(super) rabbitmq_restarts: u32,
    /// How often PostgreSQL is crashed and restarted
    #[arg(long, default_value_t = 2)]
    pub(super) postgres_restarts: u32,
    /// For how long PostgreSQL is away
    #[arg(long, default_value = "3s")]
    pub(super) postgres_away: HumanDuration,
    /// Which processes die, and which messages fail how often
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// How long everything may take
    #[arg(long, default_value = "10m")]
    pub(super) limit: HumanDuration,
    /// What the processes log
    #[arg(long, default_value = "warn")]
    pub(super) log: String,
    /// A further variable of every process, such as POSTHASTE_MESSAGES__PREFETCH=2000
    #[arg(long = "env", value_parser = variable)]
    pub(super) variables: Vec<(String, String)>,
}

impl Options {
    /// What has to be typed to have the same plan again.
    pub(super) fn replay(&self) -> String {
        let mut line = format!(
            "posthaste-bench messages-chaos --seed {} --messages {} --instances {} --rate {} \
             --failing {} --payload {} --kill-every {} --freeze-every {} --kill-until {} \
             --rabbitmq-restarts {} --postgres-restarts {} --postgres-away {}",
            self.seed,
            self.messages,
            self.instances,
            self.rate,
            self.failing,
            self.payload,
            self.kill_every,
            self.freeze_every,
            self.kill_until,
            self.rabbitmq_restarts,
            self.postgres_restarts,
            self.postgres_away,
        );
        for (name, value) in &self.variables {
            line.push_str(&format!(" --env {name}={value}"));
        }
        line
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
    fn what_is_told_can_be_typed() {
        let line = "x --seed 7 --failing 0.5 --kill-every 1500ms --env A=b".split(' ');
        let told = Line::parse_from(line).options.replay();
        let again = told.split(' ').skip(1);
        let again = Line::parse_from(again).options;
        assert_eq!(again.replay(), told);
        assert_eq!(again.seed, 7);
    }
}
