//! The people of an event: who invites, and who is invited.

use std::fmt::Write as _;

use icalendar::Property;
use posthaste_core::address::{Address, Mailbox};

/// Someone who is invited.
#[derive(Debug, Clone)]
pub struct Attendee {
    pub(super) mailbox: String,
    rsvp: bool,
    required: bool,
}

impl Attendee {
    /// An address, or `Name <address>`: someone who should come, and is asked to answer.
    #[must_use]
    pub fn new(mailbox: impl Into<String>) -> Self {
        Self {
            mailbox: mailbox.into(),
            rsvp: true,
            required: true,
        }
    }

    /// Whether an answer is asked for.
    #[must_use]
    pub const fn rsvp(mut self, rsvp: bool) -> Self {
        self.rsvp = rsvp;
        self
    }

    /// Someone who may come, but need not.
    #[must_use]
    pub const fn optional(mut self) -> Self {
        self.required = false;
        self
    }

    /// The property of an attendee whose mailbox was checked.
    pub(super) fn property(&self, mailbox: &Mailbox) -> Property {
        let role = if self.required { "REQ" } else { "OPT" };
        person("ATTENDEE", mailbox)
            .add_parameter("CUTYPE", "INDIVIDUAL")
            .add_parameter("ROLE", &format!("{role}-PARTICIPANT"))
            .add_parameter("PARTSTAT", "NEEDS-ACTION")
            .add_parameter("RSVP", if self.rsvp { "TRUE" } else { "FALSE" })
            .done()
    }
}

impl From<&str> for Attendee {
    fn from(mailbox: &str) -> Self {
        Self::new(mailbox)
    }
}

impl From<crate::Mailbox> for Attendee {
    fn from(mailbox: crate::Mailbox) -> Self {
        Self::new(mailbox)
    }
}

impl From<String> for Attendee {
    fn from(mailbox: String) -> Self {
        Self::new(mailbox)
    }
}

/// A property whose value is a person. Names cannot have double quotes (RFC 5545 §3.2), and a
/// caret begins an escape (RFC 6868).
pub(super) fn person(name: &str, mailbox: &Mailbox) -> Property {
    let mut property = Property::new(name, mailto(&mailbox.address));
    if let Some(name) = &mailbox.name {
        let name = name.replace('^', "^^").replace('"', "'");
        property.add_parameter("CN", &name);
    }
    property
}

/// An address as a URI: what has a meaning in one, and what is not ASCII, by its octets (RFC 6068).
fn mailto(address: &Address) -> String {
    let mut uri = String::from("mailto:");
    for octet in address.as_str().bytes() {
        if octet.is_ascii_alphanumeric() || b"@.-_~!$'*+".contains(&octet) {
            uri.push(char::from(octet));
        } else {
            // Cannot fail: it is written into a String.
            let _ = write!(uri, "%{octet:02X}");
        }
    }
    uri
}
