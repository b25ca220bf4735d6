//! What every store does when a way out is told something, written once for all dialects.

use std::time::Duration;

use posthaste_core::Timestamp;
use posthaste_core::alert::AlertReason;
use posthaste_core::email::EmailId;
use posthaste_core::fingerprint::fingerprint;
use posthaste_core::port::Actor;
use posthaste_core::way::{
    BreakerRules, FaultNote, Way, WayAnswer, WayChange, WayEvent, WayName, WayNews,
};

use crate::ledger::rounded_up;

/// Of an error that people are told, so many characters.
const MOST_ERROR: usize = 200;

/// What has to be written because a way was told something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Told {
    /// How it does now.
    pub(crate) next: Way,
    /// The answer to whoever told it.
    pub(crate) answer: WayAnswer,
    /// Attempts that are not to be the emails' to bear.
    pub(crate) refunds: Vec<FaultNote>,
    /// What people are told.
    pub(crate) news: Option<News>,
    /// What the audit log says: the action and its result.
    pub(crate) audit: Option<(&'static str, &'static str)>,
    /// Whether others have to know at once.
    pub(crate) wakes: bool,
}

/// What people are told about a way, kept beside the deaths of emails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct News {
    /// The email that brought it to light.
    pub(crate) email: EmailId,
    /// What it is about.
    pub(crate) reason: AlertReason,
    /// Tells the news of one way from that of another.
    pub(crate) fingerprint: String,
    /// A sentence, without anyone's address.
    pub(crate) sentence: String,
}

impl Told {
    /// What an event makes of a way.
    pub(crate) fn new(
        name: &WayName,
        before: &Way,
        event: &WayEvent,
        rules: &BreakerRules,
        now: Timestamp,
    ) -> Self {
        let WayChange {
            mut next,
            answer,
            news,
            refunds,
        } = before.told(event, rules, now);
        keepable(&mut next);
        let news = news.and_then(|news| News::new(name, news, event, &next));
        let wakes = news.is_some()
            || before.condition != next.condition
            || before.paused_by != next.paused_by
            || (*event == WayEvent::Resume && answer == WayAnswer::Taken);
        Self {
            answer,
            refunds,
            news,
            audit: audit(event, answer, &next),
            wakes,
            next,
        }
    }

    /// Whether there is nothing to write about a way of which nothing was known before.
    #[cfg(feature = "postgres")]
    pub(crate) fn is_nothing(&self) -> bool {
        self.next.is_plain() && self.news.is_none() && self.refunds.is_empty()
    }

    /// The entry of the audit log: who, what, and what came of it.
    pub(crate) fn audited<'a>(
        &self,
        actor: Option<&'a Actor>,
    ) -> Option<(&'a str, &'static str, &'static str)> {
        let (action, result) = self.audit?;
        Some((&actor?.name, action, result))
    }
}

/// What an operator did. Everything else is no operator's doing.
fn audit(event: &WayEvent, answer: WayAnswer, next: &Way) -> Option<(&'static str, &'static str)> {
    let action = match event {
        WayEvent::Pause { .. } => "pause_transport",
        WayEvent::Resume => "resume_transport",
        _ => return None,
    };
    let result = match answer {
        WayAnswer::Refused => "unchanged",
        _ if next.paused_by.is_some() => "paused",
        _ => next.condition.as_str(),
    };
    Some((action, result))
}

/// Makes of a way what databases can keep, so that what is answered is what is kept.
fn keepable(way: &mut Way) {
    way.next_probe_at = way.next_probe_at.map(rounded_up);
    way.probe_until = way.probe_until.map(rounded_up);
    way.probe_rest = Duration::from_millis(rest_ms(way).unsigned_abs());
    way.last_error = way.last_error.as_deref().map(writable);
}

/// The rest between probes as it is kept.
pub(crate) fn rest_ms(way: &Way) -> i64 {
    i64::try_from(way.probe_rest.as_millis()).unwrap_or(i64::MAX)
}

/// Text that every database takes.
pub(crate) fn writable(text: &str) -> String {
    text.replace('\0', "")
}

impl News {
    fn new(name: &WayName, news: WayNews, event: &WayEvent, way: &Way) -> Option<Self> {
        let email = match event {
            WayEvent::Fault { note, .. } => note.email,
            WayEvent::Success { email } => *email,
            _ => return None,
        };
        let WayName { transport, domain } = name;
        let (place, words) = match domain {
            None => (transport.clone(), transport.clone()),
            // Not as an address would be written: that would be taken for one.
            Some(domain) => (
                format!("{transport}/{domain}"),
                format!("{transport} to {domain}"),
            ),
        };
        let (kind, sentence) = match news {
            WayNews::Stopped => {
                let error = way.last_error.as_deref().unwrap_or("it failed too often");
                let error = without_addresses(error);
                (
                    "stopped",
                    format!("The way out {words} is stopped: {error}; emails wait for it"),
                )
            }
            WayNews::Recovered => ("recovered", format!("The way out {words} takes mail again")),
        };
        Some(Self {
            email,
            reason: news.into(),
            fingerprint: fingerprint(&format!("transport {place} {kind}")),
            sentence,
        })
    }
}

/// The beginning of an error, with nobody's address in it: it goes to whoever is alerted.
fn without_addresses(error: &str) -> String {
    let words = error
        .split_whitespace()
        .map(|word| match word.contains('@') {
            true => "<address>",
            false => word,
        });
    let words = words.collect::<Vec<_>>().join(" ");
    match words.char_indices().nth(MOST_ERROR) {
        None => words,
        Some((end, _)) => format!("{}…", &words[..end]),
    }
}

/// Until when a sender that says so now is there: a third longer than it says, so that it need not
/// be written down each time. `None` while what is written is good enough.
pub(crate) fn presence(
    known: Option<Timestamp>,
    present: Duration,
    now: Timestamp,
) -> Option<Timestamp> {
    let after = |time| rounded_up(now.checked_add(time).unwrap_or(Timestamp::MAX));
    let (least, most) = (after(present), after(present.saturating_add(present / 3)));
    let is_good = known.is_some_and(|until| least <= until && until <= most);
    (!is_good).then_some(most)
}

/// Senders that have been gone for this long are forgotten.
/// What is known of a way that nothing was heard of for this long is forgotten.
pub(crate) const FORGOTTEN: Duration = Duration::from_secs(7 * 86_400);
pub(crate) const LONG_GONE: Duration = Duration::from_secs(3600);

/// Each thing that emails wait for, once, and no more entries of the index looked at than there
/// are such things. Names of tables begin with `prefix`.
pub(crate) fn waiting_query(prefix: &str) -> String {
    format!(
        "WITH RECURSIVE waits (name) AS (
             SELECT min(l.waiting_for) FROM {prefix}email_log l WHERE l.waiting_for > ''
             UNION ALL
             SELECT (SELECT min(l.waiting_for) FROM {prefix}email_log l
                     WHERE l.waiting_for > waits.name)
             FROM waits WHERE waits.name IS NOT NULL)
         SELECT name FROM waits WHERE name IS NOT NULL"
    )
}

/// How many wait for the same, most first.
pub(crate) fn parked_query(prefix: &str) -> String {
    format!(
        "SELECT waiting_for, count(*), min(next_attempt_at) FROM {prefix}email_log
         WHERE waiting_for IS NOT NULL GROUP BY waiting_for ORDER BY 2 DESC, 1"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn stopped_by(name: &WayName, error: &str) -> Told {
        let rules = BreakerRules {
            failures: 1,
            ..BreakerRules::default()
        };
        let event = WayEvent::Fault {
            note: FaultNote {
                email: EmailId::generate(),
                attempt: 1,
            },
            is_ours: false,
            error: error.to_owned(),
            floor: Some(Duration::from_nanos(10_000_000_001)),
        };
        Told::new(name, &Way::flowing(NOW), &event, &rules, NOW)
    }

    #[test]
    fn people_are_told_in_a_sentence_which_way_is_stopped_and_why() {
        let told = stopped_by(
            &WayName::transport("primary"),
            "connection refused (at connect)",
        );
        let news = told.news.unwrap();
        assert_eq!(
            news.sentence,
            "The way out primary is stopped: connection refused (at connect); emails wait for it"
        );
        assert_eq!(news.reason, AlertReason::TransportStopped);
        assert!(told.wakes);
    }

    #[test]
    fn nobodys_address_is_told_and_no_long_story() {
        let error = format!(
            "421 <ann@example.org>: too much\0 {}",
            "and so on ".repeat(99)
        );
        let told = stopped_by(&WayName::domain("primary", "Example.org"), &error);
        let sentence = told.news.unwrap().sentence;
        let beginning = "The way out primary to example.org is stopped: 421 <address> too much and";
        assert!(sentence.starts_with(beginning), "{sentence}");
        assert!(sentence.ends_with("…; emails wait for it"), "{sentence}");
        assert!(sentence.len() < 300, "{sentence}");
    }

    #[test]
    fn the_news_of_each_way_stands_by_itself() {
        let ways = [
            WayName::transport("primary"),
            WayName::transport("secondary"),
            WayName::domain("primary", "example.org"),
            WayName::domain("primary", "example.com"),
        ];
        let mut seen: Vec<String> = ways
            .iter()
            .map(|way| stopped_by(way, "no").news.unwrap().fingerprint)
            .collect();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), ways.len());
    }

    #[test]
    fn what_is_answered_can_be_kept() {
        let told = stopped_by(&WayName::transport("primary"), "no");
        let probe = told.next.next_probe_at.unwrap();
        assert_eq!(probe, NOW + Duration::from_micros(10_000_001), "not early");
    }

    #[test]
    fn presence_is_written_now_and_then_and_always_holds() {
        let present = Duration::from_secs(30);
        let until = presence(None, present, NOW).unwrap();
        assert_eq!(until, NOW + Duration::from_secs(40));
        let later = |seconds| NOW + Duration::from_secs(seconds);
        assert_eq!(presence(Some(until), present, later(10)), None);
        assert_eq!(presence(Some(until), present, later(11)), Some(later(51)));
        let gone = presence(Some(until), Duration::ZERO, later(5));
        assert_eq!(gone, Some(later(5)), "one that leaves is not there");
    }
}
