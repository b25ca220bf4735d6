//! What workers left behind: expired leases, and emails of unknown fate.

use posthaste_core::decision::Conclusion;
use posthaste_core::email::EmailId;
use posthaste_core::lifecycle::Event;
use posthaste_core::port::{Rescued, StoreResult, Undecided};

use super::email_row::from_json;
use super::state_row::{STATE_COLUMNS, STATE_WIDTH, optional_time, state_of};
use super::{SqliteStore, micros};
use crate::ledger;

/// Emails of unknown fate about which their policies have not decided.
pub(super) fn undecided_query() -> String {
    format!(
        "SELECT {STATE_COLUMNS}, e.id, e.policy, e.expires_at
         FROM posthaste_email_log l JOIN posthaste_email e ON e.id = l.id
         WHERE l.status = 'unknown' AND l.waiting_for IS NULL AND l.next_attempt_at IS NOT NULL
         LIMIT ?1"
    )
}

/// Expired leases.
pub(super) const EXPIRED: &str =
    "SELECT id FROM posthaste_email_log WHERE locked_until <= ?1 LIMIT ?2";

impl SqliteStore {
    pub(super) async fn rescue_expired(&self, most: usize) -> StoreResult<Vec<Rescued>> {
        let now = micros(posthaste_core::port::Store::now(self));
        let expired: Vec<EmailId> = self
            .readers
            .run(move |connection| {
                let mut statement = connection.prepare_cached(EXPIRED)?;
                statement
                    .query_map((now, most), |row| row.get(0).map(EmailId))?
                    .collect()
            })
            .await?;
        if expired.is_empty() {
            return Ok(Vec::new());
        }
        self.writer
            .run(move |flush| {
                let mut rescued = Vec::new();
                for id in expired.iter().copied() {
                    rescued.extend(ledger::rescue(flush, id)?);
                }
                Ok(rescued)
            })
            .await
    }

    pub(super) async fn all_undecided(&self, most: usize) -> StoreResult<Vec<Undecided>> {
        self.readers
            .run(move |connection| {
                connection
                    .prepare_cached(&undecided_query())?
                    .query_map([most], |row| {
                        Ok(Undecided {
                            state: state_of(row, 0)?,
                            id: EmailId(row.get(STATE_WIDTH)?),
                            policy: from_json(row, STATE_WIDTH + 1)?,
                            expires_at: optional_time(row, STATE_WIDTH + 2)?,
                        })
                    })?
                    .collect()
            })
            .await
    }

    pub(super) async fn settle_all(
        &self,
        settlements: Vec<(EmailId, Conclusion)>,
    ) -> StoreResult<()> {
        self.writer
            .run(move |flush| {
                for (id, conclusion) in &settlements {
                    ledger::apply(flush, *id, &Event::Settle(conclusion))?;
                }
                Ok(())
            })
            .await
    }
}
