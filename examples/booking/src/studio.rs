//! What is done: booking and cancelling, and telling people of it.

use anyhow::Result;
use posthaste::{Email, Mailbox, Outbox, Sending};

use crate::booking::{Booking, BookingRequest};
use crate::mail;
use crate::problem::Problem;
use crate::settings::Settings;
use crate::slot::Slot;
use crate::store::{Follows, Store};

/// The studio. It is cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Studio {
    store: Store,
    outbox: Outbox,
    host: Mailbox,
}

impl Studio {
    /// The studio with its bookings, and the outbox that lives in the same file.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened.
    pub fn open(settings: &Settings, outbox: Outbox) -> Result<Self> {
        Ok(Self {
            store: Store::open(&settings.database)?,
            outbox,
            host: settings.host.clone(),
        })
    }

    /// Where its mail waits.
    #[must_use]
    pub fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// Books a slot, and sends the confirmation. Both are in one transaction: neither is there without
    /// the other.
    ///
    /// # Errors
    ///
    /// If it cannot be booked. Mail that cannot be sent is no reason.
    pub async fn book(&self, request: BookingRequest) -> Result<Booking, Problem> {
        let booking = request.check(self.outbox.now())?;
        let studio = self.clone();
        to_the_end(async move {
            let confirm = studio.sending(mail::confirmation);
            let kept = studio.store.insert(booking.clone(), confirm).await?;
            let confirmation = kept.ok_or(Problem::Taken)?;
            confirmation.detach();
            Ok(booking)
        })
        .await
    }

    /// Cancels a booking, and sends the cancellation. Doing it twice does it once.
    ///
    /// # Errors
    ///
    /// If there is no such booking. Mail that cannot be sent is no reason.
    pub async fn cancel(&self, id: String) -> Result<Booking, Problem> {
        let studio = self.clone();
        to_the_end(async move {
            let tell = studio.sending(mail::cancellation);
            match studio.store.cancel(id.clone(), tell).await? {
                Some((booking, cancellation)) => {
                    cancellation.detach();
                    Ok(booking)
                }
                None => studio.store.find(id).await?.ok_or(Problem::NotFound),
            }
        })
        .await
    }

    /// Puts an email about a booking into the transaction that changes it. It is sent right after the
    /// commit, in the background, and tried again if that fails: none of the visitor's business.
    fn sending(&self, letter: fn(&Mailbox, &Booking) -> Result<Email>) -> impl Follows<Sending> {
        let (outbox, host) = (self.outbox.clone(), self.host.clone());
        move |transaction, booking| Ok(outbox.send_in(transaction, letter(&host, booking)?)?)
    }

    /// All bookings, the next ones first.
    ///
    /// # Errors
    ///
    /// If the database does not do its work.
    pub async fn bookings(&self) -> Result<Vec<Booking>, Problem> {
        Ok(self.store.all().await?)
    }

    /// The slots that nobody has booked.
    ///
    /// # Errors
    ///
    /// If the database does not do its work.
    pub async fn free_slots(&self) -> Result<Vec<Slot>, Problem> {
        let bookings = self.store.all().await?;
        let is_taken = |slot: &Slot| bookings.iter().any(|b| !b.cancelled && b.slot == *slot);
        let mut slots = Slot::on_offer(self.outbox.now())?;
        slots.retain(|slot| !is_taken(slot));
        Ok(slots)
    }
}

/// Does the work even if the visitor hangs up in the middle of it, so that the email is sent now and
/// not when a worker takes it for lost.
async fn to_the_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, Problem>> + Send + 'static,
) -> Result<T, Problem> {
    tokio::spawn(work).await.map_err(anyhow::Error::from)?
}
