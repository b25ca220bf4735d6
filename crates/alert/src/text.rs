//! What alerts say, whoever is told.

use posthaste_core::alert::{Alert, AlertGroup, AlertReason};
use posthaste_core::fingerprint::normalise;

/// No more groups than this are told one by one; nobody reads further.
const MOST_GROUPS: usize = 10;
/// An error is told up to this many characters.
const MOST_ERROR: usize = 300;

/// The groups that are told one by one, ways out first, and how many others there are with how many
/// emails.
pub(crate) fn told_groups(alert: &Alert) -> (Vec<&AlertGroup>, Option<(usize, u64)>) {
    let deaths = alert.groups.iter().filter(|group| group.reason.is_death());
    let mut told: Vec<&AlertGroup> = alert.ways().chain(deaths).collect();
    let others = told.split_off(told.len().min(MOST_GROUPS));
    let dead = others.iter().filter(|group| group.reason.is_death());
    let emails = dead.map(|group| group.count).sum();
    (told, (!others.is_empty()).then_some((others.len(), emails)))
}

/// The error of a group without addresses and other details. What is said of a way out names nobody.
pub(crate) fn error_of(group: &AlertGroup) -> String {
    let error = match group.reason.is_death() {
        true => group.sample.as_deref().map(normalise).unwrap_or_default(),
        false => group.sample.clone().unwrap_or_default(),
    };
    if error.is_empty() {
        return group.reason.as_str().to_owned();
    }
    shortened(&error, MOST_ERROR)
}

/// How urgent an alert is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// Someone only wants to see it arrive.
    Test,
    /// A way out is stopped.
    Stopped,
    /// Emails died.
    Dead,
    /// Ways out take mail again, and that is all.
    Recovered,
}

/// What the most urgent thing in an alert is.
pub(crate) fn urgency(alert: &Alert) -> Urgency {
    let is_stop = |way: &AlertGroup| way.reason == AlertReason::TransportStopped;
    if alert.is_test {
        Urgency::Test
    } else if alert.ways().any(is_stop) {
        Urgency::Stopped
    } else if alert.count() == 0 && alert.ways().next().is_some() {
        Urgency::Recovered
    } else {
        Urgency::Dead
    }
}

/// At most so many characters.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(most.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// Where people can look, and what they find there: dead letters, or the overview if nothing died.
pub(crate) fn link(alert: &Alert) -> Option<(String, &'static str)> {
    let base = alert.dashboard_url.as_deref()?.trim_end_matches('/');
    let is_about_ways = alert.count() == 0 && alert.ways().next().is_some();
    Some(match is_about_ways {
        true => (format!("{base}/admin"), "Overview"),
        false => (format!("{base}/admin/dead-letters"), "Dead letters"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_at_a_character() {
        assert_eq!(shortened("wörter", 6), "wörter");
        assert_eq!(shortened("wörter", 3), "wö…");
    }
}
