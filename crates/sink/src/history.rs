//! What the sink remembers from one try to the next, for the behaviours that depend
//! on earlier tries.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::Instant;

/// Earlier tries. Grows only with recipients that ask for such a behaviour.
pub(crate) struct History {
    /// First try of each sender and recipient, for `greylist`.
    first_tries: Mutex<HashMap<(String, String), Instant>>,
    /// Tries so far of each Message-ID and recipient, for `fail<n>`.
    failures: Mutex<HashMap<(String, String), u64>>,
    /// The dice of `flaky<percent>`.
    dice: Mutex<StdRng>,
}

impl History {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            first_tries: Mutex::default(),
            failures: Mutex::default(),
            dice: Mutex::new(StdRng::seed_from_u64(seed)),
        }
    }

    /// How long this sender still has to wait for this recipient; none: no longer.
    pub(crate) fn greylisted_for(
        &self,
        sender: &str,
        recipient: &str,
        greylist_after: Duration,
    ) -> Option<Duration> {
        let now = Instant::now();
        let key = (sender.to_lowercase(), recipient.to_lowercase());
        let mut first_tries = self
            .first_tries
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match first_tries.get(&key) {
            Some(first) => greylist_after
                .checked_sub(now - *first)
                .filter(|remaining| !remaining.is_zero()),
            None => {
                first_tries.insert(key, now);
                Some(greylist_after)
            }
        }
    }

    /// Counts a try; true while it is among the first `tries`.
    pub(crate) fn fails_again(&self, message_id: &str, recipient: &str, tries: u64) -> bool {
        let key = (message_id.to_owned(), recipient.to_lowercase());
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = failures.entry(key).or_default();
        let again = *failed < tries;
        *failed += u64::from(again);
        again
    }

    /// Throws the dice: true in `percent` of the throws.
    pub(crate) fn unlucky(&self, percent: u64) -> bool {
        let mut dice = self.dice.lock().unwrap_or_else(PoisonError::into_inner);
        dice.random_range(0..100) < percent
    }
}
