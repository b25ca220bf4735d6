//! Ready-made ends of attempts.

use std::time::Duration;

use posthaste_core::attempt::Stage;
use posthaste_core::decision::{Conclusion, Decision, Parking};
use posthaste_core::email::{Recipient, RecipientStatus};
use posthaste_core::fingerprint::fingerprint;
use posthaste_core::port::Budgets;
use posthaste_core::retry_policy::RetryPolicy;
use posthaste_core::status::{DeadReason, Outcome};

use crate::email::address;

/// The budgets of the built-in policies.
#[must_use]
pub fn budgets() -> Budgets {
    let by_name = RetryPolicy::built_in()
        .into_iter()
        .map(|(name, policy)| (name.to_owned(), policy.max_attempts))
        .collect();
    Budgets {
        by_name,
        fallback: RetryPolicy::email().max_attempts,
    }
}

/// The server took it.
#[must_use]
pub fn sent() -> Decision {
    Decision {
        reply: Some("250 2.0.0 OK".into()),
        ..Decision::new(Conclusion::Sent, Outcome::Sent)
    }
}

/// The provider took it, and calls it this.
#[must_use]
pub fn sent_as(provider_id: &str) -> Decision {
    Decision {
        provider_id: Some(provider_id.into()),
        ..sent()
    }
}

fn failed(outcome: Outcome, class: &str, error: &str, conclusion: Conclusion) -> Decision {
    Decision {
        error_class: Some(class.into()),
        error: Some(error.into()),
        fingerprint: Some(fingerprint(error)),
        stage: Some(Stage::Recipient),
        reply: error
            .starts_with(|c: char| c.is_ascii_digit())
            .then(|| error.to_owned()),
        ..Decision::new(conclusion, outcome)
    }
}

/// Where an email waits for these ways, not before `floor` from now.
#[must_use]
pub fn parking(waiting_for: &str, floor: Duration) -> Parking {
    Parking {
        waiting_for: waiting_for.into(),
        floor,
        waits_until: None,
    }
}

/// The server put it off; another attempt follows after `delay`.
#[must_use]
pub fn transient(delay: Duration) -> Decision {
    let conclusion = Conclusion::Retry {
        delay,
        possible_duplicate: false,
    };
    failed(
        Outcome::Transient,
        "greylisted",
        "451 4.7.1 Greylisted, try again later",
        conclusion,
    )
}

/// The server put it off once too often.
#[must_use]
pub fn exhausted() -> Decision {
    Decision {
        conclusion: Conclusion::Dead(DeadReason::MaxAttemptsExceeded),
        ..transient(Duration::ZERO)
    }
}

/// The server refused it for good.
#[must_use]
pub fn dead(reason: DeadReason) -> Decision {
    dead_of(reason, "550 5.1.1 No such user")
}

/// The server refused it for good, in these words.
#[must_use]
pub fn dead_of(reason: DeadReason, error: &str) -> Decision {
    failed(
        Outcome::Permanent,
        "refused",
        error,
        Conclusion::Dead(reason),
    )
}

/// The reply to the final dot was lost, and it stays so.
#[must_use]
pub fn unknown_hold() -> Decision {
    failed(
        Outcome::Unknown,
        "reply_lost",
        "no answer in time (at dot)",
        Conclusion::Hold,
    )
}

/// The reply to the final dot was lost, and it is sent again after `delay`.
#[must_use]
pub fn unknown_resend(delay: Duration) -> Decision {
    Decision {
        conclusion: Conclusion::Retry {
            delay,
            possible_duplicate: true,
        },
        ..unknown_hold()
    }
}

/// The same decision, with where each recipient stands.
#[must_use]
pub fn with_recipients(decision: Decision, recipients: &[(&str, RecipientStatus)]) -> Decision {
    let recipients = recipients.iter().map(|(to, status)| Recipient {
        status: *status,
        detail: Some(format!("{status} by the server")),
        reason: (*status == RecipientStatus::Dead).then_some(DeadReason::HardBounce),
        ..Recipient::waiting(address(to))
    });
    Decision {
        recipients: recipients.collect(),
        ..decision
    }
}
