//! What is written to people. One function makes the confirmation and one the cancellation, so that
//! what is sent at once and what is sent after an outage are the same.

use anyhow::Result;
use posthaste::calendar::Event;
use posthaste::{Email, Mailbox};

use crate::booking::Booking;
use crate::slot::ZONE;

const TITLE: &str = "An hour and a half at the wheel";
const PLACE: &str = "Clay Studio, Lehmweg 7, Berlin";

/// The confirmation, with an invitation for the calendar.
///
/// # Errors
///
/// If no invitation can be made from the booking.
pub fn confirmation(host: &Mailbox, booking: &Booking) -> Result<Email> {
    let (name, when) = (&booking.name, booking.slot.in_words());
    let text = format!(
        "Hello {name},\n\n\
         the wheel is yours on {when} ({ZONE}), at {PLACE}.\n\
         Bring an apron. Clay and tea are here.\n\n\
         You cannot come? Answer this email, and somebody else will be glad.\n"
    );
    Ok(letter(host, booking)?
        .subject(format!("Booked: {when}"))
        .text(text)
        .calendar(event(host, booking)?.request()?)
        .message_key(format!("booking-{}-confirmation", booking.id)))
}

/// The cancellation, which takes the event out of the calendar again.
///
/// # Errors
///
/// If no cancellation can be made from the booking.
pub fn cancellation(host: &Mailbox, booking: &Booking) -> Result<Email> {
    let (name, when) = (&booking.name, booking.slot.in_words());
    let text = format!(
        "Hello {name},\n\n\
         your booking on {when} ({ZONE}) is cancelled.\n\n\
         We hope to see you another time.\n"
    );
    Ok(letter(host, booking)?
        .subject(format!("Cancelled: {when}"))
        .text(text)
        .calendar(event(host, booking)?.cancel()?)
        .message_key(format!("booking-{}-cancellation", booking.id)))
}

/// From the studio to the visitor, with a copy for the studio that the visitor does not see.
fn letter(host: &Mailbox, booking: &Booking) -> Result<Email> {
    Ok(Email::new(host.clone(), visitor(booking)?).bcc(host.clone()))
}

fn event(host: &Mailbox, booking: &Booking) -> Result<Event> {
    let (start, end) = (booking.slot.start()?, booking.slot.end()?);
    Ok(Event::new(&booking.uid, start, end)
        .sequence(booking.sequence)
        .summary(TITLE)
        .location(PLACE)
        .organizer(host.clone())
        .attendee(visitor(booking)?))
}

fn visitor(booking: &Booking) -> Result<Mailbox> {
    Ok(Mailbox::new(&booking.name, &booking.email)?)
}
