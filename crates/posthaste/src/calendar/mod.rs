//! Invitations: an [`Event`] becomes the iCalendar object that mail readers show with Accept and
//! Decline, that later takes it back, and that both Gmail and Outlook understand.
//!
//! ```
//! use posthaste::calendar::Event;
//!
//! let event = Event::new(
//!     "booking-4711@studio.example",
//!     "2026-11-20T18:30[Europe/Berlin]".parse()?,
//!     "2026-11-20T19:30[Europe/Berlin]".parse()?,
//! )
//! .summary("Pottery for beginners")
//! .location("Studio, Hauptstraße 1")
//! .organizer("Studio <studio@studio.example>")
//! .attendee("Ada <ada@example.org>");
//!
//! let invitation = event.request()?;
//! assert_eq!(invitation.method, "REQUEST");
//! assert!(invitation.content.contains("DTSTART;TZID=Europe/Berlin:20261120T183000"));
//!
//! // It changes: the same uid, and a sequence one higher each time.
//! let event = event.location("Garden").sequence(1);
//! let update = event.request()?;
//! assert!(update.content.contains("SEQUENCE:1"));
//!
//! // It is off. Made from the event as it was last sent, it outranks that.
//! let cancellation = event.cancel()?;
//! assert_eq!(cancellation.method, "CANCEL");
//! assert!(cancellation.content.contains("SEQUENCE:2"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Email::calendar`](crate::Email::calendar) takes each of them along.
//!
//! What to keep with the booking is the `uid` and the `sequence` that was sent last: calendars
//! know an event by the one, and ignore what is older by the other.
//!
//! Readers are more particular than the standards. Send the email from the organizer's address,
//! and to the attendees: Gmail offers no answer to somebody who is not among them.
//!
//! This module only makes objects. It reads none, and it never sends anything.

mod component;
mod event;
mod invalid;
mod person;
mod zone;

pub use jiff;

pub use self::event::Event;
pub use self::invalid::InvalidEvent;
pub use self::person::Attendee;
pub use crate::Calendar;
