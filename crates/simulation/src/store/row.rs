//! One email as the store in memory keeps it.

use posthaste_core::Timestamp;
use posthaste_core::attempt::AttemptRecord;
use posthaste_core::email::{EmailRecord, NewEmail, Recipient, RecipientStatus};
use posthaste_core::lifecycle::State;
use posthaste_core::port::{Lease, Started};
use posthaste_core::status::{Outcome, Status};

use super::books::Book;

/// One email.
pub(crate) struct Row {
    pub(crate) email: NewEmail,
    pub(crate) state: State,
    /// Where each recipient stands, once they differ.
    pub(super) standings: Vec<Recipient>,
    pub(crate) attempts: Vec<AttemptRecord>,
    pub(super) created_at: Timestamp,
    pub(super) erased_at: Option<Timestamp>,
    /// What we know of it besides, to tell whether the store is right.
    pub(crate) book: Book,
}

impl Row {
    pub(super) fn new(email: NewEmail, state: State, now: Timestamp) -> Self {
        Self {
            email,
            state,
            standings: Vec::new(),
            attempts: Vec::new(),
            created_at: now,
            erased_at: None,
            book: Book::default(),
        }
    }

    /// Its name in the log.
    pub(crate) fn name(&self) -> &str {
        &self.email.message_key
    }

    /// Every recipient: as they are recorded, or all alike as the email's own state tells.
    pub(crate) fn recipients(&self) -> Vec<Recipient> {
        let addresses = &self.email.envelope.recipients;
        if addresses.len() > 1 && !self.standings.is_empty() {
            return self.standings.clone();
        }
        let status = match self.state.status {
            Status::Sent => RecipientStatus::Accepted,
            Status::Dead | Status::Discarded => RecipientStatus::Dead,
            _ => RecipientStatus::Waiting,
        };
        let stands = |address| Recipient {
            status,
            ..Recipient::waiting(address)
        };
        addresses.iter().cloned().map(stands).collect()
    }

    /// What a sender needs of it once its attempt has begun.
    pub(super) fn started(&self, now: Timestamp) -> Started {
        let email = &self.email;
        Started {
            lease: Lease {
                id: email.id,
                token: self.state.lease_token,
            },
            state: self.state.clone(),
            from: email.envelope.from.clone(),
            recipients: self.recipients(),
            content: email.content.clone(),
            suppressed: Vec::new(),
            policy: email.policy.clone(),
            route: email.route.clone(),
            created_at: self.created_at,
            expires_at: email.expires_at,
            traceparent: email.traceparent.clone(),
            now,
        }
    }

    /// The same attempt again is late proof: it replaces what was assumed.
    pub(super) fn record(&mut self, attempt: &AttemptRecord) {
        let known = self.attempts.iter_mut();
        match known.into_iter().find(|one| one.number == attempt.number) {
            Some(known) => {
                let (started_at, worker) = (known.started_at, known.worker.take());
                *known = AttemptRecord {
                    started_at,
                    worker,
                    ..attempt.clone()
                };
            }
            None => self.attempts.push(attempt.clone()),
        }
    }

    /// How many of its attempts are on record as of unknown fate.
    pub(crate) fn unknowns(&self) -> usize {
        let unknown = |attempt: &&AttemptRecord| attempt.outcome == Outcome::Unknown;
        self.attempts.iter().filter(unknown).count()
    }

    pub(super) fn email_record(&self) -> EmailRecord {
        let email = &self.email;
        EmailRecord {
            id: email.id,
            owner: email.owner.clone(),
            message_key: email.message_key.clone(),
            template: email.template.clone(),
            priority: email.priority,
            summary: email.summary.clone(),
            recipients: self.recipients(),
            metadata: email.metadata.clone(),
            policy: email.policy.clone(),
            route: email.route.clone(),
            send_at: email.send_at,
            expires_at: email.expires_at,
            created_at: self.created_at,
            size_bytes: email.content.len() as u64,
            erased_at: self.erased_at,
            state: self.state.clone(),
            attempts: self.attempts.clone(),
        }
    }
}
