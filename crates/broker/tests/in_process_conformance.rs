//! The in-process queues do what every broker must do, and what only they promise.

use std::sync::Arc;

use posthaste_broker::InProcessBroker;
use posthaste_core::port::{Broker, Published, Route};
use posthaste_core::status::Priority;
use posthaste_testkit::broker_conformance;
use posthaste_testkit::broker_conformance::{BrokerFixture, a_ticket};

struct InProcess(Arc<InProcessBroker>);

impl InProcess {
    async fn fresh() -> Self {
        Self(Arc::new(InProcessBroker::new(1000)))
    }
}

impl BrokerFixture for InProcess {
    fn broker(&self) -> Arc<dyn Broker> {
        self.0.clone()
    }
}

broker_conformance!(InProcess::fresh());

#[tokio::test]
async fn a_full_queue_refuses_and_says_so() {
    let broker = InProcessBroker::new(2);
    let tickets = ["a", "b", "c"].map(|key| a_ticket(key, Priority::Normal));
    let published = broker.publish(Route::First, tickets.to_vec()).await;
    let expected = [
        Published::Confirmed,
        Published::Confirmed,
        Published::Refused,
    ];
    assert_eq!(published, expected);
    // Another priority has room of its own.
    let urgent = a_ticket("urgent", Priority::High);
    assert_eq!(
        broker.publish(Route::First, vec![urgent]).await,
        [Published::Confirmed]
    );
    // What was refused is not there; what is taken makes room.
    let received = broker.receive(10).await;
    let keys: Vec<_> = received.iter().map(|d| &d.ticket.message_key[..]).collect();
    assert_eq!(keys, ["urgent", "a", "b"]);
    let again = vec![tickets[2].clone()];
    assert_eq!(
        broker.publish(Route::First, again).await,
        [Published::Confirmed]
    );
    assert_eq!(broker.receive(10).await[0].ticket, tickets[2]);
}

#[tokio::test]
async fn asking_for_none_gives_none_at_once() {
    let broker = InProcessBroker::new(2);
    assert!(broker.receive(0).await.is_empty());
}

#[test]
fn tickets_do_not_outlive_the_process() {
    assert!(!InProcessBroker::new(2).is_shared());
}
