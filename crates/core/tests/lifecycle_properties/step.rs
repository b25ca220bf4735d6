//! What can happen to an email in a walk, at random.

use std::time::Duration;

use posthaste_core::address::Address;
use posthaste_core::attempt::{Cause, Failure, Stage};
use posthaste_core::classification::Classifier;
use posthaste_core::decision::{
    Budget, Conclusion, Decision, Parking, RecipientResult, decide, settle_unknown,
};
use posthaste_core::email::{Recipient, RecipientStatus};
use posthaste_core::lifecycle::{Feedback, Resolution, State};
use posthaste_core::reply::Reply;
use posthaste_core::retry_policy::{Backoff, OnUnknown, RetryPolicy};
use posthaste_core::status::{DeadReason, Outcome};
use proptest::prelude::*;

pub(crate) const LEASE: Duration = Duration::from_secs(30);
pub(crate) const NOT_TRIED: Duration = Duration::from_secs(15);

/// Which token an event carries, seen from the current one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Token {
    Current,
    Older(i64),
    Newer(i64),
}

/// What a worker reports.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Report {
    Accepted,
    /// The last recipient was accepted; another one died in an earlier attempt.
    AcceptedInPart,
    /// Deferred, perhaps with a floor in seconds.
    Deferred(Option<u64>),
    Refused,
    ReplyLost,
    /// Given up before anything was tried.
    NotTried,
    /// The way out failed: it waits for it, with a floor in seconds.
    Parked(u64),
    /// The way out failed: another one is tried.
    FailedOver,
}

impl Report {
    pub(crate) fn is_sent(self) -> bool {
        matches!(self, Self::Accepted | Self::AcceptedInPart)
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Move {
    Begin,
    Prepare(Token),
    Renew(Token),
    Gate(Token),
    Finish(Token, Report),
    Release(Token),
    /// No way out was free, with a floor in seconds.
    Park(Token, u64),
    Unpark,
    /// The last attempt is given back, or the one before it.
    Refund {
        is_last: bool,
    },
    Feedback(Feedback),
    ClaimDue,
    Queued(Token),
    Unqueued(Token),
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
    pub(crate) fn token(self) -> Option<Token> {
        match self {
            Self::Prepare(token)
            | Self::Renew(token)
            | Self::Gate(token)
            | Self::Finish(token, _)
            | Self::Release(token)
            | Self::Park(token, _)
            | Self::Queued(token)
            | Self::Unqueued(token) => Some(token),
            _ => None,
        }
    }

    pub(crate) fn name(self) -> String {
        match self {
            Self::Resolve(resolution) => format!("Resolve {resolution}"),
            other => {
                let debug = format!("{other:?}");
                debug.split(['(', ' ']).next().unwrap().to_owned()
            }
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub(crate) wait: Duration,
    pub(crate) random: f64,
    pub(crate) action: Move,
}

/// What does not change during a walk.
#[derive(Debug, Clone)]
pub(crate) struct Setting {
    pub(crate) policy: RetryPolicy,
    pub(crate) own_max_attempts: Option<u32>,
    pub(crate) inline: bool,
    pub(crate) due_in: Duration,
}

impl Setting {
    pub(crate) fn max_attempts(&self) -> u32 {
        self.own_max_attempts.unwrap_or(self.policy.max_attempts)
    }
}

pub(crate) fn tokens() -> impl Strategy<Value = Token> {
    prop_oneof![
        8 => Just(Token::Current),
        1 => (1i64..4).prop_map(Token::Older),
        1 => (1i64..4).prop_map(Token::Newer),
    ]
}

pub(crate) fn reports() -> impl Strategy<Value = Report> {
    prop_oneof![
        2 => Just(Report::Accepted),
        1 => Just(Report::AcceptedInPart),
        4 => proptest::option::of(1u64..120).prop_map(Report::Deferred),
        1 => Just(Report::Refused),
        4 => Just(Report::ReplyLost),
        1 => Just(Report::NotTried),
        2 => (0u64..60).prop_map(Report::Parked),
        2 => Just(Report::FailedOver),
    ]
}

pub(crate) fn feedback() -> impl Strategy<Value = Feedback> {
    prop::sample::select(&[
        Feedback::Delivered,
        Feedback::Refused(DeadReason::HardBounce),
        Feedback::Refused(DeadReason::SpamComplaint),
    ])
}

/// Where an email waits that found no way out.
pub(crate) fn parking(floor: u64) -> Parking {
    Parking {
        waiting_for: "primary,secondary".into(),
        floor: Duration::from_secs(floor),
        waits_until: None,
    }
}

pub(crate) fn moves() -> impl Strategy<Value = Move> {
    prop_oneof![
        10 => Just(Move::Begin),
        3 => tokens().prop_map(Move::Prepare),
        2 => tokens().prop_map(Move::Renew),
        8 => tokens().prop_map(Move::Gate),
        8 => (tokens(), reports()).prop_map(|(token, report)| Move::Finish(token, report)),
        2 => tokens().prop_map(Move::Release),
        3 => (tokens(), 0u64..60).prop_map(|(token, floor)| Move::Park(token, floor)),
        4 => Just(Move::Unpark),
        2 => any::<bool>().prop_map(|is_last| Move::Refund { is_last }),
        2 => feedback().prop_map(Move::Feedback),
        8 => Just(Move::ClaimDue),
        4 => tokens().prop_map(Move::Queued),
        2 => tokens().prop_map(Move::Unqueued),
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

pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
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
    pub(crate) fn settings()(
        max_attempts in 1u32..5,
        own_max_attempts in proptest::option::of(1u32..5),
        schedule in proptest::collection::vec(1u64..60, 1..4),
        jitter in 0u64..10,
        on_unknown in prop::sample::select(OnUnknown::ALL),
        max_unknown_resends in 0u32..3,
        inline in any::<bool>(),
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
        Setting { policy, own_max_attempts, inline, due_in: Duration::from_secs(due_in) }
    }
}

pub(crate) fn recipient(name: &str, status: RecipientStatus) -> Recipient {
    let address = Address::parse(&format!("{name}@example.org")).unwrap();
    Recipient {
        status,
        reason: (status == RecipientStatus::Dead).then_some(DeadReason::HardBounce),
        ..Recipient::waiting(address)
    }
}

pub(crate) fn decision_on(
    report: Report,
    state: &State,
    setting: &Setting,
    random: f64,
) -> Decision {
    let result = match report {
        Report::Accepted | Report::AcceptedInPart => {
            RecipientResult::Accepted(Reply::new(250, "2.0.0 OK").into())
        }
        Report::Parked(_) | Report::FailedOver => {
            RecipientResult::Failed(Failure::new(Stage::Connect, Cause::Refused))
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
        Report::NotTried => {
            let retry = Conclusion::Retry {
                delay: NOT_TRIED,
                possible_duplicate: false,
            };
            return Decision::new(retry, Outcome::Cancelled);
        }
    };
    let mut before = vec![recipient("ann", RecipientStatus::Waiting)];
    if report == Report::AcceptedInPart {
        before.insert(0, recipient("bob", RecipientStatus::Dead));
    }
    let budget = Budget::of(state, setting.max_attempts(), None);
    let classifier = Classifier::default();
    let decision = decide(
        &before,
        &[result],
        &classifier,
        &setting.policy,
        &budget,
        random,
    );
    match report {
        Report::Parked(floor) => decision.parked(parking(floor)),
        Report::FailedOver => decision.failed_over(),
        _ => decision,
    }
}

/// What the policy says about an attempt that is already counted as unknown.
pub(crate) fn settlement_of(state: &State, setting: &Setting, random: f64) -> Conclusion {
    let budget = Budget::before_unknown(state, setting.max_attempts(), None);
    settle_unknown(&budget, &setting.policy, random)
}
