//! What people see and do. API, dashboard and command line all come through here.

mod operation;
mod way;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use posthaste_core::attempt::AttemptRecord;
use posthaste_core::email::{EmailId, EmailRecord};
use posthaste_core::port::{
    Acted, Action, Actor, AlertChannel, AuditEntry, AuditFilter, Captured, ChannelState, DeadGroup,
    EmailFilter, HistoryStep, SharedStore, Statistics, StoreResult, Violation,
};
use tokio::sync::Notify;

pub use self::way::{SuppressError, SuppressionPage, Switched, TransportView};
use crate::{Policies, Ways};

/// The most emails a list shows at once.
pub const LONGEST_LIST: usize = 500;

/// A page of a list.
#[derive(Debug, Clone)]
pub struct Page {
    /// The emails, newest first.
    pub emails: Vec<EmailRecord>,
    /// Where the next page begins, if there is one.
    pub next: Option<EmailId>,
}

/// Acts on emails and shows them.
pub struct Operator {
    store: SharedStore,
    policies: Arc<Policies>,
    scheduler: Arc<Notify>,
    bulk: Arc<Notify>,
    channels: Vec<String>,
    ways: Option<Arc<Ways>>,
    parked: way::ParkedCount,
}

impl Operator {
    /// An operator's desk over this store.
    #[must_use]
    pub fn new(store: SharedStore, policies: Arc<Policies>, scheduler: Arc<Notify>) -> Self {
        Self {
            store,
            policies,
            scheduler,
            bulk: Arc::default(),
            channels: Vec::new(),
            ways: None,
            parked: way::ParkedCount::default(),
        }
    }

    /// The same, with someone who goes on with operations and is woken by this.
    #[must_use]
    pub fn waking(mut self, bulk: Arc<Notify>) -> Self {
        self.bulk = bulk;
        self
    }

    /// The same, with ways out to look at.
    #[must_use]
    pub fn sending_by(mut self, ways: Arc<Ways>) -> Self {
        self.ways = Some(ways);
        self
    }

    /// The same, with channels that are told of deaths.
    #[must_use]
    pub fn alerting(mut self, channels: &[Arc<dyn AlertChannel>]) -> Self {
        self.channels = channels.iter().map(|one| one.name().to_owned()).collect();
        self
    }

    /// The store's time.
    #[must_use]
    pub fn now(&self) -> posthaste_core::Timestamp {
        self.store.now()
    }

    /// Acts on one email.
    pub async fn act(&self, id: EmailId, action: Action, actor: &Actor) -> StoreResult<Acted> {
        let mut acted = self.act_on(vec![id], action, actor).await?;
        Ok(acted.pop().unwrap_or(Acted::NotFound))
    }

    /// Acts on emails; the answers are in their order.
    pub async fn act_on(
        &self,
        ids: Vec<EmailId>,
        action: Action,
        actor: &Actor,
    ) -> StoreResult<Vec<Acted>> {
        posthaste_core::failpoint::hit("operator.before_act");
        let acted = self.store.act(ids, action, actor).await?;
        posthaste_core::failpoint::hit("operator.after_act");
        // What is to be sent now waits without a ticket: the scheduler makes one.
        self.scheduler.notify_one();
        Ok(acted)
    }

    /// One email with its attempts; another owner's is not there.
    pub async fn find(&self, id: EmailId, owner: Option<&str>) -> StoreResult<Option<EmailRecord>> {
        let found = self.store.find(id).await?;
        Ok(found.filter(|email| owner.is_none_or(|owner| owner == email.owner)))
    }

    /// The email's MIME message.
    pub async fn content(&self, id: EmailId) -> StoreResult<Option<Bytes>> {
        self.store.content(id).await
    }

    /// A page of emails.
    pub async fn list(&self, mut filter: EmailFilter) -> StoreResult<Page> {
        let limit = filter.limit.clamp(1, LONGEST_LIST);
        filter.limit = limit + 1;
        let mut emails = self.store.list(&filter).await?;
        let has_more = emails.len() > limit;
        emails.truncate(limit);
        let next = emails.last().filter(|_| has_more).map(|email| email.id);
        Ok(Page { emails, next })
    }

    /// How many attempts may fail for this email, as things stand.
    #[must_use]
    pub fn max_attempts(&self, email: &EmailRecord) -> u32 {
        email
            .state
            .max_attempts
            .unwrap_or_else(|| self.policies.of(&email.policy).max_attempts)
    }

    /// Every attempt of these emails, by email.
    pub async fn attempts(
        &self,
        ids: &[EmailId],
    ) -> StoreResult<BTreeMap<EmailId, Vec<AttemptRecord>>> {
        let mut by_email = BTreeMap::<EmailId, Vec<AttemptRecord>>::new();
        for (id, attempt) in self.store.attempts(ids).await? {
            by_email.entry(id).or_default().push(attempt);
        }
        Ok(by_email)
    }

    /// Dead letters by what they died of.
    pub async fn dead_groups(&self, owner: Option<&str>) -> StoreResult<Vec<DeadGroup>> {
        self.store.dead_groups(owner).await
    }

    /// Numbers about emails.
    pub async fn statistics(&self) -> StoreResult<Statistics> {
        self.store.statistics().await
    }

    /// What happened to emails over time: so many steps of so many minutes, oldest first.
    pub async fn history(&self, step_minutes: u32, steps: u32) -> StoreResult<Vec<HistoryStep>> {
        self.store.history(step_minutes, steps).await
    }

    /// The audit log, newest first.
    pub async fn audit(&self, filter: &AuditFilter) -> StoreResult<Vec<AuditEntry>> {
        self.store.audit(filter).await
    }

    /// Checks the stored state against the promises.
    pub async fn verify(&self, ledger: &[EmailId]) -> StoreResult<Vec<Violation>> {
        self.store.verify(ledger).await
    }

    /// How the channels do that are told of deaths; only those that are configured.
    pub async fn alert_channels(&self) -> StoreResult<Vec<ChannelState>> {
        let known = self.store.alert_channels().await?;
        let state_of = |name: &String| {
            let found = known.iter().find(|channel| channel.name == *name);
            found.cloned().unwrap_or_else(|| ChannelState {
                name: name.clone(),
                waiting: 0,
                last_told_at: None,
                failures: 0,
                last_error: None,
            })
        };
        Ok(self.channels.iter().map(state_of).collect())
    }

    /// Captured mail, newest first.
    pub async fn captures(&self, most: usize) -> StoreResult<Vec<Captured>> {
        self.store.captures(most).await
    }

    /// The newest capture of an email.
    pub async fn find_capture(&self, id: EmailId) -> StoreResult<Option<Captured>> {
        self.store.find_capture(id).await
    }

    /// Whether the store answers.
    pub async fn check(&self) -> StoreResult<()> {
        self.store.check().await
    }
}
