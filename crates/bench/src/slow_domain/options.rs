//! What a run is made of.

use clap::Args;
use posthaste_core::duration::HumanDuration;

use crate::rig::stand::Footing;

/// How much of everything.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// To how many fast domains emails go
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) domains: u64,
    /// How many emails per second go to the fast domains
    #[arg(long, default_value_t = 200.0)]
    pub(super) rate: f64,
    /// For how long in each round
    #[arg(long, default_value = "20s")]
    pub(super) time: HumanDuration,
    /// How many rounds without the slow domain, and as many with it
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) rounds: u32,
    /// Both kinds of rounds at the same time instead of in turns: what others do to the machine
    /// then hits both alike
    #[arg(long)]
    pub(super) together: bool,
    /// How long the slow domain takes for each message
    #[arg(long, default_value = "30s")]
    pub(super) slow: HumanDuration,
    /// How many emails go to it in each round with it
    #[arg(long, default_value_t = 500)]
    pub(super) slow_emails: u64,
    /// In rounds without the slow domain its emails are left out altogether. Otherwise they are
    /// there as well, and it takes them at once, so that only its slowness makes the difference
    #[arg(long)]
    pub(super) leave_out: bool,
    /// How many slow domains they go to. With many of them all connections are held, and the
    /// others have to wait: that shows that this can fail
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) slow_domains: u64,
    /// The size of each body in octets
    #[arg(long, default_value_t = 1024)]
    pub(super) body: usize,
    /// How many HTTP clients at the same time
    #[arg(long, default_value_t = 32)]
    pub(super) clients: usize,
    /// Before each round, wait at most so long for others to leave the processors alone
    #[arg(long, default_value = "10s")]
    pub(super) calm: HumanDuration,
    /// How long the emails of a round may take to arrive
    #[arg(long, default_value = "2m")]
    pub(super) limit: HumanDuration,
    /// In which order emails go to which domains
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    #[command(flatten)]
    pub(super) footing: Footing,
}

impl Options {
    /// How many emails go to fast domains in each round.
    pub(super) fn fast_emails(&self) -> usize {
        (self.rate * self.time.0.as_secs_f64()).round().max(1.0) as usize
    }
}
