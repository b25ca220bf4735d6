//! An event, from its fields to the objects that invite to it and that call it off (RFC 5546 §3.2).

use icalendar::Property;
use jiff::{Timestamp, Zoned};
use posthaste_core::address::Mailbox;

use super::component::Component;
use super::invalid::{Findings, InvalidEvent};
use super::person::{Attendee, person};
use super::zone;
use crate::Calendar;

/// Who made the object. Calendars want to know, and show it to nobody.
const PRODUCT: &str = "-//Posthaste//Posthaste//EN";

const LONGEST_UID: usize = 255;
const LONGEST_LINE: usize = 1_000;
const LONGEST_DESCRIPTION: usize = 32_768;
/// One less than the largest INTEGER of iCalendar: a cancellation counts one up.
const LARGEST_SEQUENCE: u32 = i32::MAX as u32 - 1;

/// Something that people are invited to.
///
/// It is only put together here; [`request`](Self::request) and [`cancel`](Self::cancel) check it.
#[derive(Debug, Clone)]
pub struct Event {
    uid: String,
    start: Zoned,
    end: Zoned,
    sequence: u32,
    stamp: Option<Timestamp>,
    summary: String,
    location: Option<String>,
    description: Option<String>,
    organizer: Option<String>,
    attendees: Vec<Attendee>,
}

impl Event {
    /// An event from one time to another.
    ///
    /// Calendars know it by the `uid` for ever, across all senders: make it from your own id and
    /// your domain, as in `booking-4711@studio.example`.
    ///
    /// The times are shown by the clocks of their zones, which may differ. A civil time becomes one
    /// with `date(2026, 11, 20).at(18, 30, 0, 0).in_tz("Europe/Berlin")`; see [`jiff`].
    #[must_use]
    pub fn new(uid: impl Into<String>, start: Zoned, end: Zoned) -> Self {
        Self {
            uid: uid.into(),
            start,
            end,
            sequence: 0,
            stamp: None,
            summary: String::new(),
            location: None,
            description: None,
            organizer: None,
            attendees: Vec::new(),
        }
    }

    /// What it is, in one line.
    #[must_use]
    pub fn summary(mut self, summary: impl Into<String>) -> Self {
        self.summary = summary.into();
        self
    }

    /// Where it is, in one line.
    #[must_use]
    pub fn location(mut self, location: impl Into<String>) -> Self {
        self.location = Some(location.into());
        self
    }

    /// More about it, in as many lines as you like.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Who invites, as an address or as `Name <address>`. Answers go there.
    #[must_use]
    pub fn organizer(mut self, organizer: impl Into<String>) -> Self {
        self.organizer = Some(organizer.into());
        self
    }

    /// One more who is invited: an [`Attendee`], or just `Name <address>`.
    #[must_use]
    pub fn attendee(mut self, attendee: impl Into<Attendee>) -> Self {
        self.attendees.push(attendee.into());
        self
    }

    /// How often the event was changed since the first invitation, which has 0. Calendars ignore
    /// what has a lower one than they know.
    #[must_use]
    pub const fn sequence(mut self, sequence: u32) -> Self {
        self.sequence = sequence;
        self
    }

    /// When the object is made. The present, if it is not said.
    #[must_use]
    pub const fn stamp(mut self, stamp: Timestamp) -> Self {
        self.stamp = Some(stamp);
        self
    }

    /// The invitation, or with a higher [`sequence`](Self::sequence) its update.
    pub fn request(&self) -> Result<Calendar, InvalidEvent> {
        self.object("REQUEST", "CONFIRMED", self.sequence)
    }

    /// What calls it off, for the event as it was sent last: its sequence is one higher than that
    /// of the event.
    pub fn cancel(&self) -> Result<Calendar, InvalidEvent> {
        self.object("CANCEL", "CANCELLED", self.sequence.saturating_add(1))
    }

    fn object(&self, method: &str, status: &str, sequence: u32) -> Result<Calendar, InvalidEvent> {
        let (organizer, attendees) = self.check()?;
        let people = attendees.iter().zip(&self.attendees);
        let event = Component::new("VEVENT")
            .property(("UID", self.uid.as_str()))
            .property(zone::utc_time(
                "DTSTAMP",
                self.stamp.unwrap_or_else(Timestamp::now),
            ))
            .property(("SEQUENCE", sequence.to_string().as_str()))
            .property(("STATUS", status))
            .property(zone::time("DTSTART", &self.start))
            .property(zone::time("DTEND", &self.end))
            .property(("SUMMARY", self.summary.as_str()))
            .properties(optional("LOCATION", self.location.as_deref()))
            .properties(optional("DESCRIPTION", self.description.as_deref()))
            .property(person("ORGANIZER", &organizer))
            .properties(people.map(|(mailbox, attendee)| attendee.property(mailbox)));
        let calendar = Component::new("VCALENDAR")
            .property(("PRODID", PRODUCT))
            .property(("VERSION", "2.0"))
            .property(("CALSCALE", "GREGORIAN"))
            .property(("METHOD", method))
            .parts(zone::zones([&self.start, &self.end]))
            .parts([event]);
        Ok(Calendar {
            content: calendar.to_string(),
            method: method.to_owned(),
        })
    }

    /// The organizer and the attendees, or everything that is wrong.
    fn check(&self) -> Result<(Mailbox, Vec<Mailbox>), InvalidEvent> {
        let mut findings = Findings::default();
        findings.check_line("uid", &self.uid, LONGEST_UID);
        findings.check_line("summary", &self.summary, LONGEST_LINE);
        for (field, text) in [("uid", &self.uid), ("summary", &self.summary)] {
            if text.trim().is_empty() {
                findings.note(field, "is missing; an invitation must have it");
            }
        }
        if let Some(location) = &self.location {
            findings.check_line("location", location, LONGEST_LINE);
        }
        if let Some(description) = &self.description {
            findings.check_lines("description", description, LONGEST_DESCRIPTION);
        }
        if self.start.year() < 1 {
            findings.note("start", "is before the year 1; calendars begin there");
        }
        if self.end.timestamp().as_second() <= self.start.timestamp().as_second() {
            findings.note("end", "is not later than the start");
        }
        if self.sequence > LARGEST_SEQUENCE {
            let message = format!("is larger than {LARGEST_SEQUENCE}; count changes, from 0");
            findings.note("sequence", message);
        }
        if self.attendees.is_empty() {
            findings.note("attendee", "is missing; say who is invited");
        }
        let organizer = match &self.organizer {
            Some(organizer) => findings.mailbox("organizer", organizer),
            None => {
                findings.note("organizer", "is missing; say who invites");
                None
            }
        };
        let attendees = self.attendees.iter().enumerate();
        let attendees = attendees
            .filter_map(|(index, attendee)| {
                findings.mailbox(&format!("attendee[{index}]"), &attendee.mailbox)
            })
            .collect();
        findings.into_result(organizer.map(|organizer| (organizer, attendees)))
    }
}

/// A text that may be missing. Its line breaks are one character each, whatever they were.
fn optional(name: &str, text: Option<&str>) -> Option<Property> {
    let text = text?.replace("\r\n", "\n").replace('\r', "\n");
    Some(Property::new(name, text))
}
