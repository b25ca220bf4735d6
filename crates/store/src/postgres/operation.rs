//! Operations over many dead letters.

use posthaste_core::Timestamp;
use posthaste_core::operation::{
    DeadFilter, NewOperation, Operation, OperationChange, OperationId,
};
use posthaste_core::port::{Actor, OperationChanged, OperationStep, StoreError, StoreResult};

use super::PostgresStore;

impl PostgresStore {
    pub(super) async fn dead_matching(
        &self,
        _filter: &DeadFilter,
        _owner: Option<&str>,
    ) -> StoreResult<u64> {
        Err(StoreError::Failed("not built yet".into()))
    }

    pub(super) async fn insert_operation(
        &self,
        _new: NewOperation,
        _actor: &Actor,
    ) -> StoreResult<Operation> {
        Err(StoreError::Failed("not built yet".into()))
    }

    pub(super) async fn operation_of(
        &self,
        _id: OperationId,
        _owner: Option<&str>,
    ) -> StoreResult<Option<Operation>> {
        Err(StoreError::Failed("not built yet".into()))
    }

    pub(super) async fn newest_operations(
        &self,
        _most: usize,
        _owner: Option<&str>,
    ) -> StoreResult<Vec<Operation>> {
        Err(StoreError::Failed("not built yet".into()))
    }

    pub(super) async fn alter_operation(
        &self,
        _id: OperationId,
        _change: OperationChange,
        _actor: &Actor,
    ) -> StoreResult<OperationChanged> {
        Err(StoreError::Failed("not built yet".into()))
    }

    pub(super) async fn step_operation(&self, _most: usize) -> StoreResult<Option<OperationStep>> {
        Err(StoreError::Failed("not built yet".into()))
    }

    pub(super) async fn next_step_at(&self) -> StoreResult<Option<Timestamp>> {
        Err(StoreError::Failed("not built yet".into()))
    }
}
