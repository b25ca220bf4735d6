//! What viewers and operators may do, tried on every route that changes something. The routes are
//! asked for, so that one that is added later is tried, too.

use axum::body::Body;
use axum::http::Request;
use posthaste_core::admin::{LastOperator, Role};
use serde_json::json;

use crate::browser::{Browser, form, root};
use crate::fixture::{Server, local, with_key};

/// An address for a route with `{id}` and the like.
fn filled(path: &str) -> String {
    let parts = path.split('/').map(|part| match part {
        "{id}" => "0198f7a2-7b1c-7def-8000-000000000001",
        part if part.starts_with('{') => "some-name",
        part => part,
    });
    parts.collect::<Vec<_>>().join("/")
}

/// The routes of the API that change something, as its description has them. A preview is only
/// asked for by POST because it has a body; and providers have no keys, only signatures.
fn acting_api() -> Vec<(String, String)> {
    let description: serde_json::Value =
        serde_json::from_str(&posthaste_server::openapi()).unwrap();
    let mut routes = Vec::new();
    for (path, methods) in description["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            let changes = ["post", "put", "patch", "delete"].contains(&method.as_str());
            let is_providers = path.starts_with("/v1/provider-events/");
            if changes && !path.ends_with("/preview") && !is_providers {
                routes.push((method.to_uppercase(), path.clone()));
            }
        }
    }
    assert!(routes.len() > 10, "{routes:?}");
    routes
}

#[tokio::test]
async fn a_viewer_sees_everyones_emails_and_changes_nothing() {
    let server = Server::start();
    let id = server.dead(json!({"subject": "Invoice 7"})).await;
    let viewer = Browser::logged_in(&server, "vera", Role::Viewer).await;
    let list = viewer.get("/admin/emails").await;
    assert_eq!(list.status, 200);
    assert!(list.text().contains("Invoice 7"));
    let page = viewer.get(&format!("/admin/emails/{id}")).await;
    assert_eq!(page.status, 200);
    let answer = viewer.post(&format!("/admin/emails/{id}/retry"), &[]).await;
    assert_eq!(answer.status, 403);
    assert!(answer.text().contains("role `operator`"));
    let outbox = viewer.get("/api/admin/outbox").await;
    assert_eq!(outbox.json()[0]["status"], "failed");
}

#[tokio::test]
async fn a_viewer_is_refused_on_every_page_that_acts() {
    let server = Server::start();
    let viewer = Browser::logged_in(&server, "vera", Role::Viewer).await;
    let paths = posthaste_server::acting_pages();
    assert!(paths.len() > 5, "{paths:?}");
    for path in paths {
        let answer = viewer.post(&filled(path), &[]).await;
        assert_eq!(answer.status, 403, "{path}");
        assert!(answer.text().contains("role `operator`"), "{path}");
    }
}

#[tokio::test]
async fn every_page_that_acts_needs_its_token_and_its_own_site() {
    let server = Server::start();
    let operator = Browser::logged_in(&server, "olga", Role::Operator).await;
    let other = Browser::logged_in(&server, "oscar", Role::Operator).await;
    for path in posthaste_server::acting_pages() {
        let path = filled(path);
        let refused = async |request: Request<Body>, why: &str| {
            let answer = operator.send(request).await;
            assert_eq!(answer.status, 403, "{path} {why}");
        };
        let post = || operator.request("POST", &path);
        refused(form(post(), &[]), "without a token").await;
        refused(form(post(), &[("csrf", "")]), "with an empty token").await;
        let foreign = [("csrf", other.token.as_str())];
        refused(form(post(), &foreign), "with someone else's token").await;
        let token = [("csrf", operator.token.as_str())];
        for (header, value) in [
            ("origin", "https://evil.example"),
            ("origin", "null"),
            ("sec-fetch-site", "cross-site"),
        ] {
            let request = form(post().header(header, value), &token);
            refused(request, value).await;
        }
        let own = post().header("origin", "http://localhost:8086");
        let answer = operator.send(form(own, &token)).await;
        let status = answer.status.as_u16();
        assert!(![401, 403, 405, 500].contains(&status), "{path}: {status}");
    }
}

#[tokio::test]
async fn whoever_is_not_logged_in_is_sent_to_the_login_by_every_page_that_acts() {
    let server = Server::start();
    server.key("ann", &["read"]).await;
    let stranger = Browser::of(&server);
    for path in posthaste_server::acting_pages() {
        let answer = stranger.post(&filled(path), &[]).await;
        assert_eq!(answer.status, 303, "{path}");
        assert_eq!(answer.header("location"), "/admin/login");
    }
}

#[tokio::test]
async fn a_key_that_may_only_read_is_refused_on_every_route_that_acts() {
    let server = Server::start();
    let (_, secret) = server.key("ann", &["read"]).await;
    for path in posthaste_server::acting_pages() {
        let answer = server.send(with_key("POST", &filled(path), &secret)).await;
        answer.is_problem(403);
    }
    for (method, path) in acting_api() {
        let answer = server
            .send(with_key(&method, &filled(&path), &secret))
            .await;
        assert_eq!(answer.status, 403, "{method} {path}");
    }
}

#[tokio::test]
async fn a_login_acts_through_the_api_only_where_browsers_do() {
    let server = Server::start();
    let operator = Browser::logged_in(&server, "olga", Role::Operator).await;
    let viewer = Browser::logged_in(&server, "vera", Role::Viewer).await;
    for (method, path) in acting_api() {
        let path = filled(&path);
        let send = async |browser: &Browser<'_>, headers: &[(&str, &str)]| {
            let mut request = local(&method, &path).header("cookie", &browser.cookie);
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let answer = server.send(request.body(Body::empty()).unwrap()).await;
            answer.status.as_u16()
        };
        let token = ("x-csrf-token", operator.token.as_str());
        if !path.starts_with("/api/admin/") {
            assert_eq!(send(&operator, &[token]).await, 401, "{method} {path}");
            continue;
        }
        let viewers = ("x-csrf-token", viewer.token.as_str());
        assert_eq!(send(&viewer, &[viewers]).await, 403, "{method} {path}");
        assert_eq!(send(&operator, &[]).await, 403, "{method} {path}");
        assert_eq!(send(&operator, &[viewers]).await, 403, "{method} {path}");
        let evil = ("origin", "https://evil.example");
        assert_eq!(send(&operator, &[token, evil]).await, 403, "{path}");
        assert_eq!(send(&operator, &[token]).await, 404, "{method} {path}");
    }
}

#[tokio::test]
async fn another_role_counts_at_once() {
    let server = Server::start();
    let id = server.dead(json!({})).await;
    let olga = Browser::logged_in(&server, "olga", Role::Operator).await;
    let path = format!("/admin/emails/{id}/retry");
    let change = async |role| {
        let last = LastOperator::MayGo;
        let changed = server.admins.change_role("olga", role, last, &root()).await;
        changed.unwrap();
    };
    change(Role::Viewer).await;
    assert_eq!(olga.post(&path, &[]).await.status, 403);
    change(Role::Operator).await;
    assert_eq!(olga.post(&path, &[]).await.status, 303);
    server
        .admins
        .remove("olga", LastOperator::MayGo, &root())
        .await
        .unwrap();
    let answer = olga.get("/admin").await;
    assert!(answer.header("location").starts_with("/admin/login"));
}

#[tokio::test]
async fn what_an_operator_does_is_on_record_under_their_name() {
    let server = Server::start();
    let id = server.dead(json!({})).await;
    let olga = Browser::logged_in(&server, "olga", Role::Operator).await;
    let answer = olga.post(&format!("/admin/emails/{id}/retry"), &[]).await;
    assert_eq!(answer.status, 303);
    let (_, secret) = server.key("root", &["admin"]).await;
    let audit = server.send(with_key("GET", "/v1/audit", &secret)).await;
    let entries = audit.json()["data"].as_array().unwrap().clone();
    let by_olga: Vec<_> = entries
        .iter()
        .filter(|entry| entry["actor"] == "admin:olga")
        .map(|entry| entry["action"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(by_olga, ["retry", "login"]);
}

/// Routes that act stand in one table, which the tests above walk through.
#[test]
fn no_page_acts_outside_of_the_table() {
    let source = include_str!("../../src/desk/mod.rs");
    let (outside, _) = source.split_once("fn actions()").unwrap();
    let posts: Vec<_> = outside
        .lines()
        .filter(|line| line.contains("post(") || line.contains("delete(") || line.contains("put("))
        .map(str::trim)
        .collect();
    assert_eq!(
        posts,
        [
            r#".route("/admin/login", get(login::show).post(login::log_in))"#,
            r#".route("/admin/logout", post(login::log_out))"#,
        ]
    );
}
