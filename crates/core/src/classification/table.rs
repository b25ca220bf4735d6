//! The rules for SMTP and for silence of any server, in the order in which they are asked.

use super::rule::{CauseKind, EnhancedPattern, Rule, Stages, When};
use super::{Fault, SENDER_REFUSED};
use crate::status::{DeadReason, Outcome};

pub(super) const fn transient(
    name: &'static str,
    stages: Stages,
    when: When,
    fault: Fault,
) -> Rule {
    Rule {
        name,
        stages,
        when,
        outcome: Outcome::Transient,
        fault,
        dead_reason: None,
    }
}

pub(super) const fn permanent(
    name: &'static str,
    stages: Stages,
    when: When,
    fault: Fault,
    reason: DeadReason,
) -> Rule {
    Rule {
        name,
        stages,
        when,
        outcome: Outcome::Permanent,
        fault,
        dead_reason: Some(reason),
    }
}

const fn exactly(class: u8, subject: u16, detail: u16) -> EnhancedPattern {
    EnhancedPattern {
        class,
        subject,
        detail: Some(detail),
    }
}

const fn any_of(class: u8, subject: u16) -> EnhancedPattern {
    EnhancedPattern {
        class,
        subject,
        detail: None,
    }
}

/// The built-in rules. The first one that matches decides.
pub static RULES: &[Rule] = &[
    // Failures without a reply. After the final dot silence says nothing, unless asking again can
    // do no harm.
    transient(
        "answer_lost",
        Stages::Any,
        When::Cause(CauseKind::AnswerLost),
        Fault::Provider,
    ),
    Rule {
        name: "reply_lost",
        stages: Stages::AfterDot,
        when: When::Cause(CauseKind::Silence),
        outcome: Outcome::Unknown,
        fault: Fault::Provider,
        dead_reason: None,
    },
    permanent(
        "domain_not_found",
        Stages::Any,
        When::Cause(CauseKind::DomainNotFound),
        Fault::Recipient,
        DeadReason::DomainNotFound,
    ),
    permanent(
        "message_too_large",
        Stages::Any,
        When::Cause(CauseKind::TooLarge),
        Fault::Message,
        DeadReason::MessageRejected,
    ),
    permanent(
        "not_supported",
        Stages::Any,
        When::Cause(CauseKind::NotSupported),
        Fault::Recipient,
        DeadReason::InvalidRecipient,
    ),
    permanent(
        "authentication_failed",
        Stages::Any,
        When::Cause(CauseKind::Credentials),
        Fault::OurConfig,
        DeadReason::AuthenticationFailed,
    ),
    transient(
        "connection_refused",
        Stages::Any,
        When::Cause(CauseKind::Refused),
        Fault::Provider,
    ),
    transient(
        "not_in_time",
        Stages::Any,
        When::Cause(CauseKind::NotInTime),
        Fault::Destination,
    ),
    transient(
        "timeout",
        Stages::Any,
        When::Cause(CauseKind::Timeout),
        Fault::Provider,
    ),
    transient(
        "connection_lost",
        Stages::Any,
        When::Cause(CauseKind::Disconnected),
        Fault::Provider,
    ),
    transient(
        "lookup_failed",
        Stages::Any,
        When::Cause(CauseKind::LookupFailed),
        Fault::Provider,
    ),
    transient(
        "tls_failed",
        Stages::Any,
        When::Cause(CauseKind::Tls),
        Fault::Provider,
    ),
    transient(
        "protocol_broken",
        Stages::Any,
        When::Cause(CauseKind::Protocol),
        Fault::Provider,
    ),
    // Replies: our own configuration first, wherever it shows.
    permanent(
        "authentication_failed",
        Stages::Any,
        When::Codes(&[530, 534, 535, 538]),
        Fault::OurConfig,
        DeadReason::AuthenticationFailed,
    ),
    permanent(
        "authentication_failed",
        Stages::Any,
        When::Enhanced(&[exactly(5, 7, 8)]),
        Fault::OurConfig,
        DeadReason::AuthenticationFailed,
    ),
    permanent(
        SENDER_REFUSED,
        Stages::Any,
        When::Enhanced(&[exactly(5, 1, 7), exactly(5, 1, 8)]),
        Fault::OurConfig,
        DeadReason::AuthenticationFailed,
    ),
    // The message's size may be refused as early as MAIL; a smaller one would pass.
    permanent(
        "message_too_large",
        Stages::Any,
        When::Enhanced(&[exactly(5, 2, 3), exactly(5, 3, 4)]),
        Fault::Message,
        DeadReason::MessageRejected,
    ),
    // Any other 5xx before a recipient was named speaks about the way out, not about the email.
    transient(
        "provider_refused",
        Stages::BeforeRecipient,
        When::Code(500..=599),
        Fault::Provider,
    ),
    // Enhanced codes.
    permanent(
        "domain_not_found",
        Stages::Any,
        When::Enhanced(&[exactly(5, 1, 2), exactly(5, 1, 10), exactly(5, 4, 4)]),
        Fault::Recipient,
        DeadReason::DomainNotFound,
    ),
    permanent(
        "invalid_recipient",
        Stages::Any,
        When::Enhanced(&[exactly(5, 1, 3)]),
        Fault::Recipient,
        DeadReason::InvalidRecipient,
    ),
    permanent(
        "mailbox_not_found",
        Stages::Any,
        When::Enhanced(&[exactly(5, 1, 1), exactly(5, 1, 6)]),
        Fault::Recipient,
        DeadReason::HardBounce,
    ),
    permanent(
        "mailbox_disabled",
        Stages::Any,
        When::Enhanced(&[exactly(5, 2, 1)]),
        Fault::Recipient,
        DeadReason::HardBounce,
    ),
    transient(
        "mailbox_full",
        Stages::Any,
        When::Enhanced(&[exactly(5, 2, 2), exactly(4, 2, 2)]),
        Fault::Recipient,
    ),
    permanent(
        "content_rejected",
        Stages::Any,
        When::Enhanced(&[any_of(5, 6)]),
        Fault::Message,
        DeadReason::MessageRejected,
    ),
    permanent(
        "policy_blocked",
        Stages::Any,
        When::Enhanced(&[any_of(5, 7)]),
        Fault::Message,
        DeadReason::PolicyBlocked,
    ),
    transient(
        "greylisted",
        Stages::Any,
        When::Enhanced(&[exactly(4, 7, 1)]),
        Fault::Destination,
    ),
    transient(
        "greylisted",
        Stages::Any,
        When::Text(400..=499, &["greylist", "graylist", "grey list"]),
        Fault::Destination,
    ),
    transient(
        "mailbox_busy",
        Stages::Any,
        When::Enhanced(&[any_of(4, 2)]),
        Fault::Recipient,
    ),
    transient(
        "system_busy",
        Stages::Any,
        When::Enhanced(&[any_of(4, 3)]),
        Fault::Destination,
    ),
    transient(
        "network_trouble",
        Stages::Any,
        When::Enhanced(&[any_of(4, 4)]),
        Fault::Destination,
    ),
    transient(
        "greylisted",
        Stages::Any,
        When::Text(400..=499, &["try again"]),
        Fault::Destination,
    ),
    transient(
        "policy_deferred",
        Stages::Any,
        When::Enhanced(&[any_of(4, 7)]),
        Fault::Destination,
    ),
    // Basic codes.
    transient(
        "service_closing",
        Stages::Any,
        When::Codes(&[421]),
        Fault::Destination,
    ),
    transient(
        "mailbox_full",
        Stages::Recipient,
        When::Codes(&[552, 452]),
        Fault::Recipient,
    ),
    permanent(
        "message_too_large",
        Stages::Content,
        When::Codes(&[552]),
        Fault::Message,
        DeadReason::MessageRejected,
    ),
    permanent(
        "policy_blocked",
        Stages::Any,
        When::Text(
            550..=599,
            &[
                "blocklist",
                "blacklist",
                "block list",
                "spam",
                "virus",
                "dmarc",
            ],
        ),
        Fault::Message,
        DeadReason::PolicyBlocked,
    ),
    permanent(
        "invalid_recipient",
        Stages::Recipient,
        When::Codes(&[501, 553]),
        Fault::Recipient,
        DeadReason::InvalidRecipient,
    ),
    permanent(
        "recipient_refused",
        Stages::Recipient,
        When::Code(500..=599),
        Fault::Recipient,
        DeadReason::HardBounce,
    ),
    transient(
        "try_again_later",
        Stages::Any,
        When::Code(400..=499),
        Fault::Destination,
    ),
    // The default: 5xx is permanent, whatever else is out of order.
    permanent(
        "rejected",
        Stages::Any,
        When::Code(500..=599),
        Fault::Message,
        DeadReason::MessageRejected,
    ),
    // A positive or intermediate code where none belongs, or one that no server may use.
    Rule {
        name: "out_of_order",
        stages: Stages::AfterDot,
        when: When::Code(0..=u16::MAX),
        outcome: Outcome::Unknown,
        fault: Fault::Provider,
        dead_reason: None,
    },
    transient(
        "out_of_order",
        Stages::Any,
        When::Code(0..=u16::MAX),
        Fault::Provider,
    ),
    transient(
        "failed",
        Stages::Any,
        When::Cause(CauseKind::Silence),
        Fault::Provider,
    ),
];
