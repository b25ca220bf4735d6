//! Where emails are kept. The store is the truth.
//!
//! Every operation takes a batch and answers in its order; each batch is one transaction. Calls
//! that arrive together may share a commit. Nothing is answered before it is durable.

mod value;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

pub use self::value::*;
use crate::Timestamp;
use crate::attempt::AttemptRecord;
use crate::decision::{Conclusion, Parking};
use crate::email::{EmailId, EmailRecord, NewEmail};
use crate::lifecycle::{Refusal, State};
use crate::port::{
    AdminStore, AlertStore, DeadNotice, MessageStore, OperationStore, SuppressionStore,
    TemplateStore, WayStore,
};

/// The way of an email through the store, in the order of its life.
#[async_trait]
pub trait EmailStore: Send + Sync {
    /// Keeps new emails. Each is durable, or was before, when this answers. `ticketed`: the
    /// caller publishes tickets for those that are due; otherwise the scheduler does.
    async fn accept(
        &self,
        emails: Vec<NewEmail>,
        ticketed: bool,
    ) -> StoreResult<Vec<StoreResult<Accepted>>>;

    /// Keeps new emails whose first attempts begin in the same commit.
    async fn accept_begun(
        &self,
        emails: Vec<NewEmail>,
        opener: Opener,
        worker: &str,
        lease: Duration,
    ) -> StoreResult<Vec<StoreResult<Opened>>>;

    /// What accepting an email of this key and payload would answer if it was accepted before:
    /// replayed or a conflict. `None` if it was not.
    async fn accepted_before(
        &self,
        owner: &str,
        message_key: &str,
        payload_hash: [u8; 32],
    ) -> StoreResult<Option<Accepted>>;

    /// Begins attempts: `sending`, with a lease and a new token.
    async fn begin(
        &self,
        ids: Vec<EmailId>,
        worker: &str,
        lease: Duration,
    ) -> StoreResult<Vec<Begun>>;

    /// Begins attempts of emails that wait without a ticket: never queued, or queued (or, for
    /// failed ones, due) before `queued_before`.
    async fn begin_unticketed(
        &self,
        most: usize,
        queued_before: Timestamp,
        worker: &str,
        lease: Duration,
        budgets: &Budgets,
    ) -> StoreResult<Unticketed>;

    /// Says that an email which must be sent alone has come to its turn; `false` for a lease
    /// that is lost.
    async fn prepare(&self, lease: Lease) -> StoreResult<bool>;

    /// Keeps leases; `false` for one that is lost.
    async fn renew(&self, leases: Vec<Lease>, lease: Duration) -> StoreResult<Vec<bool>>;

    /// Passes the gate by these transports; `false` for a lease that is lost.
    async fn pass_gate(&self, passages: Vec<(Lease, Arc<str>)>) -> StoreResult<Vec<bool>>;

    /// Lets emails wait whose attempts found no way out that is free: nothing was tried, and
    /// nothing is recorded or counted. `false` for a lease that is lost.
    async fn park(&self, parked: Vec<(Lease, Parking)>) -> StoreResult<Vec<bool>>;

    /// Begins attempts of emails that wait for exactly these ways, those first that have waited
    /// longest. Those over budget or too late are dead now.
    async fn begin_parked(
        &self,
        waiting_for: &str,
        pick: Pick,
        worker: &str,
        lease: Duration,
        budgets: &Budgets,
    ) -> StoreResult<Unticketed>;

    /// Records how attempts ended; a refusal means that the lease was lost. The state is what
    /// it is now.
    async fn finish(&self, finishes: Vec<Finish>) -> StoreResult<Vec<Result<State, Refusal>>>;

    /// Hands emails back, unsent and uncounted.
    async fn release(&self, leases: Vec<Lease>) -> StoreResult<()>;

    /// Takes emails that are due, and not parked. Those over budget or too late are dead now; so are
    /// parked ones for which it became too late.
    async fn claim_due(
        &self,
        most: usize,
        lease: Duration,
        budgets: &Budgets,
    ) -> StoreResult<Vec<Due>>;

    /// Records which tickets were published and which were not. A word about an email that went
    /// on meanwhile changes nothing.
    async fn mark_queued(&self, published: Vec<Lease>, refused: Vec<Lease>) -> StoreResult<()>;

    /// When the next email that a scheduler cares for is due.
    async fn next_due(&self) -> StoreResult<Option<Timestamp>>;

    /// Releases expired leases.
    async fn rescue(&self, most: usize) -> StoreResult<Vec<Rescued>>;

    /// Emails of unknown fate about which their policies have not decided.
    async fn undecided(&self, most: usize) -> StoreResult<Vec<Undecided>>;

    /// Records what policies decided about them.
    async fn settle(&self, settlements: Vec<(EmailId, Conclusion)>) -> StoreResult<()>;

    /// Removes what is over for long enough, at most `most` emails, and compacts statistics.
    async fn prune(&self, retention: Retention, most: usize) -> StoreResult<Pruned>;
}

/// What operators and callers see and do.
#[async_trait]
pub trait DeskStore: Send + Sync {
    /// Acts on emails, with an audit entry each.
    async fn act(
        &self,
        ids: Vec<EmailId>,
        action: Action,
        actor: &Actor,
    ) -> StoreResult<Vec<Acted>>;

    /// One email with its attempts.
    async fn find(&self, id: EmailId) -> StoreResult<Option<EmailRecord>>;

    /// The email's MIME message.
    async fn content(&self, id: EmailId) -> StoreResult<Option<Bytes>>;

    /// Emails, newest first, without their attempts.
    async fn list(&self, filter: &EmailFilter) -> StoreResult<Vec<EmailRecord>>;

    /// Every attempt of these emails: by email, each email's in order.
    async fn attempts(&self, ids: &[EmailId]) -> StoreResult<Vec<(EmailId, AttemptRecord)>>;

    /// Dead letters by what they died of, most first.
    async fn dead_groups(&self, owner: Option<&str>) -> StoreResult<Vec<DeadGroup>>;

    /// Numbers about emails.
    async fn statistics(&self) -> StoreResult<Statistics>;

    /// What happened to emails, in steps of so many minutes (at least 1, at most 60), oldest first:
    /// `steps` of them, the last one being the present. Older than two days there are only hours.
    async fn history(&self, step_minutes: u32, steps: u32) -> StoreResult<Vec<HistoryStep>>;

    /// The audit log, newest first.
    async fn audit(&self, filter: &AuditFilter) -> StoreResult<Vec<AuditEntry>>;

    /// Checks the stored state against the promises. `ledger`: ids that a client saw accepted.
    async fn verify(&self, ledger: &[EmailId]) -> StoreResult<Vec<Violation>>;
}

/// API keys.
#[async_trait]
pub trait KeyStore: Send + Sync {
    /// Keeps a key by the SHA-256 of its secret.
    async fn create_key(
        &self,
        key: ApiKey,
        secret_hash: [u8; 32],
        actor: &Actor,
    ) -> StoreResult<()>;

    /// The key with this hash, unless it was revoked.
    async fn find_key(&self, secret_hash: [u8; 32]) -> StoreResult<Option<ApiKey>>;

    /// All keys, oldest first.
    async fn keys(&self) -> StoreResult<Vec<ApiKey>>;

    /// Revokes a key; `false` if there is none.
    async fn revoke_key(&self, id: &str, actor: &Actor) -> StoreResult<bool>;
}

/// The dev inbox.
#[async_trait]
pub trait InboxStore: Send + Sync {
    /// Keeps captured mail.
    async fn capture(&self, captured: Captured) -> StoreResult<()>;

    /// Captured mail, newest first, without content.
    async fn captures(&self, most: usize) -> StoreResult<Vec<Captured>>;

    /// The newest capture of an email, with content.
    async fn find_capture(&self, id: EmailId) -> StoreResult<Option<Captured>>;
}

/// Effects outside of the store: kept in the transaction of what they follow from, and told at
/// least once, whatever was away at that moment.
#[async_trait]
pub trait EventStore: Send + Sync {
    /// Takes notices that nobody has told yet, oldest first, and keeps others from them for a
    /// while.
    async fn take_notices(
        &self,
        most: usize,
        lease: Duration,
    ) -> StoreResult<Vec<(NoticeId, DeadNotice)>>;

    /// Forgets notices that were told, and hands back those that could not be.
    async fn settle_notices(&self, told: Vec<NoticeId>, untold: Vec<NoticeId>) -> StoreResult<()>;
}

/// A whole store.
#[async_trait]
pub trait Store:
    EmailStore
    + DeskStore
    + KeyStore
    + InboxStore
    + EventStore
    + MessageStore
    + OperationStore
    + TemplateStore
    + AdminStore
    + AlertStore
    + WayStore
    + SuppressionStore
{
    /// The store's time. All instants in the store are by this clock.
    fn now(&self) -> Timestamp;

    /// Resolves when another process may have changed something that concerns us.
    async fn changed(&self);

    /// Whether the store answers.
    async fn check(&self) -> StoreResult<()>;
}

/// A store that several parts share.
pub type SharedStore = Arc<dyn Store>;
