//! What this process left of the emails whose attempts it began.
//!
//! While an email is `sending`, only who holds its token changes its row, so that its sender need
//! not read it again before each step. Someone may have taken it over all the same: whatever is
//! written by this knowledge is written only where the row still is so, and read first if it is not.
//! Leases are renewed apart from this: the time until which one is held is not known here.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use posthaste_core::email::EmailId;
use posthaste_core::lifecycle::State;

use super::books::Books;
use super::writer::Wants;
use crate::ledger::Ledger as _;

/// More than any sender has under way; the rest is read.
const MOST: usize = 20_000;

/// The states of emails that are being sent.
#[derive(Default)]
pub(super) struct UnderWay(Mutex<HashMap<EmailId, State>>);

impl UnderWay {
    fn states(&self) -> MutexGuard<'_, HashMap<EmailId, State>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The states that a job wants, if all that it wants is known.
    pub(super) fn known(&self, wants: &Wants) -> Option<Vec<(EmailId, State)>> {
        if !wants.held || wants.ids.is_empty() || wants.facts || wants.new.is_some() {
            return None;
        }
        let states = self.states();
        let known = |id: &EmailId| Some((*id, states.get(id)?.clone()));
        wants.ids.iter().map(known).collect()
    }

    /// Forgets what is about to change.
    pub(super) fn forget(&self, books: &Books) {
        let mut states = self.states();
        for id in books.ids() {
            states.remove(id);
        }
    }

    /// Remembers what was committed.
    pub(super) fn remember(&self, books: Books) {
        let now = books.now();
        let mut states = self.states();
        if states.len() >= MOST {
            // Whoever took these over finished them. One that is held still is read again.
            states.retain(|_, state| state.locked_until.is_some_and(|until| until > now));
        }
        for (id, state) in books.into_under_way() {
            if states.len() < MOST {
                states.insert(id, state);
            }
        }
    }
}
