//! Where operations over many dead letters are kept, with what is still to be done of each.

use async_trait::async_trait;

use super::{Actor, StoreResult};
use crate::Timestamp;
use crate::operation::{
    DeadFilter, NewOperation, Operation, OperationChange, OperationId, OperationStatus,
};

/// What became of a change to an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OperationChanged {
    /// It is so now.
    Done(Box<Operation>),
    /// It is over, so this cannot be.
    Refused(OperationStatus),
    /// There is no such operation.
    NotFound,
}

/// A step of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationStep {
    /// The operation after it.
    pub operation: Operation,
    /// How many emails it treated or skipped.
    pub treated: usize,
}

/// The way of an operation through the store.
#[async_trait]
pub trait OperationStore: Send + Sync {
    /// How many dead letters there are, of one owner or of all.
    async fn count_dead(&self, filter: &DeadFilter, owner: Option<&str>) -> StoreResult<u64>;

    /// Makes an operation over the emails that are dead now, of the actor's owner, with one entry
    /// in the audit log that names the filter and their number. One transaction: whatever dies
    /// later is not part of it. One without emails is over at once.
    async fn create_operation(&self, new: NewOperation, actor: &Actor) -> StoreResult<Operation>;

    /// One operation; another owner's is not there.
    async fn operation(
        &self,
        id: OperationId,
        owner: Option<&str>,
    ) -> StoreResult<Option<Operation>>;

    /// Operations, newest first.
    async fn operations(&self, most: usize, owner: Option<&str>) -> StoreResult<Vec<Operation>>;

    /// Pauses, resumes or cancels, as [`OperationChange::applied_to`] decides, with an entry in
    /// the audit log if that changed something; that of a cancel says what had been done. Once this has answered, an operation that is not
    /// running treats nothing more.
    async fn change_operation(
        &self,
        id: OperationId,
        change: OperationChange,
        actor: &Actor,
    ) -> StoreResult<OperationChanged>;

    /// Goes one step with the running operation that is due first: treats at most `most` of its
    /// emails, no more than its pace allows since its last step (a pause of the process is not
    /// caught up with), and records that in the same transaction, so that each email is treated
    /// once by it, whatever crashes. An email is skipped if it is not the same death any more:
    /// not dead, or it died anew since (its lease token differs). There is no audit entry per
    /// email, but one `operation_done` with the last step, which says what came of it. Each step is done once, however many instances ask. `None`: nothing is due.
    async fn advance_operation(&self, most: usize) -> StoreResult<Option<OperationStep>>;

    /// When the next step of a running operation is due.
    async fn next_step_due(&self) -> StoreResult<Option<Timestamp>>;
}
