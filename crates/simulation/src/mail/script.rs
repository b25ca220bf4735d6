//! What the mail server does in one conversation.

use std::time::Duration;

use posthaste_core::attempt::{Cause, Failure, Stage};
use posthaste_core::reply::Reply;

use crate::nature::Nature;
use crate::plan::MailRates;

/// How a conversation ends that does not end well.
#[derive(Debug, Clone)]
pub(super) enum End {
    /// It ends well.
    Well,
    /// Before any recipient was named, after so long.
    BeforeRecipients(Failure, Duration),
    /// After that, and before the dot.
    BeforeDot(Failure, Duration),
    /// After the dot; whether the message was taken.
    AfterDot(Failure, bool),
}

/// One conversation.
#[derive(Debug, Clone)]
pub(super) struct Script {
    /// How long it takes to begin.
    pub(super) pause: Duration,
    /// How long the body takes.
    pub(super) slow_before: Duration,
    /// How long the answer to the dot takes.
    pub(super) slow_after: Duration,
    /// How it ends.
    pub(super) end: End,
    refusals: Vec<Option<Failure>>,
}

fn said(stage: Stage, code: u16, text: &str) -> Failure {
    Failure::new(stage, Cause::Reply(Reply::new(code, text)))
}

impl Script {
    /// What happens this time.
    pub(super) fn draw(nature: &Nature, rates: &MailRates, recipients: usize) -> Self {
        let slow = |fault| {
            let is_slow = nature.strikes(fault, rates.is_slow);
            nature.draw(|random| match is_slow {
                true => random.milliseconds(50, rates.slowness.max(50)),
                false => random.milliseconds(0, 4),
            })
        };
        let end = end(nature, rates);
        let is_silent =
            matches!(&end, End::AfterDot(failure, _) if failure.cause == Cause::Timeout);
        Self {
            pause: nature.draw(|random| random.milliseconds(0, 4)),
            slow_before: slow("mail: slow before the dot"),
            slow_after: if is_silent {
                deadline(nature)
            } else {
                slow("mail: slow after the dot")
            },
            end,
            refusals: (0..recipients).map(|_| refusal(nature, rates)).collect(),
        }
    }

    /// What is said about the recipient in this place.
    pub(super) fn refusal(&self, place: usize) -> Option<Failure> {
        self.refusals.get(place).cloned().flatten()
    }

    /// Whether the server takes the message when the dot comes.
    pub(super) const fn takes_it(&self) -> bool {
        matches!(self.end, End::Well | End::AfterDot(_, true))
    }
}

/// How long a client waits for an answer.
fn deadline(nature: &Nature) -> Duration {
    nature.draw(|random| random.milliseconds(1_000, 20_000))
}

fn end(nature: &Nature, rates: &MailRates) -> End {
    let moment = |most| nature.draw(|random| random.milliseconds(0, most));
    let deadline = || deadline(nature);
    let coin = || nature.draw(|random| random.happens(500));
    let strikes = |fault, rate| nature.strikes(fault, rate);
    if strikes("mail: connection refused", rates.refuses_connection) {
        return End::BeforeRecipients(Failure::new(Stage::Connect, Cause::Refused), moment(5));
    }
    if strikes("mail: hangs before the dot", rates.hangs) {
        let (first, second) = (Stage::Banner, Stage::Body);
        return if coin() {
            End::BeforeRecipients(Failure::new(first, Cause::Timeout), deadline())
        } else {
            End::BeforeDot(Failure::new(second, Cause::Timeout), deadline())
        };
    }
    if strikes("mail: says 4xx", rates.defers) {
        return match nature.draw(|random| random.below(4)) {
            0 => End::BeforeRecipients(said(Stage::MailFrom, 421, "4.3.2 Later"), moment(50)),
            1 => End::BeforeDot(said(Stage::Data, 451, "4.7.1 Greylisted"), moment(50)),
            2 => End::BeforeDot(said(Stage::Data, 452, "4.2.2 Mailbox full"), moment(50)),
            _ => End::AfterDot(said(Stage::FinalDot, 451, "4.3.0 Later"), false),
        };
    }
    if strikes("mail: says 5xx", rates.rejects) {
        return if coin() {
            End::BeforeDot(said(Stage::Data, 554, "5.6.0 No"), moment(50))
        } else {
            End::AfterDot(said(Stage::FinalDot, 554, "5.7.1 No"), false)
        };
    }
    if strikes("mail: drops before the dot", rates.drops_before) {
        return End::BeforeDot(Failure::new(Stage::Body, Cause::Disconnected), moment(500));
    }
    if strikes("mail: drops after the dot", rates.drops_after) {
        return End::AfterDot(Failure::new(Stage::FinalDot, Cause::Disconnected), coin());
    }
    if strikes("mail: never answers the dot", rates.hangs_after) {
        return End::AfterDot(Failure::new(Stage::FinalDot, Cause::Timeout), coin());
    }
    End::Well
}

fn refusal(nature: &Nature, rates: &MailRates) -> Option<Failure> {
    let refused = nature.strikes("mail: recipient refused", rates.mixes);
    refused.then(|| {
        let (code, text) = nature.draw(|random| match random.below(3) {
            0 => (550, "5.1.1 No such user"),
            1 => (450, "4.2.1 Busy"),
            _ => (451, "4.7.1 Greylisted"),
        });
        said(Stage::Recipient, code, text)
    })
}
