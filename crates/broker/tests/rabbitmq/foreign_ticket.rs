//! Tickets of other programs, and what is no ticket at all.

use std::time::Duration;

use posthaste_broker::RabbitMqOptions;
use posthaste_core::Timestamp;
use posthaste_core::email::EmailId;
use posthaste_core::port::{Broker, Route};
use posthaste_core::status::Priority;
use posthaste_testkit::Queues;
use posthaste_testkit::broker_conformance::a_ticket;

use crate::server::{options_for, started, until};

#[tokio::test]
async fn a_ticket_that_only_has_an_id_is_served() {
    let queues = Queues::fresh();
    let broker = started(options_for(&queues)).await;
    for name in ["email_id", "EmailId", "emailId"] {
        let id = EmailId::generate();
        let body = format!(r#"{{"{name}":"{id}","Other":true}}"#);
        let before = Timestamp::now();
        queues.publish(&queues.high(), body.as_bytes()).await;
        let deliveries = broker.receive(1).await;
        let ticket = &deliveries[0].ticket;
        assert_eq!(ticket.email_id, id);
        assert_eq!(ticket.message_key, "");
        assert_eq!(ticket.priority, Priority::High);
        assert!(ticket.queued_at >= before && ticket.queued_at <= Timestamp::now());
        broker.acknowledge(deliveries).await;
    }
}

#[tokio::test]
async fn what_cannot_be_read_goes_to_review_and_neighbours_flow() {
    const BODY: &[u8] = b"\xff\x00 no ticket {";
    let queues = Queues::fresh();
    let broker = started(options_for(&queues)).await;
    let ticket = a_ticket("neighbour", Priority::Normal);
    queues.publish(&queues.send(), BODY).await;
    broker.publish(Route::First, vec![ticket.clone()]).await;
    queues.publish(&queues.low(), b"{}").await;

    let deliveries = broker.receive(10).await;
    assert_eq!(deliveries[0].ticket, ticket);
    broker.acknowledge(deliveries).await;
    queues.wait_for_count(&queues.review(), 2).await;
    until("it is counted", || broker.counts().undecodable == 2).await;

    let mut kept = queues.take_many(&queues.review(), 2).await;
    kept.sort_by_key(|message| message.body.len());
    assert_eq!(kept[1].body, BODY);
    assert!(kept[1].is_persistent);
    assert_eq!(kept[1].headers["x-error-reason"], "not a JSON object");
    assert_eq!(kept[1].headers["x-original-queue"], queues.send());
    assert_eq!(kept[0].headers["x-error-reason"], "no email_id");
    assert_eq!(kept[0].headers["x-original-queue"], queues.low());

    // Nothing is left of it in the queues of tickets.
    broker.close().await;
    for queue in [queues.send(), queues.low()] {
        queues.wait_for_count(&queue, 0).await;
    }
}

#[tokio::test]
async fn what_can_neither_be_read_nor_put_aside_is_not_lost() {
    let queues = Queues::fresh();
    let options = RabbitMqOptions {
        publish_deadline: Duration::from_secs(2),
        ..options_for(&queues)
    };
    let broker = started(options).await;
    // It is declared again when the message comes back from where it was.
    queues.delete(&queues.review()).await;
    queues.publish(&queues.send(), b"no ticket").await;
    until("it came back", || broker.counts().returned > 0).await;
    assert_eq!(broker.counts().undecodable, 0);
    until("it is put aside", || broker.counts().undecodable > 0).await;
    let kept = queues.take(&queues.review()).await.unwrap();
    assert_eq!(kept.body, b"no ticket");
}
