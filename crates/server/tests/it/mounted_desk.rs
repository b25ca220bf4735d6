//! An application with routes of its own, and the operator's desk among them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Request, StatusCode};
use axum::routing::{get, post};
use posthaste_core::admin::Role;
use posthaste_core::decision::Conclusion;
use posthaste_core::status::{DeadReason, Outcome};
use posthaste_engine::EmailRequest;
use posthaste_engine::intake::{Submitter, Taken};
use posthaste_server::{Limits, ServerParts, acting_pages, desk, desk_until};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::browser::{Browser, token_in};
use crate::fixture::{Server, local, parts};

const OWN_FALLBACK: &str = "The application has no such page.";

/// The application, with a state of its own.
fn with_the_desk(parts: ServerParts) -> Router {
    let booked = |State(seats): State<Arc<u32>>| async move { format!("{seats} seats booked") };
    Router::new()
        .route("/", get(|| async { "Book a seat" }))
        .route("/book", post(booked))
        .fallback(|| async { (StatusCode::NOT_FOUND, OWN_FALLBACK) })
        .with_state(Arc::new(2))
        .merge(desk(parts))
}

fn application_with(limits: Limits) -> Server {
    let (parts, store, transport, folder) = parts(limits);
    Server::made(parts, with_the_desk, store, transport, folder)
}

fn application() -> Server {
    application_with(Limits::default())
}

/// The application as it is published: this machine is not let in before others are.
fn closed_application() -> Server {
    let (mut parts, store, transport, folder) = parts(Limits::default());
    parts.opens_locally = false;
    Server::made(parts, with_the_desk, store, transport, folder)
}

/// An email that the application handed in, and that died.
async fn a_dead_letter(server: &Server, subject: &str) -> String {
    let submitter = Submitter {
        owner: "default".into(),
        from_addresses: Vec::new(),
    };
    let request = EmailRequest {
        from: "booking@example.org".into(),
        to: vec!["ann@example.net".into()],
        subject: subject.into(),
        html: Some("<p>Your seat is booked.</p>".into()),
        ..EmailRequest::default()
    };
    let mut taken = server.intake.take(&submitter, vec![request]).await;
    let Some(Ok(Taken::Accepted { id, .. })) = taken.pop() else {
        panic!("not accepted: {taken:?}");
    };
    let id = id.to_string();
    let dead = Conclusion::Dead(DeadReason::HardBounce);
    server.attempt(&id, Outcome::Permanent, dead).await;
    id
}

/// What a page refers to with these attributes, on this site.
fn references(page: &str, attribute: &str) -> BTreeSet<String> {
    let opening = format!(" {attribute}=\"");
    let values = page.split(&opening).skip(1);
    let values = values.filter_map(|rest| rest.split('"').next());
    values
        .filter(|value| value.starts_with('/'))
        .map(|value| value.replace("&amp;", "&").replace(' ', "%20"))
        .collect()
}

#[tokio::test]
async fn every_page_loads_with_all_that_it_refers_to() {
    let server = application();
    let id = a_dead_letter(&server, "Your booking").await;
    let mut to_visit = vec!["/admin".to_owned()];
    let mut pages = BTreeMap::new();
    while let Some(address) = to_visit.pop() {
        if pages.contains_key(&address) {
            continue;
        }
        let answer = server.get(&address).await;
        assert_eq!(answer.status, 200, "{address}: {}", answer.text());
        let is_page = answer.header("content-type").starts_with("text/html");
        let text = if is_page {
            answer.text()
        } else {
            String::new()
        };
        for attribute in ["href", "src"] {
            to_visit.extend(references(&text, attribute));
        }
        for action in references(&text, "action") {
            assert!(action.starts_with("/admin"), "{address} sends to {action}");
        }
        pages.insert(address, text);
    }
    for expected in [
        "/admin/dead-letters",
        "/admin/settings",
        "/admin/templates/new",
    ] {
        assert!(
            pages.contains_key(expected),
            "{expected} is not to be found"
        );
    }
    let email = pages.keys().any(|page| page.ends_with(&id));
    let styled = pages
        .keys()
        .any(|page| page.starts_with("/admin/assets/desk.css"));
    assert!(email && styled, "{:?}", pages.keys());
    for (address, text) in &pages {
        for elsewhere in ["/v1/", "/docs", "/openapi.json", "/metrics"] {
            assert!(!text.contains(elsewhere), "{address} speaks of {elsewhere}");
        }
    }
}

#[tokio::test]
async fn an_empty_desk_does_not_point_to_an_api_that_is_not_there() {
    let server = application();
    for path in [
        "/admin",
        "/admin/inbox",
        "/admin/email-queue",
        "/admin/templates",
    ] {
        let text = server.get(path).await.text();
        assert!(text.contains("<h1>") && !text.contains("/v1"), "{path}");
    }
}

#[tokio::test]
async fn its_buttons_work_and_what_they_refuse_is_said_without_the_api() {
    let server = application();
    let id = a_dead_letter(&server, "Your booking").await;
    let mut browser = Browser::of(&server);
    let page = browser.get(&format!("/admin/emails/{id}")).await.text();
    browser.token = token_in(&page);
    let refused = browser
        .post(&format!("/admin/emails/{id}/cancel"), &[])
        .await;
    assert_eq!(refused.status, 409);
    let text = refused.text();
    assert!(
        text.contains("Discard it.") && !text.contains("/v1"),
        "{text}"
    );
    assert!(!text.contains("/docs"), "{text}");

    let retried = browser
        .post(&format!("/admin/emails/{id}/retry"), &[])
        .await;

    assert_eq!(retried.status, 303, "{}", retried.text());
    assert_eq!(retried.header("location"), format!("/admin/emails/{id}"));
    let outbox = server.get("/api/admin/outbox").await.json();
    assert_eq!(
        (outbox[0]["id"].as_str(), &outbox[0]["status"]),
        (Some(&*id), &"pending".into())
    );
    let numbers = server.get("/api/admin/dashboard").await.json();
    assert_eq!(numbers["pendingEmailCount"], 1);
}

#[tokio::test]
async fn people_log_in_as_in_the_server() {
    let server = application();
    let olga = Browser::logged_in(&server, "olga", Role::Operator).await;
    assert!(olga.get("/admin").await.text().contains("olga"));
    let stranger = Browser::of(&server).get("/admin").await;
    assert_eq!(stranger.header("location"), "/admin/login?next=%2Fadmin");
    let page = Browser::of(&server).get("/admin/login").await.text();
    let style = references(&page, "href");
    for address in style.iter().filter(|address| address.contains("assets")) {
        assert_eq!(server.get(address).await.status, 200, "{address}");
    }
}

#[tokio::test]
async fn who_cannot_be_told_to_be_local_is_refused() {
    let server = application();
    // As served without `into_make_service_with_connect_info`.
    let request = local("GET", "/admin").body(Body::empty()).unwrap();
    let response = server.router.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status(), 403);
}

/// A plain `proxy_pass` of nginx sends what a browser on this machine would, for anyone.
#[tokio::test]
async fn behind_a_proxy_that_hides_its_visitors_nothing_is_shown_before_there_is_an_admin() {
    let server = closed_application();
    let id = a_dead_letter(&server, "Your booking").await;
    let through_the_proxy = Browser::of(&server);
    for page in [
        "/admin".to_owned(),
        "/admin/dead-letters".to_owned(),
        "/admin/email-queue".to_owned(),
        "/admin/settings".to_owned(),
        "/admin/live".to_owned(),
        format!("/admin/emails/{id}"),
    ] {
        let answer = through_the_proxy.get(&page).await;
        assert_eq!(answer.status, 303, "{page}");
        let login = answer.header("location");
        assert!(login.starts_with("/admin/login?next=%2Fadmin"), "{login}");
        server.get(&page).await.is_problem(401);
    }
    for page in acting_pages() {
        let page = page.replace("{id}", &id);
        let answer = through_the_proxy.post(&page, &[]).await;
        assert_eq!(answer.header("location"), "/admin/login", "{page}");
    }
    for route in ["/api/admin/outbox", "/api/admin/dashboard"] {
        let answer = server.get(route).await;
        let told = answer.is_problem(401).text();
        assert!(told.contains("posthaste admin create NAME"), "{told}");
    }
    let retry = format!("/api/admin/outbox/{id}/retry");
    server.act("POST", &retry).await.is_problem(401);

    let login = through_the_proxy.get("/admin/login").await;

    assert_eq!(login.status, 200, "{}", login.text());
    for way in ["posthaste admin create NAME", "Outbox::create_admin"] {
        assert!(login.text().contains(way), "{}", login.text());
    }
    assert!(!login.text().contains("Your booking"), "{}", login.text());
    let olga = Browser::logged_in(&server, "olga", Role::Operator).await;
    let page = olga.get("/admin/dead-letters").await;
    assert!(page.text().contains("Your booking"), "{}", page.text());
    let login = through_the_proxy.get("/admin/login").await.text();
    assert!(!login.contains("Nobody can log in yet"), "{login}");
}

#[tokio::test]
async fn all_other_routes_are_the_applications() {
    let server = application();
    assert_eq!(server.get("/").await.text(), "Book a seat");
    assert_eq!(server.act("POST", "/book").await.text(), "2 seats booked");
    for path in [
        "/v1/emails",
        "/docs",
        "/openapi.json",
        "/metrics",
        "/livez",
        "/readyz",
        "/healthz",
        "/assets/desk.css",
        "/admin/nonsense",
        "/administration",
        "/api/admin/nonsense",
    ] {
        let answer = server.get(path).await;
        assert_eq!(
            (answer.status.as_u16(), &*answer.text()),
            (404, OWN_FALLBACK),
            "{path}"
        );
    }
    let answer = server.act("DELETE", "/admin/emails").await;
    answer.is_problem(405);
    assert_eq!(answer.header("allow"), "GET,HEAD");
    let answer = server.act("DELETE", "/book").await;
    assert_eq!((answer.status.as_u16(), &*answer.text()), (405, ""));
}

#[tokio::test]
async fn its_limits_are_not_the_applications() {
    let full = || Limits {
        in_flight_requests: 0,
        ..Limits::default()
    };
    let server = application_with(full());
    server.get("/admin").await.is_problem(503);
    assert_eq!(server.get("/").await.status, 200);
    assert_eq!(server.get("/nowhere").await.text(), OWN_FALLBACK);
    // Nor is what is said about pages that are not there, if the application says nothing.
    let (parts, store, transport, folder) = parts(full());
    let alone = Server::made(parts, desk, store, transport, folder);
    alone.get("/admin").await.is_problem(503);
    let nowhere = alone.get("/nowhere").await;
    assert_eq!((nowhere.status.as_u16(), &*nowhere.text()), (404, ""));
}

#[tokio::test]
async fn streams_of_open_pages_end_when_the_application_stops() {
    let (parts, store, transport, folder) = parts(Limits::default());
    let shutdown = CancellationToken::new();
    let until = |parts| desk_until(parts, shutdown.clone());
    let server = Server::made(parts, until, store, transport, folder);
    let stopping = async {
        tokio::task::yield_now().await;
        shutdown.cancel();
    };
    let request: Request<Body> = local("GET", "/admin/live").body(Body::empty()).unwrap();
    let (answer, ()) = tokio::join!(server.send(request), stopping);
    assert_eq!(answer.status, 200);
    assert!(answer.text().contains("event: hello"), "{}", answer.text());
}
