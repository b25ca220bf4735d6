//! What was measured, whose it was, and what was promised about it.
//!
//! A [`Figure`] is one thing measured several times; a [`Claim`] holds two figures, or one, against
//! a limit; a [`Section`] is what one subcommand found; a [`Report`] is a whole run. They judge
//! nothing on their own: machines are noisy, so both sides of a ratio come from the same rounds.

mod chart;
mod claim;
mod latency;
mod machine;
mod markdown;
mod report;
mod table;

use serde::{Deserialize, Serialize};

pub(crate) use self::claim::{Claim, Limit};
pub(crate) use self::latency::{Histogram, Latency};
pub(crate) use self::machine::Machine;
pub(crate) use self::report::{Outputs, Report};

use crate::processor::Usage;

/// Whose figure it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Who {
    /// Ours.
    Posthaste,
    /// The least code that does the same durable work, without our guarantees.
    Probe,
    /// Another program, by its name.
    Peer(String),
}

impl Who {
    /// Its name in tables.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Posthaste => "Posthaste",
            Self::Probe => "probe",
            Self::Peer(name) => name,
        }
    }
}

/// What kind of work it is. Figures of one kind may be held against each other, others may not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// Emails taken in and stored; nothing is delivered meanwhile.
    Accept,
    /// Emails taken in and delivered at the same time.
    Live,
    /// A backlog delivered; nothing is taken in meanwhile.
    Drain,
    /// Rows that are due, claimed and published.
    Retries,
    /// Messages of other services, put back.
    Messages,
    /// Cost beside many old rows.
    History,
    /// Memory, idle processor time, start.
    Footprint,
}

impl Kind {
    /// In one word.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Live => "live",
            Self::Drain => "drain",
            Self::Retries => "retries",
            Self::Messages => "messages",
            Self::History => "history",
            Self::Footprint => "footprint",
        }
    }

    /// Its heading.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Accept => "Accept, durable",
            Self::Live => "End to end, live: accepting while delivering",
            Self::Drain => "Draining a backlog",
            Self::Retries => "Retries claimed and published",
            Self::Messages => "Messages of other services put back",
            Self::History => "Cost beside old rows",
            Self::Footprint => "Memory, idle and start",
        }
    }
}

/// Which way is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Better {
    /// A rate.
    Higher,
    /// A cost.
    Lower,
}

/// One thing that was measured, several times.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Figure {
    /// What was measured, such as `SQLite`.
    pub(crate) name: String,
    /// The kind of work.
    pub(crate) kind: Kind,
    /// Whose it is.
    pub(crate) who: Who,
    /// Such as `email/s`.
    pub(crate) unit: String,
    /// Which way is good.
    pub(crate) better: Better,
    /// What each round gave, in the order of the rounds.
    pub(crate) runs: Vec<f64>,
    /// Processor time of each process, in percent of one core, of the last round.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) processors: Vec<(String, f64)>,
    /// Bytes that each email cost, by what they are, such as `WAL`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) bytes_per_email: Vec<(String, f64)>,
    /// How long single requests took; the median round by its 99th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) latency: Option<Latency>,
    /// What a reader must know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<String>,
}

impl Figure {
    /// A rate: more of it is better.
    pub(crate) fn rate(kind: Kind, who: Who, name: &str, unit: &str, runs: Vec<f64>) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            who,
            unit: unit.to_owned(),
            better: Better::Higher,
            runs,
            processors: Vec::new(),
            bytes_per_email: Vec::new(),
            latency: None,
            note: None,
        }
    }

    /// A cost: less of it is better.
    pub(crate) fn cost(kind: Kind, who: Who, name: &str, unit: &str, runs: Vec<f64>) -> Self {
        Self {
            better: Better::Lower,
            ..Self::rate(kind, who, name, unit, runs)
        }
    }

    /// With the processor time of a round.
    pub(crate) fn with_usage(mut self, usage: &Usage) -> Self {
        self.processors = usage.percentages();
        self
    }

    /// With bytes that each email cost.
    pub(crate) fn with_bytes(mut self, what: &str, per_email: f64) -> Self {
        self.bytes_per_email.push((what.to_owned(), per_email));
        self
    }

    /// With how long single requests took.
    pub(crate) fn with_latency(mut self, latency: Latency) -> Self {
        self.latency = Some(latency);
        self
    }

    /// With what a reader must know.
    pub(crate) fn with_note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    /// The middle of the rounds.
    pub(crate) fn median(&self) -> f64 {
        median(&self.runs)
    }

    /// The lowest round.
    pub(crate) fn lowest(&self) -> f64 {
        self.runs.iter().copied().fold(f64::NAN, f64::min)
    }

    /// The highest round.
    pub(crate) fn highest(&self) -> f64 {
        self.runs.iter().copied().fold(f64::NAN, f64::max)
    }
}

/// What one subcommand found.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Section {
    /// Its heading.
    pub(crate) title: String,
    /// What was measured.
    pub(crate) figures: Vec<Figure>,
    /// What was promised about it.
    pub(crate) claims: Vec<Claim>,
    /// What was left out, and why; which servers were used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) notes: Vec<String>,
}

impl Section {
    /// With nothing in it yet.
    pub(crate) fn titled(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            ..Self::default()
        }
    }

    /// The figure of someone by its name, if it was measured.
    pub(crate) fn figure(&self, kind: Kind, who: &Who, name: &str) -> Option<&Figure> {
        let is_it = |f: &&Figure| f.kind == kind && f.who == *who && f.name == name;
        self.figures.iter().find(is_it)
    }
}

/// The middle of some values; the mean of the middle two if their number is even.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        length if length % 2 == 1 => sorted[length / 2],
        length => f64::midpoint(sorted[length / 2 - 1], sorted[length / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_does_not_depend_on_the_order() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(&[7.0]), 7.0);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn the_spread_of_a_figure_is_that_of_its_rounds() {
        let runs = vec![30.0, 10.0, 20.0];
        let figure = Figure::rate(Kind::Live, Who::Posthaste, "SQLite", "email/s", runs);
        let spread = (figure.median(), figure.lowest(), figure.highest());
        assert_eq!(spread, (20.0, 10.0, 30.0));
    }
}
