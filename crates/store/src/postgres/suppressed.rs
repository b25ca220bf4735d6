//! Which recipients get nothing any more.

use std::collections::HashMap;

use deadpool_postgres::ClientWrapper;
use posthaste_core::address::Address;
use posthaste_core::port::StoreResult;
use posthaste_core::status::DeadReason;
use posthaste_core::suppression::folded;
use tokio_postgres::{Error, Row, Statement};

use super::state_row::{get, named};
use crate::ledger::Suppressed;

/// Those of the addresses (`$2`) that are on the lists of their emails' owners (`$1`).
pub(super) const READ: &str = "SELECT s.owner, s.address, s.reason
     FROM unnest($1::text[], $2::text[]) AS u (owner, address)
     JOIN suppression s ON s.owner = u.owner AND s.address = u.address";

/// Addresses to ask for, each with an owner.
#[derive(Default)]
pub(super) struct Asked {
    pub(super) owners: Vec<String>,
    pub(super) addresses: Vec<String>,
}

impl Asked {
    /// Asks for these of an owner, too.
    pub(super) fn add<'a>(&mut self, owner: &str, to: impl Iterator<Item = &'a Address>) {
        self.addresses.extend(to.map(folded));
        self.owners.resize(self.addresses.len(), owner.to_owned());
    }
}

/// Addresses to ask for, and the statement for it unless there are none.
pub(super) struct Wanted {
    asked: Asked,
    statement: Option<Statement>,
}

impl Wanted {
    pub(super) async fn prepare(client: &ClientWrapper, asked: Asked) -> Result<Self, Error> {
        let statement = match asked.addresses.is_empty() {
            true => None,
            false => Some(client.prepare_cached(READ).await?),
        };
        Ok(Self { asked, statement })
    }

    /// Those that are on the lists.
    pub(super) async fn read(&self, client: &ClientWrapper) -> Result<Vec<Row>, Error> {
        let Asked { owners, addresses } = &self.asked;
        match &self.statement {
            None => Ok(Vec::new()),
            Some(statement) => client.query(statement, &[owners, addresses]).await,
        }
    }
}

/// Who was found: owner, address, and why.
#[derive(Default)]
pub(super) struct SuppressionList(HashMap<(String, String), DeadReason>);

impl SuppressionList {
    /// What `READ` answered.
    pub(super) fn of(rows: &[Row]) -> StoreResult<Self> {
        let one = |row: &Row| Ok(((get(row, 0)?, get(row, 1)?), named(row, 2)?));
        rows.iter().map(one).collect::<StoreResult<_>>().map(Self)
    }

    /// Those of the recipients that are on the list of their email's owner.
    pub(super) fn among<'a>(
        &self,
        owner: &str,
        to: impl Iterator<Item = &'a Address>,
    ) -> Suppressed {
        if self.0.is_empty() {
            return Suppressed::new();
        }
        let reason = |address| self.0.get(&(owner.to_owned(), folded(address))).copied();
        to.enumerate()
            .filter_map(|(place, address)| Some((place, reason(address)?)))
            .collect()
    }
}
