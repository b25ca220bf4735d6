//! Names and addresses, in the forms that providers want.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

/// An encoded word has at most 75 characters, 12 of them around the text.
const LONGEST_WORD_OCTETS: usize = 45;

/// Somebody with an address and perhaps a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Person {
    pub(super) name: Option<String>,
    pub(super) address: String,
}

impl Person {
    /// The form in which addresses are compared.
    pub(super) fn folded(&self) -> String {
        self.address.to_lowercase()
    }

    /// As a header has it: the name quoted or encoded where it must be.
    pub(super) fn in_header(&self) -> String {
        self.with(|name| match Needs::of(name) {
            Needs::Nothing => name.to_owned(),
            Needs::Quotes => quoted(name),
            Needs::Encoding => encoded(name),
        })
    }

    /// The same without quotes: names that need any are encoded instead.
    pub(super) fn without_quotes(&self) -> String {
        self.with(|name| match Needs::of(name) {
            Needs::Nothing => name.to_owned(),
            Needs::Quotes | Needs::Encoding => encoded(name),
        })
    }

    /// The name as it is read, neither quoted nor encoded. What would need quotes is left out.
    pub(super) fn plainly(&self) -> String {
        self.with(|name| {
            let words = name.split(is_special).flat_map(str::split_whitespace);
            words.collect::<Vec<_>>().join(" ")
        })
    }

    fn with(&self, name: impl FnOnce(&str) -> String) -> String {
        match self.name.as_deref().map(str::trim) {
            None | Some("") => self.address.clone(),
            Some(text) => format!("{} <{}>", name(text), self.address),
        }
    }
}

/// What a name needs to stand in a header.
enum Needs {
    Nothing,
    Quotes,
    Encoding,
}

impl Needs {
    fn of(name: &str) -> Self {
        if !name.is_ascii() || name.contains("=?") || name.chars().any(char::is_control) {
            Self::Encoding
        } else if name.contains(|c| c == '.' || is_special(c)) {
            Self::Quotes
        } else {
            Self::Nothing
        }
    }
}

/// Whether the character has a meaning of its own in a list of addresses.
fn is_special(c: char) -> bool {
    c.is_control() || "()<>[]:;@\\,\"".contains(c)
}

/// In quotes.
pub(super) fn quoted(name: &str) -> String {
    let escaped = name.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{escaped}\"")
}

/// As encoded words of RFC 2047.
fn encoded(name: &str) -> String {
    let mut words = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let end = (0..=rest.len().min(LONGEST_WORD_OCTETS))
            .rev()
            .find(|&at| rest.is_char_boundary(at))
            .unwrap_or(rest.len());
        let (word, later) = rest.split_at(end);
        words.push(format!("=?utf-8?B?{}?=", BASE64.encode(word)));
        rest = later;
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use mail_parser::MessageParser;
    use proptest::prelude::*;

    use super::*;

    fn person(name: &str) -> Person {
        Person {
            name: Some(name.to_owned()),
            address: "ann@example.org".to_owned(),
        }
    }

    #[test]
    fn names_are_quoted_and_encoded_where_they_must_be() {
        let cases = [
            ("", "ann@example.org", "ann@example.org", "ann@example.org"),
            (
                "Ann",
                "Ann <ann@example.org>",
                "Ann <ann@example.org>",
                "Ann <ann@example.org>",
            ),
            (
                "Shop, Inc.",
                "\"Shop, Inc.\" <ann@example.org>",
                "=?utf-8?B?U2hvcCwgSW5jLg==?= <ann@example.org>",
                "Shop Inc. <ann@example.org>",
            ),
            (
                "Zoë \"Z\"",
                "=?utf-8?B?Wm/DqyAiWiI=?= <ann@example.org>",
                "=?utf-8?B?Wm/DqyAiWiI=?= <ann@example.org>",
                "Zoë Z <ann@example.org>",
            ),
        ];
        for (name, in_header, without_quotes, plainly) in cases {
            assert_eq!(person(name).in_header(), in_header);
            assert_eq!(person(name).without_quotes(), without_quotes);
            assert_eq!(person(name).plainly(), plainly);
        }
    }

    proptest! {
        #[test]
        fn a_name_in_a_header_is_read_as_it_was(name in "[^\\p{Cc}<>\\s]{1,40}( [^\\p{Cc}<>\\s]{1,40}){0,3}") {
            for text in [person(&name).in_header(), person(&name).without_quotes()] {
                let message = format!("To: {text}\r\n\r\n");
                let message = MessageParser::default().parse_headers(&message).unwrap();
                let read = message.to().unwrap().first().unwrap();
                prop_assert_eq!(read.name(), Some(name.as_str()), "{}", text);
                prop_assert_eq!(read.address(), Some("ann@example.org"));
            }
        }
    }
}
