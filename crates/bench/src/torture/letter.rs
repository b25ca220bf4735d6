//! What is posted: emails of every kind, each with an end that is known beforehand.

use std::time::Duration;

use jiff::Timestamp;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};

use crate::evidence::ledger::Expected;

/// Larger than what goes together with its dot.
const LARGE: usize = 90_000;
const SMALL: usize = 1_500;
/// Later than any run ends: it is withdrawn before.
const FAR: Duration = Duration::from_secs(24 * 3600);
const SOON: Duration = Duration::from_millis(1_500);

/// One email, before it has a number.
pub(super) struct Letter {
    pub(super) expected: Expected,
    /// Its caller waits until it is sent.
    pub(super) is_inline: bool,
    /// Recipients, each to be completed by a tag.
    to: Vec<String>,
    size: usize,
    send_in: Option<Duration>,
    /// A policy of its own: it is given up soon.
    is_brief: bool,
    priority: &'static str,
}

impl Letter {
    /// The n-th of a run. Without faults of the mail server's own, if it is to be `mild`.
    pub(super) fn new(seed: u64, number: u64, mild: bool) -> Self {
        let mut dice = StdRng::seed_from_u64(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut letter = Self {
            expected: Expected::Delivered,
            is_inline: false,
            to: vec!["someone".to_owned()],
            size: SMALL,
            send_in: None,
            is_brief: false,
            priority: match dice.random_range(0..20) {
                0 => "high",
                1 => "low",
                _ => "normal",
            },
        };
        let throw = dice.random_range(0..100);
        match throw {
            0..15 => letter.to(&["fail1", "fail2"][usize::from(dice.random_ratio(1, 5))]),
            15..20 => letter.size = LARGE,
            20..24 => letter.to(&"slow200"),
            24..26 => letter.to(&"trickle5"),
            26..29 => letter.send_in = Some(SOON),
            29..31 => {
                letter.send_in = Some(FAR);
                letter.expected = Expected::Cancelled;
            }
            31..33 => {
                letter.to.push("reject".to_owned());
                letter.expected = Expected::Partly;
            }
            33..36 => letter.doomed(&"reject"),
            36..38 => letter.doomed(&"reject-data"),
            38..40 => letter.doomed(&"tempfail"),
            40..45 if mild => {}
            // Nothing that looks like a server that is down whoever tries: such emails, if they are
            // all that is left, wait for it for ever, as they must. The network does that.
            40 => letter.doomed(&"tempfail-data"),
            41 => letter.doomed(&"full"),
            42..44 => letter.uncertain(&"drop-after-dot"),
            44 => letter.uncertain(&"hang-after-dot"),
            45..53 => letter.is_inline = true,
            _ => {}
        }
        letter
    }

    fn to(&mut self, name: &&str) {
        self.to = vec![(*name).to_owned()];
    }

    fn doomed(&mut self, name: &&str) {
        self.to(name);
        self.expected = Expected::Dead;
        self.is_brief = true;
    }

    fn uncertain(&mut self, name: &&str) {
        self.to(name);
        self.expected = Expected::Uncertain;
        self.is_brief = true;
    }

    /// Whether it is withdrawn some time after it was accepted.
    pub(super) fn is_withdrawn(&self) -> bool {
        self.expected == Expected::Cancelled
    }

    /// What is posted. The same number gives the same, whenever it is asked for.
    pub(super) fn request(&self, number: usize, key: &str, now: Timestamp) -> String {
        let letter = |at: usize| char::from(b'a' + ((at * at * 31 + at * 7) % 26) as u8);
        let text: String = (0..self.size)
            .map(|at| if at % 72 == 71 { '\n' } else { letter(at) })
            .collect();
        let to: Vec<_> = self
            .to
            .iter()
            .map(|name| format!("{name}+{number}@example.org"))
            .collect();
        let mut request = json!({
            "message_key": key, "from": "torture@example.org", "to": to,
            "subject": format!("Torture {number}"), "text": text, "priority": self.priority,
        });
        let mut set = |name: &str, value: Value| request[name] = value;
        if self.is_inline {
            set("delivery", json!("inline"));
        }
        if let Some(send_in) = self.send_in {
            set("send_at", json!((now + send_in).to_string()));
        }
        if self.is_brief {
            let backoff = json!({"schedule": ["300ms"]});
            set(
                "retry_policy",
                json!({"max_attempts": 2, "backoff": backoff}),
            );
        }
        request.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_posts_the_same() {
        let posted = |seed| -> Vec<String> {
            let now = Timestamp::UNIX_EPOCH;
            (0..50)
                .map(|n| Letter::new(seed, n, false).request(1, "key", now))
                .collect()
        };
        assert_eq!(posted(7), posted(7));
        assert_ne!(posted(7), posted(8));
    }

    #[test]
    fn every_kind_of_end_is_asked_for() {
        let letters: Vec<_> = (0..2000).map(|n| Letter::new(1, n, false)).collect();
        for expected in [
            Expected::Delivered,
            Expected::Dead,
            Expected::Partly,
            Expected::Uncertain,
            Expected::Cancelled,
        ] {
            assert!(letters.iter().any(|letter| letter.expected == expected));
        }
        assert!(letters.iter().any(|letter| letter.is_inline));
    }
}
