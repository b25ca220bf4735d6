//! People who may use the dashboard: their names, passwords, roles and logins.
//!
//! The secret of a session is 256 random bits, of which only the SHA-256 is stored. A wrong name
//! and a wrong password are told apart nowhere: not by the answer, not by the time it takes.

mod password;
mod throttle;

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use posthaste_core::admin::{Admin, LONGEST_NAME, LastOperator, Role, Session};
use posthaste_core::port::{Actor, AdminChanged, SharedStore, StoreError, StoreResult};

use self::password::{Crowded, Passwords};
pub use self::password::{LONGEST_PASSWORD, SHORTEST_PASSWORD};
use self::throttle::{Attempt, Throttle};
use crate::access::{Change, hash, hex};

/// How long to wait when too many others try to log in.
const UNTIL_LESS_CROWDED: Duration = Duration::from_secs(5);

/// Why an admin was not made or changed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AdminError {
    /// A name that cannot be one.
    #[error("the name {0}")]
    Name(String),
    /// A password that is too easy to guess.
    #[error("the password {0}")]
    Password(String),
    /// The name is taken.
    #[error("there is an admin named {0} already")]
    Exists(String),
    /// There is nobody of this name.
    #[error("there is no admin named {0}")]
    NotFound(String),
    /// Nobody would be left who may act.
    #[error("{0} is the last operator: make another admin an operator first")]
    LastOperator(String),
    /// Too many passwords are being checked.
    #[error("too many others try to log in right now; try again in a moment")]
    Crowded,
    /// The hash could not be made.
    #[error("the password could not be hashed")]
    Hash,
    /// The store could not keep it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What came of an attempt to log in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Login {
    /// A session began; whoever has the secret is logged in.
    LoggedIn {
        /// What the browser keeps.
        secret: String,
    },
    /// The name or the password is wrong.
    Wrong,
    /// It was tried too often.
    TooMany {
        /// How long to wait.
        retry_after: Duration,
    },
}

/// Keeps admins and logs them in.
pub struct Admins {
    store: SharedStore,
    session: Duration,
    passwords: Passwords,
    throttle: Mutex<Throttle>,
    changes: AtomicU64,
}

impl Admins {
    /// Admins in this store, whose logins last for `session`.
    #[must_use]
    pub fn new(store: SharedStore, session: Duration) -> Self {
        Self {
            store,
            session,
            passwords: Passwords::default(),
            throttle: Mutex::default(),
            changes: AtomicU64::new(0),
        }
    }

    /// How often admins were made by this: what was looked up before the last time may be otherwise
    /// now.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    /// How long a login lasts.
    #[must_use]
    pub const fn session_length(&self) -> Duration {
        self.session
    }

    /// Makes an admin.
    pub async fn create(
        &self,
        name: &str,
        role: Role,
        password: &str,
        actor: &Actor,
    ) -> Result<Admin, AdminError> {
        let name = checked_name(name)?;
        password::check(&name, password)?;
        let hash = self.passwords.hash(password).await?;
        let _change = Change(&self.changes);
        let created = self.store.create_admin(&name, role, &hash, actor).await?;
        created.ok_or(AdminError::Exists(name))
    }

    /// Gives an admin another password, which ends all their sessions.
    pub async fn change_password(
        &self,
        name: &str,
        password: &str,
        actor: &Actor,
    ) -> Result<(), AdminError> {
        let name = folded(name);
        password::check(&name, password)?;
        let hash = self.passwords.hash(password).await?;
        let changed = self.store.change_password(&name, &hash, actor).await?;
        changed.then_some(()).ok_or(AdminError::NotFound(name))
    }

    /// Gives an admin another role, which counts at once.
    pub async fn change_role(
        &self,
        name: &str,
        role: Role,
        last: LastOperator,
        actor: &Actor,
    ) -> Result<(), AdminError> {
        let name = folded(name);
        let changed = self.store.change_role(&name, role, last, actor).await?;
        checked(changed, name)
    }

    /// Removes an admin, who is logged out at once.
    pub async fn remove(
        &self,
        name: &str,
        last: LastOperator,
        actor: &Actor,
    ) -> Result<(), AdminError> {
        let name = folded(name);
        let removed = self.store.remove_admin(&name, last, actor).await?;
        checked(removed, name)
    }

    /// All admins, by name.
    pub async fn all(&self) -> StoreResult<Vec<Admin>> {
        self.store.admins().await
    }

    /// An admin of this name.
    pub async fn find(&self, name: &str) -> StoreResult<Option<Admin>> {
        let found = self.store.find_admin(&folded(name)).await?;
        Ok(found.map(|(admin, _)| admin))
    }

    /// Logs someone in who comes from this address.
    pub async fn log_in(&self, name: &str, password: &str, peer: IpAddr) -> StoreResult<Login> {
        let name = folded(name);
        let attempt = Attempt::new(&name, peer);
        let charged = self.throttle().charge(&attempt, Instant::now());
        if let Err(retry_after) = charged {
            tracing::warn!(%peer, ?retry_after, "a login was refused: tried too often");
            return Ok(Login::TooMany { retry_after });
        }
        let login = self.check(&name, password, peer).await;
        match login {
            Ok(Login::LoggedIn { .. }) => self.throttle().welcome(&attempt),
            Ok(Login::Wrong) => {}
            Ok(Login::TooMany { .. }) | Err(_) => self.throttle().give_back(&attempt),
        }
        login
    }

    async fn check(&self, name: &str, password: &str, peer: IpAddr) -> StoreResult<Login> {
        // Whatever is too long for a password is not hashed: nobody has it.
        let password = if password.len() > LONGEST_PASSWORD {
            ""
        } else {
            password
        };
        let (admin, password_hash) = match checked_name(name) {
            Ok(name) => self.store.find_admin(&name).await?.unzip(),
            Err(_) => (None, None),
        };
        let is_right = self.passwords.is_right(password, password_hash.clone());
        match (is_right.await, admin, password_hash) {
            (Ok(true), Some(admin), Some(password_hash)) => {
                self.begin(&admin.name, &password_hash).await
            }
            (Err(Crowded), ..) => Ok(Login::TooMany {
                retry_after: UNTIL_LESS_CROWDED,
            }),
            (_, admin, _) => {
                // A name that nobody has may be a password in the wrong field.
                let name = admin.map_or_else(|| "(unknown)".to_owned(), |admin| admin.name);
                tracing::warn!(%peer, name, "a login failed");
                Ok(Login::Wrong)
            }
        }
    }

    async fn begin(&self, name: &str, password_hash: &str) -> StoreResult<Login> {
        let secret = hex(&rand::random::<[u8; 32]>());
        let begun = self
            .store
            .begin_session(name, password_hash, hash(&secret), self.session)
            .await?;
        Ok(if begun {
            tracing::info!(name, "logged in");
            Login::LoggedIn { secret }
        } else {
            Login::Wrong
        })
    }

    /// The session that this secret opens, if it is still good.
    pub async fn session(&self, secret: &str) -> StoreResult<Option<Session>> {
        self.store.session(hash(secret)).await
    }

    /// Ends the session that this secret opens.
    pub async fn log_out(&self, secret: &str) -> StoreResult<()> {
        self.store.end_session(hash(secret)).await
    }

    fn throttle(&self) -> MutexGuard<'_, Throttle> {
        self.throttle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A name as it is kept and compared.
#[must_use]
pub fn folded(name: &str) -> String {
    name.trim().to_lowercase()
}

fn checked_name(name: &str) -> Result<String, AdminError> {
    let name = folded(name);
    let refused = |message: String| Err(AdminError::Name(message));
    if name.is_empty() {
        return refused("must not be empty".to_owned());
    }
    if name.len() > LONGEST_NAME {
        return refused(format!("must have at most {LONGEST_NAME} characters"));
    }
    let is_usual = |c: char| c.is_ascii_alphanumeric() || "._-+@".contains(c);
    if let Some(c) = name.chars().find(|c| !is_usual(*c)) {
        return refused(format!(
            "must not contain `{}`; use letters, digits and . _ - + @",
            c.escape_default()
        ));
    }
    Ok(name)
}

fn checked(changed: AdminChanged, name: String) -> Result<(), AdminError> {
    match changed {
        AdminChanged::Done => Ok(()),
        AdminChanged::NotFound => Err(AdminError::NotFound(name)),
        AdminChanged::LastOperator => Err(AdminError::LastOperator(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_word_of_usual_characters() {
        for name in ["ann", " Ann ", "ann.b_c-d@example.org", "7"] {
            assert_eq!(checked_name(name).unwrap(), folded(name));
        }
        let long = "a".repeat(LONGEST_NAME + 1);
        for (name, reason) in [
            ("", "empty"),
            ("  ", "empty"),
            ("ann b", "must not contain ` `"),
            ("ann\0", "must not contain `\\u{0}`"),
            ("änn", "letters, digits"),
            (&long, "at most 100"),
        ] {
            let refused = checked_name(name).unwrap_err().to_string();
            assert!(refused.contains(reason), "{name:?}: {refused}");
        }
    }
}
