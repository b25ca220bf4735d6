//! Messages that are due, and what came of their claims.

use std::collections::BTreeSet;

use posthaste_core::message::{MessageRecord, MessageStatus, Outcome, Task};

use super::StoreFixture;
use super::message_scene::{ALL_BYTES, Messages, failing, id_of, policy, settled};
use super::scene::{ALL, HALF, HOUR, LEASE, together};

fn names(claimed: &[MessageRecord], of: &[&'static str]) -> Vec<&'static str> {
    let name = |message: &MessageRecord| of.iter().find(|name| id_of(name) == message.id);
    claimed.iter().filter_map(name).copied().collect()
}

pub async fn only_what_is_due_is_claimed(fixture: &impl StoreFixture) {
    let messages = Messages::new(fixture);
    messages.republished(failing("retried")).await;
    messages.exhausted(failing("failed")).await;
    messages.discarded(failing("discarded")).await;
    messages.arrive(failing("soon")).await;
    messages.arrive(failing("later").count(1)).await;
    messages.scene.advance(HALF).await;
    assert!(messages.claim(ALL).await.is_empty());
    messages.scene.advance(HALF).await;
    let before = messages.find(id_of("soon")).await;
    assert!(messages.claim(0).await.is_empty());
    let (claimed, moment) = messages.scene.timed(messages.claim_one()).await;
    moment.is_followed_by(claimed.state.locked_until, LEASE);
    // What the lifecycle says, at that time.
    let mut expected = before.clone();
    expected.state = before.state.claimed(messages.scene.now(), LEASE);
    expected.state.locked_until = claimed.state.locked_until;
    assert_eq!(claimed, expected);
    assert_eq!(claimed.state.repeats, 0);
    assert_eq!(messages.find(id_of("soon")).await, claimed);
    assert!(
        messages.claim(ALL).await.is_empty(),
        "it is claimed already"
    );
    messages
        .assert_counted(&[
            (MessageStatus::Pending, 2),
            (MessageStatus::Retried, 1),
            (MessageStatus::Failed, 1),
            (MessageStatus::Discarded, 1),
        ])
        .await;
}

pub async fn the_most_overdue_are_claimed_first(fixture: &impl StoreFixture) {
    let messages = Messages::new(fixture);
    let all = ["1", "2", "3", "4", "5"];
    for name in ["4", "1", "5", "3", "2"] {
        let hours: u32 = name.parse().expect("a number");
        let at = messages.scene.now() + 10 * HOUR + hours * HOUR;
        messages.arrive(failing(name).not_before(at)).await;
    }
    messages.scene.advance(20 * HOUR).await;
    assert_eq!(names(&messages.claim(2).await, &all), ["1", "2"]);
    // A claim that ran out stands where it stood.
    messages.scene.advance(LEASE + HALF).await;
    assert_eq!(names(&messages.claim(3).await, &all), ["1", "2", "3"]);
    assert_eq!(names(&messages.claim(9).await, &all), ["4", "5"]);
    assert!(messages.claim(9).await.is_empty());
}

pub async fn no_further_one_is_claimed_once_there_are_bytes_enough(fixture: &impl StoreFixture) {
    let messages = Messages::new(fixture);
    for (n, size) in [(1, 100), (2, 100), (3, 0), (4, 0), (5, 500), (6, 1)] {
        let at = messages.scene.now() + HOUR + n * HOUR;
        let failing = failing(&n.to_string()).payload(vec![b'x'; size]);
        messages.arrive(failing.not_before(at)).await;
    }
    messages.scene.advance(9 * HOUR).await;
    for (most, most_bytes, expected) in [
        (ALL, 1, vec![100]),
        (ALL, 0, vec![100]),
        (ALL, 0, vec![0]),
        (ALL, 500, vec![0, 500]),
        (ALL, 500, vec![1]),
        (ALL, 500, vec![]),
    ] {
        let claimed = messages.store.claim_messages(most, most_bytes, LEASE).await;
        let claimed = claimed.expect("claim");
        let sizes: Vec<_> = claimed
            .iter()
            .map(|claimed| claimed.message.payload.len())
            .collect();
        assert_eq!(sizes, expected, "{most_bytes} bytes");
    }
    // Exactly enough is enough.
    messages.scene.advance(LEASE + HALF).await;
    let claimed = messages.store.claim_messages(ALL, 200, LEASE).await;
    assert_eq!(claimed.expect("claim").len(), 2);
    let claimed = messages.store.claim_messages(3, ALL_BYTES, LEASE).await;
    assert_eq!(claimed.expect("claim").len(), 3);
}

pub async fn a_claim_that_ran_out_is_taken_again_and_counted(fixture: &impl StoreFixture) {
    let messages = Messages::new(fixture);
    messages.arrive(failing("a")).await;
    messages.scene.advance(HOUR).await;
    let first = messages.claim_one().await;
    messages.scene.advance(HALF).await;
    assert!(messages.claim(ALL).await.is_empty(), "someone is at it");
    messages.scene.advance(HOUR).await;
    let again = messages.store.claim_messages(ALL, ALL_BYTES, LEASE).await;
    let again = again.expect("claim");
    assert_eq!(again.len(), 1);
    assert!(again[0].is_repeat);
    let second = again[0].message.clone();
    assert_eq!((first.state.repeats, second.state.repeats), (0, 1));
    assert!(second.state.token > first.state.token);
    assert!(
        !messages.settle(&first, &Outcome::Done).await,
        "it was lost"
    );
    assert_eq!(messages.find(first.id).await, second);
    assert!(messages.settle(&second, &Outcome::Done).await);
    assert_eq!(messages.state(first.id).await.repeats, 1);
}

pub async fn each_is_claimed_once_by_many(fixture: &impl StoreFixture) {
    let messages = Messages::new(fixture);
    let all = (0..200).map(|n| failing(&n.to_string()));
    messages.arrive_all(all).await;
    messages.scene.advance(HOUR).await;
    let claimed = together(8, |_| {
        let store = messages.store.clone();
        async move {
            let mut claimed = Vec::new();
            loop {
                let some = store
                    .claim_messages(7, ALL_BYTES, LEASE)
                    .await
                    .expect("claim");
                if some.is_empty() {
                    return claimed;
                }
                claimed.extend(some.into_iter().map(|claimed| claimed.message.number));
            }
        }
    });
    let claimed = claimed.await.concat();
    let different: BTreeSet<_> = claimed.iter().collect();
    assert_eq!(different.len(), claimed.len(), "one was claimed twice");
    assert_eq!(claimed.len() + messages.claim(ALL).await.len(), 200);
}

pub async fn the_next_due_time_is_the_earliest(fixture: &impl StoreFixture) {
    let messages = Messages::new(fixture);
    let next = async || messages.store.next_message_due().await.expect("next due");
    assert_eq!(next().await, None);
    messages.republished(failing("retried")).await;
    messages.exhausted(failing("failed")).await;
    assert_eq!(next().await, None, "these wait for nothing");
    let later = messages
        .arrive(failing("later").count(2))
        .await
        .next_retry_at;
    assert_eq!(next().await, Some(later));
    let soon = messages.arrive(failing("soon")).await.next_retry_at;
    assert_eq!(next().await, Some(soon));
    messages.scene.advance(HOUR + HALF).await;
    assert_eq!(next().await, Some(soon), "it is overdue");
    let claimed = messages.claim_one().await;
    assert_eq!(next().await, claimed.state.locked_until);
    assert!(claimed.state.locked_until < Some(later));
    messages.scene.advance(LEASE + HALF).await;
    assert_eq!(next().await, claimed.state.locked_until, "it ran out");
    let again = messages.claim_one().await;
    assert!(messages.settle(&again, &Outcome::Done).await);
    assert_eq!(next().await, Some(later));
}

pub async fn a_republished_message_is_over(fixture: &impl StoreFixture) {
    let messages = Messages::new(fixture);
    messages.arrive(failing("a").count(1)).await;
    messages.scene.advance(2 * HOUR).await;
    let claimed = messages.claim_one().await;
    let settling = messages.settle(&claimed, &Outcome::Done);
    let (settled, moment) = messages.scene.timed(settling).await;
    assert!(settled);
    let state = messages.state(claimed.id).await;
    assert_eq!(
        (state.status, state.retry_count),
        (MessageStatus::Retried, 2)
    );
    assert_eq!(
        (state.locked_until, state.token),
        (None, claimed.state.token)
    );
    moment.is(state.finished_at);
    assert!(
        !messages.settle(&claimed, &Outcome::Done).await,
        "it is settled once"
    );
    messages.scene.advance(9 * HOUR).await;
    assert!(messages.claim(ALL).await.is_empty());
    messages
        .assert_counted(&[(MessageStatus::Retried, 1)])
        .await;
}

pub async fn a_message_that_went_to_people_is_over(fixture: &impl StoreFixture) {
    let messages = Messages::new(fixture);
    messages.arrive(failing("a").count(3)).await;
    let claimed = messages.claim_one().await;
    let settling = messages.settle(&claimed, &Outcome::Done);
    let (settled, moment) = messages.scene.timed(settling).await;
    assert!(settled);
    let state = messages.state(claimed.id).await;
    assert_eq!(
        (state.status, state.retry_count),
        (MessageStatus::Failed, 3)
    );
    let error = state.last_error.expect("a reason");
    assert!(error.starts_with("MaxRetriesExceeded"), "{error}");
    moment.is(state.finished_at);
    messages.assert_counted(&[(MessageStatus::Failed, 1)]).await;
}

pub async fn a_refused_message_is_tried_again_and_then_shown_to_people(
    fixture: &impl StoreFixture,
) {
    let messages = Messages::new(fixture);
    messages.arrive(failing("a")).await;
    messages.scene.advance(HOUR).await;
    for (refusals, delay) in [(1, HOUR), (2, 2 * HOUR)] {
        let claimed = messages.claim_one().await;
        assert_eq!(claimed.state.task(&policy()), Task::Retry);
        let refused = Outcome::Refused(format!("no queue\0 {refusals}"));
        let (settled, moment) = messages
            .scene
            .timed(messages.settle(&claimed, &refused))
            .await;
        assert!(settled);
        let state = messages.state(claimed.id).await;
        assert_eq!(
            (state.status, state.locked_until),
            (MessageStatus::Pending, None)
        );
        assert_eq!((state.publish_failures, state.retry_count), (refusals, 0));
        let error = state.last_error.expect("a reason");
        assert!(error.ends_with(&refusals.to_string()), "{error}");
        moment.is_followed_by(Some(state.next_retry_at), delay);
        messages
            .assert_counted(&[(MessageStatus::Pending, 1)])
            .await;
        assert!(messages.claim(ALL).await.is_empty());
        messages.scene.advance(delay).await;
    }
    let claimed = messages.claim_one().await;
    assert!(matches!(claimed.state.task(&policy()), Task::Review(_)));
    assert!(messages.settle(&claimed, &Outcome::Done).await);
    messages.assert_counted(&[(MessageStatus::Failed, 1)]).await;
}

pub async fn a_message_stays_due_while_the_broker_is_away(fixture: &impl StoreFixture) {
    let messages = Messages::new(fixture);
    let due = messages.arrive(failing("a")).await.next_retry_at;
    messages.scene.advance(HOUR).await;
    let claimed = messages.claim_one().await;
    let away = Outcome::Away("no connection".to_owned());
    assert!(messages.settle(&claimed, &away).await);
    let state = messages.state(claimed.id).await;
    assert_eq!(
        (state.status, state.locked_until),
        (MessageStatus::Pending, None)
    );
    assert_eq!((state.next_retry_at, state.repeats), (due, 0));
    assert_eq!(state.last_error.as_deref(), Some("no connection"));
    assert_eq!((state.retry_count, state.publish_failures), (0, 0));
    let claimed = messages.claim_one().await;
    assert_eq!(claimed.state.repeats, 0, "that one is not a repeat");
    let unconfirmed = Outcome::Unconfirmed("no answer".to_owned());
    assert!(messages.settle(&claimed, &unconfirmed).await);
    let state = messages.state(claimed.id).await;
    assert_eq!((state.repeats, state.publish_failures), (1, 1));
    assert!(state.next_retry_at > due, "not at once");
}

pub async fn a_batch_of_claims_is_settled_in_its_order(fixture: &impl StoreFixture) {
    let messages = Messages::new(fixture);
    let none = messages.store.settle_messages(vec![]).await;
    assert!(none.expect("settle").is_empty());
    let all = (0..40).map(|n| failing(&n.to_string()));
    messages.arrive_all(all).await;
    messages.scene.advance(HOUR).await;
    let claimed = messages.claim(ALL).await;
    let now = messages.scene.now();
    let mut batch: Vec<_> = claimed
        .iter()
        .rev()
        .map(|m| settled(m, &Outcome::Done, now))
        .collect();
    let mut expected = vec![true; 40];
    for place in [0, 7, 39] {
        batch[place].state.token -= 1;
        expected[place] = false;
    }
    batch[11].number = i64::MAX;
    expected[11] = false;
    let answers = messages.store.settle_messages(batch).await.expect("settle");
    assert_eq!(answers, expected);
    let counted = [(MessageStatus::Pending, 4), (MessageStatus::Retried, 36)];
    messages.assert_counted(&counted).await;
}

pub async fn a_claim_is_settled_once_in_a_batch(fixture: &impl StoreFixture) {
    let messages = Messages::new(fixture);
    messages.arrive(failing("a")).await;
    messages.scene.advance(HOUR).await;
    let lost = messages.claim_one().await;
    messages.scene.advance(LEASE + HALF).await;
    let held = messages.claim_one().await;
    let now = messages.scene.now();
    let refused = Outcome::Refused("no queue".into());
    let batch = vec![
        settled(&lost, &refused, now),
        settled(&held, &Outcome::Done, now),
        settled(&held, &refused, now),
        settled(&lost, &Outcome::Done, now),
    ];
    let expected = batch[1].state.clone();
    let answers = messages.store.settle_messages(batch).await;
    assert_eq!(answers.expect("settle"), [false, true, false, false]);
    assert_eq!(messages.state(held.id).await, expected);
}
