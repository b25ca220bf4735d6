//! Where people who may use the dashboard are kept, and their logins.

use std::time::Duration;

use async_trait::async_trait;

use super::{Actor, StoreResult};
use crate::admin::{Admin, Role, Session};

/// Admins and their sessions. Of a password only a slow hash is kept, of a session's secret only
/// its SHA-256.
#[async_trait]
pub trait AdminStore: Send + Sync {
    /// Keeps an admin, or gives one that is there another role and password and ends all their
    /// sessions; with an audit entry.
    async fn save_admin(
        &self,
        name: &str,
        role: Role,
        password_hash: &str,
        actor: &Actor,
    ) -> StoreResult<Admin>;

    /// An admin, and the hash of their password.
    async fn find_admin(&self, name: &str) -> StoreResult<Option<(Admin, String)>>;

    /// All admins, by name.
    async fn admins(&self) -> StoreResult<Vec<Admin>>;

    /// Removes an admin and all their sessions, with an audit entry; `false` if there is none.
    async fn remove_admin(&self, name: &str, actor: &Actor) -> StoreResult<bool>;

    /// Begins a session, with an audit entry `login`.
    async fn begin_session(
        &self,
        name: &str,
        secret_hash: [u8; 32],
        lifetime: Duration,
    ) -> StoreResult<()>;

    /// The session with this secret, unless it has run out. The admin's role is what it is now.
    async fn session(&self, secret_hash: [u8; 32]) -> StoreResult<Option<Session>>;

    /// Ends a session.
    async fn end_session(&self, secret_hash: [u8; 32]) -> StoreResult<()>;
}
