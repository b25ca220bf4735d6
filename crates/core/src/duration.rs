//! Durations as people write them: `200ms`, `30s`, `1m`, `3h`, `1d`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The longest duration that is accepted anywhere: ten years. Sums of a few of these still fit
/// every clock type we use.
pub const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

const UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// A duration that reads and prints as people write it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct HumanDuration(pub Duration);

/// Why a text is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a duration: write a number and a unit, such as 200ms, 30s, 1m, 3h or 1d")]
pub struct InvalidDuration {
    text: String,
}

impl FromStr for HumanDuration {
    type Err = InvalidDuration;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidDuration {
            text: text.to_owned(),
        };
        let trimmed = text.trim();
        let split = trimmed
            .find(|c: char| !c.is_ascii_digit())
            .ok_or_else(invalid)?;
        let (digits, unit) = trimmed.split_at(split);
        let number: u64 = digits.parse().map_err(|_| invalid())?;
        let (_, factor) = UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .ok_or_else(invalid)?;
        let millis = number.checked_mul(*factor).ok_or_else(invalid)?;
        let duration = Duration::from_millis(millis);
        if duration > LONGEST {
            return Err(invalid());
        }
        Ok(Self(duration))
    }
}

impl fmt::Display for HumanDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        let (unit, factor) = UNITS
            .iter()
            .find(|(_, factor)| millis >= *factor && millis % factor == 0)
            .unwrap_or(&("s", 1_000));
        write!(f, "{}{unit}", millis / factor)
    }
}

impl fmt::Debug for HumanDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<Duration> for HumanDuration {
    fn from(duration: Duration) -> Self {
        Self(duration)
    }
}

impl From<HumanDuration> for Duration {
    fn from(duration: HumanDuration) -> Self {
        duration.0
    }
}

impl Serialize for HumanDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for HumanDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_prints_as_it_was_written() {
        for text in ["200ms", "30s", "1m", "15m", "1h", "3h", "1d", "0s", "90s"] {
            let parsed: HumanDuration = text.parse().unwrap();
            assert_eq!(parsed.to_string(), text);
        }
        assert_eq!("60s".parse::<HumanDuration>().unwrap().to_string(), "1m");
    }

    #[test]
    fn ten_years_are_the_longest() {
        let longest: HumanDuration = "3650d".parse().unwrap();
        assert_eq!(Duration::from(longest), LONGEST);
        assert_eq!(HumanDuration::from(LONGEST), longest);
        assert!("3651d".parse::<HumanDuration>().is_err());
    }

    #[test]
    fn nonsense_and_overflow_are_refused_with_the_text_and_the_fix() {
        for text in [
            "",
            "5",
            "m",
            "-1s",
            "1.5h",
            "1w",
            "5 apples",
            "99999999999999999999s",
            "11y",
            "4000d",
        ] {
            let error = text.parse::<HumanDuration>().unwrap_err().to_string();
            assert!(error.contains(text) && error.contains("30s"), "{error}");
        }
    }
}
