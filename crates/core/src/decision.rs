//! From verdicts to what happens next: the pure step between an attempt and its record.

use std::sync::LazyLock;
use std::time::Duration;

use crate::Timestamp;
use crate::attempt::{Cause, Failure, Stage};
use crate::classification::{Certainty, Classifier, Fault, Reach, Verdict};
use crate::email::{Recipient, RecipientStatus};
use crate::fingerprint::fingerprint;
use crate::lifecycle::State;
use crate::reply::Reply;
use crate::retry_policy::{OnUnknown, RetryPolicy};
use crate::status::{DeadReason, Outcome};

/// What a server said when it took responsibility.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// Its words.
    pub text: String,
    /// What it calls the message from now on, for when it speaks of it later.
    pub provider_id: Option<String>,
}

impl From<Reply> for Receipt {
    fn from(reply: Reply) -> Self {
        Self {
            text: reply.to_string(),
            provider_id: None,
        }
    }
}

/// What became of one recipient in one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecipientResult {
    /// The server took responsibility.
    Accepted(Receipt),
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
    /// It waits until these ways out are free again.
    Park(Parking),
    /// Another way out is tried at once.
    Elsewhere,
}

/// Where an email waits that cannot leave now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parking {
    /// Which ways out must be free again: one of these. See [`crate::way::WayName`].
    pub waiting_for: String,
    /// Not before this time from now, as the server asked.
    pub floor: Duration,
    /// When it becomes too late to be of use.
    pub waits_until: Option<Timestamp>,
}

/// What a failure says about more than its email.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Judgement {
    /// How far it reaches.
    pub reach: Reach,
    /// Whom it speaks about.
    pub fault: Fault,
    /// Whether the message left.
    pub certainty: Certainty,
    /// Whether another attempt may be a second copy: the message may have left, and the server would
    /// not know it again.
    pub may_double: bool,
    /// The earliest next attempt the server allows, from now.
    pub floor: Option<Duration>,
    /// Whether the server says that we send too much at once.
    pub asks_for_less: bool,
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
    /// What the provider calls the message that it took.
    pub provider_id: Option<String>,
    /// Where every recipient stands now; empty while all stand the same.
    pub recipients: Vec<Recipient>,
    /// Places of recipients that failed, but not for good and by themselves: given up with the email,
    /// or by the fault of the way out.
    pub blameless: Vec<usize>,
    /// Whether it failed by no fault of the email's, and so spends nothing of its budget.
    pub is_free: bool,
    /// What the failure says about more than this email.
    pub judgement: Option<Judgement>,
}

impl Decision {
    /// A decision without further words.
    #[must_use]
    pub const fn new(conclusion: Conclusion, outcome: Outcome) -> Self {
        Self {
            conclusion,
            outcome,
            error_class: None,
            error: None,
            fingerprint: None,
            stage: None,
            reply: None,
            provider_id: None,
            recipients: Vec::new(),
            blameless: Vec::new(),
            is_free: false,
            judgement: None,
        }
    }

    /// Whether further attempts must take the same way out: this one may have sent the message.
    #[must_use]
    pub fn binds(&self) -> bool {
        let judged = self.judgement.map(|judgement| judgement.certainty);
        self.outcome == Outcome::Unknown || judged == Some(Certainty::Unknown)
    }

    /// Whether the email waits for another attempt that is certain to be its only copy, so that
    /// how the failed one is to be taken is open.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.outcome == Outcome::Transient && !self.binds()
    }

    /// Whether another attempt may be a second copy. Such an attempt has its price, whoever failed.
    #[must_use]
    pub fn may_double(&self) -> bool {
        let judged = self.judgement.is_some_and(|judgement| judgement.may_double);
        self.outcome == Outcome::Unknown || judged
    }

    /// The same failure, but the way out is what failed: the email waits for it and spends nothing.
    #[must_use]
    pub fn parked(self, parking: Parking) -> Self {
        Self {
            conclusion: Conclusion::Park(parking),
            outcome: Outcome::Transient,
            is_free: true,
            ..self.waiting_again()
        }
    }

    /// The same failure, but another way out is tried before anything is spent.
    #[must_use]
    pub fn failed_over(self) -> Self {
        Self {
            conclusion: Conclusion::Elsewhere,
            is_free: true,
            ..self.waiting_again()
        }
    }

    /// Recipients that were given up with the email, or by the fault of the way out, wait again now
    /// that it does. Those that were accepted or refused for themselves stay so: nobody gets it
    /// twice.
    fn waiting_again(mut self) -> Self {
        for place in std::mem::take(&mut self.blameless) {
            if let Some(recipient) = self.recipients.get_mut(place) {
                recipient.status = RecipientStatus::Waiting;
                recipient.reason = None;
            }
        }
        self
    }
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

/// A transport that says nothing of a recipient may have done anything.
static SILENCE: LazyLock<RecipientResult> = LazyLock::new(|| {
    let silence = Cause::Protocol("the transport gave no result".to_owned());
    RecipientResult::Failed(Failure::new(Stage::FinalDot, silence))
});

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
    // What one recipient says about the way out is not hidden by what is wrong with another.
    let mut furthest: Option<Verdict> = None;
    let mut floor = None;
    let mut last_reply = None;
    let mut provider_id = None;
    let mut may_double = false;
    let mut blameless = Vec::new();
    let waiting = recipients
        .iter_mut()
        .enumerate()
        .filter(|(_, r)| r.status == RecipientStatus::Waiting);
    let results = results.iter().map(Some).chain(std::iter::repeat(None));
    for ((place, recipient), result) in waiting.zip(results) {
        match result.unwrap_or_else(|| &SILENCE) {
            RecipientResult::Accepted(receipt) => {
                recipient.status = RecipientStatus::Accepted;
                recipient.detail = Some(receipt.text.clone());
                last_reply = Some(receipt.text.clone());
                provider_id = provider_id.or_else(|| receipt.provider_id.clone());
            }
            RecipientResult::Failed(failure) => {
                let verdict = classifier.classify(failure);
                floor = floor.max(verdict.floor);
                recipient.detail = Some(failure.to_string());
                may_double |= verdict.certainty == Certainty::Unknown
                    && !matches!(failure.cause, Cause::AnswerLost(_));
                if verdict.outcome == Outcome::Permanent {
                    recipient.status = RecipientStatus::Dead;
                    recipient.reason = verdict.dead_reason;
                }
                if verdict.outcome != Outcome::Permanent || verdict.reach() > Reach::Email {
                    blameless.push(place);
                }
                if furthest
                    .as_ref()
                    .is_none_or(|known| verdict.reach() > known.reach())
                {
                    furthest = Some(verdict.clone());
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
            reply: last_reply,
            provider_id,
            recipients: differing(before, recipients),
            ..Decision::new(conclusion, Outcome::Sent)
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
            fitted(delay, floor, budget.expires_in).map_or(
                Conclusion::Dead(DeadReason::Expired),
                |delay| Conclusion::Retry {
                    delay,
                    possible_duplicate: may_double,
                },
            )
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
    let said = match &failure.cause {
        Cause::Reply(reply) => Some(reply.to_string()),
        Cause::Answer(answer) => Some(answer.to_string()),
        _ => None,
    };
    let about_way = furthest.as_ref().unwrap_or(&verdict);
    Decision {
        judgement: Some(Judgement {
            reach: about_way.reach(),
            fault: about_way.fault,
            certainty: verdict.certainty,
            may_double,
            floor,
            asks_for_less: about_way.asks_for_less || verdict.asks_for_less,
        }),
        error_class: Some(verdict.rule),
        fingerprint: Some(fingerprint(&error)),
        error: Some(error),
        stage: Some(failure.stage),
        reply: said.or(last_reply),
        provider_id,
        recipients: differing(before, recipients),
        blameless,
        ..Decision::new(conclusion, verdict.outcome)
    }
}

/// An attempt begins at least this long before its email becomes useless.
const BEFORE_THE_END: Duration = Duration::from_secs(5);

/// The delay, or a shorter one if the attempt would come too late: the last one is made while it is
/// still of use, though not before the server wants it. `None` if there is no time for another.
fn fitted(delay: Duration, floor: Option<Duration>, left: Option<Duration>) -> Option<Duration> {
    match left {
        None => Some(delay),
        Some(left) if delay < left => Some(delay),
        // Twice the time, so that the one before the end is the last.
        Some(left) if left >= BEFORE_THE_END * 2 => {
            let last = left - BEFORE_THE_END;
            floor.is_none_or(|floor| floor <= last).then_some(last)
        }
        Some(_) => None,
    }
}

/// Recipients that still wait decide over those that are given up: something is left to do. Of
/// these, one that may have got it decides over one that certainly has not.
fn weight(verdict: &Verdict) -> (u8, bool) {
    let of_outcome = match verdict.outcome {
        Outcome::Unknown => 3,
        Outcome::Transient => 2,
        _ => 1,
    };
    (of_outcome, verdict.certainty == Certainty::Unknown)
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
