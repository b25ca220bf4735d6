//! A network that fails under other services' messages.

use std::time::Duration;

use posthaste_broker::{RabbitMqMessages, RabbitMqOptions};
use posthaste_core::port::{Handed, MessageBroker};
use posthaste_testkit::{Proxy, Queues};

use crate::message_lane::{a_failure, a_message, hand_in, publish, ready, started, tags, take};
use crate::server::{options_for, until};

/// Queues with one of another service, and a network between them and whoever has the options.
async fn network() -> (Queues, String, Proxy, RabbitMqOptions) {
    let queues = Queues::fresh();
    let orders = queues.of_service("orders");
    queues.declare(&orders).await;
    let proxy = Proxy::to(queues.url()).await;
    let options = RabbitMqOptions {
        url: proxy.by_way_of(queues.url()),
        publish_deadline: Duration::from_secs(3600),
        ..options_for(&queues)
    };
    (queues, orders, proxy, options)
}

#[tokio::test]
async fn while_rabbitmq_is_away_nothing_is_sent_and_nobody_waits() {
    let (queues, orders, proxy, options) = network().await;
    proxy.cut();
    let lane = RabbitMqMessages::start(options).unwrap();
    assert!(lane.is_away());
    assert_eq!(publish(&lane, a_message(&orders, "a")).await, Handed::Away);
    let trouble = lane.trouble().unwrap();
    assert!(
        trouble.starts_with("RabbitMQ cannot be reached: "),
        "{trouble}"
    );
    assert!(trouble.ends_with("; messages wait in the store meanwhile"));

    proxy.restore();
    ready(&lane).await;
    assert!(!lane.is_away());
    assert_eq!(
        publish(&lane, a_message(&orders, "b")).await,
        Handed::Confirmed
    );
    let taken = queues.take_many(&orders, 1).await;
    assert_eq!(taken[0].body, b"b");
    assert_eq!(lane.counts().reconnected, 0);
    lane.close().await;
    assert!(lane.is_away());
    assert_eq!(publish(&lane, a_message(&orders, "c")).await, Handed::Away);
}

#[tokio::test]
async fn a_cut_connection_comes_back_and_what_was_open_comes_again() {
    let (queues, orders, proxy, options) = network().await;
    let lane = started(options).await;
    hand_in(&queues, &a_failure(&orders, b"open")).await;
    let before = take(&lane, 1).await;

    proxy.cut();
    until("the loss is noticed", || lane.is_away()).await;
    assert_eq!(publish(&lane, a_message(&orders, "a")).await, Handed::Away);
    proxy.restore();
    ready(&lane).await;
    assert_eq!(lane.counts().reconnected, 2);

    // What was taken before means nothing any more.
    lane.acknowledge(tags(&before)).await;
    let again = take(&lane, 1).await;
    assert!(again[0].redelivered);
    assert_eq!(again[0].hash, before[0].hash);
    lane.acknowledge(tags(&again)).await;
    assert_eq!(
        publish(&lane, a_message(&orders, "b")).await,
        Handed::Confirmed
    );
    lane.close().await;
    queues.wait_for_count(&queues.messages(), 0).await;
}

#[tokio::test]
async fn what_was_sent_into_a_black_hole_may_be_there_and_the_rest_is_not() {
    let (queues, orders, proxy, options) = network().await;
    let lane = started(RabbitMqOptions {
        publish_deadline: Duration::from_millis(500),
        ..options
    })
    .await;
    // Without a channel that is open, nothing can be sent.
    proxy.fall_silent();
    assert_eq!(publish(&lane, a_message(&orders, "a")).await, Handed::Away);
    until("the silence is noticed", || lane.is_away()).await;
    proxy.restore();
    // The deadline is short for a busy machine.
    while publish(&lane, a_message(&orders, "b")).await != Handed::Confirmed {
        ready(&lane).await;
    }
    proxy.fall_silent();
    let mut messages = vec![a_message(&orders, "left the house")];
    messages.extend((0..600).map(|_| a_message(&orders, "stayed at home")));
    let handed = lane.publish(messages).await;
    proxy.wait_for_held("left the house").await;
    assert!(handed[..500] == vec![Handed::Unconfirmed; 500]);
    assert!(handed[500..] == vec![Handed::Away; 101]);
    proxy.restore();
    ready(&lane).await;
    lane.close().await;
    queues.delete(&orders).await;
}

#[tokio::test]
async fn a_connection_that_is_cut_in_between_leaves_no_wrong_answer() {
    let (queues, orders, proxy, options) = network().await;
    let lane = started(options).await;
    let missing = queues.of_service("missing");
    let queue = |n| if n % 3 == 0 { &missing } else { &orders };
    let messages = (0..3000).map(|n| a_message(queue(n), n.to_string()));
    let publishing = lane.publish(messages.collect());
    let cutting = async {
        // In the midst of it.
        while queues.count(&orders).await == 0 {}
        proxy.cut();
    };
    let (handed, ()) = tokio::join!(publishing, cutting);

    // Whatever is confirmed is there; whatever never left, is not.
    let count = queues.count(&orders).await;
    let arrived = queues.take_many(&orders, count as usize).await;
    let arrived: Vec<_> = arrived.into_iter().map(|message| message.body).collect();
    for (n, handed) in handed.iter().enumerate() {
        let is_there = arrived.contains(&n.to_string().into_bytes());
        match handed {
            Handed::Confirmed => assert!(is_there, "{n}"),
            Handed::NoQueue => assert_eq!(n % 3, 0, "{n}"),
            Handed::Away => assert!(!is_there, "{n}"),
            Handed::Unconfirmed => {}
            Handed::Refused => panic!("{n} was refused"),
        }
    }
    proxy.restore();
    ready(&lane).await;
    lane.close().await;
}
