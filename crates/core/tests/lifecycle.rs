//! Moments in the life of an email that deserve a story of their own.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use posthaste_core::Timestamp;
use posthaste_core::decision::{Conclusion, Decision};
use posthaste_core::lifecycle::{Event, Refusal, Resolution, State, transition};
use posthaste_core::status::{DeadReason, Outcome, Status};

const LEASE: Duration = Duration::from_secs(30);
const BACKOFF: Duration = Duration::from_secs(60);

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
        delay: BACKOFF,
        possible_duplicate: true,
    };
    let state = after(&state, &Event::Settle(&conclusion), now);
    let early = transition(&state, &claim(1), now);
    assert_eq!(early, Err(Refusal::NotDue));

    let now = now + BACKOFF;
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
    let decision = Decision {
        conclusion: Conclusion::Sent,
        outcome: Outcome::Sent,
        error_class: None,
        error: None,
        fingerprint: None,
        stage: None,
        reply: None,
        recipients: Vec::new(),
    };
    let finish = |token| Event::Finish {
        token,
        decision: &decision,
        transport: "smtp",
        budget: 8,
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
        if loss == 3 {
            // Lost while it only waits for its turn to be alone: that tells nothing about it.
            now += LEASE;
            state = after(&state, &Event::LeaseExpired, now);
            assert_eq!((state.lost_count, state.status), (2, Status::Failed));
            state = after(&after(&state, &claim(1), now), &begin(), now);
            let gate = Event::Gate {
                token: state.lease_token,
            };
            assert!(
                transition(&state, &gate, now).is_err(),
                "not before its turn"
            );
            let prepare = Event::Prepare {
                token: state.lease_token,
            };
            state = after(&state, &prepare, now);
        }
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
