//! What every store does with the word of `posthaste_core::message`, written once for all
//! dialects.
//!
//! A dialect reads states, asks these functions, and writes what they say.

use std::collections::BTreeMap;

use posthaste_core::Timestamp;
use posthaste_core::message::{
    Arrival, Failure, MessageAction, MessageId, MessagePolicy, MessageState, MessageStatus,
};
use posthaste_core::port::{MessageActed, Scheduled, Violation};

use crate::ledger::rounded_up;

/// By how much the number of messages in each state changes.
pub(crate) type Moves = BTreeMap<MessageStatus, i64>;

/// Counts a message that goes from one state to another; `None` is outside the store.
pub(crate) fn count(moves: &mut Moves, from: Option<MessageStatus>, to: Option<MessageStatus>) {
    for (status, n) in [(from, -1), (to, 1)] {
        if let Some(status) = status {
            *moves.entry(status).or_default() += n;
        }
    }
}

/// A message that a batch of failures changed, or brought.
pub(crate) struct Change<'a> {
    /// Its content from now on.
    pub(crate) failure: &'a Failure,
    /// Its state from now on.
    pub(crate) state: MessageState,
}

/// A batch of failures that arrived, and what became of each.
pub(crate) struct Batch<'a> {
    arrivals: &'a [Arrival],
    policy: &'a MessagePolicy,
    /// Where the failures of each message stand in the batch, in the order of their ids.
    places: BTreeMap<MessageId, Vec<usize>>,
    answers: Vec<Scheduled>,
}

impl<'a> Batch<'a> {
    pub(crate) fn new(arrivals: &'a [Arrival], policy: &'a MessagePolicy) -> Self {
        let mut places = BTreeMap::<_, Vec<usize>>::new();
        for (place, arrival) in arrivals.iter().enumerate() {
            let id = arrival.failure.message_id;
            places.entry(id).or_default().push(place);
        }
        Self {
            arrivals,
            policy,
            places,
            answers: vec![Scheduled::Duplicate; arrivals.len()],
        }
    }

    /// The messages it is about, each once and in order.
    pub(crate) fn ids(&self) -> Vec<MessageId> {
        self.places.keys().copied().collect()
    }

    /// What all failures of one message make of it, one after the other: `None` if they say
    /// nothing new. `known` is its state so far.
    pub(crate) fn decide(
        &mut self,
        id: MessageId,
        known: Option<&MessageState>,
        now: Timestamp,
    ) -> Option<Change<'a>> {
        let mut change: Option<Change<'a>> = None;
        for place in self.places.get(&id)? {
            let arrival = &self.arrivals[*place];
            let known = change.as_ref().map(|change| &change.state).or(known);
            let next = MessageState::after_arrival(known, arrival, self.policy, now).map(kept);
            self.answers[*place] = match next {
                None => Scheduled::Duplicate,
                Some(state) => {
                    change = Some(Change {
                        failure: &arrival.failure,
                        state: state.clone(),
                    });
                    Scheduled::Scheduled(state)
                }
            };
        }
        change
    }

    /// What became of each, in their order.
    pub(crate) fn into_answers(self) -> Vec<Scheduled> {
        self.answers
    }
}

/// A state as databases keep it: what must not be early is rounded up to whole microseconds.
pub(crate) fn kept(mut state: MessageState) -> MessageState {
    state.next_retry_at = rounded_up(state.next_retry_at);
    state
}

/// What becomes of a message when an operator acts, and its state if that changes.
pub(crate) fn act(
    known: Option<&MessageState>,
    action: MessageAction,
    now: Timestamp,
) -> (MessageActed, Option<MessageState>) {
    let Some(known) = known else {
        return (MessageActed::NotFound, None);
    };
    match known.acted(action, now).map(|next| next.map(kept)) {
        Ok(Some(next)) => (MessageActed::Done(next.status), Some(next)),
        Ok(None) => (MessageActed::Unchanged(known.status), None),
        Err(refusal) => (MessageActed::Refused(refusal, known.status), None),
    }
}

/// What the audit log says about it; nothing about a message that is not there.
pub(crate) const fn audited(acted: &MessageActed) -> Option<&'static str> {
    match acted {
        MessageActed::Done(status) => Some(status.as_str()),
        MessageActed::Unchanged(_) => Some("unchanged"),
        MessageActed::Refused(..) => Some("refused"),
        MessageActed::NotFound => None,
    }
}

/// The number for every state, from counters of some.
pub(crate) fn added_up(
    counters: impl IntoIterator<Item = (MessageStatus, i64)>,
) -> BTreeMap<MessageStatus, u64> {
    let mut sums: Moves = MessageStatus::ALL.iter().map(|s| (*s, 0)).collect();
    for (status, n) in counters {
        *sums.entry(status).or_default() += n;
    }
    sums.into_iter()
        .map(|(status, n)| (status, u64::try_from(n).unwrap_or(0)))
        .collect()
}

/// Where the counters and the rows disagree.
pub(crate) fn disagreements(
    counted: &BTreeMap<MessageStatus, u64>,
    rows: &BTreeMap<MessageStatus, u64>,
) -> Vec<Violation> {
    let number = |of: &BTreeMap<MessageStatus, u64>, status| of.get(&status).copied().unwrap_or(0);
    let disagreement = |status: &MessageStatus| {
        let (n, there) = (number(counted, *status), number(rows, *status));
        (n != there).then(|| Violation {
            invariant: "I1",
            detail: format!(
                "the counters say that {n} messages are {status}, the rows say {there}"
            ),
        })
    };
    MessageStatus::ALL.iter().filter_map(disagreement).collect()
}

/// A promise about the row of a message: its name, what is wrong with a row that breaks it, a
/// detail of that row, and the rows that do. Words that every dialect understands.
pub(crate) struct Check {
    pub(crate) invariant: &'static str,
    pub(crate) what: &'static str,
    pub(crate) detail: &'static str,
    pub(crate) breach: &'static str,
}

/// What holds for every message.
pub(crate) const CHECKS: [Check; 4] = [
    Check {
        invariant: "I1",
        what: "has an end although it waits, or none although it does not",
        detail: "status",
        breach: "(finished_at IS NULL) <> (status = 'pending')",
    },
    Check {
        invariant: "I4",
        what: "is over although nobody ever claimed it",
        detail: "status",
        breach: "status IN ('retried', 'failed') AND token < 1",
    },
    Check {
        invariant: "I5",
        what: "is claimed although it does not wait",
        detail: "status",
        breach: "locked_until IS NOT NULL AND status <> 'pending'",
    },
    Check {
        invariant: "I7",
        what: "was put back, but that was not counted",
        detail: "retry_count || ' retries'",
        breach: "status = 'retried' AND retry_count < 1",
    },
];
