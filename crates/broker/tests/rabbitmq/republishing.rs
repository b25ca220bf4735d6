//! Messages of other services on their way back.

use std::collections::BTreeMap;
use std::time::Duration;

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, ShortString};
use posthaste_broker::RabbitMqOptions;
use posthaste_core::message::{Destination, HeaderValue, Headers, Outgoing, Properties};
use posthaste_core::port::{Handed, MessageBroker};
use posthaste_testkit::Queues;
use rand::Rng as _;

use crate::message_lane::{a_failure, a_message, hand_in, publish, started, take};
use crate::server::options_for;

/// Options for these queues, with time enough for every answer.
fn patient(queues: &Queues) -> RabbitMqOptions {
    RabbitMqOptions {
        publish_deadline: Duration::from_secs(3600),
        ..options_for(queues)
    }
}

/// A queue that takes one message and no more.
async fn declare_narrow(queues: &Queues, queue: &str) {
    let mut arguments = FieldTable::default();
    let overflow = AMQPValue::LongString("reject-publish".into());
    arguments.insert("x-max-length".into(), AMQPValue::LongInt(1));
    arguments.insert("x-overflow".into(), overflow);
    queues.declare_with(queue, arguments).await;
}

#[tokio::test]
async fn each_message_has_an_answer_of_its_own() {
    let queues = Queues::fresh();
    let [orders, full, missing] = ["orders", "full", "missing"].map(|name| queues.of_service(name));
    queues.declare(&orders).await;
    declare_narrow(&queues, &full).await;
    let lane = started(patient(&queues)).await;
    assert_eq!(
        publish(&lane, a_message(&full, "a")).await,
        Handed::Confirmed
    );

    // RabbitMQ confirms what it returns, and lapin says so at some confirm of the same channel:
    // it must be the right ones that have no queue.
    let ways = [
        (&orders, Handed::Confirmed),
        (&missing, Handed::NoQueue),
        (&full, Handed::Refused),
        (&missing, Handed::NoQueue),
    ];
    let ways: Vec<_> = ways.iter().cycle().take(1200).collect();
    let messages = ways.iter().map(|(queue, _)| a_message(queue, "a"));
    let expected: Vec<_> = ways.iter().map(|(_, handed)| handed.clone()).collect();
    assert!(lane.publish(messages.collect()).await == expected);
    assert_eq!(lane.counts().returned, 600);
    queues.wait_for_count(&orders, 300).await;
    queues.wait_for_count(&full, 1).await;

    // A queue of others is theirs to make.
    assert_eq!(lane.trouble(), None);
    assert!(!queues.is_there(&missing).await);
    lane.close().await;
}

#[tokio::test]
async fn a_queue_of_ours_that_was_deleted_comes_back() {
    let queues = Queues::fresh();
    let lane = started(patient(&queues)).await;
    queues.delete(&queues.review()).await;
    let message = || Outgoing {
        destination: Destination::Review,
        ..a_message("orders", "a")
    };
    assert_eq!(publish(&lane, message()).await, Handed::NoQueue);
    queues.wait_for_count(&queues.review(), 0).await;
    assert_eq!(publish(&lane, message()).await, Handed::Confirmed);
    queues.wait_for_count(&queues.review(), 1).await;
    lane.close().await;
}

#[tokio::test]
async fn a_message_says_about_itself_what_it_should() {
    let queues = Queues::fresh();
    let orders = queues.of_service("orders");
    queues.declare(&orders).await;
    let lane = started(patient(&queues)).await;
    let list = vec![HeaderValue::Integer(1), "two".into(), HeaderValue::Void];
    let table = Headers::from([("inner".to_owned(), HeaderValue::Boolean(false))]);
    let headers = [
        ("x-retry-count", HeaderValue::Integer(2)),
        ("large", HeaderValue::Integer(1 << 40)),
        ("text", "ü \0".into()),
        ("bytes", HeaderValue::Bytes(vec![0, 255])),
        ("double", HeaderValue::Double(0.1)),
        ("yes", HeaderValue::Boolean(true)),
        ("nothing", HeaderValue::Void),
        ("moment", HeaderValue::Timestamp(4_102_444_800)),
        ("list", HeaderValue::List(list)),
        ("table", HeaderValue::Table(table)),
    ];
    let properties = Properties {
        content_type: Some("application/json".into()),
        content_encoding: Some("gzip".into()),
        correlation_id: Some("correlation".into()),
        reply_to: Some("answers".into()),
        kind: Some("order".into()),
        priority: Some(9),
        headers: headers.map(|(name, value)| (name.to_owned(), value)).into(),
    };
    let message = Outgoing {
        properties,
        ..a_message(&orders, "payload")
    };
    let id = message.id.to_string();
    assert_eq!(publish(&lane, message).await, Handed::Confirmed);

    let text = |text: &str| AMQPValue::LongString(text.into());
    let list = vec![AMQPValue::LongInt(1), text("two"), AMQPValue::Void];
    let inner = BTreeMap::from([("inner".into(), AMQPValue::Boolean(false))]);
    let expected: [(&str, AMQPValue); 10] = [
        ("x-retry-count", AMQPValue::LongInt(2)),
        ("large", AMQPValue::LongLongInt(1 << 40)),
        ("text", text("ü \0")),
        ("bytes", AMQPValue::ByteArray(vec![0, 255].into())),
        ("double", AMQPValue::Double(0.1)),
        ("yes", AMQPValue::Boolean(true)),
        ("nothing", AMQPValue::Void),
        ("moment", AMQPValue::Timestamp(4_102_444_800)),
        ("list", AMQPValue::FieldArray(list.into())),
        ("table", AMQPValue::FieldTable(inner.into())),
    ];
    let expected = expected.map(|(name, value)| (ShortString::from(name), value));
    let expected = BasicProperties::default()
        .with_message_id(id.into())
        .with_delivery_mode(2)
        .with_content_type("application/json".into())
        .with_content_encoding("gzip".into())
        .with_correlation_id("correlation".into())
        .with_reply_to("answers".into())
        .with_type("order".into())
        .with_priority(9)
        .with_headers(BTreeMap::from(expected).into());
    let taken = queues.take(&orders).await.unwrap();
    assert_eq!(taken.properties, expected);
    assert_eq!(taken.body, b"payload");
    lane.close().await;
}

#[tokio::test]
async fn a_payload_comes_back_byte_for_byte() {
    let queues = Queues::fresh();
    let orders = queues.of_service("orders");
    queues.declare(&orders).await;
    let lane = started(patient(&queues)).await;
    let mut random = vec![0; 1 << 20];
    rand::rng().fill_bytes(&mut random);
    for payload in [Vec::new(), (0..=255).collect(), random] {
        hand_in(&queues, &a_failure(&orders, &payload)).await;
        let taken = take(&lane, 1).await.remove(0);
        lane.acknowledge(vec![taken.tag]).await;
        let message = a_message(&orders, taken.failure.payload);
        assert_eq!(publish(&lane, message).await, Handed::Confirmed);
        let taken = queues.take(&orders).await.unwrap();
        assert!(taken.body == payload, "{} bytes", payload.len());
    }
    lane.close().await;
}

#[tokio::test]
async fn large_messages_are_sent_a_few_at_a_time() {
    let queues = Queues::fresh();
    let orders = queues.of_service("orders");
    queues.declare(&orders).await;
    let lane = started(patient(&queues)).await;
    let messages = (0..20u8).map(|n| a_message(&orders, vec![n; 1 << 20]));
    let handed = lane.publish(messages.collect()).await;
    assert!(handed == vec![Handed::Confirmed; 20]);
    for n in 0..20u8 {
        let taken = queues.take_many(&orders, 1).await.remove(0);
        assert!(taken.body == vec![n; 1 << 20], "{n}");
    }
    lane.close().await;
}

#[tokio::test]
async fn headers_that_fit_no_frame_are_refused_and_neighbours_flow() {
    let queues = Queues::fresh();
    let orders = queues.of_service("orders");
    queues.declare(&orders).await;
    let lane = started(patient(&queues)).await;
    let mut large = a_message(&orders, "large");
    let header = HeaderValue::Text("h".repeat(200_000));
    large.properties.headers.insert("large".into(), header);
    let nowhere = a_message(&"q".repeat(300), "nowhere");
    let messages = vec![
        a_message(&orders, "a"),
        large,
        nowhere,
        a_message(&orders, "b"),
    ];
    let expected = [
        Handed::Confirmed,
        Handed::Refused,
        Handed::NoQueue,
        Handed::Confirmed,
    ];
    assert_eq!(lane.publish(messages).await, expected);
    // RabbitMQ would have closed the connection.
    assert_eq!(lane.trouble(), None);
    assert_eq!(lane.counts().reconnected, 0);
    lane.close().await;
}
