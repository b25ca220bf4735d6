//! Notices of dead emails as others see them.

use std::time::Duration;

use posthaste_broker::RabbitMqOptions;
use posthaste_broker::rabbitmq::QueueType;
use posthaste_core::port::{Broker, Published};
use posthaste_testkit::Queues;
use posthaste_testkit::broker_conformance::notice::a_notice;
use serde_json::json;

use crate::server::{options_for, started};

#[tokio::test]
async fn notices_expire_and_only_the_newest_are_kept() {
    for queue_type in [QueueType::Quorum, QueueType::Classic] {
        let queues = Queues::fresh();
        let broker = started(RabbitMqOptions {
            queue_type,
            dead_notice_limit: 2,
            dead_notice_ttl: Duration::from_secs(86_400),
            consumes: false,
            ..options_for(&queues)
        })
        .await;
        let notices: Vec<_> = ["a", "b", "c"].map(a_notice).into();
        let announced = broker.announce(notices.clone()).await;
        assert_eq!(announced, [Published::Confirmed; 3]);

        queues.wait_for_count(&queues.dead(), 2).await;
        let message = queues.take(&queues.dead()).await.unwrap();
        let id = notices[1].email_id.to_string();
        assert_eq!(message.id.as_ref(), Some(&id));
        assert_eq!(message.expiration.as_deref(), Some("86400000"));
        assert!(message.is_persistent);
        assert_eq!(message.content_type.as_deref(), Some("application/json"));
        let expected = json!({
            "email_id": id,
            "message_key": "b",
            "reason": "MaxAttemptsExceeded",
            "error": "451 try \"later\"",
            "attempts": 8,
            "died_at": "2100-01-01T00:00:00Z",
        });
        assert_eq!(message.json(), expected);
        broker.close().await;
    }
}
