//! Failures that arrive: new ones, and those of messages that are known.

use std::time::Duration;

use posthaste_core::message::{MessageAction, MessageStatus, Outcome, Task};
use posthaste_core::port::Scheduled;

use super::StoreFixture;
use super::message_scene::{Messages, failing, id_of, policy};
use super::scene::{ALL, HALF, HOUR, LEASE, together};

pub async fn a_failure_waits_for_its_time(fixture: &impl StoreFixture) {
    let messages = Messages::new(fixture);
    let arriving = messages.arrive(failing("a"));
    let (state, moment) = messages.scene.timed(arriving).await;
    assert_eq!(state.status, MessageStatus::Pending);
    assert_eq!((state.retry_count, state.max_retries), (0, 3));
    assert_eq!(
        (state.token, state.repeats, state.publish_failures),
        (0, 0, 0)
    );
    assert_eq!((state.locked_until, state.finished_at), (None, None));
    assert_eq!((&state.last_error, state.delivery), (&None, [1; 32]));
    moment.is_followed_by(Some(state.next_retry_at), HOUR);
    let found = messages.find(id_of("a")).await;
    assert_eq!((found.id, found.state), (id_of("a"), state));
    moment.is(Some(found.created_at));
    messages
        .assert_counted(&[(MessageStatus::Pending, 1)])
        .await;
}

pub async fn later_failures_wait_longer(fixture: &impl StoreFixture) {
    let messages = Messages::new(fixture);
    for (count, delay) in [(0, 1), (1, 2), (2, 4)] {
        let arriving = messages.arrive(failing(&format!("{count}")).count(count));
        let (state, moment) = messages.scene.timed(arriving).await;
        assert_eq!(state.retry_count, count);
        moment.is_followed_by(Some(state.next_retry_at), delay * HOUR);
    }
}

pub async fn an_exhausted_message_is_due_at_once(fixture: &impl StoreFixture) {
    let messages = Messages::new(fixture);
    let later = messages.scene.now() + 5 * HOUR;
    for failing in [
        failing("default").count(3),
        failing("own").max_retries(1).count(1).not_before(later),
    ] {
        let (state, moment) = messages.scene.timed(messages.arrive(failing)).await;
        moment.is(Some(state.next_retry_at));
        let message = messages.claim_one().await;
        assert!(matches!(message.state.task(&policy()), Task::Review(_)));
    }
}

pub async fn the_wished_moment_is_a_floor(fixture: &impl StoreFixture) {
    let messages = Messages::new(fixture);
    let later = messages.scene.now() + 5 * HOUR;
    let state = messages.arrive(failing("later").not_before(later)).await;
    assert_eq!(state.next_retry_at, later);
    let sooner = messages.scene.now() + HALF;
    let arriving = messages.arrive(failing("sooner").not_before(sooner));
    let (state, moment) = messages.scene.timed(arriving).await;
    moment.is_followed_by(Some(state.next_retry_at), HOUR);
}

pub async fn a_wished_moment_is_never_rounded_down(fixture: &impl StoreFixture) {
    let messages = Messages::new(fixture);
    let whole = messages.scene.now() + 5 * HOUR;
    let odd = whole + Duration::from_nanos(1);
    let state = messages.arrive(failing("a").not_before(odd)).await;
    assert_eq!(state.next_retry_at, whole + Duration::from_micros(1));
    assert_eq!(messages.state(id_of("a")).await, state);
}

pub async fn the_same_failure_while_it_waits_is_a_duplicate(fixture: &impl StoreFixture) {
    let messages = Messages::new(fixture);
    messages.arrive(failing("a").count(1)).await;
    messages.assert_duplicate(failing("a").count(1)).await;
    let other = failing("a").delivery(2).payload("other").queue("other");
    messages.assert_duplicate(other.clone()).await;
    messages
        .assert_duplicate(other.count(1).redelivered())
        .await;
    messages.scene.advance(3 * HOUR).await;
    messages.assert_duplicate(failing("a").count(1)).await;
    messages
        .assert_counted(&[(MessageStatus::Pending, 1)])
        .await;
}

pub async fn a_higher_count_while_it_waits_replaces_it(fixture: &impl StoreFixture) {
    let messages = Messages::new(fixture);
    let first = messages.arrive(failing("a").count(1)).await;
    let before = messages.find(id_of("a")).await;
    let next = failing("a")
        .count(2)
        .payload("later")
        .queue("other")
        .reason("still");
    let state = messages.arrive(next.delivery(2).max_retries(7)).await;
    assert_eq!((state.retry_count, state.max_retries), (2, 7));
    assert!(state.token > first.token && state.next_retry_at > first.next_retry_at);
    let found = messages.find(id_of("a")).await;
    assert_eq!(
        (&found.payload[..], found.payload_bytes),
        (&b"later"[..], 5)
    );
    assert_eq!(
        (&found.original_queue[..], &found.error_reason[..]),
        ("other", "still")
    );
    assert_eq!(
        (found.number, found.created_at),
        (before.number, before.created_at)
    );
    assert_eq!(
        (found.state.clone(), found.state.delivery),
        (state, [2; 32])
    );
    messages
        .assert_counted(&[(MessageStatus::Pending, 1)])
        .await;
}

pub async fn a_failure_after_a_republish_counts_on(fixture: &impl StoreFixture) {
    let messages = Messages::new(fixture);
    let id = messages.republished(failing("a")).await;
    let before = messages.find(id).await;
    assert_eq!(before.state.retry_count, 1);
    // Whoever handed it in does not count.
    let arriving = messages.arrive(failing("a").delivery(2).payload("other"));
    let (state, moment) = messages.scene.timed(arriving).await;
    assert_eq!(
        (state.status, state.retry_count),
        (MessageStatus::Pending, 1)
    );
    assert_eq!((state.finished_at, state.locked_until), (None, None));
    assert!(state.token > before.state.token);
    moment.is_followed_by(Some(state.next_retry_at), 2 * HOUR);
    let found = messages.find(id).await;
    assert_eq!(
        (found.number, found.created_at),
        (before.number, before.created_at)
    );
    assert_eq!((&found.payload[..], found.state), (&b"other"[..], state));
    messages
        .assert_counted(&[(MessageStatus::Pending, 1)])
        .await;
    // Or counts more than we do.
    let id = messages.republished(failing("b")).await;
    let state = messages.arrive(failing("b").count(2)).await;
    assert_eq!(
        (messages.state(id).await.retry_count, state.retry_count),
        (2, 2)
    );
}

pub async fn a_message_that_was_given_up_is_taken_up_again(fixture: &impl StoreFixture) {
    let messages = Messages::new(fixture);
    let failed = messages.exhausted(failing("failed").count(2)).await;
    let discarded = messages.discarded(failing("discarded").count(1)).await;
    for (name, id, count) in [("failed", failed, 2), ("discarded", discarded, 1)] {
        let token = messages.state(id).await.token;
        let state = messages.arrive(failing(name).max_retries(9)).await;
        assert_eq!(
            (state.status, state.retry_count),
            (MessageStatus::Pending, count)
        );
        assert_eq!((&state.last_error, state.finished_at), (&None, None));
        assert!(state.token > token);
        assert_eq!(messages.state(id).await, state);
    }
    messages
        .assert_counted(&[(MessageStatus::Pending, 2)])
        .await;
}

pub async fn a_delivery_that_was_taken_in_is_known_when_it_comes_again(
    fixture: &impl StoreFixture,
) {
    let messages = Messages::new(fixture);
    let again = |name| failing(name).redelivered();
    for name in ["retried", "other", "anew"] {
        messages.republished(failing(name)).await;
    }
    messages.assert_duplicate(again("retried")).await;
    let state = messages.arrive(again("other").delivery(2)).await;
    assert_eq!(state.retry_count, 1, "its content differs: it failed again");
    let state = messages.arrive(failing("anew")).await;
    assert_eq!(state.retry_count, 1, "it was handed in again");
    messages.exhausted(failing("failed")).await;
    messages.assert_duplicate(again("failed")).await;
    messages.discarded(failing("discarded")).await;
    messages.assert_duplicate(again("discarded")).await;
}

pub async fn a_failure_of_a_claimed_message_is_the_one_after(fixture: &impl StoreFixture) {
    let messages = Messages::new(fixture);
    for (name, wait) in [("claim holds", HALF), ("claim ran out", LEASE + HALF)] {
        messages.arrive(failing(name)).await;
        messages.scene.advance(HOUR).await;
        let claimed = messages.claim_one().await;
        messages.scene.advance(wait).await;
        // It is in its queue, and failed there, before its claim was settled.
        let state = messages.arrive(failing(name).delivery(2)).await;
        assert_eq!((state.retry_count, state.locked_until), (1, None));
        assert!(state.token > claimed.state.token);
        assert!(!messages.settle(&claimed, &Outcome::Done).await, "too late");
        assert_eq!(messages.state(claimed.id).await, state);
        assert!(messages.claim(ALL).await.is_empty(), "it waits again");
        messages.act(claimed.id, MessageAction::Discard).await;
    }
}

pub async fn a_known_delivery_of_a_claimed_message_changes_nothing(fixture: &impl StoreFixture) {
    let messages = Messages::new(fixture);
    messages.arrive(failing("a")).await;
    messages.scene.advance(HOUR).await;
    let claimed = messages.claim_one().await;
    messages.assert_duplicate(failing("a").redelivered()).await;
    assert!(messages.settle(&claimed, &Outcome::Done).await);
}

pub async fn a_sender_that_never_counts_comes_to_an_end(fixture: &impl StoreFixture) {
    let messages = Messages::new(fixture);
    for round in 0..3 {
        let id = messages.republished(failing("a")).await;
        assert_eq!(messages.state(id).await.retry_count, round + 1);
    }
    let state = messages.arrive(failing("a")).await;
    assert!(state.is_exhausted());
    let message = messages.claim_one().await;
    assert!(matches!(message.state.task(&policy()), Task::Review(_)));
    assert!(messages.settle(&message, &Outcome::Done).await);
    messages.assert_counted(&[(MessageStatus::Failed, 1)]).await;
}

pub async fn failures_of_one_message_in_a_batch_come_one_after_the_other(
    fixture: &impl StoreFixture,
) {
    let messages = Messages::new(fixture);
    messages.republished(failing("known")).await;
    for (name, first_count) in [("new", 0), ("known", 1)] {
        let batch = [(0, "0"), (0, "1"), (2, "2"), (1, "3"), (2, "4")];
        let batch = batch.map(|(count, payload)| failing(name).count(count).payload(payload));
        let answers = messages.arrive_all(batch).await;
        let counts: Vec<_> = answers
            .iter()
            .map(|answer| match answer {
                Scheduled::Scheduled(state) => Some(state.retry_count),
                Scheduled::Duplicate => None,
            })
            .collect();
        assert_eq!(counts, [Some(first_count), None, Some(2), None, None]);
        let found = messages.find(id_of(name)).await;
        assert_eq!(answers[2], Scheduled::Scheduled(found.state));
        assert_eq!(&found.payload[..], b"2");
    }
    messages
        .assert_counted(&[(MessageStatus::Pending, 2)])
        .await;
}

pub async fn a_batch_of_failures_is_answered_in_its_order(fixture: &impl StoreFixture) {
    let messages = Messages::new(fixture);
    assert_eq!(messages.arrive_all([]).await, []);
    for n in (0..300).step_by(3) {
        messages.arrive(failing(&n.to_string())).await;
    }
    let answers = messages
        .arrive_all((0..300).map(|n| failing(&n.to_string())))
        .await;
    for (n, answer) in answers.iter().enumerate() {
        let expected = if n % 3 == 0 {
            Scheduled::Duplicate
        } else {
            Scheduled::Scheduled(messages.state(id_of(&n.to_string())).await)
        };
        assert_eq!(*answer, expected, "{n}");
    }
    messages
        .assert_counted(&[(MessageStatus::Pending, 300)])
        .await;
}

pub async fn many_tasks_with_the_same_failures_keep_each_once(fixture: &impl StoreFixture) {
    let messages = Messages::new(fixture);
    let answers = together(8, |task| {
        let store = messages.store.clone();
        async move {
            let mut names: Vec<_> = (0..60).collect();
            names.rotate_left(task * 7);
            let arrivals = names.iter().map(|n| failing(&n.to_string()).build());
            store
                .schedule(arrivals.collect(), &policy())
                .await
                .expect("schedule")
        }
    });
    let answers = answers.await.concat();
    let new = answers
        .iter()
        .filter(|answer| **answer != Scheduled::Duplicate);
    assert_eq!(new.count(), 60);
    messages
        .assert_counted(&[(MessageStatus::Pending, 60)])
        .await;
}
