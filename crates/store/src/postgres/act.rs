//! What operators do, with an audit entry each.

use posthaste_core::email::EmailId;
use posthaste_core::port::{Acted, Action, Actor, AuditEntry, AuditFilter, StoreResult};

use super::PostgresStore;
use super::error::corrupt;
use super::list::has_nul;
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
            ..Wants::default()
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

    pub(super) async fn audit_entries(&self, filter: &AuditFilter) -> StoreResult<Vec<AuditEntry>> {
        let most = i64::try_from(filter.limit).unwrap_or(i64::MAX);
        let texts = [&filter.actor, &filter.action, &filter.subject];
        if texts.into_iter().flatten().any(|text| has_nul(text)) {
            return Ok(Vec::new());
        }
        let sql = "SELECT seq, at, actor, action, subject, filter, count, result FROM audit_log
             WHERE ($1::text IS NULL OR actor = $1) AND ($2::text IS NULL OR action = $2)
               AND ($3::text IS NULL OR subject = $3) AND ($4::bigint IS NULL OR seq < $4)
             ORDER BY seq DESC LIMIT $5";
        let AuditFilter {
            actor,
            action,
            subject,
            after,
            ..
        } = filter;
        let rows = self
            .desk
            .query(sql, &[actor, action, subject, after, &most])
            .await?;
        rows.iter()
            .map(|row| {
                Ok(AuditEntry {
                    number: get(row, 0)?,
                    at: get(row, 1)?,
                    actor: get(row, 2)?,
                    action: get(row, 3)?,
                    subject: get(row, 4)?,
                    filter: get(row, 5)?,
                    count: get::<Option<i64>>(row, 6)?
                        .map(u64::try_from)
                        .transpose()
                        .map_err(corrupt)?,
                    result: get(row, 7)?,
                })
            })
            .collect()
    }
}
