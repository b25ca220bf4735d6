//! What RabbitMQ is told about tickets that were taken.

use std::time::Duration;

use posthaste_broker::RabbitMqOptions;
use posthaste_core::port::{Broker, Published, Route, TicketDelivery};
use posthaste_core::status::Priority;
use posthaste_testkit::Queues;
use posthaste_testkit::broker_conformance::a_ticket;

use crate::server::{options_for, started, until};

async fn publish(broker: &dyn Broker, count: usize) {
    let tickets = (0..count).map(|n| a_ticket(&n.to_string(), Priority::Normal));
    let published = broker.publish(Route::First, tickets.collect()).await;
    assert_eq!(published, vec![Published::Confirmed; count]);
}

async fn take(broker: &dyn Broker, count: usize) -> Vec<TicketDelivery> {
    let mut taken = Vec::new();
    while taken.len() < count {
        taken.extend(broker.receive(count - taken.len()).await);
    }
    taken
}

#[tokio::test]
async fn tickets_may_be_acknowledged_in_any_order() {
    let queues = Queues::fresh();
    let broker = started(options_for(&queues)).await;
    publish(&*broker, 10).await;
    let taken = take(&*broker, 10).await;
    for at in [9, 4, 5, 0, 2, 1, 8] {
        broker.acknowledge(vec![taken[at].clone()]).await;
        // Saying it twice does no harm.
        broker.acknowledge(vec![taken[at].clone()]).await;
    }
    // Number 3 and 7 stay open, 6 goes back and comes again.
    broker.give_back(vec![taken[6].clone()]).await;
    let again = broker.receive(10).await;
    assert_eq!(again[0].ticket, taken[6].ticket);
    broker.acknowledge(again).await;
    // The channel is still good.
    publish(&*broker, 1).await;
    broker.acknowledge(take(&*broker, 1).await).await;
    assert_eq!(broker.trouble(), None);

    broker.close().await;
    queues.wait_for_count(&queues.send(), 2).await;
    for at in [3, 7] {
        let message = queues.take(&queues.send()).await.unwrap();
        assert!(message.is_redelivered);
        assert_eq!(message.id, Some(taken[at].ticket.email_id.to_string()));
    }
}

#[tokio::test]
async fn closing_gives_back_what_is_not_acknowledged() {
    let queues = Queues::fresh();
    let broker = started(options_for(&queues)).await;
    publish(&*broker, 10).await;
    let mut taken = take(&*broker, 6).await;
    until("the rest is here", || broker.waiting() == 4).await;
    broker.acknowledge(taken.split_off(4)).await;
    broker.close().await;
    assert_eq!(broker.waiting(), 0);
    queues.wait_for_count(&queues.send(), 8).await;
    // Nothing works any more, and nothing hangs.
    let ticket = a_ticket("late", Priority::Normal);
    let published = broker.publish(Route::First, vec![ticket]).await;
    assert_eq!(published, [Published::Refused]);
    broker.acknowledge(taken).await;
    broker.close().await;
}

#[tokio::test]
async fn a_ticket_that_nobody_takes_goes_to_another_process() {
    let queues = Queues::fresh();
    let idle = started(RabbitMqOptions {
        give_back_after: Duration::from_millis(100),
        ..options_for(&queues)
    })
    .await;
    publish(&*idle, 5).await;
    until("they are here", || idle.waiting() == 5).await;
    let busy = started(options_for(&queues)).await;
    for _ in 0..5 {
        busy.acknowledge(take(&*busy, 1).await).await;
    }
    assert_eq!(idle.trouble(), None);
    assert_eq!(idle.waiting(), 0);
    busy.close().await;
    idle.close().await;
}

#[tokio::test]
async fn a_full_prefetch_goes_on_behind_a_slow_ticket() {
    let queues = Queues::fresh();
    let broker = started(RabbitMqOptions {
        prefetch: 4,
        ..options_for(&queues)
    })
    .await;
    publish(&*broker, 50).await;
    let slow = take(&*broker, 1).await;
    for _ in 0..49 {
        broker.acknowledge(take(&*broker, 1).await).await;
    }
    broker.acknowledge(slow).await;
    broker.close().await;
    queues.wait_for_count(&queues.send(), 0).await;
}
