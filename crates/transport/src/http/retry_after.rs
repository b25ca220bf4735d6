//! How long a provider wants to be left alone.

use std::time::Duration;

use jiff::Timestamp;
use reqwest::header::{HeaderMap, RETRY_AFTER};

/// Headers that say when a limit is lifted. Some count seconds from now, some give the moment.
const RESETS: [&str; 3] = ["ratelimit-reset", "x-ratelimit-reset", "x-rate-limit-reset"];
/// A number above this is a moment in seconds since 1970, not a time from now: 2001 or 31 years.
const FIRST_MOMENT: u64 = 1_000_000_000;
/// A number above this counts milliseconds since 1970.
const FIRST_MOMENT_MS: u64 = 1_000_000_000_000;

/// What the headers of a refusal ask for. A limit that is not reached is no reason to wait.
pub(super) fn asked_for(status: u16, headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let asked = text(RETRY_AFTER.as_str()).and_then(|text| seconds_or_date(text, now));
    if asked.is_some() || !matches!(status, 429 | 503) {
        return asked;
    }
    RESETS
        .iter()
        .find_map(|name| reset(text(name)?.parse().ok()?, now))
}

fn seconds_or_date(text: &str, now: Timestamp) -> Option<Duration> {
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = jiff::fmt::rfc2822::DateTimeParser::new();
    let at = date.parse_timestamp(text).ok()?;
    Some(until(at, now))
}

fn reset(number: u64, now: Timestamp) -> Option<Duration> {
    if number < FIRST_MOMENT {
        return Some(Duration::from_secs(number));
    }
    let number = i64::try_from(number).ok()?;
    let at = if number < i64::try_from(FIRST_MOMENT_MS).ok()? {
        Timestamp::from_second(number)
    } else {
        Timestamp::from_millisecond(number)
    };
    Some(until(at.ok()?, now))
}

/// A moment that has passed asks for nothing.
fn until(at: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(now)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Status, headers, and the seconds they ask for.
    type Case = (u16, &'static [(&'static str, &'static str)], Option<u64>);

    #[test]
    fn seconds_dates_and_resets_are_read() {
        let now: Timestamp = "2026-11-07T12:00:00Z".parse().unwrap();
        let cases: [Case; 13] = [
            (429, &[("retry-after", "120")], Some(120)),
            (503, &[("retry-after", " 7 ")], Some(7)),
            (
                503,
                &[("retry-after", "Sat, 07 Nov 2026 12:01:30 GMT")],
                Some(90),
            ),
            (
                429,
                &[("retry-after", "Sat, 07 Nov 2026 11:00:00 GMT")],
                Some(0),
            ),
            (
                429,
                &[("retry-after", "2"), ("ratelimit-reset", "50")],
                Some(2),
            ),
            (429, &[("ratelimit-reset", "1")], Some(1)),
            (429, &[("x-ratelimit-reset", "1794052860")], Some(60)),
            (429, &[("x-ratelimit-reset", "1794052860000")], Some(60)),
            (429, &[("x-ratelimit-reset", "1594052860")], Some(0)),
            (500, &[("ratelimit-reset", "1")], None),
            (500, &[("retry-after", "9")], Some(9)),
            (429, &[("retry-after", "soon")], None),
            (429, &[], None),
        ];
        for (status, headers, seconds) in cases {
            let map: HeaderMap = headers
                .iter()
                .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
                .collect();
            let asked = asked_for(status, &map, now);
            assert_eq!(
                asked,
                seconds.map(Duration::from_secs),
                "{status} {headers:?}"
            );
        }
    }
}
