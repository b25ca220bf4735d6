//! What providers say later of emails that they took: it comes in here, whoever carries it.

use std::sync::Arc;

use posthaste_core::feedback::Recorded;
use posthaste_core::port::{Callback, CallbackError, SharedStore, StoreError};

use crate::Ways;

/// What came of a provider's post.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FeedbackSummary {
    /// How many words changed something.
    pub recorded: usize,
    /// How many were known already, or something graver was.
    pub unchanged: usize,
    /// How many were about no email of ours.
    pub not_ours: usize,
}

/// Why a provider's post was not taken.
#[derive(Debug, Clone, thiserror::Error)]
pub enum FeedbackError {
    /// No transport of this name listens to a provider.
    #[error("there is no transport of this name that listens to its provider")]
    NotFound,
    /// It is not believed, or not understood.
    #[error(transparent)]
    Callback(#[from] CallbackError),
    /// One of its emails is being sent at this moment.
    #[error("an email of it is being sent right now; say it again later")]
    TryLater,
    /// The store could not keep it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Takes in what providers say later.
pub struct FeedbackDesk {
    store: SharedStore,
    ways: Arc<Ways>,
}

impl FeedbackDesk {
    /// A desk for the providers of these ways out.
    #[must_use]
    pub const fn new(store: SharedStore, ways: Arc<Ways>) -> Self {
        Self { store, ways }
    }

    /// Whether a transport of this name listens to its provider.
    #[must_use]
    pub fn listens(&self, transport: &str) -> bool {
        self.ways.feedback(transport).is_some()
    }

    /// Checks what a provider posted, and records it. All of it may come again: what was recorded
    /// then stays as it is.
    pub async fn take(
        &self,
        transport: &str,
        headers: Vec<(String, String)>,
        body: bytes::Bytes,
    ) -> Result<FeedbackSummary, FeedbackError> {
        let reader = self
            .ways
            .feedback(transport)
            .ok_or(FeedbackError::NotFound)?;
        let at = self.store.now();
        let callback = Callback { headers, body, at };
        let events = reader.read(&callback).await?;
        if events.is_empty() {
            return Ok(FeedbackSummary::default());
        }
        let mut summary = FeedbackSummary::default();
        let mut later = 0;
        for recorded in self.store.record_feedback(transport, events).await? {
            match recorded {
                Recorded::Done => summary.recorded += 1,
                Recorded::Unchanged => summary.unchanged += 1,
                Recorded::NotOurs => summary.not_ours += 1,
                Recorded::TryLater => later += 1,
            }
        }
        tracing::info!(
            transport,
            recorded = summary.recorded,
            unchanged = summary.unchanged,
            not_ours = summary.not_ours,
            later,
            "the provider spoke of emails"
        );
        if later > 0 {
            return Err(FeedbackError::TryLater);
        }
        Ok(summary)
    }
}
