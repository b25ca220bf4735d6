//! What alerts say, whoever is told.

use posthaste_core::alert::{Alert, AlertGroup};
use posthaste_core::fingerprint::normalise;

/// No more groups than this are told one by one; nobody reads further.
const MOST_GROUPS: usize = 10;
/// An error is told up to this many characters.
const MOST_ERROR: usize = 300;

/// The groups that are told one by one, and how many others there are with how many emails.
pub(crate) fn told_groups(alert: &Alert) -> (&[AlertGroup], Option<(usize, u64)>) {
    let (told, others) = alert.groups.split_at(alert.groups.len().min(MOST_GROUPS));
    let emails = others.iter().map(|group| group.count).sum();
    (told, (!others.is_empty()).then_some((others.len(), emails)))
}

/// The error of a group without addresses and other details.
pub(crate) fn error_of(group: &AlertGroup) -> String {
    let error = group.sample.as_deref().map(normalise).unwrap_or_default();
    if error.is_empty() {
        return group.reason.as_str().to_owned();
    }
    shortened(&error, MOST_ERROR)
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

/// Where people can look at dead letters.
pub(crate) fn link(alert: &Alert) -> Option<String> {
    let base = alert.dashboard_url.as_deref()?;
    Some(format!("{}/admin/dead-letters", base.trim_end_matches('/')))
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
