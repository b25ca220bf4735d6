//! Someone at a browser: it keeps the login, and its forms carry the token of their page.

use axum::body::Body;
use axum::http::Request;
use axum::http::request::Builder;
use posthaste_core::admin::Role;
use posthaste_core::port::Actor;

use crate::fixture::{Answer, Server, local};

pub(crate) const PASSWORD: &str = "correct horse";

/// Who made the admins.
pub(crate) fn root() -> Actor {
    Actor {
        name: "cli:root".into(),
        owner: None,
    }
}

/// Makes an admin.
pub(crate) async fn an_admin(server: &Server, name: &str, role: Role) {
    let created = server.admins.create(name, role, PASSWORD, &root()).await;
    created.unwrap();
}

pub(crate) struct Browser<'a> {
    pub(crate) server: &'a Server,
    /// The cookie of the session, if logged in.
    pub(crate) cookie: String,
    /// The token that forms carry.
    pub(crate) token: String,
}

impl<'a> Browser<'a> {
    /// A browser in which nobody is logged in.
    pub(crate) fn of(server: &'a Server) -> Self {
        Self {
            server,
            cookie: String::new(),
            token: String::new(),
        }
    }

    /// A browser in which a new admin of this role is logged in.
    pub(crate) async fn logged_in(server: &'a Server, name: &str, role: Role) -> Self {
        an_admin(server, name, role).await;
        let mut browser = Self::of(server);
        let answer = browser.log_in(name, PASSWORD).await;
        assert_eq!(answer.status, 303, "{}", answer.text());
        browser
    }

    /// Logs in, and keeps what comes of it.
    pub(crate) async fn log_in(&mut self, name: &str, password: &str) -> Answer {
        let answer = self.send_login(name, password, "").await;
        if let Some(cookie) = answer.headers.get("set-cookie") {
            let cookie = cookie.to_str().unwrap();
            cookie
                .split(';')
                .next()
                .unwrap()
                .clone_into(&mut self.cookie);
            self.token = token_in(&self.get("/admin").await.text());
        }
        answer
    }

    /// Sends the form of the login page.
    pub(crate) async fn send_login(&self, name: &str, password: &str, next: &str) -> Answer {
        let fields = [("name", name), ("password", password), ("next", next)];
        self.send(form(self.request("POST", "/admin/login"), &fields))
            .await
    }

    /// A request for a page, as a browser asks for it.
    pub(crate) fn request(&self, method: &str, path: &str) -> Builder {
        let request = local(method, path).header("accept", "text/html,*/*;q=0.8");
        match self.cookie.as_str() {
            "" => request,
            cookie => request.header("cookie", format!("theme=dark; {cookie}")),
        }
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        self.server.send(request).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(self.request("GET", path).body(Body::empty()).unwrap())
            .await
    }

    /// Sends a form of a page.
    pub(crate) async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let fields = [&[("csrf", self.token.as_str())], fields].concat();
        self.send(form(self.request("POST", path), &fields)).await
    }
}

/// A form with these fields.
pub(crate) fn form(request: Builder, fields: &[(&str, &str)]) -> Request<Body> {
    let mut body = form_urlencoded::Serializer::new(String::new());
    body.extend_pairs(fields);
    request
        .header("content-type", "application/x-www-form-urlencoded")
        .body(Body::from(body.finish()))
        .unwrap()
}

/// The token that a page gives to its forms.
pub(crate) fn token_in(page: &str) -> String {
    let (_, rest) = page.split_once("data-csrf=\"").expect(page);
    rest.split('"').next().unwrap().to_owned()
}
