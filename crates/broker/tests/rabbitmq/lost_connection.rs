//! A network that fails.

use std::sync::Arc;
use std::time::{Duration, Instant};

use posthaste_broker::{RabbitMqBroker, RabbitMqOptions};
use posthaste_core::port::{Broker, Published, Route};
use posthaste_core::status::Priority;
use posthaste_testkit::broker_conformance::a_ticket;
use posthaste_testkit::{Proxy, Queues};

use crate::server::{options_for, ready, started, until};

async fn publish(broker: &RabbitMqBroker) -> Published {
    let ticket = a_ticket("one", Priority::Normal);
    broker.publish(Route::First, vec![ticket]).await[0]
}

#[tokio::test]
async fn a_cut_connection_refuses_at_once_and_comes_back() {
    let queues = Queues::fresh();
    let proxy = Proxy::to(queues.url()).await;
    let broker = started(RabbitMqOptions {
        url: proxy.by_way_of(queues.url()),
        publish_deadline: Duration::from_secs(3600),
        ..options_for(&queues)
    })
    .await;
    assert_eq!(publish(&broker).await, Published::Confirmed);
    let before = broker.receive(1).await;

    proxy.cut();
    until("the loss is noticed", || broker.trouble().is_some()).await;
    // At once: the deadline is an hour away.
    assert_eq!(publish(&broker).await, Published::Refused);
    let trouble = broker.trouble().unwrap();
    assert!(
        trouble.starts_with("RabbitMQ cannot be reached: "),
        "{trouble}"
    );
    assert!(trouble.ends_with("; emails are sent from the store meanwhile"));

    proxy.restore();
    ready(&broker).await;
    assert_eq!(broker.counts().reconnected, 2);
    // The server has the ticket back; what was taken before means nothing any more.
    broker.acknowledge(before.clone()).await;
    broker.give_back(before.clone()).await;
    let again = broker.receive(1).await;
    assert_eq!(again[0].ticket, before[0].ticket);
    assert_ne!(again[0].tag, before[0].tag);
    broker.acknowledge(again).await;
    assert_eq!(publish(&broker).await, Published::Confirmed);
    assert_eq!(broker.receive(5).await.len(), 1);
    assert_eq!(broker.trouble(), None);
    broker.close().await;
}

#[tokio::test]
async fn a_publish_into_a_black_hole_is_answered_by_its_deadline() {
    let queues = Queues::fresh();
    let proxy = Proxy::to(queues.url()).await;
    let deadline = Duration::from_millis(500);
    let broker = started(RabbitMqOptions {
        url: proxy.by_way_of(queues.url()),
        publish_deadline: deadline,
        ..options_for(&queues)
    })
    .await;
    proxy.fall_silent();
    let began = Instant::now();
    assert_eq!(publish(&broker).await, Published::Refused);
    assert!(began.elapsed() >= deadline, "it was worth waiting for");
    // A connection without a confirm in all that time is not trusted any longer.
    until("the silence is noticed", || broker.trouble().is_some()).await;
    assert_eq!(publish(&broker).await, Published::Refused);
    proxy.restore();
    ready(&broker).await;
    assert_eq!(publish(&broker).await, Published::Confirmed);
    broker.close().await;
}

#[tokio::test]
async fn a_silent_connection_is_given_up_by_its_heartbeat() {
    let queues = Queues::fresh();
    let proxy = Proxy::to(queues.url()).await;
    let broker = started(RabbitMqOptions {
        url: proxy.by_way_of(queues.url()),
        heartbeat_seconds: 1,
        ..options_for(&queues)
    })
    .await;
    proxy.fall_silent();
    until("the silence is noticed", || broker.trouble().is_some()).await;
    proxy.restore();
    ready(&broker).await;
    assert_eq!(publish(&broker).await, Published::Confirmed);
    assert_eq!(broker.receive(1).await.len(), 1);
    broker.close().await;
}

#[tokio::test]
async fn a_broker_may_start_while_rabbitmq_is_away() {
    let queues = Queues::fresh();
    let proxy = Proxy::to(queues.url()).await;
    proxy.cut();
    let options = RabbitMqOptions {
        url: proxy.by_way_of(queues.url()),
        ..options_for(&queues)
    };
    let broker = Arc::new(RabbitMqBroker::start(options).unwrap());
    assert!(broker.trouble().is_some());
    assert_eq!(publish(&broker).await, Published::Refused);
    proxy.restore();
    ready(&broker).await;
    assert_eq!(publish(&broker).await, Published::Confirmed);
    assert_eq!(broker.receive(1).await.len(), 1);
    assert_eq!(broker.counts().reconnected, 0);
    broker.close().await;
}

#[tokio::test]
async fn closing_does_not_wait_for_a_dead_server() {
    let queues = Queues::fresh();
    let proxy = Proxy::to(queues.url()).await;
    let broker = started(RabbitMqOptions {
        url: proxy.by_way_of(queues.url()),
        ..options_for(&queues)
    })
    .await;
    proxy.fall_silent();
    // If it waited for an answer, it would do so for ever.
    broker.close().await;
}
