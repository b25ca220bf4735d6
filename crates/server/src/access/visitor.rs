//! People who look at pages, and the forms they send.
//!
//! A page is shown to whoever may read. A form changes something: it must come from a page of
//! ours (`Origin`), carry the token that only such a page knows, and be sent by someone who may
//! act. Handlers take `Submitted`, so that none can forget to check.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::header::{ACCEPT, AUTHORIZATION};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use posthaste_engine::Caller;

use super::session::{check_token, cookie, own_site, sent_token, token_of};
use super::{Proof, Read, Recognised, Scope as _};
use crate::app::App;
use crate::page;
use crate::problem::{Kind, Problem};

/// The field of a form that carries the token.
const CSRF_FIELD: &str = "csrf";
/// The cookie that carries what is to be said once on the next page.
pub(crate) const NOTICE_COOKIE: &str = "posthaste_notice";
/// The largest form.
const LARGEST_FORM: usize = 4 * 1024 * 1024;

/// Someone who looks at a page.
#[derive(Clone)]
pub(crate) struct Visitor {
    /// What they may do, and whose emails they see.
    pub(crate) caller: Arc<Caller>,
    /// The secret of their session, if they logged in.
    session: Option<String>,
    /// Whether their forms need the token: not when they come with a key.
    by_key: bool,
    /// What their forms must carry.
    csrf: String,
    /// What is to be said once.
    pub(crate) notice: Option<String>,
}

impl Visitor {
    /// Whether they may change things.
    pub(crate) fn may_act(&self) -> bool {
        self.caller.may("admin")
    }

    /// Whose emails they see; `None` for everyone's.
    pub(crate) fn owner(&self) -> Option<&str> {
        self.caller.sees_only()
    }

    /// Refuses those who see only their own emails: what is shown is about everyone's.
    pub(crate) fn sees_everything(&self) -> Result<(), Problem> {
        if self.owner().is_none() {
            return Ok(());
        }
        let message =
            "This page is about everyone's emails: log in, or use a key with the scope `admin`.";
        Err(Problem::new(Kind::Forbidden, message))
    }

    /// The secret of the session, if they logged in.
    pub(crate) fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// The hidden field that every form of theirs needs.
    pub(crate) fn csrf_field(&self) -> Markup {
        html! { input type="hidden" name=(CSRF_FIELD) value=(self.csrf); }
    }

    /// The token, for scripts of ours.
    pub(crate) fn csrf_token(&self) -> &str {
        &self.csrf
    }
}

impl FromRequestParts<Arc<App>> for Visitor {
    type Rejection = TurnedAway;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, TurnedAway> {
        let recognised = app.doorkeeper.recognise(parts, true).await;
        let Recognised { caller, by } =
            recognised.map_err(|problem| TurnedAway::of(parts, problem))?;
        if !Read::is_held_by(&caller) {
            let message = "This page needs an API key with the scope `read`.";
            return Err(Problem::new(Kind::Forbidden, message).into());
        }
        let by_key = matches!(by, Proof::Key);
        let session = match by {
            Proof::Session(secret) => Some(secret),
            Proof::Key | Proof::Loopback => None,
        };
        let csrf = match &session {
            Some(secret) => token_of(secret.as_bytes()),
            None => token_of(&app.csrf_secret),
        };
        Ok(Self {
            caller,
            session,
            by_key,
            csrf,
            notice: cookie(&parts.headers, NOTICE_COOKIE).map(|text| decoded(&text)),
        })
    }
}

/// Someone who is not shown a page: told why, or where to log in.
pub(crate) enum TurnedAway {
    /// Told why.
    Told(Problem),
    /// Asked to log in, and then brought to this address.
    AskedToLogIn(String),
    /// Came by a link on another site, with which a browser does not send the login. A page of
    /// ours that leads on to the same address brings it.
    LedOn(String),
}

impl TurnedAway {
    /// What becomes of someone who was not recognised.
    fn of(parts: &Parts, problem: Problem) -> Self {
        let accepts = |kind: &str| {
            let accepted = parts.headers.get_all(ACCEPT).iter();
            let mut accepted = accepted.filter_map(|value| value.to_str().ok());
            accepted.any(|value| value.contains(kind))
        };
        if problem.status() != StatusCode::UNAUTHORIZED
            || parts.headers.contains_key(AUTHORIZATION)
            || !accepts("text/html")
        {
            return Self::Told(problem);
        }
        if parts.method != Method::GET {
            return Self::AskedToLogIn(String::new());
        }
        let wanted = parts.uri.path_and_query().map(ToString::to_string);
        let wanted = wanted.unwrap_or_default();
        let site = parts.headers.get("sec-fetch-site");
        if site.is_some_and(|site| site == "cross-site") {
            Self::LedOn(wanted)
        } else {
            Self::AskedToLogIn(wanted)
        }
    }
}

impl From<Problem> for TurnedAway {
    fn from(problem: Problem) -> Self {
        Self::Told(problem)
    }
}

impl IntoResponse for TurnedAway {
    fn into_response(self) -> Response {
        match self {
            Self::Told(problem) => problem.into_response(),
            Self::AskedToLogIn(wanted) => {
                let next = [("next", wanted.as_str())];
                Redirect::to(&page::address("/admin/login", &next)).into_response()
            }
            Self::LedOn(wanted) => page::respond(page::leading_on(&wanted)),
        }
    }
}

/// The fields of a form, in their order; a name may come several times.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fields(pub(crate) Vec<(String, String)>);

impl Fields {
    /// The fields of a body of at most so many octets.
    pub(crate) async fn read(body: Body, most: usize) -> Result<Self, Problem> {
        let body = axum::body::to_bytes(body, most).await.map_err(|_| {
            let message = format!("The form is larger than {} KiB.", most / 1024);
            Problem::new(Kind::TooLarge, message)
        })?;
        Ok(Self(form_urlencoded::parse(&body).into_owned().collect()))
    }

    /// The value of a field, if it is there and not empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let mut values = self.all(name);
        values.next()
    }

    /// All values of a field that are not empty.
    pub(crate) fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        let fields = self.0.iter().filter(move |(field, _)| field == name);
        fields
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }

    /// The value as it was written, empty if the field is not there.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }
}

/// A form that a page of ours sent, whoever is looking at it.
pub(crate) struct Form {
    /// Who.
    pub(crate) visitor: Visitor,
    /// What.
    pub(crate) fields: Fields,
}

impl FromRequest<Arc<App>> for Form {
    type Rejection = TurnedAway;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, TurnedAway> {
        let (mut parts, body) = request.into_parts();
        debug_assert_ne!(
            parts.method,
            Method::GET,
            "a form that acts is sent by POST"
        );
        let visitor = Visitor::from_request_parts(&mut parts, app).await?;
        if !visitor.by_key {
            own_site(&parts)?;
        }
        let fields = Fields::read(body, LARGEST_FORM).await?;
        if !visitor.by_key {
            let given = fields.get(CSRF_FIELD);
            check_token(given.unwrap_or(sent_token(&parts.headers)), &visitor.csrf)?;
        }
        Ok(Self { visitor, fields })
    }
}

/// A form that someone sent who may act.
pub(crate) struct Submitted {
    /// Who.
    pub(crate) visitor: Visitor,
    /// What.
    pub(crate) fields: Fields,
}

impl FromRequest<Arc<App>> for Submitted {
    type Rejection = TurnedAway;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, TurnedAway> {
        let Form { visitor, fields } = Form::from_request(request, app).await?;
        if !visitor.may_act() {
            let message = "You may look, but not change anything: that needs the role `operator`.";
            return Err(Problem::new(Kind::Forbidden, message).into());
        }
        Ok(Self { visitor, fields })
    }
}

fn decoded(text: &str) -> String {
    let pairs = form_urlencoded::parse(text.as_bytes());
    pairs
        .map(|(name, _)| name.into_owned())
        .next()
        .unwrap_or_default()
}
