//! What `verify` looks at of messages.

use std::collections::BTreeMap;

use deadpool_postgres::ClientWrapper;
use posthaste_core::message::MessageStatus;
use posthaste_core::port::{StoreResult, Violation};
use tokio_postgres::{Error, Row};

use super::super::error::corrupt;
use super::count::{COUNTERS, counters_of};
use crate::message::{Check, added_up, disagreements};

/// Counters, and what the rows say.
pub(in crate::postgres) struct Counted {
    counters: Vec<Row>,
    rows: Vec<Row>,
}

impl Counted {
    pub(in crate::postgres) async fn gather(client: &ClientWrapper) -> Result<Self, Error> {
        let sql = "SELECT status, count(*) FROM retry_queue GROUP BY status";
        Ok(Self {
            counters: client.query(COUNTERS, &[]).await?,
            rows: client.query(sql, &[]).await?,
        })
    }

    /// Where they disagree.
    pub(in crate::postgres) fn violations(&self) -> StoreResult<Vec<Violation>> {
        let rows = counters_of(&self.rows)?
            .into_iter()
            .map(|(status, n)| Ok((status, u64::try_from(n).map_err(corrupt)?)))
            .collect::<StoreResult<BTreeMap<MessageStatus, u64>>>()?;
        Ok(disagreements(
            &added_up(counters_of(&self.counters)?),
            &rows,
        ))
    }
}

/// The ids and details of rows that break a promise.
pub(in crate::postgres) fn query(check: &Check) -> String {
    let Check { detail, breach, .. } = check;
    format!("SELECT message_id, {detail} FROM retry_queue WHERE {breach}")
}
