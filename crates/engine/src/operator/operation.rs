//! One action over many dead letters.

use posthaste_core::Timestamp;
use posthaste_core::operation::{
    DeadFilter, NewOperation, Operation, OperationChange, OperationId,
};
use posthaste_core::port::{Actor, OperationChanged, OperationStep, StoreResult};

use super::Operator;
use crate::bulk;

impl Operator {
    /// How many dead letters an operation would be about, of one owner or of all.
    pub async fn count_dead(&self, filter: &DeadFilter, owner: Option<&str>) -> StoreResult<u64> {
        self.store.count_dead(filter, owner).await
    }

    /// Makes an operation over what is dead now, and sets it going.
    pub async fn begin_operation(
        &self,
        new: NewOperation,
        actor: &Actor,
    ) -> StoreResult<Operation> {
        let operation = self.store.create_operation(new, actor).await?;
        self.bulk.notify_one();
        Ok(operation)
    }

    /// One operation; another owner's is not there.
    pub async fn operation(
        &self,
        id: OperationId,
        owner: Option<&str>,
    ) -> StoreResult<Option<Operation>> {
        self.store.operation(id, owner).await
    }

    /// Operations, newest first.
    pub async fn operations(
        &self,
        most: usize,
        owner: Option<&str>,
    ) -> StoreResult<Vec<Operation>> {
        self.store.operations(most, owner).await
    }

    /// Pauses, resumes or cancels an operation.
    pub async fn change_operation(
        &self,
        id: OperationId,
        change: OperationChange,
        actor: &Actor,
    ) -> StoreResult<OperationChanged> {
        let changed = self.store.change_operation(id, change, actor).await?;
        self.bulk.notify_one();
        Ok(changed)
    }

    /// When the next step of a running operation is due.
    pub async fn next_step_due(&self) -> StoreResult<Option<Timestamp>> {
        self.store.next_step_due().await
    }

    /// Goes one step with the operation that is due first, for one who cannot rely on a server.
    pub async fn advance_operation(&self) -> StoreResult<Option<OperationStep>> {
        let step = self.store.advance_operation(bulk::BATCH).await?;
        self.scheduler.notify_one();
        Ok(step)
    }
}
