//! Failed messages of other services, as they come in.

use std::time::Duration;

use posthaste_broker::RabbitMqOptions;
use posthaste_broker::rabbitmq::QueueType;
use posthaste_core::port::MessageBroker;
use posthaste_testkit::Queues;

use crate::message_lane::{a_failure, hand_in, started, tags, take};
use crate::server::{options_for, until};

#[tokio::test]
async fn a_failure_is_received_once_and_forgotten_when_it_is_acknowledged() {
    let queues = Queues::fresh();
    let lane = started(options_for(&queues)).await;
    let message = a_failure("orders", b"payload");
    hand_in(&queues, &message).await;
    let taken = lane.receive(10).await;
    assert_eq!(taken.len(), 1);
    let failure = &taken[0].failure;
    assert_eq!(failure.message_id.to_string(), message.message_id);
    assert_eq!(failure.payload, message.original_payload);
    assert_eq!(failure.original_queue, "orders");
    assert_eq!(failure.error_reason, "timeout");
    assert!(!taken[0].redelivered);
    lane.acknowledge(tags(&taken)).await;
    lane.close().await;
    queues.wait_for_count(&queues.messages(), 0).await;
}

#[tokio::test]
async fn only_the_queues_of_this_lane_are_made() {
    let queues = Queues::fresh();
    let lane = started(options_for(&queues)).await;
    for (queue, is_there) in [
        (queues.messages(), true),
        (queues.review(), true),
        (queues.send(), false),
        (queues.dead(), false),
    ] {
        assert_eq!(queues.is_there(&queue).await, is_there, "{queue}");
    }
    lane.close().await;
}

#[tokio::test]
async fn what_was_not_acknowledged_comes_again_and_says_so() {
    for queue_type in [QueueType::Classic, QueueType::Quorum] {
        let queues = Queues::fresh();
        let options = RabbitMqOptions {
            queue_type,
            ..options_for(&queues)
        };
        let lane = started(options.clone()).await;
        hand_in(&queues, &a_failure("orders", b"a")).await;
        let first = take(&lane, 1).await;
        assert!(!first[0].redelivered);

        // Whether it was given back, or the process went away.
        lane.give_back(tags(&first)).await;
        let second = take(&lane, 1).await;
        assert_ne!(second[0].tag, first[0].tag);
        lane.close().await;
        let lane = started(options).await;
        let third = take(&lane, 1).await;
        for again in [&second[0], &third[0]] {
            assert!(again.redelivered);
            // It is the same content, whatever RabbitMQ wrote on it.
            assert_eq!(again.hash, first[0].hash);
            assert_eq!(again.failure, first[0].failure);
        }
        lane.acknowledge(tags(&third)).await;
        lane.close().await;
        queues.wait_for_count(&queues.messages(), 0).await;
    }
}

#[tokio::test]
async fn the_same_failure_handed_in_twice_is_told_apart_by_its_count() {
    let queues = Queues::fresh();
    let lane = started(options_for(&queues)).await;
    let mut message = a_failure("orders", b"a");
    hand_in(&queues, &message).await;
    message.retry_count = 1;
    hand_in(&queues, &message).await;
    let taken = take(&lane, 2).await;
    assert_eq!(taken[0].failure.message_id, taken[1].failure.message_id);
    assert_ne!(taken[0].hash, taken[1].hash);
    lane.close().await;
}

#[tokio::test]
async fn a_failure_that_nobody_takes_goes_to_another_process() {
    let queues = Queues::fresh();
    let idle = started(RabbitMqOptions {
        give_back_after: Duration::from_millis(100),
        ..options_for(&queues)
    })
    .await;
    for _ in 0..5 {
        hand_in(&queues, &a_failure("orders", b"a")).await;
    }
    until("they are here", || idle.waiting() > 0).await;
    let busy = started(options_for(&queues)).await;
    for _ in 0..5 {
        let taken = take(&busy, 1).await;
        busy.acknowledge(tags(&taken)).await;
    }
    busy.close().await;
    idle.close().await;
    queues.wait_for_count(&queues.messages(), 0).await;
}

#[tokio::test]
async fn no_more_is_held_than_the_prefetch_allows() {
    let queues = Queues::fresh();
    let lane = started(RabbitMqOptions {
        messages_prefetch: 3,
        ..options_for(&queues)
    })
    .await;
    for _ in 0..10 {
        hand_in(&queues, &a_failure("orders", b"a")).await;
    }
    queues.wait_for_count(&queues.messages(), 7).await;
    assert!(lane.waiting() <= 3);
    for _ in 0..10 {
        let taken = take(&lane, 1).await;
        lane.acknowledge(tags(&taken)).await;
    }
    lane.close().await;
    queues.wait_for_count(&queues.messages(), 0).await;
}
