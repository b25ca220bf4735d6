//! From verdicts to what happens next: the pure step between an attempt and its record.

use std::time::Duration;

use crate::attempt::{Cause, Failure, Stage};
use crate::classification::{Classifier, Verdict};
use crate::email::{Recipient, RecipientStatus};
use crate::fingerprint::fingerprint;
use crate::lifecycle::State;
use crate::reply::Reply;
use crate::retry_policy::{OnUnknown, RetryPolicy};
use crate::status::{DeadReason, Outcome};

/// What became of one recipient in one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecipientResult {
    /// The server took responsibility.
    Accepted(Reply),
    /// It did not, or may not have.
    Failed(Failure),
}

/// What is known of the email when its attempt ends.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    /// Counted attempts so far, without this one.
    pub attempt_count: u32,
    /// Whether this one counts.
    pub is_counted: bool,
    /// Whether the first one was made while the caller waited. It is not counted, but what comes
    /// after it waits as after any failure.
    pub inline: bool,
    /// How many may fail.
    pub max_attempts: u32,
    /// Attempts of unknown fate so far, without this one.
    pub unknown_count: u32,
    /// How long the email is still of use.
    pub expires_in: Option<Duration>,
}

impl Budget {
    /// What is known of an email whose attempt ends in this state.
    #[must_use]
    pub const fn of(state: &State, max_attempts: u32, expires_in: Option<Duration>) -> Self {
        Self {
            attempt_count: state.attempt_count,
            is_counted: state.counts_attempt(),
            inline: state.inline,
            max_attempts,
            unknown_count: state.unknown_count,
            expires_in,
        }
    }

    /// The same of one whose last attempt is already on record as of unknown fate: as it was
    /// before that attempt.
    #[must_use]
    pub fn before_unknown(state: &State, max_attempts: u32, expires_in: Option<Duration>) -> Self {
        let known = Self::of(state, max_attempts, expires_in);
        let counted = u32::from(known.is_counted);
        Self {
            attempt_count: known.attempt_count.saturating_sub(counted),
            unknown_count: known.unknown_count.saturating_sub(1),
            ..known
        }
    }

    /// Counted attempts, with this one if it counts.
    fn spent(&self) -> u32 {
        self.attempt_count
            .saturating_add(u32::from(self.is_counted))
    }

    /// Which failure this one is, for how long to wait after it: 1 for the first.
    fn failure(&self) -> u32 {
        self.spent().saturating_add(u32::from(self.inline))
    }
}

/// What happens next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Conclusion {
    /// Done: every recipient was accepted.
    Sent,
    /// Another attempt after this delay.
    Retry {
        /// How long to wait.
        delay: Duration,
        /// Whether the attempt that ended may have sent it.
        possible_duplicate: bool,
    },
    /// Given up.
    Dead(DeadReason),
    /// Nobody knows; it waits for late proof or an operator.
    Hold,
}

/// How an attempt ended, ready to be recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// What happens next.
    pub conclusion: Conclusion,
    /// How the attempt ended.
    pub outcome: Outcome,
    /// The rule that decided.
    pub error_class: Option<String>,
    /// What went wrong, for people.
    pub error: Option<String>,
    /// Groups errors that differ only in details.
    pub fingerprint: Option<String>,
    /// How far the conversation had got when it failed.
    pub stage: Option<Stage>,
    /// The server's reply, word for word.
    pub reply: Option<String>,
    /// Where every recipient stands now; empty while all stand the same.
    pub recipients: Vec<Recipient>,
}

/// What to do about an email of unknown fate.
#[must_use]
pub fn settle_unknown(budget: &Budget, policy: &RetryPolicy, random: f64) -> Conclusion {
    resend_or_hold(budget, policy, random, None)
}

fn resend_or_hold(
    budget: &Budget,
    policy: &RetryPolicy,
    random: f64,
    floor: Option<Duration>,
) -> Conclusion {
    let delay = policy.delay(budget.failure(), random, floor);
    let may_resend = policy.on_unknown == OnUnknown::Resend
        && budget.unknown_count < policy.max_unknown_resends
        && budget.spent() < budget.max_attempts
        && budget.expires_in.is_none_or(|left| delay < left);
    if may_resend {
        Conclusion::Retry {
            delay,
            possible_duplicate: true,
        }
    } else {
        Conclusion::Hold
    }
}

/// Decides what happens after an attempt. `before` is where each recipient stood when it began;
/// `results` belongs to those that were waiting, in their order.
#[must_use]
pub fn decide(
    before: &[Recipient],
    results: &[RecipientResult],
    classifier: &Classifier,
    policy: &RetryPolicy,
    budget: &Budget,
    random: f64,
) -> Decision {
    let mut recipients = before.to_vec();
    let mut gravest: Option<(Verdict, &Failure)> = None;
    let mut floor = None;
    let mut last_reply = None;
    let waiting = recipients
        .iter_mut()
        .filter(|r| r.status == RecipientStatus::Waiting);
    // A transport that says nothing of a recipient may have done anything.
    let silence = Cause::Protocol("the transport gave no result".to_owned());
    let silence = RecipientResult::Failed(Failure::new(Stage::FinalDot, silence));
    let results = results.iter().chain(std::iter::repeat(&silence));
    for (recipient, result) in waiting.zip(results) {
        match result {
            RecipientResult::Accepted(reply) => {
                recipient.status = RecipientStatus::Accepted;
                recipient.detail = Some(reply.to_string());
                last_reply = Some(reply.to_string());
            }
            RecipientResult::Failed(failure) => {
                let verdict = classifier.classify(failure);
                floor = floor.max(verdict.floor);
                recipient.detail = Some(failure.to_string());
                if verdict.outcome == Outcome::Permanent {
                    recipient.status = RecipientStatus::Dead;
                    recipient.reason = verdict.dead_reason;
                }
                if gravest
                    .as_ref()
                    .is_none_or(|(known, _)| weight(&verdict) > weight(known))
                {
                    gravest = Some((verdict, failure));
                }
            }
        }
    }
    let Some((verdict, failure)) = gravest else {
        // Others may have died in earlier attempts: then it was delivered to some of them only.
        let dead = recipients
            .iter()
            .find(|r| r.status == RecipientStatus::Dead);
        let conclusion = dead.map_or(Conclusion::Sent, |recipient| {
            Conclusion::Dead(recipient.reason.unwrap_or(DeadReason::HardBounce))
        });
        return Decision {
            conclusion,
            outcome: Outcome::Sent,
            error_class: None,
            error: None,
            fingerprint: None,
            stage: None,
            reply: last_reply,
            recipients: differing(before, recipients),
        };
    };
    let conclusion = match verdict.outcome {
        Outcome::Unknown => resend_or_hold(budget, policy, random, floor),
        Outcome::Permanent => {
            Conclusion::Dead(verdict.dead_reason.unwrap_or(DeadReason::MessageRejected))
        }
        _ if budget.spent() >= budget.max_attempts => {
            Conclusion::Dead(DeadReason::MaxAttemptsExceeded)
        }
        _ => {
            let delay = policy.delay(budget.failure(), random, floor);
            if budget.expires_in.is_some_and(|left| delay >= left) {
                Conclusion::Dead(DeadReason::Expired)
            } else {
                Conclusion::Retry {
                    delay,
                    possible_duplicate: false,
                }
            }
        }
    };
    if let Conclusion::Dead(reason) = conclusion {
        for recipient in recipients
            .iter_mut()
            .filter(|r| r.status == RecipientStatus::Waiting)
        {
            recipient.status = RecipientStatus::Dead;
            recipient.reason = Some(reason);
        }
    }
    let error = failure.to_string();
    Decision {
        conclusion,
        outcome: verdict.outcome,
        error_class: Some(verdict.rule),
        fingerprint: Some(fingerprint(&error)),
        error: Some(error),
        stage: Some(failure.stage),
        reply: failure.reply().map(ToString::to_string).or(last_reply),
        recipients: differing(before, recipients),
    }
}

/// Recipients that still wait decide over those that are given up: something is left to do.
fn weight(verdict: &Verdict) -> u8 {
    match verdict.outcome {
        Outcome::Unknown => 3,
        Outcome::Transient => 2,
        _ => 1,
    }
}

/// Recipients are recorded one by one only once they differ, and from then on. Only those that
/// were recorded bring details along.
fn differing(before: &[Recipient], after: Vec<Recipient>) -> Vec<Recipient> {
    let were_recorded = before.iter().any(|recipient| recipient.detail.is_some());
    let standing = |recipient: &Recipient| (recipient.status, recipient.reason);
    let alike = |pair: &[Recipient]| standing(&pair[0]) == standing(&pair[1]);
    if were_recorded || !before.windows(2).all(alike) || !after.windows(2).all(alike) {
        after
    } else {
        Vec::new()
    }
}
