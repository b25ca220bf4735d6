//! What is written down about an attempt that ended, and when that is the death of an email.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use posthaste_core::Timestamp;
use posthaste_core::attempt::{AttemptRecord, Stage};
use posthaste_core::decision::{Conclusion, Decision};
use posthaste_core::fingerprint::fingerprint;
use posthaste_core::lifecycle::{Event, Refusal, State, Transition, transition};
use posthaste_core::status::{DeadReason, Outcome, Phase, Status};

const LEASE: Duration = Duration::from_secs(30);
const BACKOFF: Duration = Duration::from_secs(60);
const BEGAN: Timestamp = Timestamp::UNIX_EPOCH;

/// An email whose first attempt began.
fn begun() -> State {
    let begin = Event::Begin {
        worker: "worker",
        lease: LEASE,
    };
    let state = State::accepted(BEGAN, None);
    transition(&state, &begin, BEGAN).unwrap().next
}

/// The worker of this one is lost.
fn lost(state: &State) -> (State, AttemptRecord) {
    let Transition { next, attempt } =
        transition(state, &Event::LeaseExpired, BEGAN + LEASE).unwrap();
    (next, attempt.unwrap())
}

fn finished(decision: &Decision) -> Transition {
    let finish = Event::Finish {
        token: 1,
        decision,
        transport: Some("smtp"),
        budget: 8,
    };
    transition(&begun(), &finish, BEGAN + LEASE).unwrap()
}

fn retry() -> Decision {
    let conclusion = Conclusion::Retry {
        delay: BACKOFF,
        possible_duplicate: false,
    };
    Decision::new(conclusion, Outcome::Transient)
}

#[test]
fn an_attempt_is_written_down_with_all_that_was_said_about_it() {
    let decision = Decision {
        error_class: Some("mailbox_busy".into()),
        error: Some("recipient: 450 4.2.1 Busy".into()),
        fingerprint: Some("f".into()),
        stage: Some(Stage::Recipient),
        reply: Some("450 4.2.1 Busy".into()),
        provider_id: Some("id".into()),
        is_free: true,
        ..retry()
    };
    let Transition { next, attempt } = finished(&decision);
    let expected = AttemptRecord {
        number: 1,
        started_at: BEGAN,
        finished_at: BEGAN + LEASE,
        outcome: Outcome::Transient,
        error_class: decision.error_class.clone(),
        error: decision.error.clone(),
        stage: decision.stage,
        reply: decision.reply.clone(),
        transport: Some("smtp".into()),
        worker: Some("worker".into()),
        provider_id: decision.provider_id.clone(),
        is_free: true,
        budget: Some(8),
        next_attempt_at: Some(BEGAN + LEASE + BACKOFF),
    };
    assert_eq!(attempt, Some(expected));
    assert_eq!(next.last_error, decision.error);
    assert_eq!(next.error_class, decision.error_class);
    assert_eq!(next.fingerprint, decision.fingerprint);
    assert_eq!(next.attempt_count, 0, "it was free");
}

#[test]
fn a_worker_lost_before_the_gate_costs_nothing_and_is_written_down() {
    let (next, record) = lost(&begun());
    assert_eq!((next.status, next.phase), (Status::Failed, Phase::Idle));
    assert_eq!((next.attempt_count, next.lost_count), (0, 1));
    assert_eq!(next.next_attempt_at, Some(BEGAN + LEASE));
    assert_eq!((next.locked_until, &next.worker), (None, &None));
    assert_eq!(record.outcome, Outcome::Lost);
    assert_eq!(record.error_class.as_deref(), Some("worker_lost"));
    assert!(record.error.unwrap().contains("before anything was sent"));
    assert_eq!(record.worker.as_deref(), Some("worker"));
}

#[test]
fn a_worker_lost_behind_the_gate_leaves_an_unknown_fate_and_its_way() {
    let gate = Event::Gate {
        token: 1,
        transport: "smtp",
    };
    let state = transition(&begun(), &gate, BEGAN).unwrap().next;
    let (next, record) = lost(&state);
    assert_eq!(next.status, Status::Unknown);
    assert_eq!((next.attempt_count, next.unknown_count), (1, 1));
    assert_eq!(next.bound_to.as_deref(), Some("smtp"));
    assert_eq!(next.error_class.as_deref(), Some("worker_lost"));
    let error = next.last_error.unwrap();
    assert_eq!(next.fingerprint, Some(fingerprint(&error)));
    assert_eq!(record.outcome, Outcome::Unknown);
    assert_eq!(record.error, Some(error));
    assert_eq!(record.error_class.as_deref(), Some("worker_lost"));
    assert_eq!(record.transport.as_deref(), Some("smtp"));
}

#[test]
fn the_email_that_three_workers_were_lost_over_says_so() {
    let state = State {
        lost_count: 2,
        ..begun()
    };
    let (next, record) = lost(&state);
    assert_eq!(next.status, Status::Dead);
    assert_eq!(next.dead_reason, Some(DeadReason::Poison));
    assert_eq!(next.error_class.as_deref(), Some("worker_lost"));
    assert!(next.last_error.unwrap().contains("three times"));
    assert!(next.fingerprint.is_some());
    assert_eq!(record.outcome, Outcome::Lost);
}

#[test]
fn a_death_is_told_once_and_nothing_else_is_one() {
    let dead = Decision::new(Conclusion::Dead(DeadReason::HardBounce), Outcome::Permanent);
    let sent = Decision::new(Conclusion::Sent, Outcome::Sent);
    assert!(finished(&dead).is_death(Status::Sending));
    assert!(!finished(&sent).is_death(Status::Sending));
    assert!(!finished(&retry()).is_death(Status::Sending));
    // It came back from where it was put after its death.
    assert!(!finished(&dead).is_death(Status::Discarded));
    assert!(!finished(&dead).is_death(Status::Dead));
}

#[test]
fn what_a_scheduler_holds_is_not_claimed_by_another_until_its_lease_is_over() {
    let claim = Event::ClaimDue {
        lease: LEASE,
        budget: 8,
    };
    let held_until = |until| State {
        locked_until: Some(until),
        ..State::accepted(BEGAN, None)
    };
    let now = BEGAN + LEASE;
    let early = transition(&held_until(now + BACKOFF), &claim, now);
    assert_eq!(early, Err(Refusal::InProgress));
    for until in [now, BEGAN] {
        let claimed = transition(&held_until(until), &claim, now).unwrap().next;
        assert_eq!(claimed.status, Status::RetryQueued);
        assert_eq!(claimed.locked_until, Some(now + LEASE));
    }
}

#[test]
fn a_replay_after_an_unknown_fate_may_double_whatever_way_it_went() {
    let replay = Event::Replay {
        ignores_expiry: false,
    };
    for (unknown_count, bound_to, may_double) in
        [(0, None, false), (1, None, true), (0, Some("smtp"), true)]
    {
        let state = State {
            status: Status::Dead,
            unknown_count,
            bound_to: bound_to.map(str::to_owned),
            ..State::accepted(BEGAN, None)
        };
        let next = transition(&state, &replay, BEGAN).unwrap().next;
        assert_eq!(next.possible_duplicate, may_double);
        assert_eq!((next.unknown_count, next.bound_to), (0, None));
    }
}

#[test]
fn what_is_handed_back_waits_as_it_did_before() {
    let release = Event::Release { token: 1 };
    let fresh = begun();
    let failed_before = State {
        attempt_count: 1,
        ..begun()
    };
    let failed_for_free = State {
        last_error: Some("connection refused".into()),
        ..begun()
    };
    let lost_before = State {
        lost_count: 1,
        ..begun()
    };
    for (state, status) in [
        (fresh, Status::Pending),
        (lost_before, Status::Failed),
        (failed_before, Status::Failed),
        (failed_for_free, Status::Failed),
    ] {
        let next = transition(&state, &release, BEGAN).unwrap().next;
        assert_eq!((next.status, next.phase), (status, Phase::Idle));
        assert_eq!(next.next_attempt_at, Some(BEGAN));
    }
}
