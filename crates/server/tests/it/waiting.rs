//! Emails that wait for a way out, that expire, and that take a route of their own.

use axum::body::Body;
use posthaste_core::admin::Role;
use posthaste_core::decision::{Conclusion, Decision};
use posthaste_core::port::{EmailStore as _, Finish};
use posthaste_core::status::{DeadReason, Outcome};
use serde_json::{Value, json};

use crate::browser::Browser;
use crate::fixture::{Server, email, local};

async fn shown(server: &Server, id: &str) -> Value {
    server.get(&format!("/v1/emails/{id}")).await.json()
}

#[tokio::test]
async fn one_that_waits_for_a_way_out_says_for_which() {
    let server = Server::start();
    let id = server.parked("closed,spare").await;
    let email = shown(&server, &id).await;
    assert_eq!(email["waiting_for"], "closed,spare");
    assert_eq!(email["status_text"], "Waiting for closed or spare");
    assert_eq!(
        (&email["attempt_count"], &email["attempts"]),
        (&json!(0), &json!([]))
    );
    let list = server.get("/v1/emails").await.json();
    assert_eq!(list["data"][0]["waiting_for"], "closed,spare");
    for path in [
        "/admin/emails",
        "/admin/email-queue",
        &format!("/admin/emails/{id}"),
    ] {
        let text = server.get(path).await.text();
        assert!(
            text.contains("Waiting for closed or spare"),
            "{path}: {text}"
        );
        assert!(
            !text.contains("due now") && !text.contains("is due"),
            "{path}: {text}"
        );
    }
}

#[tokio::test]
async fn an_attempt_that_was_the_ways_fault_is_not_counted() {
    let server = Server::start();
    let id = server.accepted(json!({})).await;
    let again = || Conclusion::Retry {
        delay: std::time::Duration::ZERO,
        possible_duplicate: false,
    };
    let lease = server.begin(&id).await;
    let finish = Finish {
        lease,
        decision: Decision {
            is_free: true,
            error: Some("connection refused".into()),
            ..Decision::new(again(), Outcome::Transient)
        },
        transport: Some("closed".into()),
        budget: 8,
        removes_sent: false,
    };
    assert!(server.store.finish(vec![finish]).await.unwrap()[0].is_ok());
    let retry = format!("/v1/emails/{id}/retry");
    assert_eq!(server.act("POST", &retry).await.status, 200);
    server.attempt(&id, Outcome::Transient, again()).await;
    assert_eq!(server.act("POST", &retry).await.status, 200);
    server
        .finish_as(&id, "<b>m-1", Conclusion::Sent, Outcome::Sent)
        .await;
    let attempts = shown(&server, &id).await["attempts"].clone();
    let counted: Vec<_> = attempts
        .as_array()
        .unwrap()
        .iter()
        .map(|a| &a["counted"])
        .collect();
    assert_eq!(counted, [false, true, false]);
    assert_eq!(attempts[0]["provider_id"], Value::Null);
    assert_eq!(attempts[2]["provider_id"], "<b>m-1");
    let page = server.get(&format!("/admin/emails/{id}")).await.text();
    assert_eq!(
        page.matches("(not counted: it failed by no fault").count(),
        1,
        "{page}"
    );
    assert!(
        page.contains("<dt>Provider's id</dt><dd><code>&lt;b&gt;m-1</code>"),
        "{page}"
    );
}

#[tokio::test]
async fn an_inline_attempt_is_not_counted_either() {
    let (server, mut attempts) = Server::start_sending();
    let posted = tokio::spawn({
        let server = std::sync::Arc::clone(&server);
        let email = email(json!({"delivery": "inline"}));
        async move { server.post("/v1/emails", &email).await }
    });
    attempts.recv().await.unwrap().refuse(451, "4.3.0 Later");
    let id = posted.await.unwrap().json()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(shown(&server, &id).await["attempts"][0]["counted"], false);
}

#[tokio::test]
async fn a_route_is_chosen_by_the_email_or_its_template() {
    let server = Server::start();
    let usual = server.accepted(json!({})).await;
    let own = server.accepted(json!({"route": "backup"})).await;
    let default = server.accepted(json!({"route": "default"})).await;
    for (id, route) in [(&usual, "default"), (&own, "backup"), (&default, "default")] {
        assert_eq!(shown(&server, id).await["route"], route);
        let page = server.get(&format!("/admin/emails/{id}")).await.text();
        assert!(
            page.contains(&format!("<dt>Route</dt><dd>{route}</dd>")),
            "{page}"
        );
    }
    let template = json!({"from": "a@example.org", "subject": "s", "text": "t", "route": "backup"});
    let saved = server.send(crate::templates::put("order", &template)).await;
    assert_eq!(
        (saved.status.as_u16(), &saved.json()["route"]),
        (201, &json!("backup"))
    );
    let request = json!({"to": "ann@example.net", "template": "order"});
    let made = server.post("/v1/emails", &request).await.json();
    assert_eq!(
        shown(&server, made["id"].as_str().unwrap()).await["route"],
        "backup"
    );
    let request = json!({"to": "ann@example.net", "template": "order", "route": "default"});
    let made = server.post("/v1/emails", &request).await.json();
    assert_eq!(
        shown(&server, made["id"].as_str().unwrap()).await["route"],
        "default"
    );
}

#[tokio::test]
async fn a_template_keeps_its_route_and_refuses_one_that_is_not_there() {
    let server = Server::start();
    let body = |route: Value| json!({"subject": "s", "text": "t", "route": route});
    let wrong = server
        .send(crate::templates::put("order", &body(json!("bakup"))))
        .await;
    assert_eq!(wrong.is_problem(422).fields(), ["route"]);
    assert!(
        wrong.text().contains("is not one of: backup, default"),
        "{}",
        wrong.text()
    );
    server
        .send(crate::templates::put("order", &body(json!("default"))))
        .await;
    let same = server
        .send(crate::templates::put("order", &body(Value::Null)))
        .await;
    assert_eq!(same.json()["version"], 1, "left out means `default`");
    assert_eq!(same.json()["route"], "default");
    let preview = |body: Value| {
        let server = &server;
        async move { server.post("/v1/templates/order/preview", &body).await }
    };
    assert_eq!(preview(json!({})).await.json()["route"], "default");
    assert_eq!(
        preview(json!({"route": "backup"})).await.json()["route"],
        "backup"
    );
    let wrong = preview(json!({"route": "bakup"})).await;
    assert_eq!(wrong.is_problem(422).fields(), ["route"]);

    let olga = Browser::logged_in(&server, "olga", Role::Operator).await;
    let page = olga.get("/admin/templates/order").await.text();
    assert!(
        page.contains("<option value=\"default\" selected>default</option>"),
        "{page}"
    );
    let fields = [
        ("name", "order"),
        ("subject", "s"),
        ("text", "t"),
        ("based_on", "1"),
        ("route", "backup"),
    ];
    assert_eq!(olga.post("/admin/templates", &fields).await.status, 303);
    let page = olga.get("/admin/templates/order").await.text();
    assert!(
        page.contains("<option value=\"backup\" selected>backup</option>"),
        "{page}"
    );
}

#[tokio::test]
async fn a_deadline_is_given_as_a_moment_or_as_a_length_of_time() {
    let server = Server::start();
    let send_at = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(2);
    let patch = json!({"send_at": format!("{send_at:.0}"), "expire_after": "10m"});
    let email = shown(&server, &server.accepted(patch).await).await;
    let at = |field: &str| {
        let text = email[field].as_str().unwrap();
        text.parse::<jiff::Timestamp>().unwrap()
    };
    let left = at("expires_at").duration_since(at("send_at"));
    assert_eq!(left, jiff::SignedDuration::from_mins(10));
}

/// An email that died, and whose time is over by now.
async fn expired(server: &Server) -> String {
    let id = server
        .accepted(json!({"expire_after": "1h", "subject": "Your code"}))
        .await;
    let dead = Conclusion::Dead(DeadReason::Expired);
    server.attempt(&id, Outcome::Permanent, dead).await;
    let connection = rusqlite::Connection::open(server.database()).unwrap();
    let sql = "UPDATE posthaste_email SET expires_at = created_at";
    assert_eq!(connection.execute(sql, ()).unwrap(), 1);
    id
}

#[tokio::test]
async fn an_expired_email_is_retried_only_by_someone_who_says_so() {
    for lane in ["emails", "dead-letters"] {
        let server = Server::start();
        let id = expired(&server).await;
        let path = format!("/v1/{lane}/{id}/retry");
        let refused = server.act("POST", &path).await;
        assert_eq!(refused.is_problem(409).fields(), ["even_if_expired"]);
        assert!(refused.text().contains("has expired"), "{}", refused.text());
        server
            .post(&path, &json!({"even_if_expired": false}))
            .await
            .is_problem(409);
        assert_eq!(
            shown(&server, &id).await["status"],
            "dead",
            "nothing changed"
        );
        let done = server.post(&path, &json!({"even_if_expired": true})).await;
        let expected = json!({"id": id, "status": "pending", "changed": true});
        assert_eq!(done.json(), expected, "{}", done.text());
        let audit = server.get(&format!("/v1/audit?subject={id}")).await.json();
        assert_eq!(audit["data"][0]["action"], "retry_expired");
    }
}

#[tokio::test]
async fn what_a_retry_may_say_is_read_as_strictly_as_any_body() {
    let server = Server::start();
    let id = server.dead(json!({})).await;
    let path = format!("/v1/emails/{id}/retry");
    for (body, status, fields) in [
        ("[true]", 422, &[][..]),
        (r#"{"even_if_expired": "yes"}"#, 422, &["even_if_expired"]),
        (r#"{"even_if_expierd": true}"#, 422, &["even_if_expierd"]),
    ] {
        let answer = server.post_text(&path, body).await;
        assert_eq!(answer.is_problem(status).fields(), fields, "{body}");
    }
    server.post_text(&path, "{").await.is_problem(400);
    let plain = local("POST", &path).body(Body::from("{}")).unwrap();
    server.send(plain).await.is_problem(415);
    assert_eq!(
        shown(&server, &id).await["status"],
        "dead",
        "bad input changes nothing"
    );
    assert_eq!(server.post(&path, &json!({})).await.status, 200);
}

#[tokio::test]
async fn a_retry_that_says_null_says_nothing() {
    let server = Server::start();
    let id = server.dead(json!({})).await;
    let path = format!("/v1/dead-letters/{id}/retry");
    assert_eq!(server.post_text(&path, "null").await.status, 200);
}

#[tokio::test]
async fn the_pages_ask_before_they_retry_an_expired_email() {
    let server = Server::start();
    let id = expired(&server).await;
    let other = server.dead(json!({})).await;
    let olga = Browser::logged_in(&server, "olga", Role::Operator).await;
    let page = format!("/admin/emails/{id}");
    for path in [page.as_str(), "/admin/dead-letters", "/admin/email-queue"] {
        let text = olga.get(path).await.text();
        assert!(text.contains("name=\"even_if_expired\""), "{path}: {text}");
    }
    let retry = format!("{page}/retry");
    let refused = olga.post(&retry, &[]).await;
    assert_eq!(refused.status, 409);
    assert!(
        refused.text().contains("even if expired"),
        "{}",
        refused.text()
    );
    let fields = [("even_if_expired", "yes")];
    assert_eq!(olga.post(&retry, &fields).await.status, 303);
    assert!(!olga.get("/admin").await.text().contains("has expired"));
    let text = olga.get(&format!("/admin/emails/{other}")).await.text();
    assert!(!text.contains("even_if_expired"), "{text}");
}
