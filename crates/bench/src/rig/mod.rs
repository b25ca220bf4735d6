//! Servers that may be crashed and processes that may be killed, for runs that break things.

pub(crate) mod fleet;
pub(crate) mod journal;
pub(crate) mod life;
pub(crate) mod member;
pub(crate) mod outage;
pub(crate) mod proxy;
pub(crate) mod services;
pub(crate) mod stand;
pub(crate) mod vital;

use std::future::Future;

use anyhow::bail;
use tokio::signal::unix::{SignalKind, signal};

/// The value below which this share of sorted ones is.
pub(crate) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let at = (sorted.len().saturating_sub(1) as f64 * share).ceil() as usize;
    sorted.get(at).copied().unwrap_or(f64::NAN)
}

/// Works until it is done, or until somebody wants it to end: then it is dropped, and whatever it
/// started is stopped.
pub(crate) async fn unless_interrupted<T>(
    work: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        done = work => done,
        _ = tokio::signal::ctrl_c() => bail!("interrupted"),
        _ = terminate.recv() => bail!("terminated"),
    }
}
