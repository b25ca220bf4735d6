//! Queues that are deleted or emptied under way.

use posthaste_broker::RabbitMqOptions;
use posthaste_core::port::{Broker, Published, Route};
use posthaste_core::status::Priority;
use posthaste_testkit::Queues;
use posthaste_testkit::broker_conformance::a_ticket;

use crate::server::{options_for, started, until};

#[tokio::test]
async fn a_ticket_for_a_deleted_queue_is_refused_and_the_queue_comes_back() {
    let queues = Queues::fresh();
    let broker = started(RabbitMqOptions {
        consumes: false,
        ..options_for(&queues)
    })
    .await;
    queues.delete(&queues.low()).await;

    // RabbitMQ confirms what it returns, and lapin says so at some confirm of the same channel:
    // it must be the right ones that are refused.
    let priority = |n| match n % 3 {
        0 => Priority::Low,
        _ => Priority::Normal,
    };
    let tickets: Vec<_> = (0..300).map(|n| a_ticket("mixed", priority(n))).collect();
    let expected = |priority| match priority {
        Priority::Low => Published::Refused,
        _ => Published::Confirmed,
    };
    let expected: Vec<_> = tickets.iter().map(|t| expected(t.priority)).collect();
    assert_eq!(broker.publish(Route::First, tickets).await, expected);
    assert_eq!(broker.counts().returned, 100);

    queues.wait_for_count(&queues.low(), 0).await;
    let ticket = a_ticket("healed", Priority::Low);
    let published = broker.publish(Route::First, vec![ticket]).await;
    assert_eq!(published, [Published::Confirmed]);
    assert_eq!(broker.counts().returned, 100);
    broker.close().await;
}

#[tokio::test]
async fn a_deleted_queue_is_consumed_again() {
    let queues = Queues::fresh();
    let broker = started(options_for(&queues)).await;
    queues.delete(&queues.send()).await;
    until("it is noticed", || broker.trouble().is_some()).await;
    until("it is back", || broker.trouble().is_none()).await;
    let ticket = a_ticket("after", Priority::Normal);
    let published = broker.publish(Route::First, vec![ticket.clone()]).await;
    assert_eq!(published, [Published::Confirmed]);
    assert_eq!(broker.receive(1).await[0].ticket, ticket);
    broker.close().await;
}

#[tokio::test]
async fn a_purge_is_harmless() {
    let queues = Queues::fresh();
    let options = RabbitMqOptions {
        prefetch: 1,
        ..options_for(&queues)
    };
    let broker = started(options).await;
    let tickets: Vec<_> = (0..5).map(|_| a_ticket("many", Priority::Normal)).collect();
    broker.publish(Route::First, tickets).await;
    let taken = broker.receive(1).await;
    queues.wait_for_count(&queues.send(), 4).await;
    queues.purge(&queues.send()).await;
    broker.acknowledge(taken).await;
    let ticket = a_ticket("after", Priority::Normal);
    broker.publish(Route::First, vec![ticket.clone()]).await;
    assert_eq!(broker.receive(1).await[0].ticket, ticket);
    assert_eq!(broker.trouble(), None);
    broker.close().await;
}
