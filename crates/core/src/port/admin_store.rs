//! Where people who may use the dashboard are kept, and their logins.

use std::time::Duration;

use async_trait::async_trait;

use super::{Actor, StoreResult};
use crate::admin::{Admin, LastOperator, Role, Session};

/// What became of a change to an admin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdminChanged {
    /// It is so now.
    Done,
    /// There is no such admin.
    NotFound,
    /// They are the last operator, who stays.
    LastOperator,
}

/// Admins and their sessions. Of a password only a slow hash is kept, of a session's secret only
/// its SHA-256. Whatever changes an admin leaves an audit entry.
#[async_trait]
pub trait AdminStore: Send + Sync {
    /// Keeps a new admin; `None` if there is one of this name, who stays as they are.
    async fn create_admin(
        &self,
        name: &str,
        role: Role,
        password_hash: &str,
        actor: &Actor,
    ) -> StoreResult<Option<Admin>>;

    /// Gives an admin another password and ends all their sessions; `false` if there is none.
    async fn change_password(
        &self,
        name: &str,
        password_hash: &str,
        actor: &Actor,
    ) -> StoreResult<bool>;

    /// Gives an admin another role, which their sessions have from then on. Of several such
    /// changes at once at least one operator is left, if the last one stays.
    async fn change_role(
        &self,
        name: &str,
        role: Role,
        last: LastOperator,
        actor: &Actor,
    ) -> StoreResult<AdminChanged>;

    /// An admin, and the hash of their password.
    async fn find_admin(&self, name: &str) -> StoreResult<Option<(Admin, String)>>;

    /// All admins, by name.
    async fn admins(&self) -> StoreResult<Vec<Admin>>;

    /// Removes an admin and all their sessions. The last operator stays as above.
    async fn remove_admin(
        &self,
        name: &str,
        last: LastOperator,
        actor: &Actor,
    ) -> StoreResult<AdminChanged>;

    /// Begins a session, with an audit entry `login`. The password that was checked must still be
    /// the admin's, otherwise nothing happens and the answer is `false`: a login must not outlive
    /// a change of the password that came in between.
    async fn begin_session(
        &self,
        name: &str,
        password_hash: &str,
        secret_hash: [u8; 32],
        lifetime: Duration,
    ) -> StoreResult<bool>;

    /// The session with this secret, unless it has run out. The admin's role is what it is now.
    async fn session(&self, secret_hash: [u8; 32]) -> StoreResult<Option<Session>>;

    /// Ends a session, with an audit entry `logout`.
    async fn end_session(&self, secret_hash: [u8; 32]) -> StoreResult<()>;
}
