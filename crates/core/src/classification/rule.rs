//! One rule: what it matches, and what it concludes.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::{Certainty, Fault, Verdict, floor_in};
use crate::attempt::{Cause, Failure, Stage};
use crate::status::{DeadReason, Outcome};

/// The stages a rule speaks about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stages {
    /// All of them.
    Any,
    /// Before any recipient was named.
    BeforeRecipient,
    /// RCPT TO.
    Recipient,
    /// DATA, the body and the final dot.
    Content,
    /// After the final dot was sent.
    AfterDot,
}

impl Stages {
    fn contains(self, stage: Stage) -> bool {
        match self {
            Self::Any => true,
            Self::BeforeRecipient => stage.is_before_recipient(),
            Self::Recipient => stage == Stage::Recipient,
            Self::Content => {
                matches!(
                    stage,
                    Stage::Data | Stage::Body | Stage::Gate | Stage::FinalDot
                )
            }
            Self::AfterDot => stage.is_past_gate(),
        }
    }
}

/// Failures that are no reply, by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum CauseKind {
    AnyButReply,
    Timeout,
    Disconnected,
    Refused,
    LookupFailed,
    DomainNotFound,
    Tls,
    Protocol,
    TooLarge,
    NotSupported,
    Credentials,
}

impl CauseKind {
    fn matches(self, cause: &Cause) -> bool {
        match self {
            Self::AnyButReply => !matches!(cause, Cause::Reply(_)),
            Self::Timeout => matches!(cause, Cause::Timeout),
            Self::Disconnected => matches!(cause, Cause::Disconnected | Cause::Io(_)),
            Self::Refused => matches!(cause, Cause::Refused),
            Self::LookupFailed => matches!(cause, Cause::LookupFailed(_)),
            Self::DomainNotFound => matches!(cause, Cause::DomainNotFound(_)),
            Self::Tls => matches!(cause, Cause::Tls(_)),
            Self::Protocol => matches!(cause, Cause::Protocol(_)),
            Self::TooLarge => matches!(cause, Cause::TooLarge { .. }),
            Self::NotSupported => matches!(cause, Cause::NotSupported(_)),
            Self::Credentials => matches!(cause, Cause::Credentials(_)),
        }
    }
}

/// An enhanced code, where the detail or subject may be left open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EnhancedPattern {
    /// 4 or 5.
    pub class: u8,
    /// The subject.
    pub subject: u16,
    /// The detail; `None` for any.
    pub detail: Option<u16>,
}

/// What a rule looks at. Everything that is set must match.
#[derive(Debug, Clone)]
pub(super) enum When {
    /// A failure without a reply.
    Cause(CauseKind),
    /// A reply with one of these enhanced codes.
    Enhanced(&'static [EnhancedPattern]),
    /// A reply with a code in this range.
    Code(RangeInclusive<u16>),
    /// A reply with one of these codes.
    Codes(&'static [u16]),
    /// A reply with a code in this range whose text names one of these words.
    Text(RangeInclusive<u16>, &'static [&'static str]),
}

/// One rule of the table.
#[derive(Debug, Clone)]
pub struct Rule {
    /// Its name, shown as `error_class`.
    pub name: &'static str,
    pub(super) stages: Stages,
    pub(super) when: When,
    pub(super) outcome: Outcome,
    pub(super) fault: Fault,
    pub(super) dead_reason: Option<DeadReason>,
}

impl Rule {
    /// Whether the rule speaks about this failure.
    #[must_use]
    pub fn matches(&self, failure: &Failure) -> bool {
        if !self.stages.contains(failure.stage) {
            return false;
        }
        match (&self.when, failure.reply()) {
            (When::Cause(kind), _) => kind.matches(&failure.cause),
            (_, None) => false,
            (When::Enhanced(patterns), Some(reply)) => {
                reply.agreeing_enhanced().is_some_and(|code| {
                    patterns.iter().any(|pattern| {
                        pattern.class == code.class
                            && pattern.subject == code.subject
                            && pattern.detail.is_none_or(|detail| detail == code.detail)
                    })
                })
            }
            (When::Code(range), Some(reply)) => range.contains(&reply.code),
            (When::Codes(codes), Some(reply)) => codes.contains(&reply.code),
            (When::Text(range, words), Some(reply)) => {
                let text = reply.text.to_lowercase();
                range.contains(&reply.code) && words.iter().any(|word| text.contains(word))
            }
        }
    }

    /// What the rule concludes about this failure.
    #[must_use]
    pub fn verdict(&self, failure: &Failure) -> Verdict {
        conclude(
            self.name.to_owned(),
            self.outcome,
            self.fault,
            self.dead_reason,
            failure,
        )
    }
}

fn conclude(
    rule: String,
    outcome: Outcome,
    fault: Fault,
    dead_reason: Option<DeadReason>,
    failure: &Failure,
) -> Verdict {
    let certainty = match outcome {
        Outcome::Unknown => Certainty::Unknown,
        _ => Certainty::NotSent,
    };
    // A 4xx before any recipient was named speaks about the way out, later about their server.
    let fault = if outcome == Outcome::Transient && failure.stage.is_before_recipient() {
        Fault::Provider
    } else {
        fault
    };
    let floor = match outcome {
        Outcome::Transient => failure.reply().and_then(|reply| floor_in(&reply.text)),
        _ => None,
    };
    Verdict {
        rule,
        outcome,
        certainty,
        fault,
        dead_reason,
        floor,
    }
}

/// A rule from the configuration. Everything that is given must match.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleOverride {
    /// Its name, shown as `error_class`.
    pub name: String,
    /// The basic code, for example 552.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<u16>,
    /// The enhanced code as text, for example `5.2.2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enhanced: Option<String>,
    /// A part of the text, in any case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The stage: `rcpt`, `dot` and so on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<Stage>,
    /// `true` to try again, `false` to give up.
    pub retry: bool,
    /// Why the email is dead when it is given up; `MessageRejected` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_reason: Option<DeadReason>,
}

impl RuleOverride {
    /// Whether the rule speaks about this failure. Only replies can be matched.
    #[must_use]
    pub fn matches(&self, failure: &Failure) -> bool {
        let Some(reply) = failure.reply() else {
            return false;
        };
        let contains = |text: &String| reply.text.to_lowercase().contains(&text.to_lowercase());
        self.code.is_none_or(|code| code == reply.code)
            && self.stage.is_none_or(|stage| stage == failure.stage)
            && self.text.as_ref().is_none_or(contains)
            && self.enhanced.as_ref().is_none_or(|enhanced| {
                reply
                    .enhanced
                    .is_some_and(|code| code.to_string() == *enhanced)
            })
    }

    /// What the rule concludes about this failure.
    #[must_use]
    pub fn verdict(&self, failure: &Failure) -> Verdict {
        let (outcome, reason) = if self.retry {
            (Outcome::Transient, None)
        } else {
            (
                Outcome::Permanent,
                Some(self.dead_reason.unwrap_or(DeadReason::MessageRejected)),
            )
        };
        conclude(
            self.name.clone(),
            outcome,
            Fault::Destination,
            reason,
            failure,
        )
    }
}
