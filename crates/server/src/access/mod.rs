//! Who is asking, and whether they may.
//!
//! Handlers name the scope they need in their signature, as `Allowed<Send>`, so that none can
//! forget to check.

mod lookup;
mod loopback;

use std::marker::PhantomData;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use posthaste_core::port::StoreResult;
use posthaste_engine::{Access, Caller};
use sha2::{Digest, Sha256};

use self::lookup::Lookups;
pub(crate) use self::loopback::{is_on_loopback, why_not_loopback};
use crate::app::App;
use crate::problem::{Kind, Problem};

/// How to make a key, for those who need one.
pub(crate) const MAKE_A_KEY: &str = "posthaste keys create --name my-app --scope send --scope read";

/// Finds out who is asking.
pub(crate) struct Doorkeeper {
    access: Arc<Access>,
    keys: Lookups<[u8; 32], StoreResult<Option<Arc<Caller>>>>,
    any_key: Lookups<(), StoreResult<bool>>,
    on_loopback: Arc<Caller>,
}

impl Doorkeeper {
    pub(crate) fn new(access: Arc<Access>) -> Self {
        Self {
            access,
            keys: Lookups::new(16),
            any_key: Lookups::new(1),
            on_loopback: Arc::new(Caller::loopback()),
        }
    }

    /// The caller: the holder of a key, or anyone on this machine while no key was ever made.
    async fn identify(&self, parts: &Parts) -> Result<Arc<Caller>, Problem> {
        if let Some(secret) = bearer(parts)? {
            return self.holder(secret).await?.ok_or_else(|| {
                unauthorized("The API key is not known, or was revoked.".to_owned())
            });
        }
        if self.has_keys().await? {
            return Err(unauthorized(
                "Send an API key in the header `Authorization: Bearer <key>`.".to_owned(),
            ));
        }
        match why_not_loopback(parts) {
            None => Ok(Arc::clone(&self.on_loopback)),
            Some(reason) => Err(Problem::new(
                Kind::Forbidden,
                format!(
                    "No API key exists yet, so only programs on the server itself are answered, and {reason}. \
                     Make a key on the server (`{MAKE_A_KEY}`) and send it as `Authorization: Bearer <key>`."
                ),
            )),
        }
    }

    async fn holder(&self, secret: &str) -> StoreResult<Option<Arc<Caller>>> {
        let look_up = async {
            let caller = self.access.authenticate(secret).await?;
            Ok(caller.map(Arc::new))
        };
        let hash: [u8; 32] = Sha256::digest(secret.as_bytes()).into();
        self.keys.get(usize::from(hash[0]), hash, look_up).await
    }

    async fn has_keys(&self) -> StoreResult<bool> {
        self.any_key.get(0, (), self.access.has_keys()).await
    }
}

fn unauthorized(detail: String) -> Problem {
    Problem::new(Kind::Unauthorized, detail)
}

/// The secret in the `Authorization` header, if there is one.
fn bearer(parts: &Parts) -> Result<Option<&str>, Problem> {
    let Some(header) = parts.headers.get(AUTHORIZATION) else {
        return Ok(None);
    };
    let secret = header
        .to_str()
        .ok()
        .and_then(|text| text.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, secret)| secret.trim())
        .filter(|secret| !secret.is_empty());
    match secret {
        Some(secret) => Ok(Some(secret)),
        None => Err(unauthorized(
            "The Authorization header must be `Bearer <key>`.".to_owned(),
        )),
    }
}

/// What a caller may be allowed to do.
pub(crate) trait Scope: std::marker::Send + Sync {
    /// Whether this caller may.
    fn is_held_by(caller: &Caller) -> bool;
    /// What to ask for.
    const NAME: &'static str;
}

macro_rules! scopes {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)+) => {$(
        $(#[$doc])*
        pub(crate) struct $name;
        impl Scope for $name {
            fn is_held_by(caller: &Caller) -> bool { caller.may($text) }
            const NAME: &'static str = $text;
        }
    )+};
}

scopes! {
    /// Send emails, and withdraw them.
    Send = "send",
    /// See emails.
    Read = "read",
    /// Everything.
    Admin = "admin",
}

/// A caller who holds the scope.
pub(crate) struct Allowed<S> {
    pub(crate) caller: Arc<Caller>,
    scope: PhantomData<S>,
}

impl<S> Allowed<S> {
    /// Whose emails the caller may see; `None` for everyone's.
    pub(crate) fn owner(&self) -> Option<&str> {
        self.caller.sees_only()
    }
}

impl<S: Scope> FromRequestParts<Arc<App>> for Allowed<S> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let caller = app.doorkeeper.identify(parts).await?;
        allow(caller)
    }
}

fn allow<S: Scope>(caller: Arc<Caller>) -> Result<Allowed<S>, Problem> {
    if !S::is_held_by(&caller) {
        return Err(Problem::new(
            Kind::Forbidden,
            format!(
                "This needs an API key with the scope `{}`; yours has: {}.",
                S::NAME,
                caller.scopes.join(", ")
            ),
        ));
    }
    Ok(Allowed {
        caller,
        scope: PhantomData,
    })
}

/// Someone on this machine, or a key that may read: for scrapers of metrics.
pub(crate) struct LocalOrReader;

impl FromRequestParts<Arc<App>> for LocalOrReader {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        if bearer(parts)?.is_none() && why_not_loopback(parts).is_none() {
            return Ok(Self);
        }
        let caller = app.doorkeeper.identify(parts).await?;
        allow::<Read>(caller).map(|_| Self)
    }
}
