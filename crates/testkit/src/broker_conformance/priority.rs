//! Which tickets go first.

use posthaste_core::status::Priority;

use super::{BrokerFixture, a_ticket, publish, receive, tickets};

/// After so many tickets, everyone had a turn.
const SOON: usize = 100;

pub async fn high_priority_goes_first(fixture: &impl BrokerFixture) {
    let broker = fixture.broker();
    for priority in [Priority::Low, Priority::Normal, Priority::High] {
        publish(&*broker, &tickets(3, priority)).await;
    }
    fixture.arrived(9).await;
    let received = receive(&*broker, 9).await;
    let priorities: Vec<_> = received.iter().map(|ticket| ticket.priority).collect();
    assert_eq!(priorities[..3], [Priority::High; 3], "{priorities:?}");
    let place = |of: Priority| priorities.iter().rposition(|p| *p == of);
    assert!(
        place(Priority::High) < place(Priority::Normal),
        "{priorities:?}"
    );
}

pub async fn low_priority_is_never_starved(fixture: &impl BrokerFixture) {
    comes_through(fixture, Priority::Low, &[Priority::High, Priority::Normal]).await;
}

pub async fn normal_priority_is_not_starved_from_both_sides(fixture: &impl BrokerFixture) {
    comes_through(fixture, Priority::Normal, &[Priority::High, Priority::Low]).await;
}

/// Asserts that a ticket arrives although there are always others.
async fn comes_through(fixture: &impl BrokerFixture, priority: Priority, others: &[Priority]) {
    let broker = fixture.broker();
    publish(&*broker, &[a_ticket("the one", priority)]).await;
    for other in others {
        publish(&*broker, &tickets(10, *other)).await;
    }
    for _ in 0..SOON {
        let received = receive(&*broker, 1).await;
        if received[0].priority == priority {
            receive(&*broker, 10 * others.len()).await;
            return;
        }
        // Whatever is taken is followed by more of the same.
        publish(&*broker, &[a_ticket("another", received[0].priority)]).await;
    }
    panic!("nothing of {priority} priority among {SOON} tickets");
}
