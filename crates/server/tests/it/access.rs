//! Who may do what.

use std::net::SocketAddr;

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::Request;
use serde_json::json;

use crate::fixture::{Answer, Server, email, local, with_key};

async fn post_email(server: &Server, secret: &str) -> Answer {
    let request = local("POST", "/v1/emails")
        .header("content-type", "application/json")
        .header("authorization", format!("Bearer {secret}"))
        .body(Body::from(email(json!({})).to_string()))
        .unwrap();
    server.send(request).await
}

fn from(peer: &str, mut request: Request<Body>) -> Request<Body> {
    let peer: SocketAddr = peer.parse().unwrap();
    request.extensions_mut().insert(ConnectInfo(peer));
    request
}

#[tokio::test]
async fn without_any_key_only_this_machine_is_answered() {
    let server = Server::start();
    let request = |host: &str| {
        Request::get("/v1/stats")
            .header("host", host)
            .body(Body::empty())
            .unwrap()
    };
    for peer in ["127.0.0.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
        for host in ["localhost", "localhost:8086", "127.0.0.1:9", "[::1]:8086"] {
            let answer = server.send(from(peer, request(host))).await;
            assert_eq!(answer.status, 200, "{peer} {host}");
        }
    }
    for peer in ["10.0.0.1:1", "[2001:db8::1]:1", "[::ffff:10.0.0.1]:1"] {
        let answer = server.send(from(peer, request("localhost"))).await;
        assert!(
            answer
                .is_problem(403)
                .text()
                .contains("posthaste keys create")
        );
    }
    for host in [
        "example.org",
        "localhost.example.org",
        "192.168.0.1:8086",
        "",
    ] {
        server.send(request(host)).await.is_problem(403);
    }
    let no_host = Request::get("/v1/stats").body(Body::empty()).unwrap();
    server.send(no_host).await.is_problem(403);
}

#[tokio::test]
async fn without_any_key_nothing_that_was_forwarded_is_answered() {
    let server = Server::start();
    for name in [
        "forwarded",
        "x-forwarded-for",
        "X-Forwarded-Host",
        "x-forwarded-proto",
        "x-real-ip",
        "via",
    ] {
        let request = local("GET", "/v1/stats")
            .header(name, "1")
            .body(Body::empty())
            .unwrap();
        server.send(request).await.is_problem(403);
    }
}

#[tokio::test]
async fn without_any_key_a_page_of_another_site_cannot_act() {
    let server = Server::start();
    let id = server.accepted(json!({})).await;
    let path = format!("/v1/emails/{id}/cancel");
    for (name, value) in [
        ("origin", "https://evil.example"),
        ("origin", "http://localhost:3000"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
    ] {
        let request = local("POST", &path)
            .header(name, value)
            .body(Body::empty())
            .unwrap();
        server.send(request).await.is_problem(403);
    }
    let own = local("POST", &path)
        .header("origin", "http://localhost:8086")
        .body(Body::empty())
        .unwrap();
    assert_eq!(server.send(own).await.status, 200);
}

#[tokio::test]
async fn once_a_key_exists_everything_needs_one() {
    let server = Server::start();
    let id = server.accepted(json!({})).await;
    let (key, secret) = server.key("ann", &["admin"]).await;
    for (method, path) in [
        ("GET", "/v1/stats".to_owned()),
        ("GET", "/v1/emails".to_owned()),
        ("POST", "/v1/emails".to_owned()),
        ("POST", "/v1/emails/batch".to_owned()),
        ("GET", format!("/v1/emails/{id}")),
        ("POST", format!("/v1/emails/{id}/cancel")),
        ("DELETE", format!("/v1/emails/{id}/content")),
        ("GET", "/v1/dead-letters".to_owned()),
        ("GET", "/v1/dead-letters/groups".to_owned()),
        ("POST", format!("/v1/dead-letters/{id}/retry")),
        ("GET", "/v1/messages".to_owned()),
        ("GET", format!("/v1/messages/{id}")),
        ("POST", format!("/v1/messages/{id}/retry")),
        ("POST", format!("/v1/messages/{id}/discard")),
        ("GET", "/v1/audit".to_owned()),
        ("GET", "/admin/inbox".to_owned()),
        ("GET", format!("/admin/inbox/{id}")),
        ("GET", format!("/admin/inbox/{id}/html")),
    ] {
        let answer = server.act(method, &path).await;
        assert_eq!(
            answer.is_problem(401).header("www-authenticate"),
            "Bearer",
            "{path}"
        );
    }
    assert_eq!(
        server
            .send(with_key("GET", "/v1/stats", &secret))
            .await
            .status,
        200
    );
    // Revoking the last key does not open the door again.
    let actor = posthaste_core::port::Actor {
        name: "test".into(),
        owner: None,
    };
    server.access.revoke(&key, &actor).await.unwrap();
    server.get("/v1/stats").await.is_problem(401);
}

#[tokio::test]
async fn what_is_open_stays_open() {
    let server = Server::start();
    server.key("ann", &["send"]).await;
    for path in [
        "/livez",
        "/readyz",
        "/healthz",
        "/openapi.json",
        "/docs",
        "/admin/assets/desk.css",
    ] {
        let request = Request::get(path)
            .header("host", "mail.example.org")
            .body(Body::empty())
            .unwrap();
        let answer = server.send(from("10.0.0.1:1", request)).await;
        assert_eq!(answer.status, 200, "{path}");
    }
}

#[tokio::test]
async fn a_revoked_key_is_refused_at_once() {
    let server = Server::start();
    let (key, secret) = server.key("ann", &["read"]).await;
    assert_eq!(
        server
            .send(with_key("GET", "/v1/stats", &secret))
            .await
            .status,
        200
    );
    let actor = posthaste_core::port::Actor {
        name: "test".into(),
        owner: None,
    };
    assert!(server.access.revoke(&key, &actor).await.unwrap());
    server
        .send(with_key("GET", "/v1/stats", &secret))
        .await
        .is_problem(401);
}

#[tokio::test]
async fn a_wrong_or_malformed_key_is_401_even_on_loopback() {
    let server = Server::start();
    for header in [
        "Bearer ph_wrong",
        "Bearer",
        "Bearer ",
        "Basic YTpi",
        "ph_wrong",
        "Bearer  ",
    ] {
        let request = local("GET", "/v1/stats")
            .header("authorization", header)
            .body(Body::empty())
            .unwrap();
        server.send(request).await.is_problem(401);
    }
    let (_, secret) = server.key("ann", &["read"]).await;
    let request = local("GET", "/v1/stats")
        .header("authorization", format!("bearer {secret}"))
        .body(Body::empty())
        .unwrap();
    assert_eq!(server.send(request).await.status, 200);
}

#[tokio::test]
async fn a_key_may_do_what_its_scopes_say() {
    let server = Server::start();
    let id = server.dead(json!({})).await;
    let (_, send) = server.key("default", &["send"]).await;
    let (_, read) = server.key("default", &["read"]).await;
    let (_, admin) = server.key("other", &["admin"]).await;
    let email_path = format!("/v1/emails/{id}");
    let table = [
        ("GET", "/v1/emails".to_owned(), [403, 200, 200]),
        ("GET", email_path.clone(), [403, 200, 200]),
        ("GET", "/v1/stats".to_owned(), [403, 200, 200]),
        ("GET", "/v1/dead-letters".to_owned(), [403, 200, 200]),
        ("GET", "/v1/dead-letters/groups".to_owned(), [403, 200, 200]),
        ("GET", "/admin/inbox".to_owned(), [403, 200, 200]),
        ("GET", "/v1/audit".to_owned(), [403, 403, 200]),
        ("GET", "/v1/messages".to_owned(), [403, 403, 200]),
        ("GET", format!("/v1/messages/{id}"), [403, 403, 404]),
        ("POST", format!("/v1/messages/{id}/retry"), [403, 403, 404]),
        (
            "POST",
            format!("/v1/messages/{id}/discard"),
            [403, 403, 404],
        ),
        ("POST", format!("{email_path}/cancel"), [409, 403, 409]),
        (
            "POST",
            format!("/v1/dead-letters/{id}/discard"),
            [403, 403, 200],
        ),
        (
            "POST",
            format!("/v1/dead-letters/{id}/restore"),
            [403, 403, 200],
        ),
        ("DELETE", format!("{email_path}/content"), [403, 403, 200]),
        ("POST", format!("{email_path}/retry"), [403, 403, 410]),
        (
            "POST",
            format!("/v1/dead-letters/{id}/retry"),
            [403, 403, 410],
        ),
        ("POST", format!("{email_path}/resolve"), [403, 403, 415]),
    ];
    for (method, path, expected) in table {
        for (secret, status) in [&send, &read, &admin].into_iter().zip(expected) {
            let answer = server.send(with_key(method, &path, secret)).await;
            assert_eq!(answer.status, status, "{method} {path}: {}", answer.text());
        }
    }
    assert_eq!(post_email(&server, &send).await.status, 202);
    assert_eq!(post_email(&server, &admin).await.status, 202);
    post_email(&server, &read).await.is_problem(403);
}

#[tokio::test]
async fn one_owners_key_never_sees_anothers_emails() {
    let server = Server::start();
    let (_, ann) = server.key("ann", &["send", "read"]).await;
    let (_, bob) = server.key("bob", &["send", "read"]).await;
    let (_, admin) = server.key("admin", &["admin"]).await;
    let id = post_email(&server, &ann).await.json()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let path = format!("/v1/emails/{id}");

    server
        .send(with_key("GET", &path, &bob))
        .await
        .is_problem(404);
    server
        .send(with_key("POST", &format!("{path}/cancel"), &bob))
        .await
        .is_problem(404);
    let count = |answer: Answer| answer.json()["data"].as_array().unwrap().len();
    assert_eq!(
        count(server.send(with_key("GET", "/v1/emails", &bob)).await),
        0
    );
    assert_eq!(
        count(
            server
                .send(with_key("GET", &format!("/v1/emails?q={id}"), &bob))
                .await
        ),
        0
    );
    assert_eq!(
        count(server.send(with_key("GET", "/v1/emails", &ann)).await),
        1
    );
    assert_eq!(
        server.send(with_key("GET", &path, &admin)).await.status,
        200
    );

    server
        .attempt(
            &id,
            posthaste_core::status::Outcome::Permanent,
            posthaste_core::decision::Conclusion::Dead(
                posthaste_core::status::DeadReason::HardBounce,
            ),
        )
        .await;
    assert_eq!(
        count(server.send(with_key("GET", "/v1/dead-letters", &bob)).await),
        0
    );
    assert_eq!(
        count(
            server
                .send(with_key("GET", "/v1/dead-letters/groups", &bob))
                .await
        ),
        0
    );
    assert_eq!(
        count(
            server
                .send(with_key("GET", "/v1/dead-letters/groups", &ann))
                .await
        ),
        1
    );
}

#[tokio::test]
async fn a_key_may_be_bound_to_from_addresses() {
    let server = Server::start();
    let new = posthaste_engine::access::NewKey {
        name: "news".into(),
        owner: "ann".into(),
        scopes: vec!["send".into()],
        from_addresses: vec!["news@example.org".into()],
    };
    let actor = posthaste_core::port::Actor {
        name: "test".into(),
        owner: None,
    };
    let (_, secret) = server.access.create(new, &actor).await.unwrap();
    let answer = post_email(&server, &secret).await;
    assert_eq!(answer.is_problem(422).fields(), ["from"]);
}

#[test]
fn without_keys_the_server_listens_on_loopback_only() {
    let refusal =
        |addr: &str, has_keys| posthaste_server::refuses_to_listen(addr.parse().unwrap(), has_keys);
    for addr in ["127.0.0.1:8086", "[::1]:8086"] {
        assert_eq!(refusal(addr, false), None);
    }
    for addr in ["0.0.0.0:8086", "[::]:8086", "192.168.1.2:8086"] {
        assert!(
            refusal(addr, false)
                .unwrap()
                .contains("posthaste keys create")
        );
        assert_eq!(refusal(addr, true), None);
    }
}
