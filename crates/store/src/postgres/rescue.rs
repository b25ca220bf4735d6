//! What workers left behind: expired leases, and emails of unknown fate.

use posthaste_core::decision::Conclusion;
use posthaste_core::email::EmailId;
use posthaste_core::lifecycle::Event;
use posthaste_core::port::{Rescued, Store as _, StoreResult, Undecided};

use super::PostgresStore;
use super::claim::{Candidates, FactsOf, any, by_time};
use super::error::corrupt;
use super::state_row::{STATE_COLUMNS, STATE_WIDTH, get, state_of};
use super::writer::Wants;
use crate::ledger;

/// The query for expired leases. `$1` is how many.
pub(super) fn expired() -> String {
    by_time("l.locked_until")
}

/// Whether there are any that expired since `$1`.
pub(super) const ANY_EXPIRED: &str = "SELECT EXISTS (SELECT 1 FROM email_log l
     WHERE l.locked_until >= $1 AND l.locked_until <= posthaste_now())";

/// Emails of unknown fate about which their policies have not decided.
pub(super) fn undecided_query() -> String {
    format!(
        "SELECT {STATE_COLUMNS}, e.id, e.policy::text, e.expires_at
         FROM email_log l JOIN email e ON e.id = l.id
         WHERE l.status = 'unknown' AND l.waiting_for IS NULL AND l.next_attempt_at IS NOT NULL
         LIMIT $1"
    )
}

impl PostgresStore {
    pub(super) async fn rescue_expired(&self, most: usize) -> StoreResult<Vec<Rescued>> {
        // Most of the time there is nothing.
        let now = self.now();
        let from = self.rescuers_floor.look(now);
        let is_empty = !any(&self.pool.query(ANY_EXPIRED, &[&from]).await?)?;
        self.rescuers_floor.saw(from, is_empty, now);
        if is_empty {
            return Ok(Vec::new());
        }
        let candidates = Candidates {
            query: expired(),
            values: &[],
            in_turn: None,
            most,
            with_overdue: false,
            facts_of: FactsOf::All,
        };
        let rescued = self.claim(candidates, |books, ids| {
            let rescue = |id: &EmailId| {
                let Ok(rescued) = ledger::rescue(books, *id);
                rescued
            };
            ids.iter().filter_map(rescue).collect()
        });
        rescued.await.map(|(rescued, _)| rescued)
    }

    pub(super) async fn all_undecided(&self, most: usize) -> StoreResult<Vec<Undecided>> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let rows = self.pool.query(&undecided_query(), &[&most]).await?;
        rows.iter()
            .map(|row| {
                Ok(Undecided {
                    state: state_of(row, 0)?,
                    id: EmailId(get(row, STATE_WIDTH)?),
                    policy: serde_json::from_str(get(row, STATE_WIDTH + 1)?).map_err(corrupt)?,
                    expires_at: get(row, STATE_WIDTH + 2)?,
                })
            })
            .collect()
    }

    pub(super) async fn settle_all(
        &self,
        settlements: Vec<(EmailId, Conclusion)>,
    ) -> StoreResult<()> {
        let wants = Wants::states(settlements.iter().map(|(id, _)| *id).collect());
        self.writer
            .run(wants, move |books| {
                for (id, conclusion) in &settlements {
                    let Ok(_) = ledger::apply(books, *id, &Event::Settle(conclusion));
                }
            })
            .await
    }
}
