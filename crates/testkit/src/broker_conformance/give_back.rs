//! Tickets that go back where they came from.

use std::collections::BTreeSet;

use posthaste_core::email::EmailId;
use posthaste_core::port::{Broker, TicketDelivery};
use posthaste_core::status::Priority;

use super::{BrokerFixture, publish, receive, tickets};

/// Receives this many tickets without acknowledging them.
async fn take(broker: &dyn Broker, count: usize) -> Vec<TicketDelivery> {
    let mut taken = Vec::new();
    while taken.len() < count {
        taken.extend(broker.receive(count - taken.len()).await);
    }
    taken
}

pub async fn a_ticket_that_was_given_back_comes_again(fixture: &impl BrokerFixture) {
    let broker = fixture.broker();
    let published = tickets(1, Priority::Normal);
    publish(&*broker, &published).await;
    for _ in 0..3 {
        let taken = take(&*broker, 1).await;
        assert_eq!(taken[0].ticket, published[0]);
        broker.give_back(taken).await;
    }
    assert_eq!(receive(&*broker, 1).await, published);
}

pub async fn only_what_was_given_back_comes_again(fixture: &impl BrokerFixture) {
    let broker = fixture.broker();
    publish(&*broker, &tickets(12, Priority::Normal)).await;
    let mut done = take(&*broker, 12).await;
    // Out of order, and with gaps.
    let back: Vec<_> = [10, 7, 3, 0].map(|at| done.remove(at)).into();
    let expected = ids(&back);
    let later = done.split_off(4);
    broker.acknowledge(later).await;
    broker.give_back(back).await;
    broker.acknowledge(done).await;
    let again = take(&*broker, expected.len()).await;
    assert_eq!(ids(&again), expected);
    broker.acknowledge(again).await;
}

pub async fn what_was_given_back_keeps_its_priority(fixture: &impl BrokerFixture) {
    let broker = fixture.broker();
    for priority in Priority::ALL {
        let published = tickets(2, *priority);
        publish(&*broker, &published).await;
        broker.give_back(take(&*broker, 2).await).await;
        let received = receive(&*broker, 2).await;
        assert!(received.iter().all(|ticket| ticket.priority == *priority));
    }
}

pub async fn nothing_can_be_given_back(fixture: &impl BrokerFixture) {
    fixture.broker().give_back(Vec::new()).await;
}

fn ids(deliveries: &[TicketDelivery]) -> BTreeSet<EmailId> {
    deliveries.iter().map(|d| d.ticket.email_id).collect()
}
