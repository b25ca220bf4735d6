//! Addresses: what may come of any text, and what a reader that is not ours makes of it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use mail_parser::MessageParser;
use posthaste_core::address::{Address, Mailbox};
use proptest::prelude::*;

fn a_local_part() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]{1,12}(\\.[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]{1,12}){0,3}"
}

fn a_domain() -> impl Strategy<Value = String> {
    prop_oneof![
        "([a-zA-Z0-9]([a-zA-Z0-9]{0,20}[a-zA-Z0-9])?\\.){0,5}[a-zA-Z]{2,8}",
        "[a-zäöüßéñ日本語]{1,20}\\.example",
    ]
}

/// Any text, one of what has a meaning in addresses, and what is nearly a mailbox.
fn a_text() -> impl Strategy<Value = String> {
    let part = "[ \"\\\\(),.:;<>@=?a\u{e9}\u{a0}\u{2028}\u{202e}\r\n\0-]{0,12}";
    prop_oneof![
        any::<String>(),
        "[ \"\\\\(),.:;<>@\\[\\]=?a-cé\t\r\n-]{0,40}",
        (part, a_local_part(), part, a_domain(), part)
            .prop_map(|(a, local, b, domain, c)| format!("{a}{local}{b}@{domain}{c}")),
        (part, a_local_part(), a_domain(), "[ >x]{0,2}")
            .prop_map(|(name, local, domain, end)| format!("{name}<{local}@{domain}>{end}")),
        (
            prop_oneof!["[ \"\\\\(),aé\u{a0}]{0,5}", "\\PC{0,12}"],
            a_local_part(),
            a_domain()
        )
            .prop_map(|(name, local, domain)| {
                let name = name.replace('\\', "\\\\").replace('"', "\\\"");
                format!("\"{name}\" <{local}@{domain}>")
            }),
        ("[a-z.]{1,5}", "[a-zA-Z0-9é。_.-]{1,12}").prop_map(|(a, b)| format!("{a}@{b}")),
        ("a{60,70}", "(b{1,66}\\.){0,5}").prop_map(|(a, b)| format!("{a}@{b}example")),
    ]
}

/// What every command, header and database may rely on.
fn assert_safe(mailbox: &Mailbox) {
    let address = mailbox.address.as_str();
    let (local, domain) = address.split_once('@').unwrap();
    let is_safe = |c: char| !c.is_control() && !c.is_whitespace() && !"<>()[]\\,;:@\"".contains(c);
    assert!(local.chars().all(is_safe), "{address:?}");
    assert!((1..=64).contains(&local.len()), "{address:?}");
    assert!((1..=253).contains(&domain.len()), "{address:?}");
    for label in domain.split('.') {
        let is_allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        assert!(label.bytes().all(is_allowed), "{address:?}");
        assert!((1..=63).contains(&label.len()), "{address:?}");
        assert!(
            !label.starts_with('-') && !label.ends_with('-'),
            "{address:?}"
        );
    }
    assert_eq!(mailbox.address.domain(), domain);
    if let Some(name) = &mailbox.name {
        assert!(!name.trim().is_empty(), "{name:?}");
        assert!(name.chars().count() <= 256, "{name:?}");
        assert!(!name.chars().any(char::is_control), "{name:?}");
        assert!(!name.contains("=?"), "{name:?}");
    }
}

/// The address that mail-parser finds in a header.
fn second_opinion(header: &str) -> Option<String> {
    let message = format!("To: {header}\r\n\r\n");
    let message = MessageParser::default().parse_headers(&message)?;
    let address = message.to()?.first()?.address()?;
    Some(address.to_owned())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn whatever_is_accepted_is_safe_and_reads_back_as_it_was_printed(text in a_text()) {
        let Ok(mailbox) = Mailbox::parse(&text) else {
            return Ok(());
        };
        assert_safe(&mailbox);
        let address = mailbox.address.to_string();
        prop_assert_eq!(Address::parse(&address), Ok(mailbox.address.clone()));
        let in_brackets = format!("<{address}>");
        prop_assert_eq!(second_opinion(&in_brackets), Some(address));
        prop_assert_eq!(Mailbox::parse(&mailbox.to_string()), Ok(mailbox));
    }

    #[test]
    fn an_ordinary_address_is_accepted_as_it_is(local in a_local_part(), domain in a_domain()) {
        let text = format!("{local}@{domain}");
        let mailbox = Mailbox::parse(&text).unwrap();
        assert_safe(&mailbox);
        prop_assert_eq!(mailbox.name, None);
        prop_assert_eq!(mailbox.address.needs_smtputf8(), false);
        let (read, _) = mailbox.address.as_str().split_once('@').unwrap();
        prop_assert_eq!(read, local);
        if domain.is_ascii() {
            prop_assert_eq!(mailbox.address.domain(), domain.to_lowercase());
        }
    }
}
