//! People who may use the dashboard, and their logins.

use std::time::Duration;

use posthaste_core::admin::{Admin, Role, Session};
use posthaste_core::port::{Actor, StoreError, StoreResult};

use super::SqliteStore;

impl SqliteStore {
    pub(super) async fn upsert_admin(
        &self,
        _name: &str,
        _role: Role,
        _password_hash: &str,
        _actor: &Actor,
    ) -> StoreResult<Admin> {
        Err(StoreError::Failed("not built yet".into()))
    }

    pub(super) async fn admin_of(&self, _name: &str) -> StoreResult<Option<(Admin, String)>> {
        Err(StoreError::Failed("not built yet".into()))
    }

    pub(super) async fn all_admins(&self) -> StoreResult<Vec<Admin>> {
        Err(StoreError::Failed("not built yet".into()))
    }

    pub(super) async fn delete_admin(&self, _name: &str, _actor: &Actor) -> StoreResult<bool> {
        Err(StoreError::Failed("not built yet".into()))
    }

    pub(super) async fn insert_session(
        &self,
        _name: &str,
        _secret_hash: [u8; 32],
        _lifetime: Duration,
    ) -> StoreResult<()> {
        Err(StoreError::Failed("not built yet".into()))
    }

    pub(super) async fn session_of(&self, _secret_hash: [u8; 32]) -> StoreResult<Option<Session>> {
        Err(StoreError::Failed("not built yet".into()))
    }

    pub(super) async fn delete_session(&self, _secret_hash: [u8; 32]) -> StoreResult<()> {
        Err(StoreError::Failed("not built yet".into()))
    }
}
