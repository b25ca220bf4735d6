//! What every broker must do, in cases that each backend passes.
//!
//! A backend implements [`BrokerFixture`] and writes `broker_conformance!(factory());` in a test
//! file: one test per case.

#![allow(missing_docs, reason = "the names of cases are sentences")]

pub mod delivery;
pub mod give_back;
pub mod notice;
pub mod priority;

use std::sync::Arc;

use posthaste_core::Timestamp;
use posthaste_core::email::EmailId;
use posthaste_core::port::{Broker, Published, Route, Ticket};
use posthaste_core::status::Priority;

/// A new broker with empty queues for one case.
pub trait BrokerFixture: Send + Sync {
    /// The broker. Every call gives the same one.
    fn broker(&self) -> Arc<dyn Broker>;

    /// Waits until so many published tickets are where a receiver finds them. There is nothing to
    /// wait for if that is so as soon as they are published.
    fn arrived(&self, count: usize) -> impl Future<Output = ()> + Send {
        let _ = count;
        std::future::ready(())
    }
}

/// A ticket for some email.
#[must_use]
pub fn a_ticket(key: &str, priority: Priority) -> Ticket {
    Ticket {
        traceparent: None,
        email_id: EmailId::generate(),
        message_key: key.into(),
        priority,
        queued_at: Timestamp::from_second(4_102_444_800).expect("a time within range"),
    }
}

fn tickets(count: usize, priority: Priority) -> Vec<Ticket> {
    (0..count)
        .map(|n| a_ticket(&format!("{priority} {n}"), priority))
        .collect()
}

/// Publishes tickets that must find room.
async fn publish(broker: &dyn Broker, tickets: &[Ticket]) {
    let published = broker.publish(Route::First, tickets.to_vec()).await;
    assert_eq!(published, vec![Published::Confirmed; tickets.len()]);
}

/// Receives and acknowledges this many tickets, a few at a time.
async fn receive(broker: &dyn Broker, count: usize) -> Vec<Ticket> {
    let mut received = Vec::new();
    while received.len() < count {
        let most = (count - received.len()).min(5);
        let deliveries = broker.receive(most).await;
        assert!((1..=most).contains(&deliveries.len()));
        received.extend(deliveries.iter().map(|delivery| delivery.ticket.clone()));
        broker.acknowledge(deliveries).await;
    }
    received
}

/// What follows every case: no ticket is left, and the broker still works.
#[doc(hidden)]
pub async fn after(fixture: &impl BrokerFixture) {
    let broker = fixture.broker();
    let last = a_ticket("last", Priority::Low);
    publish(&*broker, std::slice::from_ref(&last)).await;
    assert_eq!(receive(&*broker, 1).await, [last]);
}

/// Writes one test per case. The argument is an expression that makes a fixture when awaited.
#[macro_export]
macro_rules! broker_conformance {
    ($factory:expr) => {
        $crate::conformance_tests! { broker_conformance, $factory,
            delivery {
                a_published_ticket_is_received_as_it_was,
                each_ticket_is_received_once,
                no_more_are_received_than_asked_for,
                receiving_waits_until_a_ticket_arrives,
                a_receiver_that_gives_up_loses_nothing,
                every_waiting_receiver_is_served,
                tickets_of_one_priority_keep_their_order,
                many_receivers_get_each_ticket_once,
                nothing_can_be_published_and_acknowledged,
            }
            give_back {
                a_ticket_that_was_given_back_comes_again,
                only_what_was_given_back_comes_again,
                what_was_given_back_keeps_its_priority,
                nothing_can_be_given_back,
            }
            notice {
                every_notice_is_answered,
                a_notice_is_no_ticket,
            }
            priority {
                high_priority_goes_first,
                low_priority_is_never_starved,
                normal_priority_is_not_starved_from_both_sides,
            }
        }
    };
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_case_is_run() {
        crate::case::tests::assert_every_case_is_listed("broker_conformance");
    }
}
