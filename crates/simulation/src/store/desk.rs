//! What operators and callers see and do, and the news of deaths.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use posthaste_core::attempt::AttemptRecord;
use posthaste_core::email::{EmailId, EmailRecord};
use posthaste_core::port::{
    Acted, Action, Actor, AuditEntry, AuditFilter, DeadGroup, DeadNotice, DeskStore, EmailFilter,
    EventStore, HistoryStep, NoticeId, Statistics, StoreResult, Violation,
};
use posthaste_store::ledger::{self, Ledger as _};

use super::MemoryStore;
use super::rest::not_simulated;
use super::transaction::sure;

#[async_trait]
impl DeskStore for MemoryStore {
    async fn act(
        &self,
        ids: Vec<EmailId>,
        action: Action,
        actor: &Actor,
    ) -> StoreResult<Vec<Acted>> {
        let acted = self
            .call("act", move |transaction| {
                let act = |id| {
                    let acted = sure(ledger::act(transaction, id, action, actor));
                    transaction.say(id, || format!("{}: {acted:?}", action.name()));
                    acted
                };
                ids.into_iter().map(act).collect()
            })
            .await;
        self.tell_others();
        acted
    }

    async fn find(&self, id: EmailId) -> StoreResult<Option<EmailRecord>> {
        self.call("find", move |transaction| {
            let row = transaction.tables.row(id);
            row.map(super::Row::email_record)
        })
        .await
    }

    async fn content(&self, _: EmailId) -> StoreResult<Option<Bytes>> {
        not_simulated()
    }

    async fn list(&self, _: &EmailFilter) -> StoreResult<Vec<EmailRecord>> {
        not_simulated()
    }

    async fn attempts(&self, _: &[EmailId]) -> StoreResult<Vec<(EmailId, AttemptRecord)>> {
        not_simulated()
    }

    async fn dead_groups(&self, _: Option<&str>) -> StoreResult<Vec<DeadGroup>> {
        not_simulated()
    }

    async fn statistics(&self) -> StoreResult<Statistics> {
        not_simulated()
    }

    async fn history(&self, _: u32, _: u32) -> StoreResult<Vec<HistoryStep>> {
        not_simulated()
    }

    async fn audit(&self, _: &AuditFilter) -> StoreResult<Vec<AuditEntry>> {
        not_simulated()
    }

    async fn verify(&self, _: &[EmailId]) -> StoreResult<Vec<Violation>> {
        not_simulated()
    }
}

#[async_trait]
impl EventStore for MemoryStore {
    async fn take_notices(
        &self,
        most: usize,
        lease: Duration,
    ) -> StoreResult<Vec<(NoticeId, DeadNotice)>> {
        self.call("take notices", move |transaction| {
            let now = transaction.now();
            let until = now.checked_add(lease).ok();
            let notices = transaction.tables.notices.iter_mut().zip(0..);
            let untold = notices.filter_map(|(notice, id)| {
                let (notice, held) = notice.as_mut()?;
                let is_free = held.is_none_or(|until| until <= now);
                is_free.then(|| {
                    *held = until;
                    (id, notice.clone())
                })
            });
            untold.take(most).collect()
        })
        .await
    }

    async fn settle_notices(&self, told: Vec<NoticeId>, untold: Vec<NoticeId>) -> StoreResult<()> {
        self.call("settle notices", move |transaction| {
            let notices = &mut transaction.tables.notices;
            let at = |id: NoticeId| usize::try_from(id).unwrap_or(usize::MAX);
            for id in told {
                notices.get_mut(at(id)).and_then(Option::take);
            }
            for id in untold {
                if let Some(Some((_, held))) = notices.get_mut(at(id)) {
                    *held = None;
                }
            }
        })
        .await
    }
}
