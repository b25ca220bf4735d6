//! Tickets in, tickets out.

use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use posthaste_core::port::{Route, TicketDelivery};
use posthaste_core::status::Priority;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::{BrokerFixture, a_ticket, publish, receive, tickets};

type Receiving<'a> = Pin<Box<dyn Future<Output = Vec<TicketDelivery>> + Send + 'a>>;

/// Asserts that nothing has come yet, and leaves the receiver waiting.
async fn assert_waits(receiving: &mut Receiving<'_>) {
    let polled = poll_fn(|context| Poll::Ready(receiving.as_mut().poll(context)));
    assert!(polled.await.is_pending(), "it has a ticket already");
}

pub async fn a_published_ticket_is_received_as_it_was(fixture: &impl BrokerFixture) {
    let broker = fixture.broker();
    for priority in Priority::ALL {
        let ticket = a_ticket("order \"4711\" ü\u{1f4e7}", *priority);
        publish(&*broker, std::slice::from_ref(&ticket)).await;
        assert_eq!(receive(&*broker, 1).await, [ticket]);
    }
}

pub async fn each_ticket_is_received_once(fixture: &impl BrokerFixture) {
    let broker = fixture.broker();
    let published = tickets(20, Priority::Normal);
    publish(&*broker, &published).await;
    let received = receive(&*broker, 20).await;
    let ids: BTreeSet<_> = received.iter().map(|ticket| ticket.email_id).collect();
    assert_eq!(
        ids,
        published.iter().map(|ticket| ticket.email_id).collect()
    );
    // What comes next is new.
    let next = tickets(1, Priority::Normal);
    publish(&*broker, &next).await;
    assert_eq!(receive(&*broker, 1).await, next);
}

pub async fn no_more_are_received_than_asked_for(fixture: &impl BrokerFixture) {
    let broker = fixture.broker();
    publish(&*broker, &tickets(10, Priority::Normal)).await;
    let mut left = 10;
    while left > 0 {
        let deliveries = broker.receive(3).await;
        assert!((1..=3).contains(&deliveries.len()));
        left -= deliveries.len();
        broker.acknowledge(deliveries).await;
    }
}

pub async fn receiving_waits_until_a_ticket_arrives(fixture: &impl BrokerFixture) {
    let broker = fixture.broker();
    let mut receiving: Receiving<'_> = broker.receive(10);
    assert_waits(&mut receiving).await;
    let published = tickets(1, Priority::Low);
    publish(&*broker, &published).await;
    let deliveries = receiving.await;
    assert_eq!(deliveries[0].ticket, published[0]);
    broker.acknowledge(deliveries).await;
}

pub async fn a_receiver_that_gives_up_loses_nothing(fixture: &impl BrokerFixture) {
    let broker = fixture.broker();
    let mut waiting: Receiving<'_> = broker.receive(10);
    let mut giving_up: Receiving<'_> = broker.receive(10);
    assert_waits(&mut giving_up).await;
    assert_waits(&mut waiting).await;
    let published = tickets(1, Priority::Normal);
    publish(&*broker, &published).await;
    // Perhaps it was this one that was woken.
    drop(giving_up);
    let deliveries = waiting.await;
    assert_eq!(deliveries[0].ticket, published[0]);
    broker.acknowledge(deliveries).await;
}

pub async fn every_waiting_receiver_is_served(fixture: &impl BrokerFixture) {
    let broker = fixture.broker();
    let mut first: Receiving<'_> = broker.receive(1);
    let mut second: Receiving<'_> = broker.receive(1);
    assert_waits(&mut first).await;
    assert_waits(&mut second).await;
    // One call brings tickets for both.
    publish(&*broker, &tickets(2, Priority::Normal)).await;
    let (first, second) = tokio::join!(first, second);
    assert_ne!(first[0].ticket, second[0].ticket);
    broker.acknowledge([first, second].concat()).await;
}

pub async fn tickets_of_one_priority_keep_their_order(fixture: &impl BrokerFixture) {
    let broker = fixture.broker();
    for priority in Priority::ALL {
        let published = tickets(50, *priority);
        let (first, second) = published.split_at(17);
        publish(&*broker, first).await;
        publish(&*broker, second).await;
        assert_eq!(receive(&*broker, 50).await, published);
    }
}

pub async fn many_receivers_get_each_ticket_once(fixture: &impl BrokerFixture) {
    const COUNT: usize = 300;
    let broker = fixture.broker();
    let (sender, mut received) = mpsc::unbounded_channel();
    let mut receivers = JoinSet::new();
    for _ in 0..4 {
        let (broker, sender) = (Arc::clone(&broker), sender.clone());
        receivers.spawn(async move {
            loop {
                let deliveries = broker.receive(7).await;
                for delivery in &deliveries {
                    sender.send(delivery.ticket.email_id).expect("a listener");
                }
                broker.acknowledge(deliveries).await;
            }
        });
    }
    let published = tickets(COUNT, Priority::Normal);
    for some in published.chunks(11) {
        publish(&*broker, some).await;
    }
    let mut ids = BTreeSet::new();
    for _ in 0..COUNT {
        let id = received.recv().await.expect("receivers that go on");
        assert!(ids.insert(id), "{id} came twice");
    }
    assert_eq!(
        ids,
        published.iter().map(|ticket| ticket.email_id).collect()
    );
    receivers.shutdown().await;
    assert!(received.try_recv().is_err(), "more than was published");
}

pub async fn nothing_can_be_published_and_acknowledged(fixture: &impl BrokerFixture) {
    let broker = fixture.broker();
    assert_eq!(broker.publish(Route::First, Vec::new()).await, []);
    broker.acknowledge(Vec::new()).await;
}
