//! One rule: what it matches, and what it concludes.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::floor::LONGEST_FLOOR;
use super::{Certainty, Fault, Verdict};
use crate::answer::{Answer, Provider};
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
                    Stage::Data | Stage::Body | Stage::Gate | Stage::FinalDot | Stage::Request
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
    /// Neither a reply nor an answer.
    Silence,
    AnswerLost,
    NotInTime,
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
            Self::Silence => !matches!(cause, Cause::Reply(_) | Cause::Answer(_)),
            Self::AnswerLost => matches!(cause, Cause::AnswerLost(_)),
            Self::NotInTime => matches!(cause, Cause::NotInTime),
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
    /// An answer of this provider that names one of these errors.
    Named(Provider, &'static [&'static str]),
    /// An answer of this provider whose text names one of these words.
    Said(Provider, &'static [&'static str]),
    /// An answer of any provider with a status in this range.
    Status(RangeInclusive<u16>),
    /// An answer of any provider with one of these statuses.
    Statuses(&'static [u16]),
}

impl When {
    fn is_answer(&self, answer: &Answer) -> bool {
        let says = |words: &[&str]| {
            let text = answer.text.to_lowercase();
            words.iter().any(|word| text.contains(word))
        };
        match self {
            Self::Named(provider, names) => {
                let name = answer.name.as_deref();
                answer.provider == *provider && name.is_some_and(|name| names.contains(&name))
            }
            Self::Said(provider, words) => answer.provider == *provider && says(words),
            Self::Status(range) => range.contains(&answer.status),
            Self::Statuses(statuses) => statuses.contains(&answer.status),
            _ => false,
        }
    }
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
            (When::Named(..) | When::Said(..) | When::Status(_) | When::Statuses(_), _) => failure
                .answer()
                .is_some_and(|answer| self.when.is_answer(answer)),
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
    let certainty = match (outcome, &failure.cause) {
        (Outcome::Unknown, _) | (_, Cause::AnswerLost(_)) => Certainty::Unknown,
        // Someone on the way did not wait for the answer: it is tried again, but by this way only.
        (_, Cause::Answer(answer)) if matches!(answer.status, 408 | 504) => Certainty::Unknown,
        _ => Certainty::NotSent,
    };
    // A 4xx before any recipient was named speaks about the way out, later about their server.
    let fault = if outcome == Outcome::Transient && failure.stage.is_before_recipient() {
        Fault::Provider
    } else {
        fault
    };
    let floor = match outcome {
        Outcome::Transient => failure.floor().map(|floor| floor.min(LONGEST_FLOOR)),
        _ => None,
    };
    Verdict {
        rule,
        outcome,
        certainty,
        fault,
        dead_reason,
        floor,
        asks_for_less: failure.asks_for_less(),
    }
}

/// A rule from the configuration. Everything that is given must match.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleOverride {
    /// Its name, shown as `error_class`.
    pub name: String,
    /// The basic code, for example 552; for a provider's API, the HTTP status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<u16>,
    /// The enhanced code as text, for example `5.2.2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enhanced: Option<String>,
    /// The provider's name of the error, for example `daily_quota_exceeded`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
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
    /// Whether the rule speaks about this failure. Only replies and answers can be matched.
    #[must_use]
    pub fn matches(&self, failure: &Failure) -> bool {
        let (code, said, enhanced, name) = match &failure.cause {
            Cause::Reply(reply) => (reply.code, &reply.text, reply.enhanced, None),
            Cause::Answer(answer) => (answer.status, &answer.text, None, answer.name.as_ref()),
            _ => return false,
        };
        let contains = |text: &String| said.to_lowercase().contains(&text.to_lowercase());
        let is_enhanced =
            |text: &String| enhanced.is_some_and(|enhanced| enhanced.to_string() == *text);
        self.code.is_none_or(|wanted| wanted == code)
            && self.stage.is_none_or(|stage| stage == failure.stage)
            && self.text.as_ref().is_none_or(contains)
            && self.error.as_ref().is_none_or(|error| name == Some(error))
            && self.enhanced.as_ref().is_none_or(is_enhanced)
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
