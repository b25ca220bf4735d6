//! An email in a transaction of the application's own that is sent right after the commit.

use posthaste_core::email::{EmailId, NewEmail};
use posthaste_core::port::{Opened, Started};
use posthaste_engine::intake::{FirstAttempt, Reserved};

use crate::{Delivery, Error, Outbox};

/// An email that [`Outbox::send_in`] put into a transaction. It is sent once that has committed.
///
/// If nothing is done with it, the email is sent by the [`Worker`](crate::Worker), after the
/// [lease](crate::OutboxBuilder::lease) is over. If the transaction did not commit, nothing is sent,
/// whatever is done.
#[must_use = "the email is sent by `finish` or `detach`, after the commit"]
pub struct Sending {
    outbox: Outbox,
    id: EmailId,
    message_key: String,
    /// What is to be sent; `None` if others see to it.
    begun: Option<(Box<Started>, Reserved)>,
}

impl Sending {
    pub(crate) fn new(
        outbox: Outbox,
        email: &NewEmail,
        opened: Opened,
        room: Option<Reserved>,
    ) -> Result<Self, Error> {
        let (id, begun) = match opened {
            Opened::Started(started) => (started.lease.id, Some(started).zip(room)),
            Opened::Replayed(id, _) => (id, None),
            Opened::KeyConflict(id) => return Err(Error::KeyConflict(id)),
        };
        Ok(Self {
            outbox,
            id,
            message_key: email.message_key.clone(),
            begun,
        })
    }

    /// The email's id.
    #[must_use]
    pub const fn id(&self) -> EmailId {
        self.id
    }

    /// Sends it and says what became of it, as [`Outbox::send_or_enqueue`] does. Commit first: before
    /// that nothing can be sent, and what is committed later waits for the lease to be over.
    ///
    /// # Errors
    ///
    /// If the database does not answer; [`Error::NotFound`] if the transaction did not commit.
    pub async fn finish(self) -> Result<Delivery, Error> {
        let (outbox, id) = (self.outbox.clone(), self.id);
        let delivered = match self.start() {
            Some(attempt) => outbox.wait_for(attempt).await?,
            None => outbox.standing(id).await?,
        };
        delivered.ok_or(Error::NotFound(id))
    }

    /// Sends it in the background.
    pub fn detach(self) {
        drop(self.start());
    }

    fn start(self) -> Option<FirstAttempt> {
        let Some((started, room)) = self.begun else {
            // The worker finds it.
            self.outbox.wake();
            return None;
        };
        Some(room.send(*started, self.message_key))
    }
}

impl std::fmt::Debug for Sending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sending").field("id", &self.id).finish()
    }
}
