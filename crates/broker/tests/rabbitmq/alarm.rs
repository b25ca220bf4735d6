//! A server that runs out of memory, and one that is restarted.

use std::time::Duration;

use posthaste_broker::rabbitmq::QueueType;
use posthaste_broker::{RabbitMqBroker, RabbitMqOptions};
use posthaste_core::port::{Broker, Handed, MessageBroker, Published, Route};
use posthaste_core::status::Priority;
use posthaste_testkit::broker_conformance::a_ticket;

use crate::message_lane::{self, a_message};
use crate::node::Node;
use crate::server::{ready, started, until};

async fn publish(broker: &RabbitMqBroker) -> Published {
    let ticket = a_ticket("one", Priority::Normal);
    broker.publish(Route::First, vec![ticket]).await[0]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_alarm_refuses_at_once_and_a_restart_is_survived() {
    let node = Node::start();
    let options = RabbitMqOptions {
        queue_type: QueueType::Classic,
        publish_deadline: Duration::from_secs(3600),
        ..RabbitMqOptions::new(node.url())
    };
    let lane = message_lane::started(options.clone()).await;
    let broker = started(options).await;
    assert_eq!(publish(&broker).await, Published::Confirmed);
    let taken = broker.receive(1).await;

    node.control(["set_vm_memory_high_watermark", "0.00001"]);
    // RabbitMQ says so to those who publish, and not before they do.
    assert_eq!(publish(&broker).await, Published::Refused);
    let trouble = broker.trouble().unwrap();
    assert!(
        trouble.starts_with("RabbitMQ takes no messages: "),
        "{trouble}"
    );
    // At once, and not at the deadline, which is an hour away.
    assert_eq!(publish(&broker).await, Published::Refused);
    // It may come through when the alarm is over; what is published after it was not sent.
    let message = || a_message("nobody's", "a");
    let publish_message = || message_lane::publish(&lane, message());
    assert_eq!(publish_message().await, Handed::Unconfirmed);
    assert!(lane.is_away());
    assert_eq!(publish_message().await, Handed::Away);
    // What was taken can be acknowledged all the same: that is another connection.
    broker.acknowledge(taken).await;

    node.control(["set_vm_memory_high_watermark", "0.8"]);
    until("it takes messages again", || broker.trouble().is_none()).await;
    message_lane::ready(&lane).await;
    assert_eq!(publish_message().await, Handed::NoQueue);
    lane.close().await;
    assert_eq!(publish(&broker).await, Published::Confirmed);
    // The one that was refused came through after all, or did not.
    let taken = broker.receive(1).await;
    broker.give_back(taken).await;

    node.control(["stop_app"]);
    until("the loss is noticed", || broker.trouble().is_some()).await;
    assert_eq!(publish(&broker).await, Published::Refused);
    node.control(["start_app"]);
    ready(&broker).await;
    assert_eq!(publish(&broker).await, Published::Confirmed);
    assert!(!broker.receive(1).await.is_empty());
    broker.close().await;
}
