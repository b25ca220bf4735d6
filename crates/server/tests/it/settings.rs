//! Settings and the audit log, as viewers and operators see them.

use posthaste_core::admin::Role;
use serde_json::json;

use crate::browser::{Browser, PASSWORD, an_admin, form};
use crate::fixture::{Server, local, with_key};

const HERE: &str = "/admin/settings";

#[tokio::test]
async fn the_configuration_is_shown_with_where_it_is_from() {
    let server = Server::start();
    let page = server.get(HERE).await.text();
    assert!(page.contains("smtp://u:***@mail.example.org"));
    assert!(page.contains("SMTP_URL"));
    assert!(page.contains("30 days"), "retention in words");
    assert!(page.contains("as long as the email"));
}

#[tokio::test]
async fn a_viewer_sees_settings_and_finds_nothing_to_press() {
    let server = Server::start();
    server.key("billing", &["send"]).await;
    let vera = Browser::logged_in(&server, "vera", Role::Viewer).await;
    let page = vera.get(HERE).await.text();
    assert!(page.contains("vera") && page.contains("billing"));
    let main = page.split_once("<main").unwrap().1;
    assert!(!main.contains("method=\"post\""), "{main}");
}

#[tokio::test]
async fn a_key_that_sees_only_its_owners_emails_sees_neither_settings_nor_audit() {
    let server = Server::start();
    let (_, secret) = server.key("ann", &["read"]).await;
    for path in [HERE, "/admin/audit"] {
        server
            .send(with_key("GET", path, &secret))
            .await
            .is_problem(403);
    }
}

#[tokio::test]
async fn the_secret_of_a_new_key_is_shown_once() {
    let server = Server::start();
    let olga = Browser::logged_in(&server, "olga", Role::Operator).await;
    let fields = [
        ("name", "billing"),
        ("owner", "shop"),
        ("scope", "send"),
        ("scope", "read"),
        ("from", "shop@example.org, news@example.org"),
    ];
    let made = olga.post("/admin/settings/keys", &fields).await;
    assert_eq!(made.status, 200);
    assert_eq!(made.header("cache-control"), "no-store");
    let text = made.text();
    let (_, rest) = text.split_once("id=\"secret\">").unwrap();
    let secret = rest.split('<').next().unwrap();
    let answer = server.send(with_key("GET", "/v1/emails", secret)).await;
    assert_eq!(answer.status, 200);
    let later = olga.get(HERE).await.text();
    assert!(!later.contains(secret) && later.contains("news@example.org"));
    let keys = server.access.keys().await.unwrap();
    assert_eq!((&keys[0].owner[..], keys[0].scopes.len()), ("shop", 2));

    let path = format!("/admin/settings/keys/{}/revoke", keys[0].id);
    assert_eq!(olga.post(&path, &[]).await.header("location"), HERE);
    let answer = server.send(with_key("GET", "/v1/emails", secret)).await;
    answer.is_problem(401);
    let nobody = olga.post("/admin/settings/keys/nope/revoke", &[]).await;
    assert_eq!(nobody.status, 404);
}

#[tokio::test]
async fn a_key_that_cannot_be_made_is_explained() {
    let server = Server::start();
    let olga = Browser::logged_in(&server, "olga", Role::Operator).await;
    for (fields, message) in [
        (&[("scope", "send")][..], "say what the key is for"),
        (&[("name", "x")], "at least one scope"),
        (&[("name", "x"), ("scope", "fly")], "is not a scope"),
        (
            &[("name", "x"), ("scope", "send"), ("from", "nobody")],
            "the From address",
        ),
    ] {
        let answer = olga.post("/admin/settings/keys", fields).await;
        assert_eq!(answer.status, 422, "{fields:?}");
        assert!(answer.text().contains(message), "{}", answer.text());
    }
    assert_eq!(server.access.keys().await.unwrap(), []);
}

#[tokio::test]
async fn an_operator_adds_changes_and_removes_admins() {
    let server = Server::start();
    let olga = Browser::logged_in(&server, "olga", Role::Operator).await;
    let fields = [("name", "Vera"), ("role", "viewer"), ("password", PASSWORD)];
    let made = olga.post("/admin/settings/admins", &fields).await;
    assert_eq!(made.header("location"), HERE);
    let mut vera = Browser::of(&server);
    assert_eq!(vera.log_in("vera", PASSWORD).await.status, 303);

    let change = async |what: &str, fields: &[(&str, &str)]| {
        let path = format!("/admin/settings/admins/vera/{what}");
        olga.post(&path, fields).await.status
    };
    assert_eq!(change("role", &[("role", "operator")]).await, 303);
    let admin = server.admins.find("vera").await.unwrap().unwrap();
    assert_eq!(admin.role, Role::Operator);
    assert_eq!(change("role", &[("role", "boss")]).await, 422);
    assert_eq!(change("password", &[("password", "short")]).await, 422);
    assert_eq!(vera.get("/admin").await.status, 200, "nothing was changed");
    let password = [("password", "battery staple")];
    assert_eq!(change("password", &password).await, 303);
    assert_eq!(vera.get("/admin").await.status, 303, "logged out");
    assert_eq!(change("remove", &[]).await, 303);
    assert_eq!(change("remove", &[]).await, 404);
    assert_eq!(server.admins.all().await.unwrap().len(), 1);
}

#[tokio::test]
async fn nobody_takes_the_last_operator_away_by_their_own_hand() {
    let server = Server::start();
    let olga = Browser::logged_in(&server, "olga", Role::Operator).await;
    let viewer = [("role", "viewer")];
    for name in ["olga", "OLGA", "%20Olga"] {
        for (what, fields) in [("role", &viewer[..]), ("remove", &[])] {
            let path = format!("/admin/settings/admins/{name}/{what}");
            let answer = olga.post(&path, fields).await;
            assert_eq!(answer.status, 422, "{what} {name}");
            assert!(answer.text().contains("You cannot"));
        }
    }
    // Nor by a key.
    let (_, secret) = server.key("ann", &["admin"]).await;
    for (what, fields) in [("role", &viewer[..]), ("remove", &[])] {
        let path = format!("/admin/settings/admins/olga/{what}");
        let request = local("POST", &path).header("authorization", format!("Bearer {secret}"));
        let answer = server.send(form(request, fields)).await;
        assert_eq!(answer.status, 422, "{what}");
        assert!(answer.text().contains("olga is the last operator"));
    }
    let admin = server.admins.find("olga").await.unwrap().unwrap();
    assert_eq!(admin.role, Role::Operator);
}

#[tokio::test]
async fn an_admin_that_cannot_be_made_is_explained_and_no_password_comes_back() {
    let server = Server::start();
    let olga = Browser::logged_in(&server, "olga", Role::Operator).await;
    for (name, role, password, message) in [
        ("olga", "viewer", PASSWORD, "already"),
        ("a b", "viewer", PASSWORD, "must not contain"),
        ("ann", "viewer", "tooshort", "at least 10 characters"),
        ("ann", "", PASSWORD, "Choose viewer or operator"),
    ] {
        let fields = [("name", name), ("role", role), ("password", password)];
        let answer = olga.post("/admin/settings/admins", &fields).await;
        assert_eq!(answer.status, 422, "{name}");
        let page = answer.text();
        assert!(page.contains(message) && !page.contains(password), "{page}");
    }
}

#[tokio::test]
async fn the_audit_log_is_found_by_who_what_and_to_what() {
    let server = Server::start();
    let ids = [server.dead(json!({})).await, server.dead(json!({})).await];
    an_admin(&server, "vera", Role::Viewer).await;
    let olga = Browser::logged_in(&server, "olga", Role::Operator).await;
    for id in &ids {
        let answer = olga.post(&format!("/admin/emails/{id}/retry"), &[]).await;
        assert_eq!(answer.status, 303);
    }
    let rows = async |query: &str| {
        let page = olga.get(&format!("/admin/audit?{query}")).await;
        assert_eq!(page.status, 200, "{}", page.text());
        page.text().matches("<tr data-key").count()
    };
    assert_eq!(rows("").await, 5, "two admins, one login, two retries");
    assert_eq!(rows("actor=admin:olga").await, 3);
    assert_eq!(rows("actor=admin:olga&action=retry").await, 2);
    assert_eq!(rows(&format!("subject={}", ids[0])).await, 1);
    assert_eq!(rows("action=nonsense").await, 0);
    assert_eq!(olga.get("/admin/audit?who=x").await.status, 422);

    let page = olga.get("/admin/audit?actor=admin:olga&limit=2").await;
    let page = page.text();
    let link = format!("href=\"/admin/emails/{}\"", ids[1]);
    assert!(page.contains(&link), "emails are linked");
    let (_, rest) = page
        .split_once("/admin/audit?actor=admin%3Aolga&amp;after=")
        .expect("a way to older entries");
    let after = rest.split('"').next().unwrap();
    let query = format!("actor=admin:olga&after={after}");
    assert_eq!(rows(&query).await, 1, "the login");
}

#[tokio::test]
async fn the_audit_log_is_paged_over_the_api_without_gaps() {
    let server = Server::start();
    let mut ids = Vec::new();
    for _ in 0..5 {
        let id = server.accepted(json!({})).await;
        server.act("POST", &format!("/v1/emails/{id}/cancel")).await;
        ids.push(id);
    }
    ids.reverse();
    let mut seen = Vec::new();
    let mut after = String::new();
    loop {
        let path = format!("/v1/audit?action=cancel&limit=2&after={after}");
        let page = server.get(&path).await.json();
        let data = page["data"].as_array().unwrap();
        seen.extend(
            data.iter()
                .map(|e| e["subject"].as_str().unwrap().to_owned()),
        );
        assert_eq!(page["has_more"], page["next"].is_string());
        match page["next"].as_str() {
            Some(next) => next.clone_into(&mut after),
            None => break,
        }
    }
    assert_eq!(seen, ids);
    let other = server.get("/v1/audit?actor=admin:nobody").await.json();
    assert_eq!(other["data"], json!([]));
    let answer = server.get("/v1/audit?after=x&who=y").await;
    assert_eq!(answer.is_problem(422).fields(), ["after", "who"]);
}
