//! The names of ways, and of what emails wait for.

use std::fmt;
use std::str::FromStr;

/// Which way: a transport, or a destination domain by a transport.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WayName {
    /// The transport.
    pub transport: String,
    /// The domain, for a way to one only.
    pub domain: Option<String>,
}

impl WayName {
    /// The way of everything by this transport.
    #[must_use]
    pub fn transport(name: &str) -> Self {
        Self {
            transport: name.to_owned(),
            domain: None,
        }
    }

    /// The way to this domain by this transport.
    #[must_use]
    pub fn domain(transport: &str, domain: &str) -> Self {
        Self {
            transport: transport.to_owned(),
            domain: Some(domain.to_ascii_lowercase()),
        }
    }
}

impl fmt::Display for WayName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.domain {
            None => f.write_str(&self.transport),
            Some(domain) => write!(f, "{}@{domain}", self.transport),
        }
    }
}

impl FromStr for WayName {
    type Err = std::convert::Infallible;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text.split_once('@') {
            None => Self::transport(text),
            Some((transport, domain)) => Self::domain(transport, domain),
        })
    }
}

/// What an email waits for, for its `waiting_for`: one of these ways.
#[must_use]
pub fn any_of(ways: &[WayName]) -> String {
    let names: Vec<String> = ways.iter().map(ToString::to_string).collect();
    names.join(",")
}

/// The ways in a `waiting_for`.
pub fn ways_of(waiting_for: &str) -> impl Iterator<Item = WayName> + '_ {
    waiting_for.split(',').map(|name| {
        let Ok(way) = name.parse();
        way
    })
}

/// A `waiting_for` for people: `primary or secondary`, `gmail.com`.
#[must_use]
pub fn in_words(waiting_for: &str) -> String {
    let mut words: Vec<String> = ways_of(waiting_for)
        .map(|way| way.domain.unwrap_or(way.transport))
        .collect();
    words.dedup();
    words.join(" or ")
}

/// Whether this may be the name of a transport or a route: lowercase letters, digits, `-`, `_`.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-".contains(&b);
    (1..=50).contains(&text.len()) && text.bytes().all(plain)
}
