//! The words for people.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::time::Duration;

use posthaste_core::Timestamp;
use posthaste_core::address::Address;
use posthaste_core::email::{
    EmailId, EmailRecord, PolicyChoice, Recipient, RecipientStatus, Summary,
};
use posthaste_core::lifecycle::State;
use posthaste_core::status::{Priority, Status};

use RecipientStatus::{Accepted, Dead, Waiting};

fn record(status: Status, attempt_count: u32, recipients: &[RecipientStatus]) -> EmailRecord {
    let now = Timestamp::UNIX_EPOCH;
    let address = Address::parse("ann@example.org").unwrap();
    let recipient = |status: &RecipientStatus| Recipient {
        status: *status,
        ..Recipient::waiting(address.clone())
    };
    EmailRecord {
        id: EmailId::generate(),
        owner: "owner".into(),
        message_key: "key".into(),
        template: None,
        priority: Priority::Normal,
        summary: Summary {
            from: "from@example.org".into(),
            to: vec!["ann@example.org".into()],
            subject: "Hello".into(),
        },
        recipients: recipients.iter().map(recipient).collect(),
        metadata: BTreeMap::new(),
        policy: PolicyChoice::default(),
        route: None,
        send_at: None,
        expires_at: None,
        created_at: now,
        size_bytes: 100,
        erased_at: None,
        state: State {
            status,
            attempt_count,
            ..State::accepted(now, None)
        },
        attempts: Vec::new(),
    }
}

#[test]
fn every_state_has_words_for_people() {
    let now = Timestamp::UNIX_EPOCH;
    let cases: [(Status, u32, &[RecipientStatus], &str); 18] = [
        (Status::Pending, 0, &[Waiting], "Waiting"),
        (Status::Sending, 0, &[Waiting], "Sending"),
        (Status::Sending, 1, &[Waiting], "Retrying (attempt 2 of 3)"),
        (Status::Failed, 0, &[Waiting], "Waiting"),
        (Status::Failed, 1, &[Waiting], "Retrying (attempt 2 of 3)"),
        (Status::Failed, 2, &[Waiting], "Retrying (attempt 3 of 3)"),
        // The maximum was lowered in the meantime.
        (Status::Failed, 5, &[Waiting], "Retrying (attempt 3 of 3)"),
        (Status::RetryQueued, 0, &[Waiting], "Waiting"),
        (
            Status::RetryQueued,
            1,
            &[Waiting],
            "Retrying (attempt 2 of 3)",
        ),
        (
            Status::Failed,
            1,
            &[Accepted, Waiting],
            "Retrying (attempt 2 of 3)",
        ),
        (Status::Unknown, 1, &[Waiting], "Uncertain"),
        (Status::Sent, 0, &[Accepted, Accepted], "Delivered"),
        (
            Status::Dead,
            3,
            &[Dead],
            "Failed (moved to dead letter queue)",
        ),
        (
            Status::Dead,
            3,
            &[Dead, Dead],
            "Failed (moved to dead letter queue)",
        ),
        (
            Status::Dead,
            1,
            &[Accepted, Dead, Accepted],
            "Delivered to 2 of 3",
        ),
        (Status::Discarded, 3, &[Dead], "Permanently Failed"),
        (
            Status::Discarded,
            3,
            &[Accepted, Dead],
            "Permanently Failed",
        ),
        (Status::Cancelled, 0, &[Waiting], "Cancelled"),
    ];
    for (status, attempt_count, recipients, expected) in cases {
        let record = record(status, attempt_count, recipients);
        assert_eq!(record.status_text(3, now), expected, "{status}");
    }
    for status in Status::ALL {
        assert!(cases.iter().any(|case| case.0 == *status), "{status}");
    }
}

#[test]
fn an_email_for_later_is_scheduled_until_then() {
    let mut record = record(Status::Pending, 0, &[Waiting]);
    let now = Timestamp::UNIX_EPOCH;
    let later = now + Duration::from_secs(300);
    record.state.next_attempt_at = Some(later);
    assert_eq!(record.status_text(3, now), "Scheduled");
    assert_eq!(record.status_text(3, later), "Waiting");
}

#[test]
fn an_email_whose_caller_saw_it_fail_is_retried_with_its_whole_budget() {
    let mut record = record(Status::Failed, 0, &[Waiting]);
    record.state.last_error = Some("connection refused".into());
    let now = Timestamp::UNIX_EPOCH;
    assert_eq!(record.status_text(5, now), "Retrying (attempt 1 of 5)");
}

#[test]
fn one_that_is_parked_says_what_it_waits_for() {
    let cases = [
        ("primary", "Waiting for primary"),
        ("primary,secondary", "Waiting for primary or secondary"),
        ("primary@example.org", "Waiting for example.org"),
        (
            "primary@example.org,secondary@example.org",
            "Waiting for example.org",
        ),
    ];
    for (waiting_for, expected) in cases {
        let mut parked = record(Status::Failed, 1, &[Waiting]);
        parked.state.waiting_for = Some(waiting_for.to_owned());
        let text = parked.status_text(3, Timestamp::UNIX_EPOCH);
        assert_eq!(text, expected);
    }
}
