//! A server that takes alerts, and the alerts to tell.

use posthaste_core::Timestamp;
use posthaste_core::alert::{Alert, AlertGroup, AlertReason};
use posthaste_core::email::EmailId;
use posthaste_core::fingerprint::fingerprint;
use posthaste_core::status::DeadReason;
use posthaste_testkit::{Received, Receiver};

/// Where alerts are posted to. All of it is secret.
pub(crate) const PATH: &str = "/hook/secret-token";

/// A server that answers like this.
pub(crate) async fn answering(status: u16, headers: &[(&str, &str)], text: &str) -> Receiver {
    let receiver = Receiver::start().await;
    receiver.answer(PATH, status, headers, text);
    receiver
}

/// What came in, which must be one request.
pub(crate) fn only(receiver: &Receiver) -> Received {
    let mut received = receiver.received(PATH);
    assert_eq!(received.len(), 1);
    received.remove(0)
}

pub(crate) fn group(error: &str, count: u64) -> AlertGroup {
    AlertGroup {
        fingerprint: fingerprint(error),
        reason: AlertReason::Dead(DeadReason::HardBounce),
        count,
        first_at: at("2026-11-16T06:00:00Z"),
        last_at: at("2026-11-16T06:01:00Z"),
        sample: Some(error.to_owned()),
        email_id: EmailId::generate(),
    }
}

pub(crate) const STOPPED: &str =
    "The way out primary is stopped: 421 4.3.2 closing (at connect); emails wait for it";
pub(crate) const RECOVERED: &str = "The way out primary takes mail again";

/// A way out that was stopped, or takes mail again.
pub(crate) fn way(reason: AlertReason) -> AlertGroup {
    let sentence = match reason {
        AlertReason::TransportStopped => STOPPED,
        _ => RECOVERED,
    };
    AlertGroup {
        reason,
        ..group(sentence, 1)
    }
}

pub(crate) fn alert(groups: Vec<AlertGroup>) -> Alert {
    Alert {
        id: "0198a7f2-0000-7000-8000-000000000001".into(),
        service: "billing & <shop>".into(),
        dashboard_url: Some("https://mail.example.org/".into()),
        is_test: false,
        groups,
        dead_letters: 12_345,
        at: at("2026-11-16T06:01:05Z"),
    }
}

/// As many different errors as nobody wants to read.
pub(crate) fn flood() -> Alert {
    let long = "so very long ".repeat(1000);
    let word = |n: u8| char::from(b'a' + n).to_string().repeat(3);
    let groups = (0..25)
        .map(|n| group(&format!("55{} {} <!channel> {long}", n % 10, word(n)), 400))
        .collect();
    Alert {
        service: "a name that never ends ".repeat(100),
        ..alert(groups)
    }
}

pub(crate) fn at(text: &str) -> Timestamp {
    text.parse().expect("a time")
}
