//! RabbitMQ or PostgreSQL is away: no message is lost, and one is put back twice only if the word
//! about the first time was lost.

use std::collections::BTreeMap;

use posthaste_broker::RetryMessage;
use posthaste_testkit::process::{Posthaste, PosthasteBuilder};
use posthaste_testkit::{Message, Proxy};

use crate::backend::{Backend, on_both_stores};
use crate::messages_support::{
    a_failure, a_service, assert_copy, hand_in, patient, quick, start_lane, take_one,
};
use crate::support::{eventually, get, metric, verify};

on_both_stores! {
    what_is_due_while_rabbitmq_is_away_is_put_back_once_when_it_is_there_again,
    a_confirmation_that_is_lost_makes_a_repeat_that_says_so,
    a_connection_that_is_cut_under_load_loses_nothing_and_counts_every_repeat,
}

/// Hands in so many failures and waits until they are kept.
async fn hand_in_many(backend: &Backend, queue: &str, count: usize) -> Vec<RetryMessage> {
    let mut failures = Vec::new();
    for _ in 0..count {
        let failure = a_failure(queue);
        hand_in(backend, &failure).await;
        failures.push(failure);
    }
    for failure in &failures {
        backend.until_message(&failure.message_id, |_| true).await;
    }
    failures
}

/// Puts one message back, so that everything that is needed for that is there.
async fn warm_up(backend: &Backend, queue: &str) {
    let failure = hand_in_many(backend, queue, 1).await.remove(0);
    assert_eq!(backend.make_messages_due().await, 1);
    assert_copy(&take_one(backend, queue).await, &failure, 1);
    let id = &failure.message_id;
    backend.until_message_is(id, "retried").await;
}

/// Everything that is in a queue, by the id of the message.
async fn copies(backend: &Backend, queue: &str) -> BTreeMap<String, Vec<Message>> {
    let mut copies = BTreeMap::<_, Vec<_>>::new();
    while let Some(copy) = backend.queues().take(queue).await {
        let id = copy.headers["x-message-id"].clone();
        copies.entry(id).or_default().push(copy);
    }
    copies
}

/// Waits until all are put back, ends the lane, and finds exactly one copy of each.
async fn assert_each_came_once(
    backend: &Backend,
    lane: &mut Posthaste,
    queue: &str,
    failures: &[RetryMessage],
) {
    for RetryMessage { message_id, .. } in failures {
        let row = backend.until_message_is(message_id, "retried").await;
        assert_eq!((row.retry_count, row.repeats), (1, 0), "{row:?}");
        assert_eq!((row.publish_failures, row.last_error), (0, None));
    }
    assert_eq!(lane.terminate().await, Some(0));
    let copies = copies(backend, queue).await;
    for failure in failures {
        let [copy] = &copies[&failure.message_id][..] else {
            panic!("not once: {copies:?}");
        };
        assert_copy(copy, failure, 1);
    }
    assert_eq!(copies.len(), failures.len());
    verify(lane).await;
}

async fn until_degraded(lane: &Posthaste) {
    let health = lane
        .wait_for("/readyz", |health| health["status"] == "degraded")
        .await;
    assert_eq!(health["degraded"][0], "message broker");
    assert_eq!(get(lane, "/livez").await.status, 200);
}

async fn what_is_due_while_rabbitmq_is_away_is_put_back_once_when_it_is_there_again(
    backend: &Backend,
) {
    let queue = a_service(backend).await;
    let proxy = Proxy::to(backend.queues().url()).await;
    let (name, url) = backend.rabbitmq_by_way_of(&proxy);
    let lane = patient(backend).env(name, url);
    let mut lane = start_lane(lane.env("RETRY_POLL_INTERVAL_MS", "100")).await;
    let failures = hand_in_many(backend, &queue, 20).await;
    proxy.cut();
    until_degraded(&lane).await;

    assert_eq!(backend.make_messages_due().await, 20);

    eventually("they are overdue", async || {
        metric(&lane, "posthaste_oldest_message_due_age_seconds").await >= 1.0
    })
    .await;
    assert_eq!(metric(&lane, "retry_queue_depth").await, 20.0);
    assert_eq!(backend.queues().count(&queue).await, 0);
    proxy.restore();
    assert_each_came_once(backend, &mut lane, &queue, &failures).await;
}

async fn a_confirmation_that_is_lost_makes_a_repeat_that_says_so(backend: &Backend) {
    let queue = a_service(backend).await;
    let proxy = Proxy::to(backend.queues().url()).await;
    let (name, url) = backend.rabbitmq_by_way_of(&proxy);
    let lane = patient(backend)
        .env(name, url)
        .env("RETRY_POLL_INTERVAL_MS", "100")
        .env("POSTHASTE_BROKER__PUBLISH_TIMEOUT", "1s");
    let mut lane = start_lane(lane).await;
    warm_up(backend, &queue).await;
    let failure = hand_in_many(backend, &queue, 1).await.remove(0);
    let id = failure.message_id.as_str();
    proxy.fall_silent();
    assert_eq!(backend.make_messages_due().await, 1);

    let row = backend.until_message(id, |row| row.repeats == 1).await;
    assert_eq!((row.status.as_str(), row.retry_count), ("pending", 0));
    let error = row.last_error.unwrap();
    assert!(error.contains("did not confirm"), "{error}");
    let repeats = metric(&lane, "posthaste_message_repeats_total").await;
    assert!(repeats >= 1.0, "{repeats}");
    proxy.restore();
    // It waits before the next try, as after any other that failed.
    assert_eq!(backend.make_messages_due().await, 1);

    let row = backend.until_message_is(id, "retried").await;
    assert_eq!((row.retry_count, row.publish_failures), (1, 0));
    assert_eq!(lane.terminate().await, Some(0));
    let copies = copies(backend, &queue).await;
    let most = usize::try_from(row.repeats).unwrap() + 1;
    assert!((1..=most).contains(&copies[id].len()), "{copies:?}");
    for copy in &copies[id] {
        assert_copy(copy, &failure, 1);
    }
    verify(&lane).await;
}

async fn a_connection_that_is_cut_under_load_loses_nothing_and_counts_every_repeat(
    backend: &Backend,
) {
    let queue = a_service(backend).await;
    let proxy = Proxy::to(backend.queues().url()).await;
    let (name, url) = backend.rabbitmq_by_way_of(&proxy);
    let lane = quick(backend).env(name, url);
    let mut lane = start_lane(lane.env("POSTHASTE_MESSAGES__JITTER", "2s")).await;
    let failures = hand_in_many(backend, &queue, 200).await;
    for part in 1..=3 {
        eventually("some are there", async || {
            backend.queues().count(&queue).await >= part * 50
        })
        .await;
        proxy.cut();
        until_degraded(&lane).await;
        proxy.restore();
    }

    let mut most = BTreeMap::new();
    for RetryMessage { message_id, .. } in &failures {
        let row = backend.until_message_is(message_id, "retried").await;
        assert_eq!(row.retry_count, 1);
        most.insert(message_id, usize::try_from(row.repeats).unwrap() + 1);
    }
    assert_eq!(lane.terminate().await, Some(0));
    let copies = copies(backend, &queue).await;
    assert_eq!(copies.len(), failures.len());
    for failure in &failures {
        let copies = &copies[&failure.message_id];
        assert!(copies.len() <= most[&failure.message_id], "{copies:?}");
        copies.iter().for_each(|copy| assert_copy(copy, failure, 1));
    }
    verify(&lane).await;
}

/// The same process by way of a proxy to PostgreSQL, and quick to give up.
fn by_way_of(process: PosthasteBuilder, backend: &Backend, proxy: &Proxy) -> PosthasteBuilder {
    let url = proxy.by_way_of(&backend.database().url());
    process
        .env("DATABASE_URL", url)
        .env("POSTHASTE_STORE__TIMEOUT", "2s")
}

#[tokio::test]
async fn what_is_handed_in_while_postgres_is_away_is_kept_when_it_is_there_again() {
    for take_away in [Proxy::cut, Proxy::fall_silent] {
        let backend = Backend::postgres_and_rabbitmq().await;
        let queue = a_service(&backend).await;
        let proxy = Proxy::to(&backend.database().url()).await;
        let mut lane = start_lane(by_way_of(quick(&backend), &backend, &proxy)).await;
        take_away(&proxy);
        let failures: Vec<_> = (0..10).map(|_| a_failure(&queue)).collect();
        for failure in &failures {
            hand_in(&backend, failure).await;
        }
        lane.wait_for_line("failed messages cannot be kept").await;
        assert_eq!(backend.count_messages().await, 0);
        proxy.restore();
        assert_each_came_once(&backend, &mut lane, &queue, &failures).await;
    }
}

#[tokio::test]
async fn what_is_not_kept_is_not_acknowledged() {
    let backend = Backend::postgres_and_rabbitmq().await;
    let queue = a_service(&backend).await;
    let proxy = Proxy::to(&backend.database().url()).await;
    let mut lane = start_lane(by_way_of(quick(&backend), &backend, &proxy)).await;
    let queues = backend.queues();
    let mut failures = Vec::new();
    // Once it dies, and once it is told to stop.
    for dies in [true, false] {
        proxy.cut();
        let more: Vec<_> = (0..10).map(|_| a_failure(&queue)).collect();
        for failure in &more {
            hand_in(&backend, failure).await;
        }
        queues.wait_for_count(&queues.messages(), 0).await;
        if dies {
            lane.kill9();
        } else {
            assert_eq!(lane.terminate().await, Some(0));
        }
        queues.wait_for_count(&queues.messages(), 10).await;
        proxy.restore();
        lane.restart(&[]).await;
        for failure in &more {
            let id = &failure.message_id;
            backend.until_message_is(id, "retried").await;
        }
        failures.extend(more);
    }
    assert_each_came_once(&backend, &mut lane, &queue, &failures).await;
    assert_eq!(queues.count(&queues.messages()).await, 0, "now it is");
}

#[tokio::test]
async fn what_was_put_back_is_not_forgotten_when_postgres_is_away_at_that_moment() {
    let backend = Backend::postgres_and_rabbitmq().await;
    let queue = a_service(&backend).await;
    let rabbitmq = Proxy::to(backend.queues().url()).await;
    let postgres = Proxy::to(&backend.database().url()).await;
    let (name, url) = backend.rabbitmq_by_way_of(&rabbitmq);
    let lane = patient(&backend)
        .env(name, url)
        .env("RETRY_POLL_INTERVAL_MS", "100")
        .env("POSTHASTE_BROKER__PUBLISH_TIMEOUT", "60s");
    let mut lane = start_lane(by_way_of(lane, &backend, &postgres)).await;
    warm_up(&backend, &queue).await;
    let failures = hand_in_many(&backend, &queue, 3).await;

    rabbitmq.fall_silent();
    assert_eq!(backend.make_messages_due().await, 3);
    rabbitmq.wait_for_held("x-retry-count").await;
    postgres.cut();
    rabbitmq.restore();

    let line = "republished messages cannot be settled";
    lane.wait_for_line(line).await;
    postgres.restore();
    assert_each_came_once(&backend, &mut lane, &queue, &failures).await;
}

#[tokio::test]
async fn a_process_that_is_too_slow_leaves_the_message_to_another() {
    let backend = Backend::postgres_and_rabbitmq().await;
    let queue = a_service(&backend).await;
    let proxy = Proxy::to(backend.queues().url()).await;
    let (name, url) = backend.rabbitmq_by_way_of(&proxy);
    let process = || patient(&backend).env("RETRY_POLL_INTERVAL_MS", "100");
    let slow = process()
        .env("DATABASE_URL", backend.database().url_as("slow"))
        // RabbitMQ does not take it for dead meanwhile.
        .env(name, format!("{url}?heartbeat=60"))
        .env("POSTHASTE_BROKER__PUBLISH_TIMEOUT", "60s");
    let slow = start_lane(slow).await;
    warm_up(&backend, &queue).await;
    let failure = hand_in_many(&backend, &queue, 1).await.remove(0);
    proxy.fall_silent();
    assert_eq!(backend.make_messages_due().await, 1);
    proxy.wait_for_held("x-retry-count").await;

    // It would be the first to claim what nobody holds, also by what it has asked for already.
    slow.pause();
    backend.database().end_sessions("slow").await;
    assert_eq!(backend.end_message_claims().await, 1);
    let other = start_lane(process()).await;

    assert_copy(&take_one(&backend, &queue).await, &failure, 1);
    let id = &failure.message_id;
    let settled = backend.until_message_is(id, "retried").await;
    assert_eq!((settled.retry_count, settled.repeats), (1, 1));
    proxy.restore();
    // What it had sent arrives after all, but it is not its message any more.
    assert_copy(&take_one(&backend, &queue).await, &failure, 1);
    slow.resume();
    eventually("the lost claim is noticed", async || {
        metric(&slow, "posthaste_message_claims_lost_total").await == 1.0
    })
    .await;
    assert_eq!(backend.find_message(id).await, Some(settled));
    verify(&other).await;
}
