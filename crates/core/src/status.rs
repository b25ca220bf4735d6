//! The states an email can be in, and the words for them.

/// Declares an enum whose variants have one fixed name on the wire, in the database and in logs.
macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, ::serde::Serialize, ::serde::Deserialize)]
        pub enum $name {
            $($(#[$variant_doc])* #[serde(rename = $text)] $variant,)+
        }

        impl $name {
            /// Every value, in the order of its declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name on the wire and in the database.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result { f.pad(self.as_str()) }
        }

        impl ::std::str::FromStr for $name {
            type Err = $crate::status::UnknownName;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::ALL.iter().copied().find(|value| value.as_str() == text).ok_or_else(|| {
                    $crate::status::UnknownName {
                        text: text.to_owned(),
                        known: concat!($($text, " "),+).trim_end(),
                    }
                })
            }
        }
    };
}
pub(crate) use named;

/// A name that is none of the known ones.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not one of: {known}")]
pub struct UnknownName {
    /// What was given.
    pub text: String,
    /// The names that are known, separated by spaces.
    pub known: &'static str,
}

named! {
    /// Where an email is in its life.
    Status {
        /// Accepted and durable; waits for its first attempt (or for `send_at`).
        Pending = "pending",
        /// A sender holds its lease and talks to the server.
        Sending = "sending",
        /// The server took responsibility for it. Terminal.
        Sent = "sent",
        /// The last attempt failed and another one is due at `next_attempt_at`.
        Failed = "failed",
        /// Due, claimed by a scheduler, its ticket is under way to a sender.
        RetryQueued = "retry_queued",
        /// It may have been sent: the reply to the final dot was lost.
        Unknown = "unknown",
        /// Given up; on the operator's desk. Terminal unless replayed.
        Dead = "dead",
        /// An operator gave up on it for good. Terminal unless restored.
        Discarded = "discarded",
        /// Withdrawn before it was sent. Terminal.
        Cancelled = "cancelled",
    }
}

impl Status {
    /// Every state of an email that is not delivered, and that nobody has withdrawn or discarded.
    pub const UNDELIVERED: [Self; 6] = [
        Self::Pending,
        Self::Sending,
        Self::Failed,
        Self::RetryQueued,
        Self::Unknown,
        Self::Dead,
    ];

    /// Whether nothing more happens by itself.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(
            self,
            Self::Sent | Self::Dead | Self::Discarded | Self::Cancelled
        )
    }
}

named! {
    /// How far the last attempt got. The gate separates "cannot have left" from "may have left".
    Phase {
        /// No attempt since the last one was concluded, or one that has not come to its turn.
        Idle = "idle",
        /// An attempt began; the final dot cannot have been sent.
        Preparing = "preparing",
        /// The gate was passed; the final dot may have been sent.
        Committing = "committing",
    }
}

named! {
    /// How one attempt ended.
    Outcome {
        /// Every remaining recipient was accepted.
        Sent = "sent",
        /// Failed in a way that may pass.
        Transient = "transient",
        /// Failed in a way that will not pass.
        Permanent = "permanent",
        /// The reply after the final dot was lost.
        Unknown = "unknown",
        /// The worker was lost before the gate; nothing was sent.
        Lost = "lost",
        /// Handed back unsent, for example at shutdown.
        Cancelled = "cancelled",
    }
}

impl Outcome {
    /// Whether the attempt spends the email's budget.
    #[must_use]
    pub const fn is_counted(self) -> bool {
        matches!(self, Self::Transient | Self::Permanent | Self::Unknown)
    }
}

named! {
    /// Why an email was given up.
    DeadReason {
        /// The budget of attempts is spent.
        MaxAttemptsExceeded = "MaxAttemptsExceeded",
        /// The address is malformed in the eyes of the server.
        InvalidRecipient = "InvalidRecipient",
        /// The mailbox does not exist or is disabled.
        HardBounce = "HardBounce",
        /// The recipient's domain does not exist or takes no mail.
        DomainNotFound = "DomainNotFound",
        /// Refused by policy: blocklist, spam, virus, DMARC.
        PolicyBlocked = "PolicyBlocked",
        /// Our credentials or sender address were refused.
        AuthenticationFailed = "AuthenticationFailed",
        /// The message itself was refused: size or content.
        MessageRejected = "MessageRejected",
        /// The recipient complained.
        SpamComplaint = "SpamComplaint",
        /// Someone put the address on the list of those that get nothing any more.
        Suppressed = "Suppressed",
        /// Too late to be of use.
        Expired = "Expired",
        /// Workers died three times while sending it.
        Poison = "Poison",
        /// An operator gave up on an uncertain one.
        Uncertain = "Uncertain",
    }
}

named! {
    /// Which emails go first.
    Priority {
        /// Before everything else.
        High = "high",
        /// The default.
        Normal = "normal",
        /// When there is room.
        Low = "low",
    }
}
