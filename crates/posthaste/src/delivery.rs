//! What becomes of emails.

use posthaste_core::Timestamp;
use posthaste_core::email::{EmailId, EmailRecord};
use posthaste_core::lifecycle::Resolution as CoreResolution;
use posthaste_core::status::{DeadReason as Reason, Status as CoreStatus};
use posthaste_engine::intake::Delivered;

/// What became of an email that was to be sent at once.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delivery {
    /// The mail server took responsibility for it.
    #[non_exhaustive]
    Sent {
        /// Its id.
        id: EmailId,
    },
    /// It could not be sent now. It is safe, and the worker tries it again.
    #[non_exhaustive]
    Queued {
        /// Its id.
        id: EmailId,
        /// When. `None`: the server has it all and has not answered yet; that is waited for
        /// without you.
        next_attempt: Option<Timestamp>,
        /// What went wrong, if something did.
        error: Option<String>,
    },
    /// It was refused for good. It waits for you to retry or dismiss it.
    #[non_exhaustive]
    Dead {
        /// Its id.
        id: EmailId,
        /// Why.
        reason: DeadReason,
        /// What the server said.
        error: Option<String>,
    },
    /// It may have been sent: the server's answer was lost, and the policy says not to send it
    /// again. It waits for you to decide.
    #[non_exhaustive]
    Uncertain {
        /// Its id.
        id: EmailId,
    },
}

impl Delivery {
    /// The email's id.
    #[must_use]
    pub const fn id(&self) -> EmailId {
        match self {
            Self::Sent { id }
            | Self::Queued { id, .. }
            | Self::Dead { id, .. }
            | Self::Uncertain { id } => *id,
        }
    }

    /// Whether the mail server took responsibility for it.
    #[must_use]
    pub const fn is_sent(&self) -> bool {
        matches!(self, Self::Sent { .. })
    }

    pub(crate) fn of(delivered: Delivered) -> Self {
        Self::in_state(
            delivered.id,
            delivered.status.into(),
            delivered.next_attempt_at,
            delivered.dead_reason.map(Into::into),
            delivered.last_error,
        )
    }

    /// Where an email stands that is in the outbox.
    pub(crate) fn standing(entry: &Entry) -> Self {
        Self::in_state(
            entry.id,
            entry.status,
            entry.next_attempt,
            entry.dead_reason,
            entry.last_error.clone(),
        )
    }

    fn in_state(
        id: EmailId,
        status: Status,
        next_attempt: Option<Timestamp>,
        dead_reason: Option<DeadReason>,
        error: Option<String>,
    ) -> Self {
        match status {
            Status::Sent => Self::Sent { id },
            Status::Unknown if next_attempt.is_none() => Self::Uncertain { id },
            Status::Dead | Status::Discarded | Status::Cancelled => Self::Dead {
                id,
                reason: dead_reason.unwrap_or(DeadReason::Cancelled),
                error,
            },
            _ => Self::Queued {
                id,
                next_attempt,
                error,
            },
        }
    }
}

/// Declares an enum that may grow, and how the core's becomes it.
macro_rules! mirrored {
    ($(#[$doc:meta])* $name:ident = $core:ident { $($(#[$variant_doc:meta])* $variant:ident,)+ } $($(#[$own_doc:meta])* $own:ident = $text:literal)?) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)+
            $($(#[$own_doc])* $own,)?
        }

        impl $name {
            /// Its name.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $core::$variant.as_str(),)+
                    $(Self::$own => $text,)?
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl From<$core> for $name {
            fn from(core: $core) -> Self {
                match core { $($core::$variant => Self::$variant,)+ }
            }
        }
    };
}

mirrored! {
    /// Where an email is in its life.
    Status = CoreStatus {
        /// Waits for its first attempt.
        Pending,
        /// Being sent right now.
        Sending,
        /// The mail server took responsibility for it.
        Sent,
        /// The last attempt failed; another one follows.
        Failed,
        /// Another attempt is about to be made.
        RetryQueued,
        /// It may have been sent: the server's answer was lost.
        Unknown,
        /// Given up; waits for you to retry or dismiss it.
        Dead,
        /// You dismissed it.
        Discarded,
        /// Withdrawn before it was sent.
        Cancelled,
    }
}

mirrored! {
    /// Why an email was given up.
    DeadReason = Reason {
        /// Every attempt failed.
        MaxAttemptsExceeded,
        /// The address is malformed in the eyes of the server.
        InvalidRecipient,
        /// The mailbox does not exist or is disabled.
        HardBounce,
        /// The recipient's domain does not exist or takes no mail.
        DomainNotFound,
        /// Refused by policy: blocklist, spam, virus, DMARC.
        PolicyBlocked,
        /// Our credentials or sender address were refused.
        AuthenticationFailed,
        /// The message itself was refused: size or content.
        MessageRejected,
        /// The recipient complained.
        SpamComplaint,
        /// Someone put the address on the list of those that get nothing any more.
        Suppressed,
        /// Too late to be of use.
        Expired,
        /// Workers died three times while sending it.
        Poison,
        /// Someone gave up on an uncertain one.
        Uncertain,
    }
    /// It was withdrawn before it was sent.
    Cancelled = "Cancelled"
}

/// How an uncertain email is settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolution {
    /// It arrived.
    Sent,
    /// Send it again, at the risk of a second copy.
    Retry,
    /// Give it up.
    Dead,
}

impl From<Resolution> for CoreResolution {
    fn from(resolution: Resolution) -> Self {
        match resolution {
            Resolution::Sent => Self::Sent,
            Resolution::Retry => Self::Retry,
            Resolution::Dead => Self::Dead,
        }
    }
}

/// An email in the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// Its id.
    pub id: EmailId,
    /// Its key: yours, or its id.
    pub message_key: String,
    /// The recipients, as they were given.
    pub to: Vec<String>,
    /// Its subject.
    pub subject: String,
    /// Where it is in its life.
    pub status: Status,
    /// How many attempts failed, without the one that was made at once.
    pub attempts: u32,
    /// How many may.
    pub max_attempts: u32,
    /// When the next one is made.
    pub next_attempt: Option<Timestamp>,
    /// What went wrong last.
    pub last_error: Option<String>,
    /// Why it was given up.
    pub dead_reason: Option<DeadReason>,
    /// Whether a second copy may have left.
    pub possible_duplicate: bool,
    /// When it was handed in.
    pub created_at: Timestamp,
    /// When the mail server took responsibility for it.
    pub sent_at: Option<Timestamp>,
}

impl Entry {
    pub(crate) fn of(email: EmailRecord, max_attempts: u32) -> Self {
        let state = email.state;
        Self {
            id: email.id,
            message_key: email.message_key,
            to: email.summary.to,
            subject: email.summary.subject,
            status: state.status.into(),
            attempts: state.attempt_count,
            max_attempts,
            next_attempt: state
                .next_attempt_at
                .filter(|_| state.status != CoreStatus::Sending),
            last_error: state.last_error,
            dead_reason: state.dead_reason.map(Into::into),
            possible_duplicate: state.possible_duplicate,
            created_at: email.created_at,
            sent_at: state.sent_at,
        }
    }
}

/// How many emails are in the outbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Not delivered yet.
    pub pending: u64,
    /// Perhaps delivered: their policy decides, or they wait for you to [settle](crate::Outbox::resolve)
    /// them.
    pub uncertain: u64,
    /// Given up; they wait for you to retry or dismiss them.
    pub dead: u64,
}
