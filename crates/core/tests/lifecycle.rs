//! Moments in the life of an email that deserve a story of their own.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use posthaste_core::Timestamp;
use posthaste_core::decision::{Conclusion, Decision, Parking};
use posthaste_core::lifecycle::{Event, Feedback, Refusal, Resolution, State, transition};
use posthaste_core::status::{DeadReason, Outcome, Status};

const LEASE: Duration = Duration::from_secs(30);
const BACKOFF: Duration = Duration::from_secs(60);

/// An email whose first attempt passed the gate, and whose worker was then lost.
fn uncertain() -> (State, Timestamp) {
    let mut now = Timestamp::UNIX_EPOCH;
    let mut state = State::accepted(now, None);
    state = after(&state, &begin(), now);
    state = after(&state, &gate(1), now);
    now += LEASE;
    (after(&state, &Event::LeaseExpired, now), now)
}

fn gate(token: i64) -> Event<'static> {
    Event::Gate {
        token,
        transport: "smtp",
    }
}

const REPLAY: Event<'static> = Event::Replay {
    ignores_expiry: false,
};

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
    assert!(after(&dead, &REPLAY, now).possible_duplicate);
}

#[test]
fn a_stale_worker_cannot_overwrite_a_newer_attempt() {
    let (state, now) = uncertain();
    let replayed = after(&state, &REPLAY, now);
    let newer = after(&replayed, &begin(), now);
    let decision = Decision::new(Conclusion::Sent, Outcome::Sent);
    let finish = |token| Event::Finish {
        token,
        decision: &decision,
        transport: Some("smtp"),
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
            assert!(
                transition(&state, &gate(state.lease_token), now).is_err(),
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

fn parking(waits_until: Option<Timestamp>) -> Parking {
    Parking {
        waiting_for: "primary,secondary".into(),
        floor: BACKOFF,
        waits_until,
    }
}

/// An email that was accepted now, and whose first attempt begins now.
fn begun(inline: bool) -> (State, Timestamp) {
    let now = Timestamp::UNIX_EPOCH;
    let state = match inline {
        true => State::accepted_inline(now, None),
        false => State::accepted(now, None),
    };
    (after(&state, &begin(), now), now)
}

fn failed(decision: Decision) -> Decision {
    Decision {
        error: Some("connection refused".into()),
        error_class: Some("connection_refused".into()),
        fingerprint: Some("f".into()),
        ..decision
    }
}

fn retry() -> Decision {
    let conclusion = Conclusion::Retry {
        delay: BACKOFF,
        possible_duplicate: false,
    };
    failed(Decision::new(conclusion, Outcome::Transient))
}

fn finished(state: &State, decision: &Decision, transport: &str, now: Timestamp) -> State {
    let finish = Event::Finish {
        token: state.lease_token,
        decision,
        transport: Some(transport),
        budget: 8,
    };
    after(state, &finish, now)
}

#[test]
fn one_that_found_no_way_out_has_not_been_tried() {
    for inline in [false, true] {
        let (state, now) = begun(inline);
        let token = state.lease_token;
        let until = now + 2 * BACKOFF;
        let parking = parking(Some(until));
        let park = Event::Park {
            token,
            parking: &parking,
        };
        let parked = transition(&state, &park, now).unwrap();
        assert_eq!(parked.attempt, None, "nothing is recorded");
        let parked = parked.next;
        assert_eq!(parked.status, Status::Failed);
        assert_eq!((parked.attempt_number, parked.attempt_count), (0, 0));
        assert_eq!(parked.waiting_for.as_deref(), Some("primary,secondary"));
        assert_eq!(parked.waits_until, Some(until));
        assert_eq!(parked.next_attempt_at, Some(now + BACKOFF));
        assert!(!parked.inline, "its caller waited for another attempt");
        // Only by the way for which it waits, and not before the floor.
        let unpark = Event::Unpark {
            lease: LEASE,
            budget: 8,
        };
        assert_eq!(transition(&parked, &unpark, now), Err(Refusal::NotDue));
        let now = now + BACKOFF;
        assert_eq!(transition(&parked, &claim(8), now), Err(Refusal::NotDue));
        let taken = after(&parked, &unpark, now);
        assert_eq!(taken.status, Status::RetryQueued);
        assert_eq!((&taken.waiting_for, taken.waits_until), (&None, None));
        let again = after(&taken, &begin(), now);
        assert_eq!((again.attempt_number, again.lease_token), (1, token + 1));
        assert!(again.counts_attempt());
    }
}

#[test]
fn what_passed_the_gate_cannot_be_parked() {
    let (state, now) = begun(false);
    let gated = after(&state, &gate(state.lease_token), now);
    assert_eq!(gated.transport.as_deref(), Some("smtp"));
    let parking = parking(None);
    let park = Event::Park {
        token: gated.lease_token,
        parking: &parking,
    };
    assert_eq!(transition(&gated, &park, now), Err(Refusal::InProgress));
}

#[test]
fn one_that_may_have_been_sent_keeps_to_its_way_until_an_operator_replays_it() {
    let (lost, now) = uncertain();
    assert_eq!(lost.bound_to.as_deref(), Some("smtp"));
    let (state, _) = begun(false);
    let gated = after(&state, &gate(state.lease_token), now);
    let resend = Conclusion::Retry {
        delay: BACKOFF,
        possible_duplicate: true,
    };
    let unknown = failed(Decision::new(resend, Outcome::Unknown));
    let resent = finished(&gated, &unknown, "primary", now);
    assert_eq!(resent.bound_to.as_deref(), Some("primary"));
    // Whatever happens by another way, this one is it.
    let now = now + BACKOFF;
    let again = after(&after(&resent, &claim(8), now), &begin(), now);
    let again = finished(&again, &unknown, "secondary", now);
    assert_eq!(again.bound_to.as_deref(), Some("primary"));
    assert_eq!(after(&again, &REPLAY, now).bound_to, None);
}

#[test]
fn ways_that_failed_are_remembered_until_an_attempt_counts() {
    let (state, now) = begun(false);
    let elsewhere = retry().failed_over();
    let first = finished(&state, &elsewhere, "primary", now);
    assert_eq!((first.status, first.attempt_count), (Status::Failed, 0));
    assert_eq!(first.next_attempt_at, Some(now));
    assert!(first.has_tried("primary") && !first.has_tried("secondary"));
    let second = after(&after(&first, &claim(8), now), &begin(), now);
    let third = finished(&second, &elsewhere, "secondary", now);
    assert!(third.has_tried("primary") && third.has_tried("secondary"));
    let begun = after(&after(&third, &claim(8), now), &begin(), now);
    let counted = finished(&begun, &retry(), "primary", now);
    assert_eq!((counted.tried, counted.attempt_count), (None, 1));
}

#[test]
fn an_attempt_is_refunded_once_it_is_known_whose_fault_it_was() {
    let (state, now) = begun(false);
    let spent = finished(&state, &retry(), "primary", now);
    assert_eq!(spent.attempt_count, 1);
    let refund = |number| Event::Refund { number };
    assert!(transition(&spent, &refund(2), now).is_err());
    let refunded = after(&spent, &refund(1), now);
    assert_eq!((refunded.attempt_number, refunded.attempt_count), (1, 0));
    assert_eq!(refunded.status, Status::Failed);
    assert!(transition(&refunded, &refund(1), now).is_err(), "once");
    // Not while someone is at it, nor when it is over, nor when it may have been sent.
    let later = now + BACKOFF;
    let sending = after(&after(&spent, &claim(8), later), &begin(), later);
    assert!(transition(&sending, &refund(1), later).is_err());
    let dead = after(&spent, &Event::Expire, now);
    assert!(transition(&dead, &refund(1), now).is_err());
    let (lost, now) = uncertain();
    let resend = Conclusion::Retry {
        delay: BACKOFF,
        possible_duplicate: true,
    };
    let settled = after(&lost, &Event::Settle(&resend), now);
    assert!(transition(&settled, &refund(1), now).is_err());
    let (state, now) = begun(false);
    let left_open = Decision::new(resend, Outcome::Transient);
    let left_open = finished(&state, &left_open, "primary", now);
    assert!(transition(&left_open, &refund(1), now).is_err());
}

fn feedback(feedback: Feedback) -> Event<'static> {
    Event::Feedback {
        feedback,
        detail: None,
    }
}

#[test]
fn what_came_back_is_dead_and_can_be_sent_again() {
    let (state, now) = begun(false);
    let gated = after(&state, &gate(state.lease_token), now);
    let sent = Decision::new(Conclusion::Sent, Outcome::Sent);
    let sent = finished(&gated, &sent, "smtp", now);
    let bounced = feedback(Feedback::Refused(DeadReason::HardBounce));
    let complained = feedback(Feedback::Refused(DeadReason::SpamComplaint));
    let dead = after(&sent, &bounced, now);
    assert_eq!(dead.dead_reason, Some(DeadReason::HardBounce));
    assert!(dead.sent_at.is_some() && dead.last_error.is_some());
    // What is graver counts, in whatever order it comes.
    let graver = after(&dead, &complained, now);
    assert_eq!(graver.dead_reason, Some(DeadReason::SpamComplaint));
    assert!(transition(&graver, &bounced, now).is_err());
    assert!(transition(&graver, &feedback(Feedback::Delivered), now).is_err());
    let again = after(&graver, &REPLAY, now);
    assert_eq!((again.status, again.sent_at), (Status::Pending, None));
}

#[test]
fn a_provider_that_delivered_it_settles_an_unknown_fate() {
    let (lost, now) = uncertain();
    let delivered = feedback(Feedback::Delivered);
    assert_eq!(after(&lost, &delivered, now).status, Status::Sent);
    // Also where it waits to be sent again; not where nothing can have been sent.
    let resend = Conclusion::Retry {
        delay: BACKOFF,
        possible_duplicate: true,
    };
    let waiting = after(&lost, &Event::Settle(&resend), now);
    let settled = after(&waiting, &delivered, now);
    assert_eq!(settled.status, Status::Sent);
    assert!(settled.lease_token > waiting.lease_token);
    let (state, now) = begun(false);
    let failed = finished(&state, &retry(), "primary", now);
    assert!(transition(&failed, &delivered, now).is_err());
}

#[test]
fn only_a_replay_lets_an_email_ignore_that_it_is_too_late() {
    let (state, now) = begun(false);
    let failed = finished(&state, &retry(), "primary", now);
    let dead = after(&failed, &Event::Expire, now);
    let late = Event::Replay {
        ignores_expiry: true,
    };
    let forced = after(&dead, &late, now);
    assert!(forced.ignores_expiry);
    let begun = after(&forced, &begin(), now);
    let failed = finished(&begun, &retry(), "primary", now);
    assert!(failed.ignores_expiry, "for all of its attempts");
    assert!(!after(&failed, &REPLAY, now).ignores_expiry);
}
