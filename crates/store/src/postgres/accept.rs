//! New emails.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::ClientWrapper;
use posthaste_core::email::{EmailId, NewEmail};
use posthaste_core::port::{Accepted, Opened, Opener, StoreError, StoreResult};
use posthaste_core::status::Status;
use tokio_postgres::Row;

use super::PostgresStore;
use super::attempt::hand_back;
use super::books::Books;
use super::error::Trouble;
use super::insert::NewEntry;
use super::list::has_nul;
use super::state_row::{get, named};
use super::writer::Wants;
use crate::ledger::First;

impl PostgresStore {
    pub(super) async fn accept_all(
        &self,
        emails: Vec<NewEmail>,
        ticketed: bool,
    ) -> StoreResult<Vec<StoreResult<Accepted>>> {
        let first = if ticketed {
            First::Ticket
        } else {
            First::Finder
        };
        // Each entry stands for itself: one that fails spoils no other.
        let accepting = emails.into_iter().map(async |email| {
            let id = email.id;
            let entry = NewEntry {
                email,
                first,
                begins: None,
            };
            let accepted = self.writer.run(Wants::new_email(entry), move |books| {
                books.accepted.get(&id).cloned()
            });
            accepted.await?.ok_or_else(not_inserted)
        });
        Ok(futures_util::future::join_all(accepting).await)
    }

    pub(super) async fn accept_and_begin(
        &self,
        emails: Vec<NewEmail>,
        opener: Opener,
        worker: &str,
        lease: Duration,
    ) -> StoreResult<Vec<StoreResult<Opened>>> {
        let worker: Arc<str> = worker.into();
        let opening = emails.into_iter().map(async |email: NewEmail| {
            let id = email.id;
            let open = move |books: &mut Books| match books.accepted.get(&id).cloned()? {
                Accepted::Created => books.opened(id).map(Opened::Started),
                Accepted::Replayed(id, status) => Some(Opened::Replayed(id, status)),
                Accepted::KeyConflict(id) => Some(Opened::KeyConflict(id)),
            };
            // Nobody would hold the lease of one that came too late for its caller.
            let writer = Arc::clone(&self.writer);
            let unclaimed = move |opened: Option<Opened>| {
                if let Some(Opened::Started(started)) = opened {
                    hand_back(writer, vec![started.lease]);
                }
            };
            let wants = Wants::new_email(NewEntry {
                email,
                first: opener.into(),
                begins: Some((Arc::clone(&worker), lease)),
            });
            let opened = self
                .writer
                .run_claimed(wants, open, Some(Box::new(unclaimed)));
            opened.await?.ok_or_else(not_inserted)
        });
        Ok(futures_util::future::join_all(opening).await)
    }

    pub(super) async fn accepted_earlier(
        &self,
        owner: &str,
        message_key: &str,
        payload_hash: [u8; 32],
    ) -> StoreResult<Option<Accepted>> {
        if has_nul(owner) || has_nul(message_key) {
            return Ok(None);
        }
        // A caller waits for it who hands an email in, so it does not wait behind people's queries.
        let rows = self
            .pool
            .query(EXISTING, &[&[message_key].as_slice(), &[owner].as_slice()])
            .await?;
        let row = rows.first();
        row.map(|row| Ok(Earlier::of(row)?.answer(&payload_hash)))
            .transpose()
    }
}

pub(super) const EXISTING: &str = "SELECT e.message_key, e.owner, e.id, e.payload_hash, l.status
     FROM unnest($1::text[], $2::text[]) AS u (message_key, owner)
     JOIN email e ON e.message_key = u.message_key AND e.owner = u.owner
     JOIN email_log l ON l.id = e.id";

pub(super) fn not_inserted() -> StoreError {
    StoreError::Failed("the email was not inserted".into())
}

/// An email that was accepted before under the same key.
pub(super) struct Earlier {
    id: EmailId,
    payload_hash: Vec<u8>,
    status: Status,
}

impl Earlier {
    pub(super) fn of(row: &Row) -> StoreResult<Self> {
        Ok(Self {
            id: EmailId(get(row, 2)?),
            payload_hash: get(row, 3)?,
            status: named(row, 4)?,
        })
    }

    /// The same again, or something else.
    pub(super) fn answer(&self, payload_hash: &[u8; 32]) -> Accepted {
        if self.payload_hash == payload_hash {
            Accepted::Replayed(self.id, self.status)
        } else {
            Accepted::KeyConflict(self.id)
        }
    }
}

/// Says what became of emails whose keys are not new.
pub(super) async fn answer_replays(
    client: &ClientWrapper,
    replayed: &[&NewEntry],
    books: &mut Books,
) -> Result<(), Trouble> {
    if replayed.is_empty() {
        return Ok(());
    }
    let keys: Vec<&str> = replayed.iter().map(|one| &*one.email.message_key).collect();
    let owners: Vec<&str> = replayed.iter().map(|one| &*one.email.owner).collect();
    let statement = client.prepare_cached(EXISTING).await?;
    let rows = client.query(&statement, &[&keys, &owners]).await?;
    let existing: HashMap<(&str, &str), Earlier> = rows
        .iter()
        .map(|row| Ok(((get(row, 0)?, get(row, 1)?), Earlier::of(row)?)))
        .collect::<StoreResult<_>>()?;
    for NewEntry { email, .. } in replayed {
        let key = (&*email.message_key, &*email.owner);
        // It may have been sent and removed just now.
        let earlier = existing.get(&key).ok_or(Trouble::Vanished)?;
        let accepted = earlier.answer(&email.payload_hash);
        books.accepted.insert(email.id, accepted);
    }
    Ok(())
}
