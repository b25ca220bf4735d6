//! What providers say later.

use std::collections::{BTreeSet, HashMap};

use deadpool_postgres::ClientWrapper;
use posthaste_core::email::{EmailId, Recipient};
use posthaste_core::feedback::{ProviderEvent, Recorded};
use posthaste_core::port::StoreResult;
use tokio_postgres::Row;
use uuid::Uuid;

use super::books::Books;
use super::email_row::from_json;
use super::error::{Trouble, corrupt};
use super::list::has_nul;
use super::recipient_row::address_of;
use super::state_row::{STATE_WIDTH, get, lock_states, named, optional_name};
use super::{PostgresStore, suppression};
use crate::feedback::{Known, Subject, record};

/// Emails with attempts that the provider knows by these names, and whether the email was replayed
/// since.
pub(super) const NAMED: &str =
    "SELECT a.provider_id, a.email_id, bool_and(a.number <= l.budget_from)
     FROM email_attempt a JOIN email_log l ON l.id = a.email_id
     WHERE a.provider_id = ANY($1) AND a.transport = $2
     GROUP BY a.provider_id, a.email_id";

const EMAILS: &str = "SELECT id, owner, recipients::text, recipient_count, erased_at IS NOT NULL
     FROM email WHERE id = ANY($1)";

const RECIPIENTS: &str = "SELECT email_id, address, status, detail, reason FROM recipient
     WHERE email_id = ANY($1) ORDER BY email_id, position";

impl PostgresStore {
    pub(super) async fn record_all_feedback(
        &self,
        transport: &str,
        events: Vec<ProviderEvent>,
    ) -> StoreResult<Vec<Recorded>> {
        let recorded = self.keep_books(async |client, books| {
            let known = look_up(client, books, transport, &events).await?;
            let Ok(mut outcome) = record(books, transport, &events, known);
            for (event, one) in std::mem::take(&mut outcome.suppressions) {
                if suppression::put(client, &one).await?.is_change() {
                    outcome.was_put(event);
                }
            }
            Ok(outcome.recorded)
        });
        recorded.await.map(|(recorded, _)| recorded)
    }
}

/// Reads and locks the emails that events may be about.
async fn look_up(
    client: &ClientWrapper,
    books: &mut Books,
    transport: &str,
    events: &[ProviderEvent],
) -> Result<Known, Trouble> {
    let names: Vec<&str> = events
        .iter()
        .map(|event| event.provider_id.as_str())
        .filter(|name| !has_nul(name))
        .collect();
    let find = client.prepare_cached(NAMED).await?;
    let mut ids: BTreeSet<Uuid> = events
        .iter()
        .filter_map(|e| e.email_id)
        .map(|id| id.0)
        .collect();
    for row in client.query(&find, &[&names, &transport]).await? {
        ids.insert(get(&row, 1)?);
    }
    let ids: Vec<Uuid> = ids.into_iter().collect();
    let lock = client.prepare_cached(&lock_states()).await?;
    for row in client.query(&lock, &[&ids]).await? {
        books.read_state(&row, STATE_WIDTH)?;
    }
    let mut known = Known::default();
    // Again: an attempt that was recorded before its email was locked has its name by now.
    for row in client.query(&find, &[&names, &transport]).await? {
        known.add_name(get(&row, 0)?, EmailId(get(&row, 1)?), get(&row, 2)?);
    }
    let mut rows = recipients_of(client, &ids).await?;
    let read = client.prepare_cached(EMAILS).await?;
    for row in client.query(&read, &[&ids]).await? {
        let id: Uuid = get(&row, 0)?;
        let count = usize::try_from(get::<i32>(&row, 3)?).map_err(corrupt)?;
        let rows = rows.remove(&id).unwrap_or_default();
        let subject = Subject::new(
            get(&row, 1)?,
            from_json(&row, 2)?,
            count,
            get(&row, 4)?,
            rows,
        );
        known.add(EmailId(id), subject);
    }
    Ok(known)
}

async fn recipients_of(
    client: &ClientWrapper,
    ids: &[Uuid],
) -> Result<HashMap<Uuid, Vec<Recipient>>, Trouble> {
    let statement = client.prepare_cached(RECIPIENTS).await?;
    let mut found: HashMap<Uuid, Vec<Recipient>> = HashMap::new();
    for row in client.query(&statement, &[&ids]).await? {
        found
            .entry(get(&row, 0)?)
            .or_default()
            .push(recipient_of(&row)?);
    }
    Ok(found)
}

fn recipient_of(row: &Row) -> StoreResult<Recipient> {
    Ok(Recipient {
        address: address_of(row, 1)?,
        status: named(row, 2)?,
        detail: get(row, 3)?,
        reason: optional_name(row, 4)?,
    })
}
