//! Notices of dead emails as others see them.

use std::time::Duration;

use posthaste_broker::RabbitMqOptions;
use posthaste_broker::rabbitmq::QueueType;
use posthaste_core::port::{Broker, Published};
use posthaste_testkit::broker_conformance::notice::a_notice;
use serde_json::{Value, json};

use crate::server::{Other, Queues, started};

#[tokio::test]
async fn notices_expire_and_only_the_newest_are_kept() {
    for queue_type in [QueueType::Quorum, QueueType::Classic] {
        let queues = Queues::new();
        let broker = started(RabbitMqOptions {
            queue_type,
            dead_notice_limit: 2,
            dead_notice_ttl: Duration::from_secs(86_400),
            consumes: false,
            ..queues.options()
        })
        .await;
        let notices: Vec<_> = ["a", "b", "c"].map(a_notice).into();
        let announced = broker.announce(notices.clone()).await;
        assert_eq!(announced, [Published::Confirmed; 3]);

        let other = Other::connect().await;
        let dead = &queues.names.dead;
        other.until_count(dead, 2).await;
        let message = other.get(dead).await.unwrap();
        let id = notices[1].email_id.to_string();
        let properties = &message.properties;
        assert_eq!(properties.message_id().as_ref().unwrap().as_str(), id);
        assert_eq!(
            properties.expiration().as_ref().unwrap().as_str(),
            "86400000"
        );
        assert_eq!(properties.delivery_mode(), &Some(2));
        let content_type = properties.content_type().as_ref().unwrap();
        assert_eq!(content_type.as_str(), "application/json");
        let body: Value = serde_json::from_slice(&message.data).unwrap();
        let expected = json!({
            "email_id": id,
            "message_key": "b",
            "reason": "MaxAttemptsExceeded",
            "error": "451 try \"later\"",
            "attempts": 8,
            "died_at": "2100-01-01T00:00:00Z",
        });
        assert_eq!(body, expected);
        broker.close().await;
    }
}
