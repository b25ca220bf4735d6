//! What the writer remembers of emails that are under way, so that it need not read again what it
//! has just written.
//!
//! It is a copy of rows and never more: whatever is not in it is read, and all of it is forgotten
//! when a transaction fails or another connection wrote to the file.

use std::collections::HashMap;
use std::sync::Arc;

use posthaste_core::Timestamp;
use posthaste_core::email::{EmailId, NewEmail, Recipient};
use posthaste_core::lifecycle::State;
use posthaste_core::port::{Lease, Started};
use posthaste_core::status::Status;

use super::accept::NewRow;
use super::{from_micros, micros};
use crate::ledger::Suppressed;

/// At most this many states are remembered.
const MOST_STATES: usize = 8192;
/// New emails are remembered as long as all of them together are not larger.
const MOST_BYTES: usize = 16 * 1024 * 1024;
/// About what an email takes besides its content.
const BYTES_BESIDE_CONTENT: usize = 1024;

/// An email as it was accepted, before its first attempt.
pub(super) struct Fresh {
    row: Arc<NewRow>,
    accepted_at: Timestamp,
}

/// Everything that the writer remembers.
#[derive(Default)]
pub(super) struct Memory {
    states: HashMap<EmailId, State>,
    fresh: HashMap<EmailId, Fresh>,
    fresh_bytes: usize,
    /// The file's version of which all this is true.
    version: Option<i64>,
}

impl Memory {
    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.states.clear();
        self.fresh.clear();
        self.fresh_bytes = 0;
    }

    /// Forgets everything if the file is at another version.
    pub(super) fn follow(&mut self, version: Option<i64>) {
        if version.is_none() || version != self.version {
            self.clear();
            self.version = version;
        }
    }

    /// Gives the state of an email away: whoever changes it remembers what became of it.
    pub(super) fn take_state(&mut self, id: EmailId) -> Option<State> {
        self.states.remove(&id)
    }

    /// Remembers what was written of an email, if more is likely to be written soon.
    pub(super) fn written(&mut self, id: EmailId, before: Status, next: &State) {
        if next.status == Status::Sending {
            self.keep_state(id, next.clone());
        } else if before == Status::Pending {
            self.take_fresh(id);
        }
    }

    /// Remembers an email that was accepted and is about to be sent.
    pub(super) fn accepted(&mut self, row: &Arc<NewRow>, state: State, at: Timestamp) {
        let id = row.email.id;
        let bytes = self.fresh_bytes + size_of(row);
        if bytes <= MOST_BYTES && self.states.len() < MOST_STATES {
            let row = Arc::clone(row);
            let accepted_at = at;
            self.fresh.insert(id, Fresh { row, accepted_at });
            self.fresh_bytes = bytes;
            self.keep_state(id, state);
        }
    }

    /// Remembers a state as it would be read.
    pub(super) fn keep_state(&mut self, id: EmailId, mut state: State) {
        if self.states.len() < MOST_STATES {
            // The others are whole microseconds already.
            state.locked_until = state.locked_until.map(|at| from_micros(micros(at)));
            self.states.insert(id, state);
        }
    }

    /// Gives an email away whose first attempt begins.
    pub(super) fn take_fresh(&mut self, id: EmailId) -> Option<Fresh> {
        let fresh = self.fresh.remove(&id)?;
        self.fresh_bytes -= size_of(&fresh.row);
        Some(fresh)
    }
}

fn size_of(row: &NewRow) -> usize {
    row.email.content.len() + BYTES_BESIDE_CONTENT
}

impl Fresh {
    /// The email.
    pub(super) fn email(&self) -> &NewEmail {
        &self.row.email
    }

    /// What a sender needs of it, whose first attempt began with this state.
    pub(super) fn started(&self, state: State, suppressed: Suppressed, now: Timestamp) -> Started {
        let email = &self.row.email;
        let recipients = email.envelope.recipients.iter().cloned();
        Started {
            lease: Lease {
                id: email.id,
                token: state.lease_token,
            },
            from: email.envelope.from.clone(),
            recipients: recipients.map(Recipient::waiting).collect(),
            content: email.content.clone(),
            suppressed,
            policy: email.policy.clone(),
            route: email.route.clone(),
            created_at: self.accepted_at,
            expires_at: email.expires_at.map(|at| from_micros(micros(at))),
            traceparent: email.traceparent.clone(),
            state,
            now,
        }
    }
}
