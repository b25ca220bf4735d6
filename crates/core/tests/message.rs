//! The life of a message: what comes of every failure that arrives, every claim, every action.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use bytes::Bytes;
use posthaste_core::Timestamp;
use posthaste_core::message::{
    Arrival, Destination, Failure, HeaderValue, MessageAction, MessageId, MessagePolicy,
    MessageRecord, MessageRefusal, MessageState, MessageStatus, Outcome, Outgoing, Properties,
    Task,
};
use posthaste_core::retry_policy::RetryPolicy;
use proptest::prelude::*;
use uuid::Uuid;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;
const LEASE: Duration = Duration::from_secs(30);

fn policy() -> MessagePolicy {
    MessagePolicy {
        retry: RetryPolicy::message(),
        max_publish_failures: 3,
    }
}

fn arrival(retry_count: u32) -> Arrival {
    Arrival {
        failure: Failure {
            message_id: MessageId(Uuid::from_u128(7)),
            payload: Bytes::from_static(b"payload"),
            original_queue: "orders".into(),
            error_reason: "timeout".into(),
            retry_count,
            max_retries: None,
            not_before: None,
            properties: Properties::default(),
        },
        hash: [1; 32],
        redelivered: false,
        random: 0.0,
    }
}

fn redelivered(retry_count: u32) -> Arrival {
    Arrival {
        redelivered: true,
        ..arrival(retry_count)
    }
}

fn after(known: Option<&MessageState>, arrival: &Arrival) -> Option<MessageState> {
    MessageState::after_arrival(known, arrival, &policy(), NOW)
}

fn new(retry_count: u32) -> MessageState {
    after(None, &arrival(retry_count)).unwrap()
}

fn settled(state: &MessageState, outcome: &Outcome) -> MessageState {
    let claimed = state.claimed(NOW, LEASE);
    let task = claimed.task(&policy());
    claimed.settled(&task, outcome, &policy(), NOW, 0.0)
}

fn retried(retry_count: u32) -> MessageState {
    settled(&new(retry_count), &Outcome::Done)
}

fn waits(state: &MessageState) -> Duration {
    Duration::try_from(state.next_retry_at.duration_since(NOW)).unwrap()
}

#[test]
fn the_delay_is_that_of_the_seed() {
    for (count, seconds) in [(0, 2), (1, 4), (2, 8), (3, 16), (4, 32), (5, 60), (9, 60)] {
        let arriving = Arrival {
            failure: Failure {
                max_retries: Some(50),
                ..arrival(count).failure
            },
            ..arrival(count)
        };
        let waited = |random| {
            let arriving = Arrival {
                random,
                ..arriving.clone()
            };
            waits(&after(None, &arriving).unwrap())
        };
        assert_eq!(waited(0.0), Duration::from_secs(seconds), "count {count}");
        assert_eq!(waited(0.5), Duration::from_millis(seconds * 1000 + 500));
    }
}

#[test]
fn a_later_moment_is_a_floor_and_an_earlier_one_is_nothing() {
    let with_floor = |seconds| {
        let mut arriving = arrival(0);
        arriving.failure.not_before = Some(NOW + Duration::from_secs(seconds));
        waits(&after(None, &arriving).unwrap()).as_secs()
    };
    assert_eq!(with_floor(90), 90);
    assert_eq!(with_floor(1), 2);
}

#[test]
fn without_a_maximum_the_default_holds_and_one_that_is_spent_does_not_wait() {
    assert_eq!(new(0).max_retries, 3);
    let spent = new(3);
    assert_eq!(waits(&spent), Duration::ZERO);
    assert!(matches!(spent.task(&policy()), Task::Review(reason) if reason.contains("3 of 3")));
}

#[test]
fn while_it_waits_only_a_higher_count_is_news() {
    let waiting = new(1);
    for count in [0, 1] {
        assert_eq!(after(Some(&waiting), &arrival(count)), None);
        assert_eq!(after(Some(&waiting), &redelivered(count)), None);
    }
    let next = after(Some(&waiting), &arrival(2)).unwrap();
    assert_eq!((next.retry_count, waits(&next).as_secs()), (2, 8));
    let other = Arrival {
        hash: [2; 32],
        ..redelivered(2)
    };
    assert_eq!(after(Some(&waiting), &other).unwrap().retry_count, 2);
}

#[test]
fn after_it_was_put_back_a_failure_is_a_new_one() {
    let retried = retried(0);
    assert_eq!(
        (retried.status, retried.retry_count),
        (MessageStatus::Retried, 1)
    );
    for (incoming, count) in [(0, 1), (1, 1), (2, 2)] {
        let next = after(Some(&retried), &arrival(incoming)).unwrap();
        assert_eq!(
            (next.status, next.retry_count),
            (MessageStatus::Pending, count)
        );
    }
    assert_eq!(
        after(Some(&retried), &redelivered(0)),
        None,
        "we have that one"
    );
    let other = Arrival {
        hash: [2; 32],
        ..redelivered(0)
    };
    assert!(
        after(Some(&retried), &other).is_some(),
        "this one we do not"
    );
}

#[test]
fn what_was_given_up_can_fail_again() {
    let failed = settled(&new(3), &Outcome::Done);
    assert_eq!(failed.status, MessageStatus::Failed);
    let again = after(Some(&failed), &arrival(0)).unwrap();
    assert_eq!(
        (again.status, again.retry_count),
        (MessageStatus::Pending, 3)
    );
    assert_eq!(after(Some(&failed), &redelivered(3)), None);
    let discarded = new(0).acted(MessageAction::Discard, NOW).unwrap().unwrap();
    assert_eq!(discarded.status, MessageStatus::Discarded);
    assert!(after(Some(&discarded), &arrival(0)).is_some());
}

#[test]
fn a_failure_that_overtakes_the_settling_is_not_lost() {
    let claimed = new(0).claimed(NOW, LEASE);
    let next = after(Some(&claimed), &arrival(0)).unwrap();
    assert_eq!((next.retry_count, next.locked_until), (1, None));
    assert!(
        next.token > claimed.token,
        "so the late settling changes nothing"
    );
    assert_eq!(after(Some(&claimed), &redelivered(0)), None);
}

#[test]
fn a_handler_that_always_says_zero_still_ends_in_review() {
    let mut state = new(0);
    let mut retries = 0;
    while state.claimed(NOW, LEASE).task(&policy()) == Task::Retry {
        retries += 1;
        let retried = settled(&state, &Outcome::Done);
        state = after(Some(&retried), &arrival(0)).unwrap();
    }
    assert_eq!(retries, 3);
    assert_eq!(
        settled(&state, &Outcome::Done).status,
        MessageStatus::Failed
    );
}

#[test]
fn a_queue_that_does_not_take_it_is_tried_again_and_people_are_asked_in_the_end() {
    let mut state = new(0);
    for (failures, seconds) in [(1, 2), (2, 4), (3, 8)] {
        assert_eq!(state.task(&policy()), Task::Retry);
        state = settled(&state, &Outcome::Refused("no queue".into()));
        assert_eq!(
            (state.publish_failures, waits(&state).as_secs()),
            (failures, seconds)
        );
        assert_eq!(
            (state.status, state.retry_count),
            (MessageStatus::Pending, 0)
        );
        assert_eq!(state.last_error.as_deref(), Some("no queue"));
    }
    let Task::Review(reason) = state.task(&policy()) else {
        panic!("it should be given up");
    };
    assert!(reason.contains("3 times; no queue"), "{reason}");
    // The way to people is tried for ever, and the reason does not grow.
    for _ in 0..5 {
        state = settled(&state, &Outcome::Refused("no review queue".into()));
        assert_eq!(state.last_error.as_deref(), Some("no queue"));
    }
    let failed = settled(&state, &Outcome::Done);
    assert_eq!(failed.status, MessageStatus::Failed);
    assert!(failed.last_error.unwrap().contains("no queue"));
}

#[test]
fn a_broker_that_is_away_spends_nothing() {
    let state = new(0);
    let next = settled(&state, &Outcome::Away("away".into()));
    assert_eq!(
        (next.retry_count, next.publish_failures, next.repeats),
        (0, 0, 0)
    );
    assert_eq!(
        (next.next_retry_at, next.locked_until),
        (state.next_retry_at, None)
    );
    assert_eq!(next.last_error.as_deref(), Some("away"));
}

#[test]
fn a_lost_answer_is_a_possible_repeat_and_comes_to_an_end() {
    let mut state = new(0);
    for repeats in 1..=3 {
        state = settled(&state, &Outcome::Unconfirmed("no answer".into()));
        assert_eq!((state.retry_count, state.repeats), (0, repeats));
        assert_eq!(state.publish_failures, repeats);
        assert!(state.next_retry_at > NOW);
    }
    assert!(matches!(state.task(&policy()), Task::Review(reason) if reason.contains("no answer")));
}

#[test]
fn a_claim_that_ran_out_is_taken_again_and_counted() {
    let claimed = new(3).claimed(NOW, LEASE);
    assert_eq!(claimed.repeats, 0);
    assert!(!claimed.is_due(NOW + LEASE / 2));
    assert!(claimed.is_due(NOW + LEASE));
    let again = claimed.claimed(NOW + LEASE, LEASE);
    assert_eq!((again.repeats, again.token), (1, claimed.token + 1));
}

#[test]
fn operators_retry_what_waits_or_was_given_up() {
    let retry = |state: &MessageState| state.acted(MessageAction::Retry, NOW);
    let waiting = retry(&new(1)).unwrap().unwrap();
    assert_eq!((waits(&waiting), waiting.retry_count), (Duration::ZERO, 1));
    let failed = settled(&new(3), &Outcome::Done);
    let again = retry(&failed).unwrap().unwrap();
    assert_eq!(
        (again.status, again.retry_count),
        (MessageStatus::Pending, 0)
    );
    assert_eq!((again.last_error, again.finished_at), (None, None));
    assert_eq!(retry(&retried(0)), Err(MessageRefusal::Republished));
    assert_eq!(
        retry(&new(0).claimed(NOW, LEASE)),
        Err(MessageRefusal::Claimed)
    );
    let ran_out = new(0).claimed(NOW, Duration::ZERO);
    assert_eq!(retry(&ran_out).unwrap().unwrap().repeats, 1);
}

#[test]
fn operators_discard_what_waits_or_was_given_up() {
    let discard = |state: &MessageState| state.acted(MessageAction::Discard, NOW);
    let discarded = discard(&new(0)).unwrap().unwrap();
    assert_eq!(discarded.status, MessageStatus::Discarded);
    assert_eq!(discarded.finished_at, Some(NOW));
    assert_eq!(discard(&discarded), Ok(None));
    assert_eq!(discard(&retried(0)), Err(MessageRefusal::Republished));
    let back = discarded.acted(MessageAction::Retry, NOW).unwrap().unwrap();
    assert_eq!(back.status, MessageStatus::Pending);
}

fn record(state: MessageState) -> MessageRecord {
    let failure = arrival(0).failure;
    MessageRecord {
        number: 1,
        id: failure.message_id,
        payload_bytes: failure.payload.len() as u64,
        payload: failure.payload,
        original_queue: failure.original_queue,
        error_reason: failure.error_reason,
        properties: Properties {
            headers: [("mine".to_owned(), HeaderValue::Integer(5))].into(),
            ..Properties::default()
        },
        state,
        created_at: NOW,
    }
}

#[test]
fn what_goes_out_says_where_it_came_from() {
    let message = record(new(1));
    let outgoing = Outgoing::retry(&message);
    assert_eq!(outgoing.destination, Destination::Original("orders".into()));
    assert_eq!(outgoing.payload, message.payload);
    let header = |name: &str| outgoing.properties.headers.get(name);
    assert_eq!(header("mine"), Some(&HeaderValue::Integer(5)));
    assert_eq!(header("x-retry-count"), Some(&HeaderValue::Integer(2)));
    let properties = &outgoing.properties;
    assert_eq!(
        properties.text("x-message-id").unwrap(),
        message.id.to_string()
    );
    assert_eq!(properties.text("x-error-reason"), Some("timeout"));
    assert_eq!(properties.text("x-original-queue"), Some("orders"));

    let review = Outgoing::review(&message, "because");
    assert_eq!(review.destination, Destination::Review);
    assert_eq!(review.properties.text("x-review-reason"), Some("because"));
    assert_eq!(
        review.properties.headers.get("x-retry-count"),
        Some(&HeaderValue::Integer(1))
    );
    let rejected = Outgoing::rejected(&arrival(1).failure, "cannot be kept");
    assert_eq!(rejected.destination, Destination::Review);
    assert_eq!(
        rejected.properties.text("x-review-reason"),
        Some("cannot be kept")
    );
    assert_eq!(rejected.properties.text("x-error-reason"), Some("timeout"));
}

#[test]
fn every_state_has_words() {
    let text = |state| record(state).status_text(NOW);
    let refused = settled(&new(0), &Outcome::Refused("no queue".into()));
    for (state, expected) in [
        (new(0), "Waiting (retry 1 of 3)"),
        (new(0).claimed(NOW, LEASE), "Being republished"),
        (new(3), "On its way to manual review"),
        (refused, "Could not be republished (1 failed try)"),
        (retried(0), "Republished (retry 1 of 3)"),
        (settled(&new(3), &Outcome::Done), "In manual review"),
        (
            new(0).acted(MessageAction::Discard, NOW).unwrap().unwrap(),
            "Discarded",
        ),
        (
            new(0).acted(MessageAction::Retry, NOW).unwrap().unwrap(),
            "Due (retry 1 of 3)",
        ),
    ] {
        assert_eq!(text(state), expected);
    }
}

/// Something that happens to a message.
#[derive(Debug, Clone)]
enum Step {
    Arrive {
        count: u32,
        redelivered: bool,
        hash: u8,
    },
    Claim,
    Settle(u8),
    Act(bool),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..5u32, any::<bool>(), 0..3u8).prop_map(|(count, redelivered, hash)| Step::Arrive {
            count,
            redelivered,
            hash
        }),
        Just(Step::Claim),
        (0..4u8).prop_map(Step::Settle),
        any::<bool>().prop_map(Step::Act),
        (0..70u64).prop_map(Step::Pass),
    ]
}

proptest! {
    /// Whatever happens: a pending message can always be claimed in the end, one that is over is
    /// not held, tokens never fall, and a lost claim never settles.
    #[test]
    fn nothing_gets_stuck(steps in proptest::collection::vec(step(), 1..60)) {
        let policy = policy();
        let mut now = NOW;
        let mut state = new(0);
        let mut claim: Option<MessageState> = None;
        for step in steps {
            let before = state.clone();
            match step {
                Step::Arrive { count, redelivered, hash } => {
                    let arriving = Arrival { redelivered, hash: [hash; 32], ..arrival(count) };
                    if let Some(next) = MessageState::after_arrival(Some(&state), &arriving, &policy, now) {
                        prop_assert_eq!(next.status, MessageStatus::Pending);
                        prop_assert!(next.retry_count >= before.retry_count);
                        state = next;
                    } else {
                        let known = before.delivery == arriving.hash && redelivered;
                        let waits = before.status == MessageStatus::Pending
                            && before.locked_until.is_none() && count <= before.retry_count;
                        prop_assert!(known || waits, "nothing new may be ignored");
                    }
                }
                Step::Claim if state.is_due(now) => {
                    state = state.claimed(now, LEASE);
                    claim = Some(state.clone());
                }
                Step::Claim => {}
                Step::Settle(how) => {
                    let Some(held) = claim.take() else { continue };
                    if held.token != state.token { continue }
                    let outcome = match how {
                        0 => Outcome::Done,
                        1 => Outcome::Refused("full".into()),
                        2 => Outcome::Unconfirmed("no answer".into()),
                        _ => Outcome::Away("away".into()),
                    };
                    state = held.settled(&held.task(&policy), &outcome, &policy, now, 0.3);
                    prop_assert_eq!(state.locked_until, None);
                    prop_assert!(outcome == Outcome::Done || state.status == MessageStatus::Pending);
                }
                Step::Act(retry) => {
                    let action = if retry { MessageAction::Retry } else { MessageAction::Discard };
                    if let Ok(Some(next)) = state.acted(action, now) { state = next }
                }
                Step::Pass(seconds) => now += Duration::from_secs(seconds),
            }
            prop_assert!(state.token >= before.token);
            prop_assert!(state.repeats >= before.repeats);
            prop_assert_eq!(state.finished_at.is_some(), state.status != MessageStatus::Pending);
            prop_assert!(state.locked_until.is_none() || state.status == MessageStatus::Pending);
            if state.status == MessageStatus::Pending {
                prop_assert!(state.is_due(now + Duration::from_secs(3600)));
            }
        }
    }
}

#[test]
fn actions_have_these_names_in_the_audit_log() {
    let names = [MessageAction::Retry, MessageAction::Discard].map(MessageAction::name);
    assert_eq!(names, ["retry_message", "discard_message"]);
}
