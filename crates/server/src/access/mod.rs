//! Who is asking, and whether they may.
//!
//! Handlers name the scope they need in their signature, as `Allowed<Send>`, so that none can
//! forget to check.

mod lookup;
mod loopback;
mod session;
mod visitor;

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use posthaste_core::port::StoreResult;
use posthaste_engine::{Access, Admins, Caller};
use sha2::{Digest, Sha256};

use self::lookup::{Lookups, SHARED_FOR};
pub(crate) use self::loopback::{is_on_loopback, why_not_loopback};
pub(crate) use self::session::{begun, came_by_https, origin_of, over, own_site};
pub(crate) use self::visitor::{Fields, Form, NOTICE_COOKIE, Submitted, TurnedAway, Visitor};
use crate::app::App;
use crate::problem::{Kind, Problem};

/// How to make a key, for those who need one.
pub(crate) const MAKE_A_KEY: &str = "posthaste keys create --name my-app --scope send --scope read";
/// How to make an admin, for those who want to log in.
pub(crate) const MAKE_AN_ADMIN: &str = "posthaste admin create NAME --role operator";
/// The same for an application that the desk is part of, which may do it itself.
pub(crate) const CALL_FOR_AN_ADMIN: &str = "Outbox::create_admin";
/// Where programs may act with the login of a person, too.
const FOR_BROWSERS: &str = "/api/admin/";

/// Finds out who is asking.
pub(crate) struct Doorkeeper {
    access: Arc<Access>,
    admins: Arc<Admins>,
    keys: Lookups<[u8; 32], Option<Arc<Caller>>>,
    sessions: Lookups<[u8; 32], Option<Arc<Caller>>>,
    any_credentials: Lookups<(), bool>,
    on_loopback: Arc<Caller>,
    /// Whether anyone on this machine may come in while there is no admin and no key.
    opens_locally: bool,
}

/// Someone who was recognised.
struct Recognised {
    caller: Arc<Caller>,
    by: Proof,
}

/// How someone was recognised.
enum Proof {
    /// By a key, which no page of another site can make a browser send.
    Key,
    /// By the cookie with this secret.
    Session(String),
    /// By being on this machine.
    Loopback,
}

impl Doorkeeper {
    pub(crate) fn new(access: Arc<Access>, admins: Arc<Admins>, opens_locally: bool) -> Self {
        Self {
            access,
            admins,
            keys: Lookups::new(16, SHARED_FOR),
            sessions: Lookups::new(16, Duration::ZERO),
            any_credentials: Lookups::new(1, SHARED_FOR),
            on_loopback: Arc::new(Caller::loopback()),
            opens_locally,
        }
    }

    /// The caller of the API: the holder of a key, or anyone on this machine while neither a key
    /// nor an admin exists, if it opens to them. Where browsers may ask, someone who is logged in,
    /// too.
    async fn identify(&self, parts: &Parts) -> Result<Arc<Caller>, Problem> {
        let with_session = parts.uri.path().starts_with(FOR_BROWSERS);
        let Recognised { caller, by } = self.recognise(parts, with_session).await?;
        if let Proof::Session(secret) = by
            && !parts.method.is_safe()
        {
            session::own_site(parts)?;
            let token = session::token_of(secret.as_bytes());
            session::check_token(session::sent_token(&parts.headers), &token)?;
        }
        Ok(caller)
    }

    async fn recognise(&self, parts: &Parts, with_session: bool) -> Result<Recognised, Problem> {
        if let Some(secret) = bearer(parts)? {
            let by = Proof::Key;
            let holder = self.holder(secret).await?;
            return holder
                .map(|caller| Recognised { caller, by })
                .ok_or_else(|| {
                    unauthorized("The API key is not known, or was revoked.".to_owned())
                });
        }
        if with_session
            && let Some(secret) = session::secret_of(&parts.headers)
            && let Some(caller) = self.logged_in(&secret).await?
        {
            self.access.credentials_were_used();
            let by = Proof::Session(secret);
            return Ok(Recognised { caller, by });
        }
        if self.has_credentials().await? {
            let or_log_in = if with_session {
                ", or log in at /admin/login"
            } else {
                ""
            };
            return Err(unauthorized(format!(
                "Send an API key in the header `Authorization: Bearer <key>`{or_log_in}."
            )));
        }
        if !self.opens_locally {
            return Err(unauthorized(format!(
                "No API key and no admin exists yet, so nobody is answered. Make an admin on the same database \
                 (`{MAKE_AN_ADMIN}`, or `{CALL_FOR_AN_ADMIN}` in the application), then log in at /admin/login."
            )));
        }
        match why_not_loopback(parts) {
            None => Ok(Recognised {
                caller: Arc::clone(&self.on_loopback),
                by: Proof::Loopback,
            }),
            Some(reason) => Err(Problem::new(
                Kind::Forbidden,
                format!(
                    "No API key and no admin exists yet, so only programs on the server itself are answered, and \
                     {reason}. On the server, make a key (`{MAKE_A_KEY}`) and send it as `Authorization: Bearer \
                     <key>`, or make an admin (`{MAKE_AN_ADMIN}`) and log in."
                ),
            )),
        }
    }

    /// Whoever is logged in with this secret, with the role that they have now.
    async fn logged_in(&self, secret: &str) -> StoreResult<Option<Arc<Caller>>> {
        let look_up = async {
            let session = self.admins.session(secret).await?;
            Ok(session.map(|session| Arc::new(Caller::of_admin(&session.admin))))
        };
        let hash: [u8; 32] = Sha256::digest(secret.as_bytes()).into();
        self.sessions
            .get(usize::from(hash[0]), hash, || self.changes(), look_up)
            .await
    }

    async fn holder(&self, secret: &str) -> StoreResult<Option<Arc<Caller>>> {
        let look_up = async {
            let caller = self.access.authenticate(secret).await?;
            Ok(caller.map(Arc::new))
        };
        let hash: [u8; 32] = Sha256::digest(secret.as_bytes()).into();
        self.keys
            .get(usize::from(hash[0]), hash, || self.changes(), look_up)
            .await
    }

    /// Whether whoever comes has to prove who they are.
    pub(crate) async fn asks_everyone(&self) -> StoreResult<bool> {
        Ok(!self.opens_locally || self.has_credentials().await?)
    }

    /// Whether there is anything to prove who one is with.
    async fn has_credentials(&self) -> StoreResult<bool> {
        let look_up = self.access.has_credentials();
        self.any_credentials
            .get(0, (), || self.changes(), look_up)
            .await
    }

    /// How often this process changed who may come in.
    fn changes(&self) -> u64 {
        self.access.changes() + self.admins.changes()
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
