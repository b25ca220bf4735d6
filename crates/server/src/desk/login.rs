//! Logging in and out.
//!
//! The page never tells whether it was the name or the password that was wrong.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::header::{RETRY_AFTER, SET_COOKIE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Redirect, Response};
use maud::{Markup, html};
use posthaste_engine::admin::Login;

use super::frame::back;
use crate::access::{
    CALL_FOR_AN_ADMIN, Fields, Form, MAKE_AN_ADMIN, TurnedAway, Visitor, begun, came_by_https,
    origin_of, over, own_site,
};
use crate::app::App;
use crate::page;
use crate::problem::{Kind, Problem};
use crate::query::Parameters;

const HERE: &str = "/admin/login";
/// The largest login.
const LARGEST_LOGIN: usize = 16 * 1024;

/// The page, or the way on for those who need no login.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    visitor: Result<Visitor, TurnedAway>,
    parameters: Parameters,
) -> Result<Response, Problem> {
    let next = next_of(parameters.get("next"));
    if visitor.is_ok() {
        return Ok(Redirect::to(next).into_response());
    }
    if !app.doorkeeper.asks_everyone().await? {
        // Only this machine is answered; the page says so better than a form would.
        return Ok(Redirect::to("/admin").into_response());
    }
    let nobody = app.admins.all().await?.is_empty();
    let hint = nobody.then(|| first_admin(app.serves_api));
    Ok(page::respond(card(next, "", hint, None)))
}

/// Logs someone in.
pub(crate) async fn log_in(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    // Nobody is logged in by a page of another site, not even as someone else.
    own_site(&parts)?;
    let Some(ConnectInfo(peer)) = parts.extensions.get::<ConnectInfo<SocketAddr>>() else {
        return Err(Problem::internal());
    };
    let fields = Fields::read(body, LARGEST_LOGIN).await?;
    let (name, password) = (fields.text("name"), fields.text("password"));
    let next = next_of(fields.get("next"));
    let origin = origin_of(peer.ip(), &parts.headers, &app.trusted_proxies);
    let login = app.admins.log_in(name, password, origin).await?;
    let refused = |status, message: &str| {
        let mut response = page::respond(card(next, name, None, Some(message)));
        *response.status_mut() = status;
        response
    };
    Ok(match login {
        Login::LoggedIn { secret } => {
            let secure = app.secure_cookies || came_by_https(&parts.headers);
            let cookie = begun(&secret, app.admins.session_length(), secure);
            let mut response = Redirect::to(next).into_response();
            response
                .headers_mut()
                .extend(cookie.map(|c| (SET_COOKIE, c)));
            response
        }
        Login::Wrong => refused(
            StatusCode::UNAUTHORIZED,
            "The name or the password is wrong.",
        ),
        Login::TooMany { retry_after } => {
            // Rounded up: whoever waits that long need not wait again.
            let seconds = retry_after.as_secs() + 1;
            let message = format!(
                "This was tried too often. Wait {}, then try again.",
                page::span(seconds)
            );
            let mut response = refused(StatusCode::TOO_MANY_REQUESTS, &message);
            let headers = response.headers_mut();
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
            response
        }
    })
}

/// Ends the session.
pub(crate) async fn log_out(
    State(app): State<Arc<App>>,
    Form { visitor, .. }: Form,
) -> Result<Response, Problem> {
    let Some(secret) = visitor.session() else {
        let message = "You are not logged in: nobody needs a login on this machine yet, or you came with a key.";
        return Err(Problem::new(Kind::Conflict, message));
    };
    app.admins.log_out(secret).await?;
    let mut response = Redirect::to(HERE).into_response();
    let over = over(app.secure_cookies);
    response.headers_mut().extend(over.map(|c| (SET_COOKIE, c)));
    Ok(response)
}

/// Where to go after the login: a page of ours, and not this one.
fn next_of(wanted: Option<&str>) -> &str {
    let wanted = wanted.filter(|wanted| !wanted.starts_with(HERE));
    back(wanted, "/admin")
}

/// How the first admin is made. A desk without the API is part of an application.
fn first_admin(serves_api: bool) -> Markup {
    let place = if serves_api {
        "server"
    } else {
        "same database"
    };
    html! {
        p { "Nobody can log in yet. Make an admin on the " (place) ":" }
        p { code { (MAKE_AN_ADMIN) } }
        @if !serves_api {
            p { "Or in the application, by " code { (CALL_FOR_AN_ADMIN) } "." }
        }
    }
}

fn card(next: &str, name: &str, hint: Option<Markup>, refusal: Option<&str>) -> Markup {
    let content = html! {
        h1 { "Log in" }
        @if let Some(hint) = hint { (hint) }
        @if let Some(refusal) = refusal {
            p class="error" role="alert" id="refusal" { (refusal) }
        }
        form method="post" action=(HERE) {
            input type="hidden" name="next" value=(next);
            label {
                "Name"
                input name="name" value=(name) required autocomplete="username" autocapitalize="none"
                    spellcheck="false" maxlength="100" autofocus[name.is_empty()]
                    aria-describedby=[refusal.map(|_| "refusal")];
            }
            label {
                "Password"
                input type="password" name="password" required autocomplete="current-password"
                    maxlength="1000" autofocus[!name.is_empty()];
            }
            button class="first" { "Log in" }
        }
    };
    page::door("Log in", &content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_leads_only_to_pages_of_ours() {
        for wanted in ["/admin", "/admin/emails?status=dead", "/admin/emails/1#x"] {
            assert_eq!(next_of(Some(wanted)), wanted);
        }
        for wanted in [
            "",
            "https://evil.example/admin",
            "//evil.example/admin",
            "/\\evil.example",
            "/admin/\\evil",
            "/administrator",
            "javascript:alert(1)",
            "/admin/login",
            "/admin/login?next=/admin/login",
            "/v1/emails",
            "/admin\r\nSet-Cookie: a=b",
        ] {
            assert_eq!(next_of(Some(wanted)), "/admin", "{wanted}");
        }
        assert_eq!(next_of(None), "/admin");
    }
}
