//! What is said before a message: MAIL, RCPT and DATA, written for what a server offers.
//!
//! An address must never bring a command of its own.

use std::io::Write;

use posthaste_core::address::Address;
use posthaste_core::attempt::{Cause, Failure, Stage};
use posthaste_core::port::Outgoing;

use super::dot_stuffing::size_of;
use super::extensions::Extensions;

/// Pipelined commands are sent in windows of about this size. It holds hundreds of recipients,
/// and is small enough that neither side waits for the other to read.
pub(super) const WINDOW: usize = 32 * 1024;

/// A command of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    /// RSET.
    Reset,
    /// MAIL.
    Mail,
    /// RCPT for the recipient with this index.
    Recipient(usize),
    /// DATA.
    Data,
}

/// Adds a command to what is written next.
pub(super) fn push(out: &mut Vec<u8>, command: Command, email: &Outgoing, offers: &Extensions) {
    match command {
        Command::Reset => out.extend_from_slice(b"RSET"),
        Command::Mail => {
            out.extend_from_slice(b"MAIL FROM:<");
            out.extend_from_slice(email.from.as_str().as_bytes());
            out.push(b'>');
            if offers.size {
                // Writing to a vector cannot fail.
                let _ = write!(out, " SIZE={}", size_of(&email.content));
            }
            if offers.eight_bit_mime && !email.content.is_ascii() {
                out.extend_from_slice(b" BODY=8BITMIME");
            }
            let mut addresses = email.recipients.iter().chain([&email.from]);
            // Those that need it and cannot have it were refused before.
            if offers.smtputf8 && addresses.any(Address::needs_smtputf8) {
                out.extend_from_slice(b" SMTPUTF8");
            }
        }
        Command::Recipient(index) => {
            out.extend_from_slice(b"RCPT TO:<");
            out.extend_from_slice(email.recipients[index].as_str().as_bytes());
            out.push(b'>');
        }
        Command::Data => out.extend_from_slice(b"DATA"),
    }
    out.extend_from_slice(b"\r\n");
}

/// The whole announcement in one window, for a server that takes all of it at once and would not
/// be kept from any recipient. Otherwise it is better made step by step.
pub(super) fn in_one_go(email: &Outgoing, offers: &Extensions) -> Option<Vec<u8>> {
    let recipients = &email.recipients;
    if !offers.pipelining
        || refusal(email, offers).is_some()
        || recipients
            .iter()
            .any(|recipient| refusal_of(recipient, offers).is_some())
    {
        return None;
    }
    let mut out = Vec::with_capacity(128 + 64 * recipients.len());
    push(&mut out, Command::Mail, email, offers);
    for index in 0..recipients.len() {
        push(&mut out, Command::Recipient(index), email, offers);
    }
    push(&mut out, Command::Data, email, offers);
    (out.len() <= WINDOW).then_some(out)
}

/// Why this email cannot be given to the server at all, as far as its offers tell.
pub(super) fn refusal(email: &Outgoing, offers: &Extensions) -> Option<Failure> {
    let size = size_of(&email.content);
    let cause = match offers.size_limit {
        Some(limit) if size > limit => Some(Cause::TooLarge { size, limit }),
        _ => unsupported(&email.from, offers.smtputf8),
    };
    cause.map(|cause| Failure::new(Stage::MailFrom, cause))
}

/// Why this recipient cannot be given to the server.
pub(super) fn refusal_of(recipient: &Address, offers: &Extensions) -> Option<Failure> {
    let cause = unsupported(recipient, offers.smtputf8);
    cause.map(|cause| Failure::new(Stage::Recipient, cause))
}

/// Why this address cannot be given to the server.
fn unsupported(address: &Address, has_smtputf8: bool) -> Option<Cause> {
    let text = if !is_one_path(address.as_str()) {
        "an address that is not one word".to_owned()
    } else if address.needs_smtputf8() && !has_smtputf8 {
        format!("SMTPUTF8, which the address {address} needs")
    } else {
        return None;
    };
    Some(Cause::NotSupported(text))
}

/// Whether an address cannot break out of `<…>`. Addresses are checked when they come in; this
/// is the last place to stop one that came in another way.
fn is_one_path(address: &str) -> bool {
    !address
        .bytes()
        .any(|byte| byte <= b' ' || matches!(byte, b'<' | b'>' | 0x7f))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_cannot_bring_a_command_of_its_own() {
        for address in [
            "a@b>\r\nRCPT TO:<c@d",
            "a b@c",
            "a@b\0",
            "<a@b",
            "a@b>",
            "a@b\x7f",
        ] {
            assert!(!is_one_path(address), "{address:?}");
        }
        for address in [
            "a@b",
            "jörg+tag@example.org",
            "o'neil@xn--bcher-kva.example",
        ] {
            assert!(is_one_path(address), "{address:?}");
        }
    }
}
