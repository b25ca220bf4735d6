//! Notices of dead emails.

use posthaste_core::Timestamp;
use posthaste_core::email::EmailId;
use posthaste_core::port::{DeadNotice, Published};
use posthaste_core::status::{DeadReason, Priority};

use super::{BrokerFixture, publish, receive, tickets};

/// A notice that some email died.
#[must_use]
pub fn a_notice(key: &str) -> DeadNotice {
    DeadNotice {
        email_id: EmailId::generate(),
        message_key: key.into(),
        reason: DeadReason::MaxAttemptsExceeded,
        error: Some("451 try \"later\"".into()),
        attempts: 8,
        died_at: Timestamp::from_second(4_102_444_800).expect("a time within range"),
    }
}

pub async fn every_notice_is_answered(fixture: &impl BrokerFixture) {
    let broker = fixture.broker();
    for count in [0, 1, 3] {
        let notices = (0..count).map(|n| a_notice(&format!("dead {n}"))).collect();
        let announced = broker.announce(notices).await;
        assert_eq!(announced, vec![Published::Confirmed; count]);
    }
}

pub async fn a_notice_is_no_ticket(fixture: &impl BrokerFixture) {
    let broker = fixture.broker();
    broker.announce(vec![a_notice("dead")]).await;
    let published = tickets(1, Priority::Low);
    publish(&*broker, &published).await;
    assert_eq!(receive(&*broker, 1).await, published);
}
