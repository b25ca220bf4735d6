//! People who may use the dashboard.

use crate::Timestamp;
use crate::status::named;

/// The longest name of an admin.
pub const LONGEST_NAME: usize = 100;

named! {
    /// What an admin may do.
    Role {
        /// See everything, change nothing.
        Viewer = "viewer",
        /// See and do everything.
        Operator = "operator",
    }
}

/// What becomes of a change after which nobody could act any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastOperator {
    /// It is refused.
    Stays,
    /// It is done: whoever asks needs no login to make another.
    MayGo,
}

/// Someone who may use the dashboard. The password is kept as an Argon2id hash, elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admin {
    /// The name to log in with.
    pub name: String,
    /// What they may do.
    pub role: Role,
    /// When they were made.
    pub created_at: Timestamp,
}

/// A login that is still good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Whose.
    pub admin: Admin,
    /// When they logged in.
    pub created_at: Timestamp,
    /// Until when it is good.
    pub expires_at: Timestamp,
}
