//! The earliest next attempt a server asks for in words: "try again in 5 minutes".

use std::time::Duration;

/// No server may push an attempt further away than this.
pub(super) const LONGEST_FLOOR: Duration = Duration::from_secs(24 * 3600);

/// Reads "in N seconds", "after N minutes" and the like from a reply's text.
#[must_use]
pub fn floor_in(text: &str) -> Option<Duration> {
    let lower = text.to_lowercase();
    let words: Vec<&str> = lower
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|w| !w.is_empty())
        .collect();
    words.iter().enumerate().find_map(|(at, word)| {
        if !matches!(*word, "in" | "after" | "for") {
            return None;
        }
        let next = words.get(at + 1)?;
        let digits = next.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let number: u64 = digits.parse().ok()?;
        let unit = if digits.len() < next.len() {
            &next[digits.len()..]
        } else {
            words.get(at + 2)?
        };
        let seconds = match unit {
            "s" | "sec" | "secs" | "second" | "seconds" => 1,
            "m" | "min" | "mins" | "minute" | "minutes" => 60,
            "h" | "hour" | "hours" => 3600,
            _ => return None,
        };
        Some(Duration::from_secs(number.saturating_mul(seconds)).min(LONGEST_FLOOR))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_a_server_asks_for_is_read() {
        let cases = [
            ("Greylisted, please try again in 300 seconds", Some(300)),
            ("try again in 5 minutes.", Some(300)),
            ("Please retry after 90s", Some(90)),
            ("come back in 1 hour", Some(3600)),
            ("deferred for 10 min", Some(600)),
            ("try again in 99999999999999999999 minutes", None),
            ("try again in 9999999999 minutes", Some(86400)),
            ("try again later", None),
            ("in 5 apples", None),
            ("error 300 seconds", None),
        ];
        for (text, seconds) in cases {
            assert_eq!(floor_in(text), seconds.map(Duration::from_secs), "{text}");
        }
    }
}
