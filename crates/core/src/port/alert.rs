//! Who is told when emails die, and what they have not been told yet.

use std::time::Duration;

use async_trait::async_trait;

use super::StoreResult;
use crate::Timestamp;
use crate::alert::{Alert, AlertGroup};

/// A way to tell a team.
#[async_trait]
pub trait AlertChannel: Send + Sync {
    /// Its name in the configuration.
    fn name(&self) -> &str;

    /// Tells it. The error says what to do.
    async fn tell(&self, alert: &Alert) -> Result<(), String>;
}

/// What a channel has to tell, taken for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digest {
    /// What died, most first.
    pub groups: Vec<AlertGroup>,
    /// How many tries to tell failed in a row.
    pub failures: u32,
    /// How many alerts were told without a quiet time between them.
    pub streak: u32,
    /// The same for every try, as are the groups.
    pub id: String,
}

/// How telling went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// It was told; the next alert of this channel comes after this time at the earliest.
    Told {
        /// How long to be quiet.
        rest: Duration,
    },
    /// It was not; it is tried again after this time.
    Failed {
        /// How long to wait.
        rest: Duration,
        /// Why.
        error: String,
    },
}

/// How a channel does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelState {
    /// Its name.
    pub name: String,
    /// How many emails died that it was not told of yet.
    pub waiting: u64,
    /// When it was last told something.
    pub last_told_at: Option<Timestamp>,
    /// How many tries failed in a row.
    pub failures: u32,
    /// Why the last one did.
    pub last_error: Option<String>,
}

/// What channels have to tell. Deaths are recorded with the transition that caused them, so that
/// none is forgotten, and counted per channel, so that one that is down delays only itself.
#[async_trait]
pub trait AlertStore: Send + Sync {
    /// Adds deaths that no one has counted yet, at most `most`, to what each of these channels has
    /// to tell, in one transaction; how many. Without channels they are forgotten.
    async fn gather_deaths(&self, channels: &[String], most: usize) -> StoreResult<usize>;

    /// Takes what a channel has to tell, if something waits for at least `gather` and the channel
    /// has rested; nobody else gets it for the length of the lease. Until it was told it stays as
    /// it is, and nothing else is told: a receiver that was told after all and drops what it knows
    /// by its id misses nothing. What dies meanwhile comes next, with an id of its own. A streak ends when nothing was
    /// told for `quiet` after the last rest was over.
    async fn take_digest(
        &self,
        channel: &str,
        gather: Duration,
        quiet: Duration,
        lease: Duration,
    ) -> StoreResult<Option<Digest>>;

    /// Records how telling went. What was told is taken off; what died meanwhile stays.
    async fn settle_digest(&self, channel: &str, digest: &Digest, told: Told) -> StoreResult<()>;

    /// How the channels do, by name; also those that are not configured any more.
    async fn alert_channels(&self) -> StoreResult<Vec<ChannelState>>;
}
