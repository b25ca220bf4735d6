//! Tickets of other programs, and what is no ticket at all.

use std::time::Duration;

use lapin::types::{AMQPValue, FieldTable};
use posthaste_broker::RabbitMqOptions;
use posthaste_core::Timestamp;
use posthaste_core::email::EmailId;
use posthaste_core::port::{Broker, Route};
use posthaste_core::status::Priority;
use posthaste_testkit::broker_conformance::a_ticket;

use crate::server::{Other, Queues, started, until};

#[tokio::test]
async fn a_ticket_that_only_has_an_id_is_served() {
    let queues = Queues::new();
    let broker = started(queues.options()).await;
    let other = Other::connect().await;
    for name in ["email_id", "EmailId", "emailId"] {
        let id = EmailId::generate();
        let body = format!(r#"{{"{name}":"{id}","Other":true}}"#);
        let before = Timestamp::now();
        other.publish(&queues.names.high(), body.as_bytes()).await;
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
    let queues = Queues::new();
    let broker = started(queues.options()).await;
    let other = Other::connect().await;
    let ticket = a_ticket("neighbour", Priority::Normal);
    other.publish(&queues.names.send, BODY).await;
    broker.publish(Route::First, vec![ticket.clone()]).await;
    other.publish(&queues.names.low(), b"{}").await;

    let deliveries = broker.receive(10).await;
    assert_eq!(deliveries[0].ticket, ticket);
    broker.acknowledge(deliveries).await;
    other.until_count(&queues.names.review, 2).await;
    until("it is counted", || broker.counts().undecodable == 2).await;

    let mut kept = [
        other.get(&queues.names.review).await.unwrap(),
        other.get(&queues.names.review).await.unwrap(),
    ];
    kept.sort_by_key(|message| message.data.len());
    let headers = kept[1].properties.headers().as_ref().unwrap();
    assert_eq!(kept[1].data, BODY);
    assert_eq!(kept[1].properties.delivery_mode(), &Some(2));
    assert_eq!(text(headers, "x-error-reason"), "not a JSON object");
    assert_eq!(text(headers, "x-original-queue"), queues.names.send);
    let headers = kept[0].properties.headers().as_ref().unwrap();
    assert_eq!(text(headers, "x-error-reason"), "no email_id");
    assert_eq!(text(headers, "x-original-queue"), queues.names.low());

    // Nothing is left of it in the queues of tickets.
    broker.close().await;
    for queue in [queues.names.send.clone(), queues.names.low()] {
        other.until_count(&queue, 0).await;
    }
}

#[tokio::test]
async fn what_can_neither_be_read_nor_put_aside_is_not_lost() {
    let queues = Queues::new();
    let options = RabbitMqOptions {
        publish_deadline: Duration::from_secs(2),
        ..queues.options()
    };
    let broker = started(options).await;
    let other = Other::connect().await;
    // It is declared again when the message comes back from where it was.
    other.delete(&queues.names.review).await;
    other.publish(&queues.names.send, b"no ticket").await;
    until("it came back", || broker.counts().returned > 0).await;
    assert_eq!(broker.counts().undecodable, 0);
    until("it is put aside", || broker.counts().undecodable > 0).await;
    assert_eq!(
        other.get(&queues.names.review).await.unwrap().data,
        b"no ticket"
    );
}

fn text(headers: &FieldTable, name: &str) -> String {
    match headers.inner().get(name) {
        Some(AMQPValue::LongString(text)) => text.to_string(),
        other => panic!("{name} is {other:?}"),
    }
}
