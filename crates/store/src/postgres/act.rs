//! What operators do, with an audit entry each.

use posthaste_core::email::EmailId;
use posthaste_core::port::{Acted, Action, Actor, AuditEntry, StoreResult};

use super::PostgresStore;
use super::state_row::get;
use super::writer::Wants;
use crate::ledger;

impl PostgresStore {
    pub(super) async fn act_on(
        &self,
        ids: Vec<EmailId>,
        action: Action,
        actor: &Actor,
    ) -> StoreResult<Vec<Acted>> {
        let wants = Wants {
            ids: ids.clone(),
            facts: true,
            new: None,
        };
        let actor = actor.clone();
        self.writer
            .run(wants, move |books| {
                ids.iter()
                    .map(|id| {
                        let Ok(acted) = ledger::act(books, *id, action, &actor);
                        acted
                    })
                    .collect()
            })
            .await
    }

    pub(super) async fn audit_entries(&self, most: usize) -> StoreResult<Vec<AuditEntry>> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let sql =
            "SELECT at, actor, action, subject, result FROM audit_log ORDER BY seq DESC LIMIT $1";
        let rows = self.desk.query(sql, &[&most]).await?;
        rows.iter()
            .map(|row| {
                Ok(AuditEntry {
                    at: get(row, 0)?,
                    actor: get(row, 1)?,
                    action: get(row, 2)?,
                    subject: get(row, 3)?,
                    result: get(row, 4)?,
                })
            })
            .collect()
    }
}
