//! Who may do what: API keys, their owners and scopes.
//!
//! A key is shown once, when it is made; only its SHA-256 is kept. Its 256 random bits make a
//! slow hash needless.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use posthaste_core::admin::{Admin, Role};
use posthaste_core::port::{Actor, ApiKey, SharedStore, StoreError, StoreResult};
use sha2::{Digest, Sha256};

/// The owner of what is sent without a key, on loopback.
pub const DEFAULT_OWNER: &str = "default";
/// What a key may allow.
pub const SCOPES: [&str; 3] = ["send", "read", "admin"];
const PREFIX: &str = "ph_";

/// Who is asking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// For the audit log.
    pub name: String,
    /// Whose emails are sent and seen.
    pub owner: String,
    /// What is allowed.
    pub scopes: Vec<String>,
    /// From addresses that may be used; empty for all.
    pub from_addresses: Vec<String>,
    /// Whether everyone's emails are seen, also without the scope `admin`.
    pub sees_everyone: bool,
}

impl Caller {
    /// Someone on this machine, while neither a key nor an admin exists.
    #[must_use]
    pub fn loopback() -> Self {
        Self {
            name: "loopback".into(),
            owner: DEFAULT_OWNER.into(),
            scopes: SCOPES.map(str::to_owned).to_vec(),
            from_addresses: Vec::new(),
            sees_everyone: true,
        }
    }

    /// Someone who logged in: an operator may do everything, a viewer sees everything.
    #[must_use]
    pub fn of_admin(admin: &Admin) -> Self {
        let scopes: &[&str] = match admin.role {
            Role::Viewer => &["read"],
            Role::Operator => &SCOPES,
        };
        Self {
            name: format!("admin:{}", admin.name),
            owner: DEFAULT_OWNER.into(),
            scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
            from_addresses: Vec::new(),
            sees_everyone: true,
        }
    }

    /// Whether the caller may do this. `admin` may do everything.
    #[must_use]
    pub fn may(&self, scope: &str) -> bool {
        self.scopes
            .iter()
            .any(|held| held == scope || held == "admin")
    }

    /// Whose emails the caller sees; `None` for everyone's.
    #[must_use]
    pub fn sees_only(&self) -> Option<&str> {
        let sees_everyone = self.sees_everyone || self.may("admin");
        (!sees_everyone).then_some(self.owner.as_str())
    }

    /// The caller as the audit log knows it.
    #[must_use]
    pub fn actor(&self) -> Actor {
        Actor {
            name: self.name.clone(),
            owner: self.sees_only().map(str::to_owned),
        }
    }
}

/// What a new key is to be.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// What it is for.
    pub name: String,
    /// Whose emails it may send and see.
    pub owner: String,
    /// What it allows.
    pub scopes: Vec<String>,
    /// From addresses it may use; empty for all.
    pub from_addresses: Vec<String>,
}

/// Why a key was not made.
#[derive(Debug, Clone, thiserror::Error)]
pub enum KeyError {
    /// There is no such scope.
    #[error("`{0}` is not a scope; use send, read or admin")]
    UnknownScope(String),
    /// A key that allows nothing is of no use.
    #[error("give at least one scope: send, read or admin")]
    NoScope,
    /// An address is not one.
    #[error("the From address {0}")]
    Address(String),
    /// The store could not keep it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Makes and checks keys.
pub struct Access {
    store: SharedStore,
    /// Once there was a key or an admin, loopback without either is over, even if all are revoked
    /// or removed.
    has_credentials: AtomicBool,
    changes: AtomicU64,
}

impl Access {
    /// Access over this store.
    #[must_use]
    pub fn new(store: SharedStore) -> Self {
        Self {
            store,
            has_credentials: AtomicBool::new(false),
            changes: AtomicU64::new(0),
        }
    }

    /// How often keys were made or revoked by this: what was looked up before the last time may be
    /// otherwise now.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    /// Makes a key. The secret is in the answer and nowhere else.
    pub async fn create(&self, new: NewKey, actor: &Actor) -> Result<(ApiKey, String), KeyError> {
        if new.scopes.is_empty() {
            return Err(KeyError::NoScope);
        }
        if let Some(scope) = new
            .scopes
            .iter()
            .find(|scope| !SCOPES.contains(&scope.as_str()))
        {
            return Err(KeyError::UnknownScope(scope.clone()));
        }
        for address in &new.from_addresses {
            posthaste_core::address::Address::parse(address)
                .map_err(|error| KeyError::Address(format!("`{address}` {error}")))?;
        }
        let secret = format!("{PREFIX}{}", hex(&rand::random::<[u8; 32]>()));
        let key = ApiKey {
            id: hex(&rand::random::<[u8; 4]>()),
            name: new.name,
            owner: new.owner,
            scopes: new.scopes,
            from_addresses: new.from_addresses,
            created_at: self.store.now(),
            revoked_at: None,
        };
        let _change = Change(&self.changes);
        self.store
            .create_key(key.clone(), hash(&secret), actor)
            .await?;
        Ok((key, secret))
    }

    /// Who holds this secret, if anyone.
    pub async fn authenticate(&self, secret: &str) -> StoreResult<Option<Caller>> {
        // Looked up by its hash: how long that takes tells nothing about the secret.
        let key = self.store.find_key(hash(secret)).await?;
        Ok(key.map(|key| Caller {
            name: format!("key:{}", key.id),
            owner: key.owner,
            scopes: key.scopes,
            from_addresses: key.from_addresses,
            sees_everyone: false,
        }))
    }

    /// Whether a key was ever made, or there is an admin.
    pub async fn has_credentials(&self) -> StoreResult<bool> {
        if self.has_credentials.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let there = !self.store.keys().await?.is_empty() || !self.store.admins().await?.is_empty();
        // Never back to `false`: another task may have found more.
        self.has_credentials.fetch_or(there, Ordering::Relaxed);
        Ok(there)
    }

    /// Someone has proved who they are: from now on everyone must, whatever is removed.
    pub fn credentials_were_used(&self) {
        self.has_credentials.store(true, Ordering::Relaxed);
    }

    /// All keys, oldest first.
    pub async fn keys(&self) -> StoreResult<Vec<ApiKey>> {
        self.store.keys().await
    }

    /// Revokes a key at once; `false` if there is none.
    pub async fn revoke(&self, id: &str, actor: &Actor) -> StoreResult<bool> {
        let _change = Change(&self.changes);
        self.store.revoke_key(id, actor).await
    }
}

/// Counts a change when it is over, whether it succeeded, failed or was given up.
pub(crate) struct Change<'a>(pub(crate) &'a AtomicU64);

impl Drop for Change<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// What is stored of a secret.
pub(crate) fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
            let _ = write!(out, "{byte:02x}");
            out
        })
}

#[cfg(test)]
mod tests {
    use posthaste_core::Timestamp;

    use super::*;

    fn admin(role: Role) -> Caller {
        Caller::of_admin(&Admin {
            name: "ann".into(),
            role,
            created_at: Timestamp::UNIX_EPOCH,
        })
    }

    #[test]
    fn a_viewer_sees_everyones_emails_and_may_only_read() {
        let viewer = admin(Role::Viewer);
        assert!(viewer.may("read"));
        assert!(!viewer.may("send") && !viewer.may("admin"));
        assert_eq!(viewer.sees_only(), None);
    }

    #[test]
    fn an_operator_may_do_everything_under_their_name() {
        let operator = admin(Role::Operator);
        assert!(SCOPES.iter().all(|scope| operator.may(scope)));
        assert_eq!(operator.sees_only(), None);
        assert_eq!(operator.actor().name, "admin:ann");
    }
}
