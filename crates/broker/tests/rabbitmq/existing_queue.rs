//! Queues that somebody else declared with other settings.

use posthaste_broker::rabbitmq::{Existing, QueueType};
use posthaste_broker::{RabbitMqBroker, RabbitMqOptions};
use posthaste_core::port::{Broker, Published, Route};
use posthaste_core::status::Priority;
use posthaste_testkit::Queues;
use posthaste_testkit::broker_conformance::a_ticket;

use crate::server::{options_for, ready, started, until};

/// Options that want quorum queues, where `send` is a classic one already.
async fn mismatched(queues: &Queues, existing_queues: Existing) -> RabbitMqOptions {
    queues.declare(&queues.send()).await;
    RabbitMqOptions {
        queue_type: QueueType::Quorum,
        existing_queues,
        ..options_for(queues)
    }
}

#[tokio::test]
async fn a_queue_with_other_settings_is_named_and_others_work() {
    let queues = Queues::fresh();
    let options = mismatched(&queues, Existing::Check).await;
    let broker = RabbitMqBroker::start(options).unwrap();
    let says = |text: &str| broker.trouble().is_some_and(|said| said.contains(text));
    until("the queue is named", || says("x-queue-type")).await;
    until("the others work", || !says("cannot be reached")).await;
    let trouble = broker.trouble().unwrap();
    for part in [
        &*queues.send(),
        "inequivalent arg 'x-queue-type'",
        "delete the queue, or use it as it is with broker.existing_queues = \"accept\"",
        "emails are sent from the store meanwhile",
    ] {
        assert!(trouble.contains(part), "{trouble}");
    }
    assert_eq!(trouble.matches("x-queue-type").count(), 1, "{trouble}");

    let tickets = [Priority::Normal, Priority::High].map(|p| a_ticket("one", p));
    let published = broker.publish(Route::First, tickets.to_vec()).await;
    assert_eq!(published, [Published::Refused, Published::Confirmed]);
    assert_eq!(broker.receive(1).await[0].ticket, tickets[1]);

    // What is advised helps.
    queues.delete(&queues.send()).await;
    ready(&broker).await;
    let published = broker.publish(Route::First, vec![tickets[0].clone()]).await;
    assert_eq!(published, [Published::Confirmed]);
    assert_eq!(broker.receive(1).await[0].ticket, tickets[0]);
    broker.close().await;
}

#[tokio::test]
async fn a_queue_with_other_settings_can_be_accepted() {
    let queues = Queues::fresh();
    let options = mismatched(&queues, Existing::Accept).await;
    let broker = started(options).await;
    let ticket = a_ticket("one", Priority::Normal);
    let published = broker.publish(Route::First, vec![ticket.clone()]).await;
    assert_eq!(published, [Published::Confirmed]);
    assert_eq!(broker.receive(1).await[0].ticket, ticket);
    broker.close().await;
}
