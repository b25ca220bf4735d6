//! The rounds of one contender.

use crate::figures::{Figure, Kind, Latency, Who};
use crate::processor::Usage;

/// What one round gave.
#[derive(Debug, Clone)]
pub(crate) struct Round {
    /// In a second.
    pub(crate) rate: f64,
    /// How long single requests took.
    pub(crate) latency: Option<Latency>,
    /// Who used the processors.
    pub(crate) usage: Usage,
    /// Bytes for each email, and what they are.
    pub(crate) bytes: Option<(&'static str, f64)>,
}

/// All rounds, in their order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Series {
    rounds: Vec<Round>,
}

impl Series {
    /// One more.
    pub(crate) fn push(&mut self, round: Round) {
        self.rounds.push(round);
    }

    /// The rates.
    pub(crate) fn rates(&self) -> Vec<f64> {
        self.rounds.iter().map(|round| round.rate).collect()
    }

    /// The 99th percentiles, in milliseconds.
    pub(crate) fn p99_ms(&self) -> Vec<f64> {
        let latencies = self.rounds.iter().filter_map(|round| round.latency);
        latencies.map(|latency| latency.p99_ms).collect()
    }

    /// The round in the middle by its 99th percentile.
    fn latency(&self) -> Option<Latency> {
        let mut all: Vec<Latency> = self.rounds.iter().filter_map(|r| r.latency).collect();
        all.sort_by(|a, b| a.p99_ms.total_cmp(&b.p99_ms));
        all.get(all.len() / 2).copied()
    }

    /// The 99th percentiles as a figure of a report.
    pub(crate) fn p99_figure(&self, kind: Kind, who: Who, name: &str) -> Figure {
        let figure = Figure::cost(kind, who, name, "ms", self.p99_ms());
        let offered = crate::figures::median(&self.rates());
        let figure = figure.with_note(format!("{offered:.0} requests in a second"));
        match self.latency() {
            Some(latency) => figure.with_latency(latency),
            None => figure,
        }
    }

    /// As a figure of a report; the processors of the last round.
    pub(crate) fn figure(&self, kind: Kind, who: Who, name: &str, unit: &str) -> Figure {
        let mut figure = Figure::rate(kind, who, name, unit, self.rates());
        if let Some(latency) = self.latency() {
            figure = figure.with_latency(latency);
        }
        if let Some(last) = self.rounds.last() {
            figure = figure.with_usage(&last.usage);
        }
        let bytes: Vec<f64> = self
            .rounds
            .iter()
            .filter_map(|r| Some(r.bytes?.1))
            .collect();
        if let Some((what, _)) = self.rounds.first().and_then(|round| round.bytes) {
            figure = figure.with_bytes(what, crate::figures::median(&bytes));
        }
        figure
    }
}
