//! Bookings: as they are asked for, and as they are kept.

use posthaste::{Error, Mailbox, Timestamp};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::problem::{FieldError, Problem};
use crate::slot::Slot;

/// A booking as someone asks for it. Everything in it is still to be checked.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct BookingRequest {
    /// Who comes.
    pub name: String,
    /// Where the confirmation goes.
    pub email: String,
    /// When, as in `2026-11-20T18:00`.
    pub slot: String,
}

/// A booking.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Booking {
    /// Its id.
    pub id: String,
    /// Who comes.
    pub name: String,
    /// Where mail about it goes.
    pub email: String,
    /// When.
    pub slot: Slot,
    /// What calendars know it by, for ever.
    pub uid: String,
    /// How often it was changed since the invitation. Its cancellation counts one more.
    pub sequence: u32,
    /// Whether it is off.
    pub cancelled: bool,
}

impl BookingRequest {
    /// The booking that is asked for.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it, so that it can be mended in one go.
    pub fn check(self, now: Timestamp) -> Result<Booking, Problem> {
        let mut errors = Vec::new();
        let (name, email) = (self.name.trim().to_owned(), self.email.trim().to_owned());
        if name.is_empty() {
            errors.push(FieldError::new("name", "is empty; write who comes"));
        }
        // Each by itself, so that what is wrong is told of both.
        errors.extend(wrong("name", Mailbox::new(&name, "anyone@example.org")));
        errors.extend(wrong("email", Mailbox::new("", &email)));
        let offer = Slot::on_offer(now)?;
        let slot = self.slot.trim().parse().ok();
        let Some(slot) = slot.filter(|slot| offer.contains(slot)) else {
            let message = "is not on offer; choose one of GET /api/slots";
            errors.push(FieldError::new("slot", message));
            return Err(Problem::Invalid(errors));
        };
        if !errors.is_empty() {
            return Err(Problem::Invalid(errors));
        }
        let id = Uuid::now_v7().to_string();
        Ok(Booking {
            uid: format!("booking-{id}@clay.example"),
            id,
            name,
            email,
            slot,
            sequence: 0,
            cancelled: false,
        })
    }
}

/// What is wrong with a mailbox, by the name of the field in the form.
fn wrong(field: &'static str, mailbox: Result<Mailbox, Error>) -> Option<FieldError> {
    let Err(Error::Invalid(errors)) = mailbox else {
        return None;
    };
    let error = errors.into_iter().next()?;
    Some(FieldError::new(field, error.message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors_of(name: &str, email: &str, slot: &str) -> Vec<&'static str> {
        let [name, email, slot] = [name, email, slot].map(str::to_owned);
        let request = BookingRequest { name, email, slot };
        match request.check("2026-11-20T11:00:00Z".parse().unwrap()) {
            Err(Problem::Invalid(errors)) => errors.iter().map(|error| error.field).collect(),
            Err(other) => panic!("{other}"),
            Ok(_) => Vec::new(),
        }
    }

    #[test]
    fn every_field_that_is_wrong_is_named() {
        let (ada, address, slot) = ("Ada", "ada@example.org", "2026-11-20T18:00");
        assert!(errors_of(ada, address, slot).is_empty());
        assert!(errors_of("Ada \"Countess\", née B.", address, slot).is_empty());
        assert_eq!(errors_of("", "", ""), ["name", "email", "slot"]);
        for name in [" ", "Ada <a@b.c>", "=?utf-8?q?Ada?=", "A\nBcc: x"] {
            assert_eq!(errors_of(name, address, slot), ["name"], "{name:?}");
        }
        for email in [
            "ada",
            "Ada <ada@example.org>",
            "a@b.c, d@e.f",
            "a@b.c>\r\nBcc: <x@y.z",
        ] {
            assert_eq!(errors_of(ada, email, slot), ["email"], "{email:?}");
        }
        for slot in [
            "tomorrow",
            "2026-11-20T10:00",
            "2026-11-20T18:30",
            "2027-11-20T18:00",
        ] {
            assert_eq!(errors_of(ada, address, slot), ["slot"], "{slot:?}");
        }
    }
}
