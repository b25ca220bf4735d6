//! Counters made into numbers, the same for every dialect.
//!
//! A dialect keeps how many emails went from one state to another in each minute, and adds these
//! lines up by their two ends. What they mean is decided here.

use std::collections::BTreeMap;

use posthaste_core::lifecycle::Event;
use posthaste_core::port::{Statistics, Violation};
use posthaste_core::status::{Status, UnknownName};

/// Minutes are kept for this long, then they are added up by the quarter of an hour. All rows are
/// added up again and again, so that there must never be many.
pub(crate) const MINUTES_KEPT: i64 = 2 * 60;
/// How many minutes a quarter of an hour has.
pub(crate) const QUARTER: i64 = 15;
/// Quarters are kept for this long (in minutes), which is as far back as anyone looks; then they are
/// added up into one number.
pub(crate) const QUARTERS_KEPT: i64 = 26 * 60;

/// The sum of all counters with the same two ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moves {
    /// Where the emails were; `None`: they were accepted.
    pub(crate) from: Option<Status>,
    /// Where they went; `None`: they were pruned.
    pub(crate) to: Option<Status>,
    /// How many ever.
    pub(crate) total: i64,
    /// How many in the last hour.
    pub(crate) hour: i64,
    /// How many in the last 24 hours.
    pub(crate) day: i64,
}

/// Reads a status, or the outside of the store.
pub(crate) fn place(text: &str) -> Result<Option<Status>, UnknownName> {
    if text.is_empty() {
        Ok(None)
    } else {
        text.parse().map(Some)
    }
}

/// The numbers that follow from all counters. What waits is not among them.
pub(crate) fn added_up(lines: impl IntoIterator<Item = Moves>) -> Statistics {
    let mut balances = BTreeMap::<Status, i64>::new();
    let mut found = Statistics::default();
    for line in lines {
        match line.from {
            Some(status) => *balances.entry(status).or_default() -= line.total,
            None => found.accepted += number(line.total),
        }
        match line.to {
            Some(status) => *balances.entry(status).or_default() += line.total,
            None => found.pruned += number(line.total),
        }
        match (line.from, line.to) {
            (_, Some(Status::Sent)) => {
                found.sent_last_hour += number(line.hour);
                found.sent_last_day += number(line.day);
            }
            // A restored one did not die again.
            (Some(Status::Discarded), Some(Status::Dead)) => {}
            (_, Some(Status::Dead)) => found.dead_last_day += number(line.day),
            _ => {}
        }
    }
    found.by_status = Status::ALL
        .iter()
        .map(|status| {
            let balance = balances.get(status).copied().unwrap_or(0);
            (*status, number(balance))
        })
        .collect();
    found
}

/// Where the counters and the rows disagree.
pub(crate) fn disagreements(counted: &Statistics, rows: &BTreeMap<Status, u64>) -> Vec<Violation> {
    let breach = |detail| Violation {
        invariant: "I1",
        detail,
    };
    let mut found = Vec::new();
    for status in Status::ALL {
        let n = counted.by_status.get(status).copied().unwrap_or(0);
        let there = rows.get(status).copied().unwrap_or(0);
        if n != there {
            found.push(breach(format!(
                "the counters say that {n} emails are {status}, the rows say {there}"
            )));
        }
    }
    let there: u64 = rows.values().sum();
    if counted.accepted != there + counted.pruned {
        found.push(breach(format!(
            "{} emails were accepted, but {there} are there and {} were pruned",
            counted.accepted, counted.pruned
        )));
    }
    found
}

/// A number of emails is never below zero.
pub(crate) fn number(n: i64) -> u64 {
    u64::try_from(n).unwrap_or(0)
}

/// The steps as they are counted. One that is parked was not tried: it has not failed, but goes back
/// to where it was and waits from there.
pub(crate) fn counted_steps(
    from: Status,
    event: &Event<'_>,
    to: Status,
) -> impl Iterator<Item = (Status, Status)> {
    let (first, second) = match event {
        Event::Park { .. } => ((from, Status::Pending), Some((Status::Pending, to))),
        _ => ((from, to), None),
    };
    std::iter::once(first).chain(second)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moves(from: Option<Status>, to: Option<Status>, total: i64, hour: i64, day: i64) -> Moves {
        Moves {
            from,
            to,
            total,
            hour,
            day,
        }
    }

    #[test]
    fn what_came_in_is_where_it_went_last() {
        use Status::{Dead, Discarded, Pending, Sending, Sent};
        let numbers = added_up([
            moves(None, Some(Pending), 10, 1, 5),
            moves(Some(Pending), Some(Sending), 9, 0, 0),
            moves(Some(Sending), Some(Sent), 6, 2, 4),
            moves(Some(Sending), Some(Dead), 3, 1, 2),
            moves(Some(Dead), Some(Discarded), 2, 0, 0),
            moves(Some(Discarded), Some(Dead), 1, 1, 1),
            moves(Some(Sent), None, 5, 0, 0),
        ]);
        assert_eq!((numbers.accepted, numbers.pruned), (10, 5));
        assert_eq!((numbers.sent_last_hour, numbers.sent_last_day), (2, 4));
        assert_eq!(numbers.dead_last_day, 2, "a restored one did not die again");
        let expected = BTreeMap::from([(Pending, 1), (Sent, 1), (Dead, 2), (Discarded, 1)]);
        let found: BTreeMap<_, _> = numbers.by_status.iter().filter(|(_, n)| **n > 0).collect();
        assert_eq!(found, expected.iter().collect());
        assert_eq!(numbers.by_status.len(), Status::ALL.len());
        assert_eq!(disagreements(&numbers, &expected), []);
    }

    #[test]
    fn a_row_too_many_is_told_by_its_state_and_by_the_sum() {
        let numbers = added_up([moves(None, Some(Status::Pending), 1, 0, 0)]);
        let rows = BTreeMap::from([(Status::Pending, 2)]);
        assert_eq!(disagreements(&numbers, &rows).len(), 2);
    }
}
