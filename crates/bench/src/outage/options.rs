//! What a run is made of, and what it makes of the settings.

use std::time::Duration;

use clap::Args;
use posthaste_core::duration::HumanDuration;
use posthaste_core::way::BreakerRules;

use crate::rig::stand::Footing;

/// The policy in life: three attempts, and the delays between them.
pub(super) const MAX_ATTEMPTS: u32 = 3;
const SCHEDULE: [u64; 3] = [60, 300, 900];
const JITTER: Duration = Duration::from_secs(30);

/// How many emails, how long, how fast.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// How many emails
    #[arg(long, default_value_t = 10_000)]
    pub(super) emails: usize,
    /// For how long the mail server is away, in life
    #[arg(long, default_value = "2h")]
    pub(super) outage: HumanDuration,
    /// How many times faster than in life the outage, the delays and the probes are: with 60, a
    /// minute is a second
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) scale: u32,
    /// How many times faster and steeper the ramp is; this machine does not get faster by it
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) ramp_scale: u32,
    /// How many HTTP clients at the same time
    #[arg(long, default_value_t = 16)]
    pub(super) clients: usize,
    /// The size of each body in octets
    #[arg(long, default_value_t = 4096)]
    pub(super) body: usize,
    /// To how many domains they go
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) domains: u32,
    /// Which email goes to which domain, and where the mail server listens
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// How long the rest may take after the mail server is back
    #[arg(long, default_value = "15m")]
    pub(super) limit: HumanDuration,
    #[command(flatten)]
    pub(super) footing: Footing,
}

impl Options {
    /// So long in the run is so long in life.
    fn scaled(&self, time: Duration) -> Duration {
        // Durations are written in whole milliseconds.
        let millis = time.as_millis() / u128::from(self.scale);
        Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX)).max(MILLISECOND)
    }

    /// For how long the mail server is away.
    pub(super) fn outage(&self) -> Duration {
        self.scaled(self.outage.0)
    }

    /// The product's own rules, faster.
    pub(super) fn rules(&self) -> BreakerRules {
        let life = BreakerRules::default();
        BreakerRules {
            window: self.scaled(life.window),
            first_probe: self.scaled(life.first_probe),
            longest_probe: self.scaled(life.longest_probe),
            ramp_rate: life.ramp_rate * f64::from(self.ramp_scale),
            ramp_doubling: life.ramp_doubling / self.ramp_scale,
            ramp: life.ramp / self.ramp_scale,
            ..life
        }
    }

    /// How the processes are told.
    pub(super) fn variables(&self, has_breaker: bool) -> Vec<(&'static str, String)> {
        let rules = self.rules();
        let text = |time: Duration| HumanDuration(time).to_string();
        let schedule = SCHEDULE.map(|seconds| text(self.scaled(Duration::from_secs(seconds))));
        vec![
            ("MAX_ATTEMPTS", MAX_ATTEMPTS.to_string()),
            ("BACKOFF_SCHEDULE", schedule.join(",")),
            ("POSTHASTE_RETRY__JITTER", text(self.scaled(JITTER))),
            ("POSTHASTE_BREAKER__ENABLED", has_breaker.to_string()),
            ("POSTHASTE_BREAKER__WINDOW", text(rules.window)),
            ("POSTHASTE_BREAKER__FIRST_PROBE", text(rules.first_probe)),
            (
                "POSTHASTE_BREAKER__LONGEST_PROBE",
                text(rules.longest_probe),
            ),
            ("POSTHASTE_BREAKER__RAMP_RATE", rules.ramp_rate.to_string()),
            (
                "POSTHASTE_BREAKER__RAMP_DOUBLING",
                text(rules.ramp_doubling),
            ),
            ("POSTHASTE_BREAKER__RAMP", text(rules.ramp)),
        ]
    }
}

const MILLISECOND: Duration = Duration::from_millis(1);
