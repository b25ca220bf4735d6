//! What a failure means: the verdict that decides what happens next.
//!
//! Rules are data, in order: rules from the configuration, rules for failures without a reply,
//! then enhanced codes, then basic codes, then the default. See [`table`] for the rules. Nothing
//! here looks at a message's text except where a rule names one on purpose.

mod floor;
mod rule;
mod table;

use std::time::Duration;

pub use floor::floor_in;
pub use rule::{CauseKind, EnhancedPattern, Rule, RuleOverride, Stages};
pub use table::RULES;

use crate::attempt::Failure;
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
        // After the final dot, only the server's own "no" is certain. No rule overrides that.
        let is_uncertain = failure.stage.is_past_gate()
            && failure
                .reply()
                .is_none_or(|reply| !(400..=599).contains(&reply.code));
        if !is_uncertain
            && let Some(rule) = self.overrides.iter().find(|rule| rule.matches(failure))
        {
            return rule.verdict(failure);
        }
        let rule = RULES.iter().find(|rule| rule.matches(failure));
        // The last rules match every reply and every cause: the table's own test proves it.
        rule.unwrap_or(&RULES[RULES.len() - 1]).verdict(failure)
    }
}
