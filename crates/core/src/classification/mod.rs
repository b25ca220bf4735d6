//! What a failure means: the verdict that decides what happens next.
//!
//! Rules are data, in order: rules from the configuration, rules for failures without a reply,
//! then enhanced codes, then basic codes, then the default; for providers' APIs the provider's own
//! names of errors, then statuses. See [`table`] and [`http`] for the rules. Nothing here looks at a message's text except where a rule names one on purpose.

mod floor;
mod http;
mod rule;
mod table;

use std::time::Duration;

pub use floor::floor_in;
pub use http::HTTP_RULES;
pub use rule::{CauseKind, EnhancedPattern, Rule, RuleOverride, Stages};
pub use table::RULES;

use crate::attempt::{Cause, Failure};
use crate::status::{DeadReason, Outcome, named};

named! {
    /// Whether the message left.
    Certainty {
        /// It cannot have left.
        NotSent = "not_sent",
        /// It left.
        Sent = "sent",
        /// It may have left.
        Unknown = "unknown",
    }
}

named! {
    /// Whom a failure speaks about. Only the first three speak about this email.
    Fault {
        /// The recipient's mailbox.
        Recipient = "recipient",
        /// The message itself.
        Message = "message",
        /// The recipient's server.
        Destination = "destination",
        /// Our relay or provider.
        Provider = "provider",
        /// Our own configuration.
        OurConfig = "our_config",
    }
}

/// What a failure means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The rule that decided, also the `error_class` on the wire.
    pub rule: String,
    /// Transient, permanent or unknown.
    pub outcome: Outcome,
    /// Whether the message left.
    pub certainty: Certainty,
    /// Whom it speaks about.
    pub fault: Fault,
    /// Why the email is dead, if it is permanent.
    pub dead_reason: Option<DeadReason>,
    /// The earliest next attempt the server allows, from now.
    pub floor: Option<Duration>,
    /// Whether the server says that we send too much at once.
    pub asks_for_less: bool,
}

/// The rule of replies that refuse our sender address, and nothing else.
pub(crate) const SENDER_REFUSED: &str = "sender_refused";

/// Rules that say that their server cannot be reached: it, not this email, is in trouble.
const DESTINATION_DOWN: [&str; 2] = ["service_closing", "network_trouble"];

/// How far a failure reaches beyond the email.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// No further.
    Email,
    /// To every email for that domain by the same way out.
    Domain,
    /// To every email by the same way out.
    Transport,
}

impl Verdict {
    /// How far it reaches.
    #[must_use]
    pub fn reach(&self) -> Reach {
        match self.fault {
            // One application's wrong sender address must not stop the mail of all others.
            Fault::OurConfig if self.rule == SENDER_REFUSED => Reach::Email,
            Fault::Provider | Fault::OurConfig => Reach::Transport,
            Fault::Destination if DESTINATION_DOWN.contains(&self.rule.as_str()) => Reach::Domain,
            _ => Reach::Email,
        }
    }
}

/// Classifies failures by the built-in rules, with the configuration's rules before them.
#[derive(Debug, Clone, Default)]
pub struct Classifier {
    overrides: Vec<RuleOverride>,
}

impl Classifier {
    /// A classifier that asks these rules first.
    #[must_use]
    pub fn new(overrides: Vec<RuleOverride>) -> Self {
        Self { overrides }
    }

    /// What the failure means.
    #[must_use]
    pub fn classify(&self, failure: &Failure) -> Verdict {
        if let Cause::Suppressed(reason) = failure.cause {
            return Verdict {
                rule: "suppressed".to_owned(),
                outcome: Outcome::Permanent,
                certainty: Certainty::NotSent,
                fault: Fault::Recipient,
                dead_reason: Some(reason),
                floor: None,
                asks_for_less: false,
            };
        }
        // After the final dot, only the server's own "no" is certain. No rule overrides that.
        let code = match &failure.cause {
            Cause::Reply(reply) => Some(reply.code),
            Cause::Answer(answer) => Some(answer.status),
            _ => None,
        };
        let is_uncertain =
            failure.stage.is_past_gate() && code.is_none_or(|code| !(400..=599).contains(&code));
        if !is_uncertain
            && let Some(rule) = self.overrides.iter().find(|rule| rule.matches(failure))
        {
            let mut verdict = rule.verdict(failure);
            // To try again does not change what it says about the way out.
            if rule.retry {
                verdict.fault = Self::built_in(failure).fault;
            }
            return verdict;
        }
        Self::built_in(failure)
    }

    fn built_in(failure: &Failure) -> Verdict {
        let rules = match failure.answer() {
            Some(_) => HTTP_RULES,
            None => RULES,
        };
        let rule = rules.iter().find(|rule| rule.matches(failure));
        // The last rules match every reply and every cause: the table's own test proves it.
        rule.unwrap_or(&rules[rules.len() - 1]).verdict(failure)
    }
}
