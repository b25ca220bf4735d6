//! What the engine counts for people. One set for all runs of a thread: nothing is decided by it.

use std::sync::Arc;

use posthaste_engine::{MessageMetrics, Metrics};
use prometheus_client::registry::Registry;

/// The metrics of all processes.
#[derive(Clone)]
pub(crate) struct Gauges {
    pub(crate) emails: Arc<Metrics>,
    pub(crate) messages: Arc<MessageMetrics>,
}

impl Gauges {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::default();
        Self {
            emails: Arc::new(Metrics::new(&mut registry, &["primary", "secondary"])),
            messages: Arc::new(MessageMetrics::new(&mut registry)),
        }
    }
}
