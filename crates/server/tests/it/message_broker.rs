//! A message broker in trouble, as health and metrics tell of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use posthaste_core::message::Outgoing;
use posthaste_core::port::{BrokerCounts, FailureDelivery, Handed, MessageBroker};
use serde_json::json;

use crate::fixture::Server;

/// A broker that nothing comes through.
#[derive(Default)]
struct QuietBroker {
    in_trouble: AtomicBool,
}

#[async_trait]
impl MessageBroker for QuietBroker {
    async fn receive(&self, _most: usize) -> Vec<FailureDelivery> {
        std::future::pending().await
    }
    async fn acknowledge(&self, _tags: Vec<u64>) {}
    async fn give_back(&self, _tags: Vec<u64>) {}
    async fn publish(&self, _messages: Vec<Outgoing>) -> Vec<Handed> {
        unreachable!("nothing is published in these tests")
    }
    fn is_away(&self) -> bool {
        self.in_trouble.load(Ordering::SeqCst)
    }
    fn trouble(&self) -> Option<String> {
        self.is_away().then(|| "rabbit.internal refuses".to_owned())
    }
    fn counts(&self) -> BrokerCounts {
        BrokerCounts {
            undecodable: 5,
            ..BrokerCounts::default()
        }
    }
    async fn close(&self) {}
}

#[tokio::test]
async fn a_message_broker_in_trouble_is_named_and_the_server_is_still_ready() {
    let broker = Arc::new(QuietBroker::default());
    let server = Server::start_beside(broker.clone());
    let well = json!({"status": "ok", "store": "ok", "degraded": []});
    assert_eq!(server.get("/readyz").await.json(), well);
    broker.in_trouble.store(true, Ordering::SeqCst);
    let answer = server.get("/readyz").await;
    assert_eq!(answer.status, 200);
    assert_eq!(
        answer.json(),
        json!({"status": "degraded", "store": "ok", "degraded": ["message broker"]})
    );
    assert!(
        !answer.text().contains("rabbit.internal"),
        "no details for strangers"
    );
}

#[tokio::test]
async fn metrics_tell_what_the_message_broker_counts_and_whether_it_is_well() {
    let broker = Arc::new(QuietBroker::default());
    let server = Server::start_beside(broker.clone());
    let text = server.get("/metrics").await.text();
    for line in [
        "posthaste_broker_up 1",
        "posthaste_messages_undecodable_total 5",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
    }
    broker.in_trouble.store(true, Ordering::SeqCst);
    let text = server.get("/metrics").await.text();
    assert!(text.lines().any(|l| l == "posthaste_broker_up 0"), "{text}");
}
