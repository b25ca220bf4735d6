//! Email addresses that are safe to put into an SMTP command or a header.
//!
//! Only what a sane application sends is accepted: `local@domain` and `Name <local@domain>`.
//! Comments, groups and quoted local parts are legal in RFC 5322 and refused here, because
//! nobody sends them on purpose and everything that parses mail disagrees about them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The longest local part, in octets (RFC 5321 §4.5.3.1.1).
const LONGEST_LOCAL_PART: usize = 64;
/// The longest domain, in octets.
const LONGEST_DOMAIN: usize = 253;
/// The longest display name, in characters.
const LONGEST_NAME: usize = 256;

/// A checked address: the domain is lower case ASCII, an IDN as its A-label.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Address(String);

/// An address with an optional display name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Mailbox {
    /// The display name, free of control characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The address.
    pub address: Address,
}

/// Why a text is not an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum InvalidAddress {
    #[error("is empty; write an address such as ann@example.org")]
    Empty,
    #[error("contains a control character (CR, LF, NUL or the like); remove it")]
    ControlCharacter,
    #[error("has no `@`; write an address such as ann@example.org")]
    NoAt,
    #[error("has more than one `@`; give one address per entry")]
    ManyAts,
    #[error("has nothing before the `@`")]
    EmptyLocalPart,
    #[error("has a local part of {0} octets; at most 64 are allowed")]
    LocalPartTooLong(usize),
    #[error("has a character that is not allowed before the `@`: `{0}`")]
    LocalPartCharacter(char),
    #[error("has a dot at the start or the end of the local part, or two in a row")]
    LocalPartDots,
    #[error("has no domain after the `@`")]
    EmptyDomain,
    #[error("has a domain of {0} octets; at most 253 are allowed")]
    DomainTooLong(usize),
    #[error("has an invalid domain `{0}`; write it as in ann@example.org")]
    Domain(String),
    #[error("contains a comment, a group or a list; give one plain address per entry")]
    CommentOrGroup,
    #[error("has a quoted local part, which is not supported")]
    QuotedLocalPart,
    #[error("has text after the closing `>`, or no closing `>`")]
    Brackets,
    #[error("has `<` or `>` in its display name; leave them out")]
    NameBrackets,
    #[error("has a display name of more than 256 characters")]
    NameTooLong,
    #[error("has an encoded word (`=?…?=`) in its display name; write the name itself")]
    EncodedWord,
}

impl Address {
    /// Checks an address without a display name.
    pub fn parse(text: &str) -> Result<Self, InvalidAddress> {
        if text.chars().any(char::is_control) {
            return Err(InvalidAddress::ControlCharacter);
        }
        let text = text.trim();
        if text.is_empty() {
            return Err(InvalidAddress::Empty);
        }
        if text.starts_with('"') {
            return Err(InvalidAddress::QuotedLocalPart);
        }
        if text.contains(['(', ')', ',', ';', ':']) {
            return Err(InvalidAddress::CommentOrGroup);
        }
        let (local, domain) = text.split_once('@').ok_or(InvalidAddress::NoAt)?;
        if domain.contains('@') {
            return Err(InvalidAddress::ManyAts);
        }
        check_local_part(local)?;
        Ok(Self([local, "@", &ascii_domain(domain)?].concat()))
    }

    /// The whole address.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What stands after the `@`, as an A-label in lower case.
    #[must_use]
    pub fn domain(&self) -> &str {
        self.0.rsplit_once('@').map_or("", |(_, domain)| domain)
    }

    /// Whether the server must offer SMTPUTF8: the local part is not ASCII.
    #[must_use]
    pub fn needs_smtputf8(&self) -> bool {
        !self.0.is_ascii()
    }

    /// The form in which addresses are compared and searched: all lower case.
    #[must_use]
    pub fn folded(&self) -> String {
        self.0.to_lowercase()
    }
}

fn check_local_part(local: &str) -> Result<(), InvalidAddress> {
    if local.is_empty() {
        return Err(InvalidAddress::EmptyLocalPart);
    }
    if local.len() > LONGEST_LOCAL_PART {
        return Err(InvalidAddress::LocalPartTooLong(local.len()));
    }
    let allowed = |c: char| {
        c.is_ascii_alphanumeric()
            || "!#$%&'*+-/=?^_`{|}~.".contains(c)
            || (!c.is_ascii() && !c.is_whitespace())
    };
    if let Some(c) = local.chars().find(|c| !allowed(*c)) {
        return Err(InvalidAddress::LocalPartCharacter(c));
    }
    if local.starts_with('.') || local.ends_with('.') || local.contains("..") {
        return Err(InvalidAddress::LocalPartDots);
    }
    Ok(())
}

fn ascii_domain(domain: &str) -> Result<String, InvalidAddress> {
    if domain.is_empty() {
        return Err(InvalidAddress::EmptyDomain);
    }
    let invalid = || InvalidAddress::Domain(domain.to_owned());
    if domain.len() > LONGEST_DOMAIN && domain.is_ascii() {
        return Err(InvalidAddress::DomainTooLong(domain.len()));
    }
    let ascii = idna::domain_to_ascii_cow(domain.as_bytes(), idna::AsciiDenyList::STD3)
        .map_err(|_| invalid())?
        .into_owned();
    if ascii.len() > LONGEST_DOMAIN {
        return Err(InvalidAddress::DomainTooLong(ascii.len()));
    }
    let label_is_valid = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    if ascii.split('.').all(label_is_valid) {
        Ok(ascii)
    } else {
        Err(invalid())
    }
}

fn check_name(name: &str) -> Result<(), InvalidAddress> {
    if name.chars().any(char::is_control) {
        return Err(InvalidAddress::ControlCharacter);
    }
    if name.contains(['<', '>']) {
        return Err(InvalidAddress::NameBrackets);
    }
    if name.chars().count() > LONGEST_NAME {
        return Err(InvalidAddress::NameTooLong);
    }
    // An encoded word could decode to CR LF in someone's mail reader.
    if name.contains("=?") {
        return Err(InvalidAddress::EncodedWord);
    }
    Ok(())
}

impl Mailbox {
    /// Reads `local@domain` or `Name <local@domain>`.
    pub fn parse(text: &str) -> Result<Self, InvalidAddress> {
        if text.chars().any(char::is_control) {
            return Err(InvalidAddress::ControlCharacter);
        }
        let text = text.trim();
        let Some((name, rest)) = text.split_once('<') else {
            return Ok(Self {
                name: None,
                address: Address::parse(text)?,
            });
        };
        let inner = rest.strip_suffix('>').ok_or(InvalidAddress::Brackets)?;
        if inner.contains(['<', '>']) {
            return Err(InvalidAddress::Brackets);
        }
        let name = unquote(name.trim())?;
        Self::new(&name, Address::parse(inner)?)
    }

    /// A mailbox of these; the name may be empty. Blanks around it do not belong to it.
    pub fn new(name: &str, address: Address) -> Result<Self, InvalidAddress> {
        check_name(name)?;
        let name = name.trim();
        let name = (!name.is_empty()).then(|| name.to_owned());
        Ok(Self { name, address })
    }
}

/// Takes the quotes off `"Doe, Ann"`; an unquoted name may not hold list or group characters.
fn unquote(name: &str) -> Result<String, InvalidAddress> {
    let Some(inner) = name
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
    else {
        return if name.contains([',', ';', ':', '"', '@']) {
            Err(InvalidAddress::CommentOrGroup)
        } else {
            Ok(name.to_owned())
        };
    };
    let mut out = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.extend(chars.next()),
            '"' => return Err(InvalidAddress::Brackets),
            c => out.push(c),
        }
    }
    Ok(out)
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) if name.contains([',', ';', ':', '"', '@', '\\']) => {
                let escaped = name.replace('\\', "\\\\").replace('"', "\\\"");
                write!(f, "\"{escaped}\" <{}>", self.address)
            }
            Some(name) => write!(f, "{name} <{}>", self.address),
            None => self.address.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ordinary_mailboxes_are_read() {
        let cases = [
            ("ann@example.org", None, "ann@example.org"),
            (
                "  Ann Doe <ann@Example.ORG> ",
                Some("Ann Doe"),
                "ann@example.org",
            ),
            (
                "\"Doe, Ann\" <ann+tag@example.org>",
                Some("Doe, Ann"),
                "ann+tag@example.org",
            ),
            ("ann@bücher.example", None, "ann@xn--bcher-kva.example"),
            ("Jörg <jörg@example.org>", Some("Jörg"), "jörg@example.org"),
            ("root@localhost", None, "root@localhost"),
            (
                "\" Ann \" <ann@example.org>",
                Some("Ann"),
                "ann@example.org",
            ),
            ("\" \" <ann@example.org>", None, "ann@example.org"),
        ];
        for (text, name, address) in cases {
            let mailbox = Mailbox::parse(text).unwrap();
            assert_eq!(
                (mailbox.name.as_deref(), mailbox.address.as_str()),
                (name, address),
                "{text}"
            );
        }
        assert!(Address::parse("jörg@example.org").unwrap().needs_smtputf8());
    }

    #[test]
    fn dangerous_and_malformed_addresses_are_refused() {
        let long_local = format!("{}@example.org", "a".repeat(65));
        let long_domain = format!("a@{}.org", "a.".repeat(130));
        let cases = [
            "",
            " ",
            "ann",
            "@example.org",
            "ann@",
            "a@b@c",
            "a..b@example.org",
            ".a@example.org",
            "a b@example.org",
            "ann@exa mple.org",
            "ann@-x.org",
            "ann@x..org",
            "ann@[127.0.0.1]",
            "\"a\r\nb\"@example.org",
            "\"a b\"@example.org",
            "ann(comment)@example.org",
            "group: a@example.org, b@example.org;",
            "a@example.org, b@example.org",
            "ann@example.org\r\nBcc: eve@example.org",
            "Ann\n <ann@example.org>",
            "ann\0@example.org",
            "Ann <ann@example.org> x",
            "Ann <ann@example.org",
            "<a@example.org><b@example.org>",
            "=?utf-8?q?a=0d=0aBcc:_x?= <ann@example.org>",
            "ann@xn--zzzzzz99999.example",
            &long_local,
            &long_domain,
        ];
        for text in cases {
            assert!(Mailbox::parse(text).is_err(), "{text:?} was accepted");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_accepted_cannot_break_a_command_line(text in any::<String>()) {
            if let Ok(mailbox) = Mailbox::parse(&text) {
                let shown = mailbox.to_string();
                prop_assert!(!shown.chars().any(char::is_control));
                prop_assert!(!mailbox.address.as_str().contains([' ', '<', '>']));
            }
        }

        #[test]
        fn a_mailbox_reads_back_as_it_was_printed(name in "[a-zA-Zäöü,;\"\\\\ ]{1,20}", local in "[a-z0-9]{1,20}") {
            let name = name.trim().to_owned();
            prop_assume!(!name.is_empty());
            let mailbox = Mailbox { name: Some(name), address: Address::parse(&format!("{local}@example.org")).unwrap() };
            prop_assert_eq!(Mailbox::parse(&mailbox.to_string()), Ok(mailbox));
        }
    }
}
