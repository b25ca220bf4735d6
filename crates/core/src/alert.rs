//! What a team is told when emails die or a way out stops: one alert for many, not one each.

use std::fmt;
use std::str::FromStr;

use crate::Timestamp;
use crate::email::EmailId;
use crate::status::{DeadReason, UnknownName};
use crate::way::WayNews;

/// Why a team is told something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AlertReason {
    /// Emails died.
    Dead(DeadReason),
    /// A way out was stopped; emails wait for it.
    TransportStopped,
    /// A way out takes up again.
    TransportRecovered,
}

impl AlertReason {
    /// Its name in the database and on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Dead(reason) => reason.as_str(),
            Self::TransportStopped => "TransportStopped",
            Self::TransportRecovered => "TransportRecovered",
        }
    }

    /// Whether it is about emails that died.
    #[must_use]
    pub const fn is_death(self) -> bool {
        matches!(self, Self::Dead(_))
    }
}

impl From<WayNews> for AlertReason {
    fn from(news: WayNews) -> Self {
        match news {
            WayNews::Stopped => Self::TransportStopped,
            WayNews::Recovered => Self::TransportRecovered,
        }
    }
}

impl fmt::Display for AlertReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for AlertReason {
    type Err = UnknownName;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "TransportStopped" => Ok(Self::TransportStopped),
            "TransportRecovered" => Ok(Self::TransportRecovered),
            other => other.parse().map(Self::Dead),
        }
    }
}

/// What happened of the same kind since the last alert: emails that died of the same thing, or what
/// became of a way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlertGroup {
    /// What they have in common.
    pub fingerprint: String,
    /// What it is about, as of the last of them.
    pub reason: AlertReason,
    /// How many.
    pub count: u64,
    /// When the first died.
    pub first_at: Timestamp,
    /// When the last died.
    pub last_at: Timestamp,
    /// One of the errors, word for word.
    pub sample: Option<String>,
    /// One of the emails.
    pub email_id: EmailId,
}

impl AlertGroup {
    /// What is told of a way out, in a sentence.
    fn news(&self) -> String {
        let sentence = match self.reason {
            AlertReason::TransportRecovered => "A way out takes mail again",
            _ => "A way out is stopped; emails wait for it",
        };
        self.sample.clone().unwrap_or_else(|| sentence.to_owned())
    }
}

/// A headline tells of so many ways out one by one.
const MOST_WAYS: usize = 3;

/// What a channel is to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alert {
    /// The same for every try to tell it, so that a receiver can tell copies apart.
    pub id: String,
    /// Which service speaks.
    pub service: String,
    /// Where people can look, if that is known.
    pub dashboard_url: Option<String>,
    /// Whether nothing died, and someone only wants to see an alert arrive.
    pub is_test: bool,
    /// What died, most first; empty for a test only.
    pub groups: Vec<AlertGroup>,
    /// How many emails are in the dead letter queue now.
    pub dead_letters: u64,
    /// When it is told.
    pub at: Timestamp,
}

impl Alert {
    /// What died.
    fn deaths(&self) -> impl Iterator<Item = &AlertGroup> {
        self.groups.iter().filter(|group| group.reason.is_death())
    }

    /// What became of ways out.
    pub fn ways(&self) -> impl Iterator<Item = &AlertGroup> {
        self.groups.iter().filter(|group| !group.reason.is_death())
    }

    /// How many emails died.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.deaths().map(|group| group.count).sum()
    }

    /// The news in a line.
    #[must_use]
    pub fn headline(&self) -> String {
        if self.is_test {
            return "This is a test alert: no email died".into();
        }
        let mut news: Vec<String> = self.ways().take(MOST_WAYS).map(AlertGroup::news).collect();
        match self.ways().count().saturating_sub(MOST_WAYS) {
            0 => {}
            1 => news.push("1 more way out changed".into()),
            n => news.push(format!("{n} more ways out changed")),
        }
        let emails = match self.count() {
            1 => "email was",
            _ => "emails were",
        };
        let reasons = match self.deaths().count() {
            0 | 1 => String::new(),
            n => format!(", for {n} different reasons"),
        };
        if self.count() > 0 {
            news.push(format!(
                "{} {emails} moved to the dead letter queue{reasons}",
                self.count()
            ));
        }
        news.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(reason: AlertReason, count: u64, sample: Option<&str>) -> AlertGroup {
        AlertGroup {
            fingerprint: "f".into(),
            reason,
            count,
            first_at: Timestamp::UNIX_EPOCH,
            last_at: Timestamp::UNIX_EPOCH,
            sample: sample.map(str::to_owned),
            email_id: EmailId::generate(),
        }
    }

    fn headline(groups: Vec<AlertGroup>) -> String {
        let alert = Alert {
            id: "1".into(),
            service: "posthaste".into(),
            dashboard_url: None,
            is_test: false,
            groups,
            dead_letters: 0,
            at: Timestamp::UNIX_EPOCH,
        };
        alert.headline()
    }

    #[test]
    fn a_headline_tells_of_ways_out_before_it_counts_the_dead() {
        let bounced = AlertReason::Dead(DeadReason::HardBounce);
        let stopped = "The way out primary is stopped: no; emails wait for it";
        assert_eq!(
            headline(vec![
                group(bounced, 2, Some("550 no")),
                group(AlertReason::TransportStopped, 1, Some(stopped)),
            ]),
            format!("{stopped}; 2 emails were moved to the dead letter queue")
        );
        let back = group(AlertReason::TransportRecovered, 4, None);
        assert_eq!(headline(vec![back]), "A way out takes mail again");
    }

    #[test]
    fn a_headline_stays_short_when_many_ways_stop() {
        let stopped = || group(AlertReason::TransportStopped, 1, Some("x"));
        let many = (0..5).map(|_| stopped()).collect();
        assert_eq!(headline(many), "x; x; x; 2 more ways out changed");
    }

    #[test]
    fn reasons_are_read_back_by_their_names() {
        let ways = [
            AlertReason::TransportStopped,
            AlertReason::TransportRecovered,
        ];
        let dead = DeadReason::ALL
            .iter()
            .map(|reason| AlertReason::Dead(*reason));
        for reason in dead.chain(ways) {
            assert_eq!(reason.as_str().parse(), Ok(reason));
        }
        assert!("Transport".parse::<AlertReason>().is_err());
    }
}
