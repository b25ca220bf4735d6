//! The model: where events lead according to the documents, and what holds at every moment.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use posthaste_core::Timestamp;
use posthaste_core::attempt::AttemptRecord;
use posthaste_core::decision::{Conclusion, Decision};
use posthaste_core::lifecycle::{
    Event, LOSSES_BEFORE_POISON, Refusal, Resolution, State, Transition, transition,
};
use posthaste_core::status::{DeadReason, Outcome, Phase, Status};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use crate::step::{LEASE, Move, Report, Setting, Step, Token, decision_on, settlement_of};

/// The arrows of DESIGN §4 and §5: where a move may lead from a state. Empty: it is refused.
pub(crate) fn documented(action: Move, from: Status) -> &'static [Status] {
    use Status::{
        Cancelled, Dead, Discarded, Failed, Pending, RetryQueued, Sending, Sent, Unknown,
    };
    match (action, from) {
        (Move::Begin, Pending | RetryQueued) => &[Sending],
        (Move::Prepare(_) | Move::Renew(_) | Move::Gate(_), Sending) => &[Sending],
        (Move::Finish(..), Sending) => &[Sent, Failed, Unknown, Dead],
        // Late proof: delivered to all, or to those who were left.
        (Move::Finish(_, report), Pending | Failed | RetryQueued | Unknown) if report.is_sent() => {
            &[Sent, Dead]
        }
        (Move::Release(_), Sending) => &[Pending, Failed],
        (Move::ClaimDue, Pending) => &[RetryQueued],
        // Given up here only when the budget was lowered, which a walk does not do.
        (Move::ClaimDue, Failed) => &[RetryQueued],
        (Move::Queued(_), Pending) => &[Pending],
        (Move::Queued(_), RetryQueued) => &[RetryQueued],
        (Move::Unqueued(_), Pending) => &[Pending],
        (Move::Unqueued(_) | Move::LeaseExpired, RetryQueued) => &[Pending, Failed],
        (Move::LeaseExpired, Sending) => &[Failed, Unknown, Dead],
        (Move::Settle, Unknown) => &[Failed, Unknown],
        (Move::Cancel, Pending | Failed | RetryQueued) => &[Cancelled],
        (Move::Replay, Dead | Unknown | Failed) => &[Pending],
        (Move::Resolve(Resolution::Sent), Unknown) => &[Sent],
        (Move::Resolve(Resolution::Retry), Unknown) => &[Pending],
        (Move::Resolve(Resolution::Dead), Unknown) => &[Dead],
        (Move::Discard, Dead) => &[Discarded],
        (Move::Restore, Discarded) => &[Dead],
        (Move::Expire, Pending | Failed | RetryQueued) => &[Dead],
        _ => &[],
    }
}

/// What else must hold for a move to be allowed.
pub(crate) fn is_timely(action: Move, state: &State, now: Timestamp) -> bool {
    let is_due = state.next_attempt_at.is_some_and(|at| at <= now);
    match action {
        Move::Begin | Move::ClaimDue => is_due,
        Move::LeaseExpired => state.locked_until.is_some_and(|until| until <= now),
        Move::Settle => state.next_attempt_at.is_some(),
        Move::Prepare(_) => state.phase != Phase::Committing,
        // One that must be sent alone has to come to its turn first.
        Move::Gate(_) => state.phase != Phase::Idle,
        // A token that came from a replay was never handed to a worker.
        Move::Finish(..) => state.attempt_number > state.budget_from,
        _ => true,
    }
}

pub(crate) struct Walk {
    setting: Setting,
    pub(crate) now: Timestamp,
    pub(crate) state: State,
    /// The counters of I1: +1 where an email arrives, -1 where it leaves.
    counters: BTreeMap<Status, i64>,
    records: BTreeMap<u32, AttemptRecord>,
    budget_from: u32,
    losses: u32,
    had_unknown: bool,
    not_before: Timestamp,
    /// The holder of the current token said for certain how its attempt ended: it has no more
    /// to say.
    has_spoken: bool,
    /// A scheduler claimed it and has not yet said whether its ticket was published.
    awaits_publishing: bool,
    pub(crate) edges: BTreeSet<(String, Status, Status)>,
}

impl Walk {
    fn new(setting: &Setting) -> Self {
        let now = Timestamp::UNIX_EPOCH;
        let due = now + setting.due_in;
        let accepted = if setting.inline {
            State::accepted_inline
        } else {
            State::accepted
        };
        Self {
            setting: setting.clone(),
            now,
            state: accepted(due, setting.own_max_attempts),
            counters: BTreeMap::from([(Status::Pending, 1)]),
            records: BTreeMap::new(),
            budget_from: 0,
            losses: 0,
            had_unknown: false,
            not_before: due,
            has_spoken: false,
            awaits_publishing: false,
            edges: BTreeSet::new(),
        }
    }

    pub(crate) fn take(&mut self, step: &Step) -> TestCaseResult {
        self.now += step.wait;
        let late = self.state.status != Status::Sending;
        if let Move::Finish(Token::Current, report) = step.action {
            let contradicts_itself = late && self.has_spoken && report.is_sent();
            let lost_before_gate =
                report == Report::ReplyLost && self.state.phase != Phase::Committing;
            if contradicts_itself || lost_before_gate {
                // No worker does that.
                return Ok(());
            }
        }
        let token = match step.action.token() {
            Some(Token::Older(n)) => self.state.lease_token - n,
            Some(Token::Newer(n)) => self.state.lease_token + n,
            _ => self.state.lease_token,
        };
        let (before, now) = (self.state.clone(), self.now);
        let decision = match step.action {
            Move::Finish(_, report) => {
                Some(decision_on(report, &before, &self.setting, step.random))
            }
            _ => None,
        };
        let settlement = settlement_of(&before, &self.setting, step.random);
        let event = match step.action {
            Move::Begin => Event::Begin {
                worker: "worker",
                lease: LEASE,
            },
            Move::Prepare(_) => Event::Prepare { token },
            Move::Renew(_) => Event::Renew {
                token,
                lease: LEASE,
            },
            Move::Gate(_) => Event::Gate { token },
            Move::Finish(..) => Event::Finish {
                token,
                decision: decision.as_ref().unwrap(),
                transport: "smtp",
                budget: self.setting.policy.max_attempts,
            },
            Move::Release(_) => Event::Release { token },
            Move::ClaimDue => Event::ClaimDue {
                lease: LEASE,
                budget: self.setting.policy.max_attempts,
            },
            Move::Queued(_) => Event::Queued { token },
            Move::Unqueued(_) => Event::Unqueued { token },
            Move::LeaseExpired => Event::LeaseExpired,
            Move::Settle => Event::Settle(&settlement),
            Move::Cancel => Event::Cancel,
            Move::Replay => Event::Replay,
            Move::Resolve(resolution) => Event::Resolve(resolution),
            Move::Discard => Event::Discard,
            Move::Restore => Event::Restore,
            Move::Expire => Event::Expire,
        };
        let result = transition(&before, &event, now);

        if token != before.lease_token {
            prop_assert_eq!(&result, &Err(Refusal::StaleToken), "I4: {:?}", step);
        }
        let targets = documented(step.action, before.status);
        let expected = token == before.lease_token
            && !targets.is_empty()
            && is_timely(step.action, &before, now);
        prop_assert_eq!(result.is_ok(), expected, "{:?} on {:?}", step, before);
        let Ok(Transition { next, attempt }) = result else {
            return Ok(());
        };
        prop_assert!(
            targets.contains(&next.status),
            "{:?}: {} to {}",
            step,
            before.status,
            next.status
        );
        self.edges
            .insert((step.action.name(), before.status, next.status));
        *self.counters.entry(before.status).or_default() -= 1;
        *self.counters.entry(next.status).or_default() += 1;
        self.follow(
            step,
            &before,
            &next,
            attempt,
            decision.as_ref(),
            &settlement,
        )?;
        self.state = next;
        self.check()
    }

    /// The model makes the same step, and says what the step must have done.
    fn follow(
        &mut self,
        step: &Step,
        before: &State,
        next: &State,
        attempt: Option<AttemptRecord>,
        decision: Option<&Decision>,
        settlement: &Conclusion,
    ) -> TestCaseResult {
        let now = self.now;
        let raises_token = matches!(
            step.action,
            Move::Begin
                | Move::Cancel
                | Move::Replay
                | Move::Resolve(Resolution::Retry)
                | Move::Expire
        );
        let token = before.lease_token + i64::from(raises_token);
        prop_assert_eq!(next.lease_token, token, "{:?}", step);
        let number = before.attempt_number + u32::from(step.action == Move::Begin);
        prop_assert_eq!(next.attempt_number, number, "{:?}", step);

        let ends_attempt = matches!(step.action, Move::Finish(..) | Move::Release(_))
            || (step.action == Move::LeaseExpired && before.status == Status::Sending);
        prop_assert_eq!(attempt.is_some(), ends_attempt, "{:?}", step);
        if let Some(record) = attempt {
            self.record(before, record)?;
        }

        // Nothing but a claim leaves a scheduler's lock, and whatever comes next ends it.
        self.awaits_publishing = step.action == Move::ClaimDue;
        match step.action {
            Move::Begin => {
                prop_assert!(now >= self.not_before, "I7: too early by {:?}", step);
                let had_unknown = self.records.values().any(|r| r.outcome == Outcome::Unknown);
                prop_assert!(
                    next.possible_duplicate || !had_unknown,
                    "a silent duplicate: {:?}",
                    self.records
                );
                self.has_spoken = false;
            }
            Move::Renew(_) => prop_assert_eq!(next.locked_until, Some(now + LEASE)),
            Move::Prepare(_) => prop_assert_eq!(next.phase, Phase::Preparing),
            Move::Gate(_) => prop_assert_eq!(next.phase, Phase::Committing),
            Move::Finish(..) => {
                let decision = decision.unwrap();
                self.has_spoken = decision.outcome != Outcome::Unknown;
                if let Conclusion::Retry { delay, .. } = decision.conclusion {
                    self.wait_for(next, delay);
                    prop_assert_eq!(next.next_attempt_at, Some(self.not_before));
                    if decision.outcome.is_counted() {
                        // The first attempt counts for the waiting, even if not for the budget.
                        let failures = next.attempt_count + u32::from(self.setting.inline);
                        let backoff = self.setting.policy.backoff(failures);
                        prop_assert!(delay >= backoff, "I7: {:?} < {:?}", delay, backoff);
                    }
                }
                if let Move::Finish(_, Report::Deferred(Some(floor))) = step.action
                    && next.status == Status::Failed
                {
                    let floor = now + Duration::from_secs(floor);
                    prop_assert!(next.next_attempt_at >= Some(floor), "I7: under the floor");
                }
            }
            Move::Settle => {
                if let Conclusion::Retry { delay, .. } = settlement {
                    self.wait_for(next, *delay);
                    prop_assert_eq!(next.next_attempt_at, Some(self.not_before));
                }
            }
            Move::Queued(_) => prop_assert_eq!(next.last_queued_at, Some(now)),
            // Whoever looks for emails without a ticket must find it.
            Move::Unqueued(_) => prop_assert_eq!(next.last_queued_at, None),
            Move::Release(_) => {
                prop_assert_eq!(next.last_queued_at, None);
                prop_assert_eq!(next.next_attempt_at, Some(now));
                self.has_spoken = true;
                self.not_before = now;
            }
            Move::Replay | Move::Resolve(Resolution::Retry) => {
                prop_assert_eq!(next.last_queued_at, None);
                prop_assert_eq!(next.next_attempt_at, Some(now));
                prop_assert_eq!(&next.last_error, &None);
                self.budget_from = before.attempt_number;
                self.losses = 0;
                self.not_before = now;
                let again = transition(next, &Event::Replay, now);
                prop_assert!(again.is_err(), "replayed twice: {:?}", again);
            }
            Move::LeaseExpired if before.status == Status::Sending => {
                self.not_before = now;
                // A worker that never came to its turn has nothing to report.
                self.has_spoken |= before.phase == Phase::Idle;
            }
            _ => {}
        }
        Ok(())
    }

    fn wait_for(&mut self, next: &State, delay: Duration) {
        assert_eq!(next.status, Status::Failed);
        self.not_before = self.now + delay;
    }

    fn record(&mut self, before: &State, record: AttemptRecord) -> TestCaseResult {
        prop_assert_eq!(record.number, before.attempt_number);
        prop_assert!(record.started_at <= record.finished_at);
        self.losses += u32::from(record.outcome == Outcome::Lost);
        self.had_unknown |= record.outcome == Outcome::Unknown;
        let outcome = record.outcome;
        if let Some(earlier) = self.records.insert(record.number, record) {
            let is_proof = outcome == Outcome::Sent
                && matches!(earlier.outcome, Outcome::Unknown | Outcome::Lost);
            prop_assert!(is_proof, "{} after {:?}", outcome, earlier);
        }
        Ok(())
    }

    /// What holds at every moment.
    pub(crate) fn check(&self) -> TestCaseResult {
        let state = &self.state;
        let status = state.status;
        for (counted, sum) in &self.counters {
            prop_assert_eq!(*sum, i64::from(*counted == status), "I1: {}", counted);
        }

        let current = self.records.range(self.budget_from + 1..);
        let is_spent =
            |r: &AttemptRecord| r.outcome.is_counted() && !(self.setting.inline && r.number == 1);
        let counted = current.clone().filter(|(_, r)| is_spent(r));
        prop_assert_eq!(state.attempt_count as usize, counted.count(), "{:?}", state);
        let unknown = current.filter(|(_, r)| r.outcome == Outcome::Unknown);
        prop_assert_eq!(state.unknown_count as usize, unknown.count(), "{:?}", state);
        prop_assert!(
            state.attempt_count <= self.setting.max_attempts(),
            "I7: {:?}",
            state
        );
        prop_assert_eq!(state.budget_from, self.budget_from);
        prop_assert_eq!(state.lost_count, self.losses);
        prop_assert_eq!(
            state.dead_reason == Some(DeadReason::Poison),
            self.losses == LOSSES_BEFORE_POISON
        );
        prop_assert!(self.had_unknown || !state.possible_duplicate);

        let sending = status == Status::Sending;
        let is_locked = sending || self.awaits_publishing;
        prop_assert_eq!(state.locked_until.is_some(), is_locked, "{:?}", state);
        prop_assert_eq!(state.worker.is_some(), sending);
        prop_assert_eq!(state.started_at.is_some(), sending);
        prop_assert!(!sending || state.is_sent_alone() || state.phase != Phase::Idle);

        let is_over = status.is_terminal();
        let is_dead = matches!(status, Status::Dead | Status::Discarded);
        prop_assert_eq!(state.finished_at.is_some(), is_over, "{:?}", state);
        prop_assert_eq!(
            state.sent_at.is_some(),
            status == Status::Sent,
            "{:?}",
            state
        );
        prop_assert_eq!(state.dead_reason.is_some(), is_dead, "{:?}", state);
        prop_assert!(!is_over || state.phase == Phase::Idle);
        let is_held = status == Status::Unknown && state.next_attempt_at.is_none();
        prop_assert_eq!(state.next_attempt_at.is_none(), is_over || is_held);
        prop_assert!(
            status != Status::Sent || state.last_error.is_none(),
            "{:?}",
            state
        );
        prop_assert_eq!(state.last_error.is_some(), state.error_class.is_some());
        prop_assert_eq!(state.last_error.is_some(), state.fingerprint.is_some());
        Ok(())
    }
}

pub(crate) fn walk(setting: &Setting, steps: &[Step]) -> Result<Walk, TestCaseError> {
    let mut walk = Walk::new(setting);
    walk.check()?;
    for step in steps {
        walk.take(step)?;
    }
    Ok(walk)
}
