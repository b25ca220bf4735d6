//! The model walks beside the lifecycle, and checks what holds at every moment.

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

use crate::arrow::{documented, is_timely};
use crate::step::{LEASE, Move, Report, Setting, Step, Token, decision_on, parking, settlement_of};

const REPLAY: Event<'static> = Event::Replay {
    ignores_expiry: false,
};

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
    /// Whether the first attempt is its caller's.
    inline: bool,
    /// Whether a provider gave it back that had taken it.
    came_back: bool,
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
            inline: setting.inline,
            came_back: false,
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
        if matches!(step.action, Move::Refund { .. }) && !self.has_spent() {
            // Stores look at the record first.
            return Ok(());
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
        // One that may have been sent keeps to its way out.
        let way = match &before.bound_to {
            Some(bound) => bound.as_str(),
            None if step.random < 0.5 => "primary",
            None => "secondary",
        };
        let gated = before.transport.as_deref();
        let is_gated = before.phase == Phase::Committing;
        let floor = match step.action {
            Move::Park(_, floor) => floor,
            _ => 0,
        };
        let parking = parking(floor);
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
            Move::Gate(_) => Event::Gate {
                token,
                transport: way,
            },
            Move::Park(..) => Event::Park {
                token,
                parking: &parking,
            },
            Move::Unpark => Event::Unpark {
                lease: LEASE,
                budget: self.setting.policy.max_attempts,
            },
            Move::Refund { is_last } => Event::Refund {
                number: before.attempt_number - u32::from(!is_last),
            },
            Move::Feedback(feedback) => Event::Feedback {
                feedback,
                detail: None,
            },
            Move::Finish(..) => Event::Finish {
                token,
                decision: decision.as_ref().unwrap(),
                transport: if is_gated { gated } else { Some(way) },
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
            Move::Replay => REPLAY,
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
        ) || matches!(step.action, Move::Feedback(_))
            && matches!(before.status, Status::Failed | Status::RetryQueued);
        let token = before.lease_token + i64::from(raises_token);
        prop_assert_eq!(next.lease_token, token, "{:?}", step);
        // What was parked before anything was tried has not been an attempt.
        let number = before.attempt_number + u32::from(step.action == Move::Begin)
            - u32::from(matches!(step.action, Move::Park(..)));
        prop_assert_eq!(next.attempt_number, number, "{:?}", step);
        let is_replay = matches!(step.action, Move::Replay | Move::Resolve(Resolution::Retry));
        if is_replay {
            prop_assert_eq!(&next.bound_to, &None);
        } else if before.bound_to.is_some() {
            prop_assert_eq!(&next.bound_to, &before.bound_to, "{:?}", step);
        }

        let ends_attempt = matches!(step.action, Move::Finish(..) | Move::Release(_))
            || (step.action == Move::LeaseExpired && before.status == Status::Sending);
        prop_assert_eq!(attempt.is_some(), ends_attempt, "{:?}", step);
        if let Some(record) = attempt {
            self.record(before, record)?;
        }

        // Nothing but a claim leaves a scheduler's lock, and whatever comes next ends it.
        self.awaits_publishing = matches!(step.action, Move::ClaimDue | Move::Unpark);
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
                match &decision.conclusion {
                    Conclusion::Park(parking) => {
                        prop_assert_eq!(&next.waiting_for, &Some(parking.waiting_for.clone()));
                        self.wait_for(next, parking.floor);
                    }
                    Conclusion::Elsewhere => {
                        let failed = self.records.values().next_back().unwrap();
                        let failed = failed.transport.as_deref().unwrap();
                        prop_assert!(next.has_tried(failed), "{:?}", next);
                        self.wait_for(next, Duration::ZERO);
                    }
                    _ => prop_assert_eq!(&next.tried, &None),
                }
                if let Conclusion::Retry { delay, .. } = decision.conclusion {
                    self.wait_for(next, delay);
                    prop_assert_eq!(next.next_attempt_at, Some(self.not_before));
                    if decision.outcome.is_counted() {
                        // The first attempt counts for the waiting, even if not for the budget.
                        let failures = next.attempt_count + u32::from(self.inline);
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
            Move::Park(_, floor) => {
                self.inline &= next.attempt_number > 0;
                self.has_spoken = true;
                self.wait_for(next, Duration::from_secs(floor));
            }
            Move::Refund { .. } => {
                let record = self.records.get_mut(&before.attempt_number).unwrap();
                record.is_free = true;
            }
            Move::Feedback(_) => self.came_back |= before.status == Status::Sent,
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
                self.came_back = false;
                self.not_before = now;
                let again = transition(next, &REPLAY, now);
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

    /// Whether an attempt spent the budget.
    fn is_spent(&self, record: &AttemptRecord) -> bool {
        record.outcome.is_counted() && !record.is_free && !(self.inline && record.number == 1)
    }

    /// Whether the last attempt did.
    fn has_spent(&self) -> bool {
        let state = &self.state;
        let last = self.records.get(&state.attempt_number);
        state.attempt_number > state.budget_from && last.is_some_and(|last| self.is_spent(last))
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
        let counted = current.clone().filter(|(_, r)| self.is_spent(r));
        prop_assert_eq!(state.attempt_count as usize, counted.count(), "{:?}", state);
        let unknown = current.filter(|(_, r)| r.outcome == Outcome::Unknown);
        prop_assert_eq!(state.unknown_count as usize, unknown.count(), "{:?}", state);
        prop_assert!(
            state.unknown_count == 0 || state.bound_to.is_some(),
            "{:?}",
            state
        );
        prop_assert_eq!(state.inline, self.inline);
        prop_assert!(state.waiting_for.is_none() || status == Status::Failed);
        prop_assert!(state.waits_until.is_none() || state.waiting_for.is_some());
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
            status == Status::Sent || self.came_back,
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
