//! What is known of one attempt: how far it got, how it failed, what is recorded.

use std::time::Duration;

use crate::Timestamp;
use crate::answer::Answer;
use crate::classification::floor_in;
use crate::reply::Reply;
use crate::status::{DeadReason, Outcome, named};

named! {
    /// How far the conversation had got when it failed.
    Stage {
        /// Looking up the host.
        Resolve = "resolve",
        /// Opening the connection.
        Connect = "connect",
        /// The TLS handshake, or STARTTLS before it.
        Tls = "tls",
        /// Waiting for the server's greeting.
        Banner = "banner",
        /// EHLO.
        Hello = "ehlo",
        /// AUTH.
        Authentication = "auth",
        /// MAIL FROM.
        MailFrom = "mail",
        /// RCPT TO.
        Recipient = "rcpt",
        /// DATA.
        Data = "data",
        /// Writing the message, the final dot withheld.
        Body = "body",
        /// Passing the gate.
        Gate = "gate",
        /// The final dot was sent, the reply awaited.
        FinalDot = "dot",
        /// The provider's API was asked, the answer awaited.
        Request = "request",
    }
}

impl Stage {
    /// Whether the message may have left for good.
    #[must_use]
    pub const fn is_past_gate(self) -> bool {
        matches!(self, Self::FinalDot | Self::Request)
    }

    /// Whether the stage is about our way out, before any recipient was named.
    #[must_use]
    pub const fn is_before_recipient(self) -> bool {
        matches!(
            self,
            Self::Resolve
                | Self::Connect
                | Self::Tls
                | Self::Banner
                | Self::Hello
                | Self::Authentication
                | Self::MailFrom
        )
    }
}

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// The server said no.
    Reply(Reply),
    /// The provider's API did not say yes.
    Answer(Answer),
    /// The provider's answer was lost, but it knows our key: asking again sends no second copy.
    AnswerLost(String),
    /// Nothing is sent to this address any more, for this reason.
    Suppressed(DeadReason),
    /// Nothing came in time.
    Timeout,
    /// The caller waited for it, and does not wait longer. Whoever was slow may be well otherwise.
    NotInTime,
    /// The connection ended.
    Disconnected,
    /// The connection was refused.
    Refused,
    /// The host could not be looked up just now.
    LookupFailed(String),
    /// The recipient's domain does not exist, or takes no mail.
    DomainNotFound(String),
    /// TLS could not be set up, or was required and not offered.
    Tls(String),
    /// The server broke the protocol: garbage, too long, out of order.
    Protocol(String),
    /// Any other input or output error.
    Io(String),
    /// The message is larger than the server takes.
    TooLarge {
        /// Our size in octets.
        size: u64,
        /// What the server announced.
        limit: u64,
    },
    /// The address or message needs something the server does not offer.
    NotSupported(String),
    /// The credentials could not be used, without asking the server.
    Credentials(String),
    /// The lease was lost, or had too little time left; nothing was sent.
    LeaseLost,
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Reply(reply) => write!(f, "{reply}"),
            Self::Answer(answer) => write!(f, "{answer}"),
            Self::AnswerLost(text) => write!(f, "the answer was lost: {text}"),
            Self::Suppressed(reason) => {
                write!(f, "nothing is sent to this address any more: {reason}")
            }
            Self::Timeout => f.write_str("no answer in time"),
            Self::NotInTime => {
                f.write_str("it was not handed over in time, and the caller does not wait longer")
            }
            Self::Disconnected => f.write_str("the server closed the connection"),
            Self::Refused => f.write_str("connection refused"),
            Self::LookupFailed(text) => write!(f, "the host could not be looked up: {text}"),
            Self::DomainNotFound(domain) => write!(f, "the domain {domain} takes no mail"),
            Self::Tls(text) => write!(f, "TLS failed: {text}"),
            Self::Protocol(text) => write!(f, "the server broke the protocol: {text}"),
            Self::Io(text) => f.write_str(text),
            Self::TooLarge { size, limit } => {
                write!(
                    f,
                    "the message has {size} octets, the server takes at most {limit}"
                )
            }
            Self::NotSupported(text) => write!(f, "the server does not support {text}"),
            Self::Credentials(text) => f.write_str(text),
            Self::LeaseLost => f.write_str("the lease was lost before the final dot"),
        }
    }
}

/// A failure: what went wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// How far the conversation had got.
    pub stage: Stage,
    /// What went wrong.
    pub cause: Cause,
}

impl Failure {
    /// A failure of this cause at this stage.
    #[must_use]
    pub const fn new(stage: Stage, cause: Cause) -> Self {
        Self { stage, cause }
    }

    /// The server's reply, if that is what failed.
    #[must_use]
    pub const fn reply(&self) -> Option<&Reply> {
        match &self.cause {
            Cause::Reply(reply) => Some(reply),
            _ => None,
        }
    }

    /// The provider's answer, if that is what failed.
    #[must_use]
    pub const fn answer(&self) -> Option<&Answer> {
        match &self.cause {
            Cause::Answer(answer) => Some(answer),
            _ => None,
        }
    }

    /// How long we are to wait, in the server's own words.
    #[must_use]
    pub fn floor(&self) -> Option<Duration> {
        match &self.cause {
            Cause::Reply(reply) => floor_in(&reply.text),
            Cause::Answer(answer) => answer.retry_after,
            _ => None,
        }
    }

    /// Whether we are told that we send too much at once.
    #[must_use]
    pub fn asks_for_less(&self) -> bool {
        match &self.cause {
            Cause::Reply(reply) => matches!(reply.code, 421 | 454),
            Cause::Answer(answer) => answer.status == 429,
            _ => false,
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.cause {
            // Codes first: that is what operators search for and fingerprints group by.
            Cause::Reply(reply) => write!(f, "{reply}"),
            Cause::Answer(answer) => write!(f, "{answer}"),
            cause @ Cause::Suppressed(_) => write!(f, "{cause}"),
            cause => write!(f, "{cause} (at {})", self.stage),
        }
    }
}

/// The record of one attempt as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptRecord {
    /// 1, 2, 3 … for ever.
    pub number: u32,
    /// When a sender began.
    pub started_at: Timestamp,
    /// When its end was recorded.
    pub finished_at: Timestamp,
    /// How it ended.
    pub outcome: Outcome,
    /// The name of the rule that classified the failure.
    pub error_class: Option<String>,
    /// What went wrong, for people.
    pub error: Option<String>,
    /// How far the conversation had got when it failed.
    pub stage: Option<Stage>,
    /// The server's reply, word for word.
    pub reply: Option<String>,
    /// Which way out was used.
    pub transport: Option<String>,
    /// Which worker did it.
    pub worker: Option<String>,
    /// What the provider calls the message that it took.
    pub provider_id: Option<String>,
    /// Whether it failed by no fault of the email's, and so spent nothing of its budget.
    pub is_free: bool,
    /// How many attempts might fail, as things stood then; not known of a lost one.
    pub budget: Option<u32>,
    /// The earliest moment at which the next attempt may begin, if one follows.
    pub next_attempt_at: Option<Timestamp>,
}
