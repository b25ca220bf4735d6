//! The rules for answers of providers' HTTP APIs, in the order in which they are asked: the
//! provider's own names of errors first, then the status.

use super::rule::{Rule, Stages, When};
use super::table::{permanent, transient};
use super::{Fault, SENDER_REFUSED};
use crate::answer::Provider;
use crate::status::{DeadReason, Outcome};

const fn paused(when: When) -> Rule {
    transient("provider_paused", Stages::Any, when, Fault::Provider)
}

const fn throttled(when: When) -> Rule {
    transient("rate_limited", Stages::Any, when, Fault::Provider)
}

const fn our_config(when: When) -> Rule {
    permanent(
        "authentication_failed",
        Stages::Any,
        when,
        Fault::OurConfig,
        DeadReason::AuthenticationFailed,
    )
}

const fn sender_refused(when: When) -> Rule {
    permanent(
        SENDER_REFUSED,
        Stages::Any,
        when,
        Fault::OurConfig,
        DeadReason::AuthenticationFailed,
    )
}

const fn bounced(when: When) -> Rule {
    permanent(
        "recipient_inactive",
        Stages::Any,
        when,
        Fault::Recipient,
        DeadReason::HardBounce,
    )
}

const fn invalid_recipient(when: When) -> Rule {
    permanent(
        "invalid_recipient",
        Stages::Any,
        when,
        Fault::Recipient,
        DeadReason::InvalidRecipient,
    )
}

const fn rejected(when: When) -> Rule {
    permanent(
        "rejected",
        Stages::Any,
        when,
        Fault::Message,
        DeadReason::MessageRejected,
    )
}

/// The built-in rules for answers. The first one that matches decides.
pub static HTTP_RULES: &[Rule] = &[
    // Resend.
    paused(When::Named(
        Provider::Resend,
        &["daily_quota_exceeded", "monthly_quota_exceeded"],
    )),
    throttled(When::Named(Provider::Resend, &["rate_limit_exceeded"])),
    transient(
        "request_in_progress",
        Stages::Any,
        When::Named(Provider::Resend, &["concurrent_idempotent_requests"]),
        Fault::Provider,
    ),
    our_config(When::Named(
        Provider::Resend,
        &[
            "missing_api_key",
            "restricted_api_key",
            "invalid_api_key",
            "invalid_access",
            "not_found",
            "method_not_allowed",
        ],
    )),
    sender_refused(When::Named(Provider::Resend, &["invalid_from_address"])),
    sender_refused(When::Said(Provider::Resend, &["domain is not verified"])),
    // They have sent something under our key, but not quite this: another version of ours built
    // it. What they sent is the same email all the same.
    Rule {
        name: "key_already_used",
        stages: Stages::AfterDot,
        when: When::Named(Provider::Resend, &["invalid_idempotent_request"]),
        outcome: Outcome::Unknown,
        fault: Fault::Provider,
        dead_reason: None,
    },
    rejected(When::Named(
        Provider::Resend,
        &[
            "invalid_idempotency_key",
            "invalid_attachment",
            "security_error",
        ],
    )),
    invalid_recipient(When::Said(
        Provider::Resend,
        &["invalid `to`", "invalid `cc`", "invalid `bcc`"],
    )),
    // SendGrid has no names; these texts are the ones it documents.
    paused(When::Said(
        Provider::SendGrid,
        &[
            "maximum credits exceeded",
            "credits exceeded",
            "temporarily suspended",
        ],
    )),
    sender_refused(When::Said(
        Provider::SendGrid,
        &["verified sender identity"],
    )),
    rejected(When::Said(Provider::SendGrid, &["from.email", "reply_to"])),
    invalid_recipient(When::Said(
        Provider::SendGrid,
        &["does not contain a valid address"],
    )),
    // Postmark.
    paused(When::Named(
        Provider::Postmark,
        // Maintenance; out of credits; account pending; account may not send.
        &["100", "405", "412", "413"],
    )),
    throttled(When::Named(Provider::Postmark, &["429"])),
    our_config(When::Named(
        Provider::Postmark,
        // Bad token; no such message stream, or none that can be sent to.
        &["10", "1235", "1236"],
    )),
    // The sender signature is missing or not confirmed.
    sender_refused(When::Named(Provider::Postmark, &["400", "401"])),
    bounced(When::Named(Provider::Postmark, &["406"])),
    invalid_recipient(When::Said(
        Provider::Postmark,
        &[
            "error parsing 'to'",
            "error parsing 'cc'",
            "error parsing 'bcc'",
            "invalid 'to'",
            "invalid 'cc'",
            "invalid 'bcc'",
        ],
    )),
    rejected(When::Named(
        Provider::Postmark,
        &["300", "402", "403", "409", "411"],
    )),
    // Mailgun has no names either.
    paused(When::Said(
        Provider::Mailgun,
        &[
            "disabled",
            "probation",
            "limit exceeded",
            "recipient limit",
            "temporarily",
            "exceeded the daily",
        ],
    )),
    invalid_recipient(When::Said(
        Provider::Mailgun,
        &["parameter is not a valid address", "invalid recipient"],
    )),
    bounced(When::Said(Provider::Mailgun, &["suppress"])),
    // Amazon SES.
    paused(When::Named(
        Provider::Ses,
        &[
            "AccountSuspendedException",
            "SendingPausedException",
            "LimitExceededException",
        ],
    )),
    throttled(When::Named(
        Provider::Ses,
        &[
            "TooManyRequestsException",
            "ThrottlingException",
            "Throttling",
        ],
    )),
    // A clock of ours that is wrong passes with the clock.
    transient(
        "request_expired",
        Stages::Any,
        When::Named(Provider::Ses, &["RequestExpired", "RequestTimeTooSkewed"]),
        Fault::Provider,
    ),
    transient(
        "request_expired",
        Stages::Any,
        When::Said(
            Provider::Ses,
            &["signature expired", "signature not yet current"],
        ),
        Fault::Provider,
    ),
    our_config(When::Named(
        Provider::Ses,
        &[
            "AccessDeniedException",
            "UnrecognizedClientException",
            "InvalidClientTokenId",
            "InvalidSignatureException",
            "SignatureDoesNotMatch",
            "IncompleteSignature",
            "IncompleteSignatureException",
            "ExpiredToken",
            "ExpiredTokenException",
            "OptInRequired",
            "MissingAuthenticationToken",
            "MissingAuthenticationTokenException",
            "NotFoundException",
        ],
    )),
    sender_refused(When::Named(
        Provider::Ses,
        &["MailFromDomainNotVerifiedException"],
    )),
    sender_refused(When::Said(
        Provider::Ses,
        &["email address is not verified", "address not verified"],
    )),
    invalid_recipient(When::Said(
        Provider::Ses,
        &["missing final '@domain'", "local address contains"],
    )),
    rejected(When::Named(Provider::Ses, &["MessageRejected"])),
    // Any provider.
    throttled(When::Statuses(&[429])),
    transient(
        "provider_timeout",
        Stages::Any,
        When::Statuses(&[408, 504]),
        Fault::Provider,
    ),
    // They could not keep our request; nothing says that another one would fail.
    transient(
        "request_in_progress",
        Stages::Any,
        When::Statuses(&[409, 423, 425]),
        Fault::Provider,
    ),
    our_config(When::Statuses(&[401, 402, 403, 404, 405, 407])),
    permanent(
        "message_too_large",
        Stages::Any,
        When::Statuses(&[413]),
        Fault::Message,
        DeadReason::MessageRejected,
    ),
    rejected(When::Status(400..=499)),
    transient(
        "provider_error",
        Stages::Any,
        When::Status(500..=599),
        Fault::Provider,
    ),
    // Neither yes nor no: a redirect, or what no server may answer.
    Rule {
        name: "out_of_order",
        stages: Stages::AfterDot,
        when: When::Status(0..=u16::MAX),
        outcome: Outcome::Unknown,
        fault: Fault::Provider,
        dead_reason: None,
    },
    transient(
        "out_of_order",
        Stages::Any,
        When::Status(0..=u16::MAX),
        Fault::Provider,
    ),
];
