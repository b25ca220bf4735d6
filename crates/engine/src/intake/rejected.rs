//! A request that cannot be taken, and what it is answered.
//!
//! The same request under the same key is the same email for ever. It may not be valid any more
//! when it comes again: its template was changed or deleted, or its time is over. So whoever hands
//! it in again is told of the email that there is, before anything is said to be wrong.

use posthaste_core::port::{Accepted, SharedStore, StoreError};

use super::{FieldError, Refused, Taken};

/// A request that cannot be taken.
pub(super) struct Rejected {
    refused: Refused,
    /// The key and the payload hash under which it may have been accepted before.
    earlier: Option<(String, [u8; 32])>,
}

impl Rejected {
    /// One in which this is wrong.
    pub(super) fn invalid(
        message_key: Option<String>,
        payload_hash: [u8; 32],
        errors: Vec<FieldError>,
    ) -> Self {
        let was_possible = errors.iter().all(|error| error.field != "message_key");
        Self {
            refused: Refused::Invalid(errors),
            earlier: message_key
                .filter(|_| was_possible)
                .map(|key| (key, payload_hash)),
        }
    }

    /// One that comes to too large an email.
    pub(super) fn too_large(
        message_key: String,
        payload_hash: [u8; 32],
        size: usize,
        limit: usize,
    ) -> Self {
        Self {
            refused: Refused::TooLarge { size, limit },
            earlier: Some((message_key, payload_hash)),
        }
    }

    /// What is wrong with it, whether it was accepted before or not.
    pub(super) fn into_refused(self) -> Refused {
        self.refused
    }

    /// What its owner is told.
    pub(super) async fn answer(self, owner: &str, store: &SharedStore) -> Result<Taken, Refused> {
        let Some((message_key, payload_hash)) = self.earlier else {
            return Err(self.refused);
        };
        let before = store.accepted_before(owner, &message_key, payload_hash);
        match before.await? {
            Some(Accepted::Replayed(id, status)) => Ok(Taken::Replayed {
                id,
                message_key,
                status,
            }),
            Some(Accepted::KeyConflict(id)) => Err(Refused::KeyConflict(id)),
            Some(Accepted::Created) | None => Err(self.refused),
        }
    }
}

impl From<StoreError> for Rejected {
    fn from(error: StoreError) -> Self {
        Self {
            refused: error.into(),
            earlier: None,
        }
    }
}
