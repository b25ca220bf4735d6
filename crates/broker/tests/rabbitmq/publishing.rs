//! Tickets as others see them.

use futures_util::FutureExt;
use posthaste_broker::rabbitmq::OptionsError;
use posthaste_broker::{RabbitMqBroker, RabbitMqOptions};
use posthaste_core::port::{Broker, Published, Route};
use posthaste_core::status::Priority;
use posthaste_testkit::Queues;
use posthaste_testkit::broker_conformance::a_ticket;
use serde_json::json;

use crate::server::{options_for, started};

#[tokio::test]
async fn a_ticket_has_the_body_and_the_id_that_were_agreed_on() {
    let queues = Queues::fresh();
    let broker = started(RabbitMqOptions {
        consumes: false,
        ..options_for(&queues)
    })
    .await;
    let ticket = a_ticket("order 4711", Priority::High);
    broker.publish(Route::First, vec![ticket.clone()]).await;
    let message = queues.take(&queues.high()).await.unwrap();
    let id = ticket.email_id.to_string();
    assert_eq!(message.id.as_ref(), Some(&id));
    assert!(message.is_persistent);
    assert_eq!(message.expiration, None);
    assert_eq!(message.content_type.as_deref(), Some("application/json"));
    let expected = json!({
        "email_id": id,
        "message_key": "order 4711",
        "queued_at": "2100-01-01T00:00:00Z",
    });
    assert_eq!(message.json(), expected);
    broker.close().await;
}

#[tokio::test]
async fn retries_have_a_queue_of_their_own_if_there_is_one() {
    let queues = Queues::fresh();
    let retry = queues.retry();
    let mut options = options_for(&queues);
    for expected in [1, 0] {
        let broker = started(options.clone()).await;
        let ticket = a_ticket("retry", Priority::Normal);
        broker.publish(Route::Retry, vec![ticket.clone()]).await;
        let received = broker.receive(1).await;
        assert_eq!(received[0].ticket, ticket);
        // Not acknowledged: it is found where it came from.
        broker.close().await;
        queues.wait_for_count(&retry, expected).await;
        queues.wait_for_count(&queues.send(), 1 - expected).await;
        queues.purge(&retry).await;
        options.names.retry = None;
    }
}

#[tokio::test]
async fn more_tickets_than_may_be_unconfirmed_keep_their_order() {
    let queues = Queues::fresh();
    let broker = started(options_for(&queues)).await;
    let tickets: Vec<_> = (0..2500)
        .map(|n| a_ticket(&n.to_string(), Priority::Normal))
        .collect();
    let published = broker.publish(Route::First, tickets.clone()).await;
    assert_eq!(published, vec![Published::Confirmed; 2500]);
    let mut received = Vec::new();
    while received.len() < tickets.len() {
        // What waits here is bounded although much more is there.
        assert!(broker.waiting() <= 200);
        let deliveries = broker.receive(100).await;
        received.extend(deliveries.iter().map(|d| d.ticket.clone()));
        broker.acknowledge(deliveries).await;
    }
    assert!(received == tickets);
    broker.close().await;
}

#[tokio::test]
async fn many_callers_publish_at_a_time() {
    let queues = Queues::fresh();
    let broker = started(RabbitMqOptions {
        consumes: false,
        ..options_for(&queues)
    })
    .await;
    let callers = (0..200).map(|n| {
        let tickets = (0..n % 20).map(|_| a_ticket("one", Priority::Normal));
        broker.publish(Route::First, tickets.collect())
    });
    let answers = futures_util::future::join_all(callers).await.concat();
    assert_eq!(answers, vec![Published::Confirmed; 1900]);
    queues.wait_for_count(&queues.send(), 1900).await;
    broker.close().await;
}

#[tokio::test]
async fn a_publish_that_is_given_up_harms_nothing() {
    let queues = Queues::fresh();
    let broker = started(RabbitMqOptions {
        consumes: false,
        ..options_for(&queues)
    })
    .await;
    let tickets = |count| (0..count).map(|n: usize| a_ticket(&n.to_string(), Priority::Low));
    for _ in 0..100 {
        let publishing = broker.publish(Route::First, tickets(50).collect());
        assert!(publishing.now_or_never().is_none());
    }
    // Neither the window nor the channels are used up.
    let published = broker.publish(Route::First, tickets(1000).collect()).await;
    assert_eq!(published, vec![Published::Confirmed; 1000]);
    broker.close().await;
}

#[tokio::test]
async fn options_that_make_no_sense_are_refused() {
    let refused = RabbitMqBroker::start(RabbitMqOptions::new("http://localhost"));
    assert_eq!(refused.err(), Some(OptionsError::Url));
}
