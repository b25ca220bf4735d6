//! Reading a provider's JSON once it is believed.

use posthaste_core::address::{Address, Mailbox};
use posthaste_core::email::EmailId;
use posthaste_core::feedback::{Happening, ProviderEvent};
use posthaste_core::port::CallbackError;
use serde_json::Value;

/// The longest text of a provider that is kept, in characters.
const LONGEST_DETAIL: usize = 300;

pub(super) fn not_understood(why: impl Into<String>) -> CallbackError {
    CallbackError::NotUnderstood(why.into())
}

/// Reads a body. The parser's own words are left out: they may quote the body.
pub(super) fn json(body: &[u8]) -> Result<Value, CallbackError> {
    serde_json::from_slice(body).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        not_understood(format!(
            "the body is not JSON (line {line}, column {column})"
        ))
    })
}

/// The text at a JSON pointer; an empty one counts as none.
pub(super) fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    let text = value.pointer(pointer)?.as_str()?;
    (!text.is_empty()).then_some(text)
}

/// The text at a JSON pointer that must be there.
pub(super) fn needed<'a>(value: &'a Value, pointer: &str) -> Result<&'a str, CallbackError> {
    let missing = || not_understood(format!("the event has no text at `{pointer}`"));
    text(value, pointer).ok_or_else(missing)
}

/// The first of these pointers that has a text.
pub(super) fn first_text<'a>(value: &'a Value, pointers: &[&str]) -> Option<&'a str> {
    pointers.iter().find_map(|pointer| text(value, pointer))
}

/// The elements at a JSON pointer; none if there is no list.
pub(super) fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    let list = value.pointer(pointer).and_then(Value::as_array);
    list.map_or(&[], Vec::as_slice)
}

/// Our own id. What is not one is as good as none: the provider's id still tells.
pub(super) fn email_id(text: Option<&str>) -> Option<EmailId> {
    text?.parse().ok()
}

/// An address, with or without a name. `None` is left out by the readers and never becomes an
/// event for all recipients: one unreadable address must not condemn the others.
pub(super) fn address(text: &str) -> Option<Address> {
    let plain = Address::parse(text);
    let with_name = |_| Mailbox::parse(text).map(|mailbox| mailbox.address);
    plain.or_else(with_name).ok()
}

/// A provider's words, fit to be shown: bounded, on one line.
pub(super) fn detail(text: Option<&str>) -> Option<String> {
    let harmless = |c: char| if c.is_control() { ' ' } else { c };
    let kept = text?.trim().chars().take(LONGEST_DETAIL);
    let kept: String = kept.map(harmless).collect();
    (!kept.trim().is_empty()).then_some(kept)
}

/// What all events of one callback about one message have in common.
pub(super) struct Message<'a> {
    pub(super) happening: Happening,
    pub(super) provider_id: &'a str,
    pub(super) email_id: Option<EmailId>,
}

impl Message<'_> {
    /// An event about this recipient, unless the address cannot be read.
    pub(super) fn about(&self, recipient: &str, words: Option<&str>) -> Option<ProviderEvent> {
        let Some(recipient) = address(recipient) else {
            tracing::debug!("a provider spoke of an address that cannot be read");
            return None;
        };
        Some(ProviderEvent {
            happening: self.happening,
            provider_id: self.provider_id.to_owned(),
            email_id: self.email_id,
            recipient: Some(recipient),
            detail: detail(words),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

    use super::*;

    #[test]
    fn a_providers_words_are_bounded_and_stay_on_one_line() {
        let long = format!("550\r\n5.1.1\tno\u{7} such user {}", "ä".repeat(500));
        let kept = detail(Some(&long)).unwrap();
        assert_eq!(kept.chars().count(), 300);
        assert!(kept.starts_with("550  5.1.1 no  such user ä"), "{kept}");
        assert!(!kept.chars().any(char::is_control));
        assert_eq!(detail(Some(" \n ")), None);
        assert_eq!(detail(None), None);
    }

    #[test]
    fn addresses_are_read_with_and_without_a_name() {
        let read = |text| address(text).map(|address| address.to_string());
        assert_eq!(read("Ann@Example.ORG").as_deref(), Some("Ann@example.org"));
        assert_eq!(
            read("Ann <ann@example.org>").as_deref(),
            Some("ann@example.org")
        );
        assert_eq!(read("not an address"), None);
    }

    #[test]
    fn an_error_does_not_quote_the_body() {
        let error = json(b"{\"secret-word\": tru}").unwrap_err().to_string();
        assert!(!error.contains("secret-word"), "{error}");
        assert!(error.contains("line 1"), "{error}");
    }
}
