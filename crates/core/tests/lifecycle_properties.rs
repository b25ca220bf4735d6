//! Random events walk over the lifecycle; beside them walks a model written from the documents.
//!
//! The model says which events are allowed where and where they lead; what must hold at every
//! moment (I1, I3, I4 and I7 of FAULTS.md) is checked after each step.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use posthaste_core::Timestamp;
use posthaste_core::address::Address;
use posthaste_core::attempt::{AttemptRecord, Cause, Failure, Stage};
use posthaste_core::classification::Classifier;
use posthaste_core::decision::{
    Budget, Conclusion, Decision, RecipientResult, decide, settle_unknown,
};
use posthaste_core::email::{Recipient, RecipientStatus};
use posthaste_core::lifecycle::{
    Event, LOSSES_BEFORE_POISON, Refusal, Resolution, State, Transition, transition,
};
use posthaste_core::reply::Reply;
use posthaste_core::retry_policy::{Backoff, OnUnknown, RetryPolicy};
use posthaste_core::status::{DeadReason, Outcome, Phase, Status};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{TestCaseResult, TestRunner};

const LEASE: Duration = Duration::from_secs(30);
const PARKED: Duration = Duration::from_secs(15);

/// Which token an event carries, seen from the current one.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Token {
    Current,
    Older(i64),
    Newer(i64),
}

/// What a worker reports.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Report {
    Accepted,
    /// The last recipient was accepted; another one died in an earlier attempt.
    AcceptedInPart,
    /// Deferred, perhaps with a floor in seconds.
    Deferred(Option<u64>),
    Refused,
    ReplyLost,
    /// Not tried at all: the way out is closed.
    Parked,
}

impl Report {
    fn is_sent(self) -> bool {
        matches!(self, Self::Accepted | Self::AcceptedInPart)
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Move {
    Begin,
    Renew(Token),
    Gate(Token),
    Finish(Token, Report),
    Release(Token),
    ClaimDue,
    Queued,
    Unqueued,
    LeaseExpired,
    Settle,
    Cancel,
    Replay,
    Resolve(Resolution),
    Discard,
    Restore,
    Expire,
}

impl Move {
    fn token(self) -> Option<Token> {
        match self {
            Self::Renew(token)
            | Self::Gate(token)
            | Self::Finish(token, _)
            | Self::Release(token) => Some(token),
            _ => None,
        }
    }

    fn name(self) -> String {
        match self {
            Self::Resolve(resolution) => format!("Resolve {resolution}"),
            other => {
                let debug = format!("{other:?}");
                debug.split('(').next().unwrap().to_owned()
            }
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Step {
    wait: Duration,
    random: f64,
    action: Move,
}

/// What does not change during a walk.
#[derive(Debug, Clone)]
struct Setting {
    policy: RetryPolicy,
    own_max_attempts: Option<u32>,
    due_in: Duration,
}

impl Setting {
    fn max_attempts(&self) -> u32 {
        self.own_max_attempts.unwrap_or(self.policy.max_attempts)
    }
}

fn tokens() -> impl Strategy<Value = Token> {
    prop_oneof![
        8 => Just(Token::Current),
        1 => (1i64..4).prop_map(Token::Older),
        1 => (1i64..4).prop_map(Token::Newer),
    ]
}

fn reports() -> impl Strategy<Value = Report> {
    prop_oneof![
        2 => Just(Report::Accepted),
        1 => Just(Report::AcceptedInPart),
        4 => proptest::option::of(1u64..120).prop_map(Report::Deferred),
        1 => Just(Report::Refused),
        4 => Just(Report::ReplyLost),
        1 => Just(Report::Parked),
    ]
}

fn moves() -> impl Strategy<Value = Move> {
    prop_oneof![
        10 => Just(Move::Begin),
        2 => tokens().prop_map(Move::Renew),
        8 => tokens().prop_map(Move::Gate),
        8 => (tokens(), reports()).prop_map(|(token, report)| Move::Finish(token, report)),
        2 => tokens().prop_map(Move::Release),
        8 => Just(Move::ClaimDue),
        4 => Just(Move::Queued),
        2 => Just(Move::Unqueued),
        6 => Just(Move::LeaseExpired),
        4 => Just(Move::Settle),
        1 => Just(Move::Cancel),
        3 => Just(Move::Replay),
        2 => prop::sample::select(Resolution::ALL).prop_map(Move::Resolve),
        2 => Just(Move::Discard),
        2 => Just(Move::Restore),
        1 => Just(Move::Expire),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (
        prop_oneof![2 => Just(0u64), 3 => 0u64..20_000, 2 => 0u64..200_000],
        0.0..1.0f64,
        moves(),
    );
    let step = step.prop_map(|(wait_ms, random, action)| Step {
        wait: Duration::from_millis(wait_ms),
        random,
        action,
    });
    proptest::collection::vec(step, 1..120)
}

prop_compose! {
    fn settings()(
        max_attempts in 1u32..5,
        own_max_attempts in proptest::option::of(1u32..5),
        schedule in proptest::collection::vec(1u64..60, 1..4),
        jitter in 0u64..10,
        on_unknown in prop::sample::select(OnUnknown::ALL),
        max_unknown_resends in 0u32..3,
        due_in in prop_oneof![Just(0u64), 0u64..60],
    ) -> Setting {
        let schedule = schedule.into_iter().map(|s| Duration::from_secs(s).into()).collect();
        let policy = RetryPolicy {
            max_attempts,
            backoff: Backoff::Schedule { schedule },
            jitter: Duration::from_secs(jitter).into(),
            on_unknown,
            max_unknown_resends,
            expire_after: None,
        };
        Setting { policy, own_max_attempts, due_in: Duration::from_secs(due_in) }
    }
}

fn recipient(name: &str, status: RecipientStatus) -> Recipient {
    let address = Address::parse(&format!("{name}@example.org")).unwrap();
    Recipient {
        status,
        reason: (status == RecipientStatus::Dead).then_some(DeadReason::HardBounce),
        ..Recipient::waiting(address)
    }
}

fn decision_on(report: Report, state: &State, setting: &Setting, random: f64) -> Decision {
    let result = match report {
        Report::Accepted | Report::AcceptedInPart => {
            RecipientResult::Accepted(Reply::new(250, "2.0.0 OK"))
        }
        Report::Deferred(floor) => {
            let text = floor.map_or("4.2.0 Busy".into(), |seconds| {
                format!("4.7.1 Try again in {seconds} seconds")
            });
            let cause = Cause::Reply(Reply::new(450, &text));
            RecipientResult::Failed(Failure::new(Stage::Recipient, cause))
        }
        Report::Refused => {
            let cause = Cause::Reply(Reply::new(550, "5.1.1 No such user"));
            RecipientResult::Failed(Failure::new(Stage::Recipient, cause))
        }
        Report::ReplyLost => RecipientResult::Failed(Failure::new(Stage::FinalDot, Cause::Timeout)),
        Report::Parked => {
            return Decision {
                conclusion: Conclusion::Retry {
                    delay: PARKED,
                    possible_duplicate: false,
                },
                outcome: Outcome::Cancelled,
                error_class: None,
                error: None,
                fingerprint: None,
                reply: None,
                recipients: Vec::new(),
            };
        }
    };
    let mut before = vec![recipient("ann", RecipientStatus::Waiting)];
    if report == Report::AcceptedInPart {
        before.insert(0, recipient("bob", RecipientStatus::Dead));
    }
    let budget = Budget {
        attempt_count: state.attempt_count,
        max_attempts: setting.max_attempts(),
        unknown_count: state.unknown_count,
        expires_in: None,
    };
    let classifier = Classifier::default();
    decide(
        &before,
        &[result],
        &classifier,
        &setting.policy,
        &budget,
        random,
    )
}

/// What the policy says about an attempt that is already counted as unknown.
fn settlement_of(state: &State, setting: &Setting, random: f64) -> Conclusion {
    let budget = Budget {
        attempt_count: state.attempt_count.saturating_sub(1),
        max_attempts: setting.max_attempts(),
        unknown_count: state.unknown_count.saturating_sub(1),
        expires_in: None,
    };
    settle_unknown(&budget, &setting.policy, random)
}

/// The arrows of DESIGN §4 and §5: where a move may lead from a state. Empty: it is refused.
fn documented(action: Move, from: Status) -> &'static [Status] {
    use Status::{
        Cancelled, Dead, Discarded, Failed, Pending, RetryQueued, Sending, Sent, Unknown,
    };
    match (action, from) {
        (Move::Begin, Pending | RetryQueued) => &[Sending],
        (Move::Renew(_) | Move::Gate(_), Sending) => &[Sending],
        (Move::Finish(..), Sending) => &[Sent, Failed, Unknown, Dead],
        // Late proof: delivered to all, or to those who were left.
        (Move::Finish(_, report), Pending | Failed | RetryQueued | Unknown) if report.is_sent() => {
            &[Sent, Dead]
        }
        (Move::Release(_), Sending) => &[Pending, Failed],
        (Move::ClaimDue, Pending) => &[RetryQueued],
        // Given up here only when the budget was lowered, which a walk does not do.
        (Move::ClaimDue, Failed) => &[RetryQueued],
        (Move::Queued, Pending) => &[Pending],
        (Move::Queued, RetryQueued) => &[RetryQueued],
        (Move::Unqueued, Pending) => &[Pending],
        (Move::Unqueued | Move::LeaseExpired, RetryQueued) => &[Pending, Failed],
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
fn is_timely(action: Move, state: &State, now: Timestamp) -> bool {
    let is_due = state.next_attempt_at.is_some_and(|at| at <= now);
    match action {
        Move::Begin | Move::ClaimDue => is_due,
        Move::LeaseExpired => state.locked_until.is_some_and(|until| until <= now),
        Move::Settle => state.next_attempt_at.is_some(),
        // A token that came from a replay was never handed to a worker.
        Move::Finish(..) => state.attempt_number > state.budget_from,
        _ => true,
    }
}

struct Walk {
    setting: Setting,
    now: Timestamp,
    state: State,
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
    edges: BTreeSet<(String, Status, Status)>,
}

impl Walk {
    fn new(setting: &Setting) -> Self {
        let now = Timestamp::UNIX_EPOCH;
        let due = now + setting.due_in;
        Self {
            setting: setting.clone(),
            now,
            state: State::accepted(due, setting.own_max_attempts),
            counters: BTreeMap::from([(Status::Pending, 1)]),
            records: BTreeMap::new(),
            budget_from: 0,
            losses: 0,
            had_unknown: false,
            not_before: due,
            has_spoken: false,
            edges: BTreeSet::new(),
        }
    }

    fn take(&mut self, step: &Step) -> TestCaseResult {
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
            Move::Renew(_) => Event::Renew {
                token,
                lease: LEASE,
            },
            Move::Gate(_) => Event::Gate { token },
            Move::Finish(..) => Event::Finish {
                token,
                decision: decision.as_ref().unwrap(),
                transport: "smtp",
            },
            Move::Release(_) => Event::Release { token },
            Move::ClaimDue => Event::ClaimDue {
                lease: LEASE,
                budget: self.setting.policy.max_attempts,
            },
            Move::Queued => Event::Queued,
            Move::Unqueued => Event::Unqueued,
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
            Move::Gate(_) => prop_assert_eq!(next.phase, Phase::Committing),
            Move::Finish(..) => {
                let decision = decision.unwrap();
                self.has_spoken = decision.outcome != Outcome::Unknown;
                if let Conclusion::Retry { delay, .. } = decision.conclusion {
                    self.wait_for(next, delay);
                    prop_assert_eq!(next.next_attempt_at, Some(self.not_before));
                    if decision.outcome.is_counted() {
                        let backoff = self.setting.policy.backoff(next.attempt_count);
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
            Move::Release(_) => {
                self.has_spoken = true;
                self.not_before = now;
            }
            Move::Replay | Move::Resolve(Resolution::Retry) => {
                self.budget_from = before.attempt_number;
                self.losses = 0;
                self.not_before = now;
                let again = transition(next, &Event::Replay, now);
                prop_assert!(again.is_err(), "replayed twice: {:?}", again);
            }
            Move::LeaseExpired if before.status == Status::Sending => self.not_before = now,
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
    fn check(&self) -> TestCaseResult {
        let state = &self.state;
        let status = state.status;
        for (counted, sum) in &self.counters {
            prop_assert_eq!(*sum, i64::from(*counted == status), "I1: {}", counted);
        }

        let current = self.records.range(self.budget_from + 1..);
        let counted = current.clone().filter(|(_, r)| r.outcome.is_counted());
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
        let awaits_publishing = status == Status::RetryQueued && state.locked_until.is_some();
        prop_assert_eq!(state.locked_until.is_some(), sending || awaits_publishing);
        prop_assert_eq!(state.worker.is_some(), sending);
        prop_assert_eq!(state.started_at.is_some(), sending);
        prop_assert!(!sending || state.phase != Phase::Idle);

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

fn walk(setting: &Setting, steps: &[Step]) -> Result<Walk, TestCaseError> {
    let mut walk = Walk::new(setting);
    walk.check()?;
    for step in steps {
        walk.take(step)?;
    }
    Ok(walk)
}

/// What senders, schedulers and rescuers do next when nothing goes wrong any more, and when.
/// A lease that is left over from before (`is_orphan`) runs out.
fn healthy_move(state: &State, is_orphan: bool) -> Option<(Timestamp, Move)> {
    let due = state.next_attempt_at?;
    match state.status {
        Status::Pending | Status::RetryQueued => Some((due, Move::Begin)),
        Status::Failed => Some((due, Move::ClaimDue)),
        Status::Sending if is_orphan => Some((state.locked_until?, Move::LeaseExpired)),
        Status::Sending => Some((due, Move::Finish(Token::Current, Report::Accepted))),
        Status::Unknown => Some((due, Move::Settle)),
        _ => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn no_sequence_of_events_breaks_a_promise(setting in settings(), steps in steps()) {
        walk(&setting, &steps)?;
    }

    #[test]
    fn everything_drains_once_the_faults_are_over(setting in settings(), steps in steps()) {
        let mut walk = walk(&setting, &steps)?;
        let orphaned = walk.state.lease_token;
        for _ in 0..8 {
            let is_orphan = walk.state.lease_token == orphaned;
            let Some((moment, action)) = healthy_move(&walk.state, is_orphan) else {
                break;
            };
            let wait = moment.duration_since(walk.now).try_into().unwrap_or_default();
            walk.take(&Step { wait, random: 0.0, action })?;
        }
        let held = walk.state.status == Status::Unknown && walk.state.next_attempt_at.is_none();
        prop_assert!(walk.state.status.is_terminal() || held, "{:?}", walk.state);
    }
}

#[test]
fn the_random_walk_goes_along_every_arrow_of_the_documents() {
    let mut runner = TestRunner::deterministic();
    let mut walked = BTreeSet::new();
    for _ in 0..3000 {
        let (setting, steps) = (settings(), steps())
            .new_tree(&mut runner)
            .unwrap()
            .current();
        walked.append(&mut walk(&setting, &steps).unwrap().edges);
    }
    let tokens = [Token::Current];
    let mut moves = vec![
        Move::Begin,
        Move::ClaimDue,
        Move::Queued,
        Move::Unqueued,
        Move::LeaseExpired,
        Move::Settle,
        Move::Cancel,
        Move::Replay,
        Move::Discard,
        Move::Restore,
        Move::Expire,
    ];
    moves.extend(Resolution::ALL.iter().map(|r| Move::Resolve(*r)));
    moves.extend(tokens.map(Move::Renew));
    moves.extend(tokens.map(Move::Gate));
    moves.extend(tokens.map(Move::Release));
    moves.extend(tokens.map(|token| Move::Finish(token, Report::Accepted)));
    for action in moves {
        for from in Status::ALL {
            for to in documented(action, *from) {
                // Proof cannot reach an email that rests in `pending`: it comes after a replay
                // (a new token) or a release (nothing was sent).
                if (action.name().as_str(), *from) == ("Finish", Status::Pending) {
                    continue;
                }
                let edge = (action.name(), *from, *to);
                assert!(walked.contains(&edge), "never walked: {edge:?}");
            }
        }
    }
}

/// An email whose first attempt passed the gate, and whose worker was then lost.
fn uncertain() -> (State, Timestamp) {
    let mut now = Timestamp::UNIX_EPOCH;
    let mut state = State::accepted(now, None);
    state = after(&state, &begin(), now);
    state = after(&state, &Event::Gate { token: 1 }, now);
    now += LEASE;
    (after(&state, &Event::LeaseExpired, now), now)
}

fn begin() -> Event<'static> {
    Event::Begin {
        worker: "worker",
        lease: LEASE,
    }
}

fn after(state: &State, event: &Event<'_>, now: Timestamp) -> State {
    transition(state, event, now).unwrap().next
}

fn claim(budget: u32) -> Event<'static> {
    Event::ClaimDue {
        lease: LEASE,
        budget,
    }
}

#[test]
fn lowering_the_maximum_ends_a_waiting_email_when_it_falls_due() {
    let (state, now) = uncertain();
    let conclusion = Conclusion::Retry {
        delay: PARKED,
        possible_duplicate: true,
    };
    let state = after(&state, &Event::Settle(&conclusion), now);
    let early = transition(&state, &claim(1), now);
    assert_eq!(early, Err(Refusal::NotDue));

    let now = now + PARKED;
    assert_eq!(after(&state, &claim(2), now).status, Status::RetryQueued);
    let dead = after(&state, &claim(1), now);
    assert_eq!(dead.status, Status::Dead);
    assert_eq!(dead.dead_reason, Some(DeadReason::MaxAttemptsExceeded));

    // Its own maximum is its own.
    let own = State {
        max_attempts: Some(2),
        ..state
    };
    assert_eq!(after(&own, &claim(1), now).status, Status::RetryQueued);
}

#[test]
fn an_uncertain_email_that_was_given_up_is_a_possible_duplicate_when_it_is_replayed() {
    let (state, now) = uncertain();
    let dead = after(&state, &Event::Resolve(Resolution::Dead), now);
    assert_eq!(dead.dead_reason, Some(DeadReason::Uncertain));
    assert!(after(&dead, &Event::Replay, now).possible_duplicate);
}

#[test]
fn a_stale_worker_cannot_overwrite_a_newer_attempt() {
    let (state, now) = uncertain();
    let replayed = after(&state, &Event::Replay, now);
    let newer = after(&replayed, &begin(), now);
    let setting = Setting {
        policy: RetryPolicy::email(),
        own_max_attempts: None,
        due_in: Duration::ZERO,
    };
    let decision = decision_on(Report::Accepted, &state, &setting, 0.0);
    let finish = |token| Event::Finish {
        token,
        decision: &decision,
        transport: "smtp",
    };
    // The old worker comes back with proof: too late for the newer attempt, and for the replay,
    // but in time for the email as it was.
    assert_eq!(
        transition(&newer, &finish(1), now),
        Err(Refusal::StaleToken)
    );
    assert_eq!(
        transition(&replayed, &finish(1), now),
        Err(Refusal::StaleToken)
    );
    let proven = after(&state, &finish(1), now);
    assert_eq!((proven.status, proven.attempt_count), (Status::Sent, 0));
    // Nobody ever held the replay's own token.
    assert_eq!(
        transition(&replayed, &finish(2), now),
        Err(Refusal::StaleToken)
    );
}

#[test]
fn a_discarded_email_comes_back_with_its_reason_and_is_kept_from_then_on() {
    let (state, now) = uncertain();
    let dead = after(&state, &Event::Resolve(Resolution::Dead), now);
    let discarded = after(&dead, &Event::Discard, now);
    let later = now + Duration::from_secs(3600);
    let restored = after(&discarded, &Event::Restore, later);
    assert_eq!(restored.status, Status::Dead);
    assert_eq!(restored.dead_reason, Some(DeadReason::Uncertain));
    assert_eq!(restored.finished_at, Some(later));
}

#[test]
fn the_third_lost_worker_ends_an_email_that_was_sent_alone_since_the_second() {
    let mut now = Timestamp::UNIX_EPOCH;
    let mut state = State::accepted(now, None);
    for loss in 1..=3 {
        assert_eq!(state.is_sent_alone(), loss == 3, "before loss {loss}");
        state = after(&state, &begin(), now);
        now += LEASE;
        state = after(&state, &Event::LeaseExpired, now);
        assert_eq!((state.lost_count, state.attempt_count), (loss, 0));
        if loss < 3 {
            assert_eq!(state.next_attempt_at, Some(now));
            state = after(&state, &claim(1), now);
        }
    }
    assert_eq!(state.dead_reason, Some(DeadReason::Poison));
}
