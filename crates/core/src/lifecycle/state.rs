//! The hot row of an email.

use crate::Timestamp;
use crate::status::{DeadReason, Phase, Status};

/// An email is sent alone from this many losses on.
pub const LOSSES_BEFORE_ALONE: u32 = 2;
/// An email that lost this many workers is poison.
pub const LOSSES_BEFORE_POISON: u32 = 3;

/// The hot row of an email: nothing but state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// Where it is in its life.
    pub status: Status,
    /// How far the last attempt got.
    pub phase: Phase,
    /// The number of the last attempt that began. One that was parked before anything was tried
    /// has not been one.
    pub attempt_number: u32,
    /// Counted attempts since the last replay.
    pub attempt_count: u32,
    /// The attempt number at the last replay: later ones spend the present budget.
    pub budget_from: u32,
    /// Whether its first attempt was made while its caller waited. That one is not counted: the
    /// budget is for what comes after.
    pub inline: bool,
    /// Its own budget, when the caller set one; otherwise the policy's current value counts.
    pub max_attempts: Option<u32>,
    /// When the next attempt may begin. For `unknown`: set while its policy has not yet decided.
    pub next_attempt_at: Option<Timestamp>,
    /// Until when someone else must not touch it.
    pub locked_until: Option<Timestamp>,
    /// Raised by begin, cancel and replay, never goes back; a write with an older one changes
    /// nothing.
    pub lease_token: i64,
    /// Who holds it.
    pub worker: Option<String>,
    /// When the present attempt began.
    pub started_at: Option<Timestamp>,
    /// How many workers were lost while holding it, since the last replay.
    pub lost_count: u32,
    /// Attempts of unknown fate since the last replay.
    pub unknown_count: u32,
    /// Whether a second copy may have left.
    pub possible_duplicate: bool,
    /// Which ways out must be free again before it is tried; it waits for one of them.
    pub waiting_for: Option<String>,
    /// When it becomes too late to wait any longer.
    pub waits_until: Option<Timestamp>,
    /// The way out of the last attempt that passed the gate.
    pub transport: Option<String>,
    /// Further attempts take this way out: one of its attempts may have sent it.
    pub bound_to: Option<String>,
    /// The ways out that failed since the last attempt that counted, separated by commas.
    pub tried: Option<String>,
    /// Whether an operator wants it sent although it is too late.
    pub ignores_expiry: bool,
    /// When its ticket was last published.
    pub last_queued_at: Option<Timestamp>,
    /// What went wrong last.
    pub last_error: Option<String>,
    /// The rule that classified it.
    pub error_class: Option<String>,
    /// Why it is dead.
    pub dead_reason: Option<DeadReason>,
    /// Groups errors that differ only in details.
    pub fingerprint: Option<String>,
    /// When the server accepted it.
    pub sent_at: Option<Timestamp>,
    /// When it reached a terminal state.
    pub finished_at: Option<Timestamp>,
}

impl State {
    /// The state of an email that was just accepted.
    #[must_use]
    pub const fn accepted(due: Timestamp, max_attempts: Option<u32>) -> Self {
        Self {
            status: Status::Pending,
            phase: Phase::Idle,
            attempt_number: 0,
            attempt_count: 0,
            budget_from: 0,
            inline: false,
            max_attempts,
            next_attempt_at: Some(due),
            locked_until: None,
            lease_token: 0,
            worker: None,
            started_at: None,
            lost_count: 0,
            unknown_count: 0,
            possible_duplicate: false,
            waiting_for: None,
            waits_until: None,
            transport: None,
            bound_to: None,
            tried: None,
            ignores_expiry: false,
            last_queued_at: None,
            last_error: None,
            error_class: None,
            dead_reason: None,
            fingerprint: None,
            sent_at: None,
            finished_at: None,
        }
    }

    /// The state of an email that was just accepted while its caller waits for the first attempt.
    #[must_use]
    pub const fn accepted_inline(due: Timestamp, max_attempts: Option<u32>) -> Self {
        let mut state = Self::accepted(due, max_attempts);
        state.inline = true;
        state
    }

    /// Whether the last attempt that began spends the budget if it fails.
    #[must_use]
    pub const fn counts_attempt(&self) -> bool {
        !(self.inline && self.attempt_number == 1)
    }

    /// Whether an attempt has failed since the last replay, also one that was not counted.
    #[must_use]
    pub const fn has_failed(&self) -> bool {
        self.attempt_count > 0 || self.last_error.is_some()
    }

    /// Whether its next attempt may begin.
    #[must_use]
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.next_attempt_at.is_some_and(|at| at <= now)
    }

    /// Whether it must be sent with nothing beside it, because workers died over it before.
    #[must_use]
    pub const fn is_sent_alone(&self) -> bool {
        self.lost_count >= LOSSES_BEFORE_ALONE
    }

    /// Where an email rests that waits for an attempt: `pending` until the first one was made.
    pub(super) const fn resting(&self) -> Status {
        if !self.has_failed() && self.lost_count == 0 {
            Status::Pending
        } else {
            Status::Failed
        }
    }

    pub(super) fn unlock(&mut self) {
        self.locked_until = None;
        self.worker = None;
        self.started_at = None;
    }

    pub(super) fn forget_error(&mut self) {
        self.last_error = None;
        self.error_class = None;
        self.fingerprint = None;
    }

    pub(super) fn leave_parking(&mut self) {
        self.waiting_for = None;
        self.waits_until = None;
    }

    /// Whether this way out failed since the last attempt that counted.
    #[must_use]
    pub fn has_tried(&self, transport: &str) -> bool {
        let tried = self.tried.as_deref().unwrap_or_default();
        tried.split(',').any(|name| name == transport)
    }

    pub(super) fn end(&mut self, status: Status, now: Timestamp) {
        self.status = status;
        self.phase = Phase::Idle;
        self.next_attempt_at = None;
        self.finished_at = Some(now);
        self.tried = None;
        self.leave_parking();
        self.unlock();
    }
}
