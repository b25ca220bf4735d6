//! What other services hand in and nobody can read.

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable};
use posthaste_core::port::MessageBroker;
use posthaste_testkit::Queues;
use prost::Message as _;

use crate::message_lane::{a_failure, hand_in, started, tags, take};
use crate::server::{options_for, until};

/// Every byte there is: no protobuf.
fn every_byte() -> Vec<u8> {
    (0..=255).rev().collect()
}

#[tokio::test]
async fn what_cannot_be_read_goes_to_review_byte_for_byte_and_neighbours_flow() {
    let queues = Queues::fresh();
    let lane = started(options_for(&queues)).await;
    let mut headers = FieldTable::default();
    headers.insert("tenant".into(), AMQPValue::LongInt(7));
    let properties = BasicProperties::default()
        .with_message_id("their own id".into())
        .with_content_type("application/x-protobuf".into())
        .with_expiration("3600000".into())
        .with_headers(headers);
    let queue = queues.messages();
    queues.publish_with(&queue, &every_byte(), properties).await;
    hand_in(&queues, &a_failure("orders", b"neighbour")).await;

    let taken = take(&lane, 1).await;
    assert_eq!(&taken[0].failure.payload[..], b"neighbour");
    lane.acknowledge(tags(&taken)).await;
    let kept = queues.take_many(&queues.review(), 1).await.remove(0);
    assert_eq!(kept.body, every_byte());
    assert!(kept.is_persistent);
    assert_eq!(kept.id.as_deref(), Some("their own id"));
    assert_eq!(kept.content_type.as_deref(), Some("application/x-protobuf"));
    assert_eq!(kept.expiration, None);
    let reason = &kept.headers["x-error-reason"];
    assert!(
        reason.starts_with("not a RetryMessage in protobuf ("),
        "{reason}"
    );
    assert_eq!(&kept.headers["x-review-reason"], reason);
    assert_eq!(kept.headers["x-original-queue"], queue);
    let headers = kept.properties.headers().clone().unwrap_or_default();
    assert_eq!(headers.inner()["tenant"], AMQPValue::LongInt(7));

    // Nothing is left of it.
    until("it is counted", || lane.counts().undecodable == 1).await;
    lane.close().await;
    queues.wait_for_count(&queue, 0).await;
}

#[tokio::test]
async fn what_breaks_a_rule_goes_to_review_with_the_reason() {
    let queues = Queues::fresh();
    let lane = started(options_for(&queues)).await;
    let own = a_failure(&queues.high(), b"a");
    let mut nameless = a_failure("orders", b"b");
    nameless.message_id = "order 7".into();
    for (message, reason) in [
        (own, format!("original_queue is `{}`", queues.high())),
        (nameless, "message_id is not a UUID".into()),
    ] {
        hand_in(&queues, &message).await;
        let kept = queues.take_many(&queues.review(), 1).await.remove(0);
        assert_eq!(kept.body, message.encode_to_vec());
        let said = &kept.headers["x-error-reason"];
        assert!(said.starts_with(&reason), "{said}");
    }
    until("both are counted", || lane.counts().undecodable == 2).await;
    lane.close().await;
    queues.wait_for_count(&queues.messages(), 0).await;
}

#[tokio::test]
async fn a_copy_for_others_is_made_only_once() {
    let queues = Queues::fresh();
    let orders = queues.of_service("orders");
    queues.declare(&orders).await;
    let lane = started(options_for(&queues)).await;
    let copies = vec![AMQPValue::LongString(orders.as_str().into())];
    let mut headers = FieldTable::default();
    headers.insert("CC".into(), AMQPValue::FieldArray(copies.into()));
    let properties = BasicProperties::default().with_headers(headers);
    queues
        .publish_with(&queues.messages(), &every_byte(), properties)
        .await;
    queues.wait_for_count(&queues.review(), 1).await;
    assert_eq!(queues.count(&orders).await, 1);
    lane.close().await;
}

#[tokio::test]
async fn headers_that_fill_a_frame_do_not_keep_it_from_review() {
    let queues = Queues::fresh();
    let lane = started(options_for(&queues)).await;
    let mut headers = FieldTable::default();
    let large = AMQPValue::LongString("h".repeat(130_000).into());
    headers.insert("large".into(), large);
    let properties = BasicProperties::default().with_headers(headers);
    queues
        .publish_with(&queues.messages(), &every_byte(), properties)
        .await;
    let kept = queues.take_many(&queues.review(), 1).await.remove(0);
    assert_eq!(kept.body, every_byte());
    assert_eq!(kept.headers["x-review-note"], "too many headers to keep");
    assert_eq!(lane.counts().reconnected, 0);
    lane.close().await;
}
