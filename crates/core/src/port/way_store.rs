//! How the ways out do, shared by all instances.

use std::time::Duration;

use async_trait::async_trait;

use super::{Actor, StoreResult};
use crate::Timestamp;
use crate::way::{BreakerRules, Way, WayAnswer, WayEvent, WayName};

/// What every sender looks at now and then.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WaysReport {
    /// The ways of which there is something to say. Of all others nothing is known against them.
    pub ways: Vec<(WayName, Way)>,
    /// What emails wait for: each `waiting_for` once.
    pub waiting_for: Vec<String>,
    /// How many senders there are, with this one.
    pub senders: u32,
}

/// How many emails wait for the same ways.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parked {
    /// What for.
    pub waiting_for: String,
    /// How many.
    pub count: u64,
    /// Since when the oldest could have been tried.
    pub oldest: Timestamp,
}

/// The breakers.
#[async_trait]
pub trait WayStore: Send + Sync {
    /// Tells a way what happened, and gives how it does now and what it answers. In the same
    /// transaction its refunds are made, its news recorded for alerts, and what an operator
    /// (`actor`) did goes into the audit log.
    async fn tell_way(
        &self,
        name: &WayName,
        event: WayEvent,
        rules: &BreakerRules,
        actor: Option<&Actor>,
    ) -> StoreResult<(Way, WayAnswer)>;

    /// What a sender of this name has to know; the sender is there for `present` from now on.
    /// Without a sender it is only looked at.
    async fn watch_ways(&self, sender: Option<&str>, present: Duration) -> StoreResult<WaysReport>;

    /// How many emails wait for which ways, most first.
    async fn parked(&self) -> StoreResult<Vec<Parked>>;
}
