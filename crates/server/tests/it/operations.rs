//! One action over many dead letters.

use axum::body::Body;
use axum::http::Request;
use posthaste_core::port::OperationStore as _;
use serde_json::{Value, json};

use crate::fixture::{Answer, Server, with_key};

/// Dead letters in two groups: as many of the first as asked for, and one of the second.
async fn dead_letters(server: &Server, count: usize) -> Vec<String> {
    let mut ids = Vec::new();
    for _ in 0..count {
        ids.push(server.dead(json!({"to": "ann@example.net"})).await);
    }
    ids.push(server.dead(json!({"to": "bob@example.net"})).await);
    ids
}

/// As someone with this key.
async fn post_as(server: &Server, secret: &str, path: &str, body: &Value) -> Answer {
    let mut request = with_key("POST", path, secret);
    let json = "application/json".parse().unwrap();
    request.headers_mut().insert("content-type", json);
    let (parts, _) = request.into_parts();
    let request = Request::from_parts(parts, Body::from(body.to_string()));
    server.send(request).await
}

async fn status_of(server: &Server, id: &str) -> String {
    let shown = server.get(&format!("/v1/emails/{id}")).await.json();
    shown["status"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn an_operation_shows_its_progress() {
    let server = Server::start();
    let ids = dead_letters(&server, 3).await;
    let wanted = json!({"action": "retry", "filter": {"to": "Ann <ann@example.net>"},
        "rate_per_second": 10});
    let answer = server.post("/v1/operations", &wanted).await;
    assert_eq!(answer.status, 202, "{}", answer.text());
    let made = answer.json();
    let id = made["id"].as_str().unwrap();
    let path = format!("/v1/operations/{id}");
    let created_at = made["created_at"].as_str().unwrap();
    assert_eq!(
        made,
        json!({"id": id, "action": "retry", "filter": {"to": "ann@example.net"},
            "status": "running", "total": 3, "done": 0, "skipped": 0, "remaining": 3,
            "rate_per_second": 10, "created_by": "loopback", "created_at": created_at,
            "finished_at": null})
    );
    let step = server.store.advance_operation(500).await.unwrap();
    assert_eq!(step.unwrap().treated, 1, "one tenth of a second");
    let shown = server.get(&path).await.json();
    assert_eq!(
        (&shown["done"], &shown["remaining"]),
        (&json!(1), &json!(2))
    );

    for (change, status) in [
        ("pause", "paused"),
        ("pause", "paused"),
        ("resume", "running"),
    ] {
        let answer = server.act("POST", &format!("{path}/{change}")).await;
        assert_eq!(answer.json()["status"], status);
    }
    let over = server.act("POST", &format!("{path}/cancel")).await.json();
    assert_eq!(
        (&over["status"], &over["remaining"]),
        (&json!("cancelled"), &json!(2))
    );
    assert!(over["finished_at"].is_string());
    let refused = server.act("POST", &format!("{path}/resume")).await;
    let problem = refused.is_problem(409).json();
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("`cancelled`"), "{detail}");
    let listed = server.get("/v1/operations?limit=1").await.json();
    assert_eq!(
        (&listed["data"][0], &listed["has_more"]),
        (&over, &json!(false))
    );
    assert_eq!(status_of(&server, &ids[3]).await, "dead");
}

#[tokio::test]
async fn a_dry_run_counts_and_changes_nothing() {
    let server = Server::start();
    let ids = dead_letters(&server, 2).await;
    let count = async |filter: Value| {
        let wanted = json!({"action": "discard", "filter": filter, "dry_run": true});
        let answer = server.post("/v1/operations", &wanted).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    };
    let all = count(json!({})).await;
    assert_eq!(
        all,
        json!({"dry_run": true, "action": "discard", "count": 3})
    );
    assert_eq!(count(json!({"ids": [ids[0]]})).await["count"], 1);
    assert_eq!(
        count(json!({"since": "2100-01-01T00:00:00Z"})).await["count"],
        0
    );
    let groups = server.get("/v1/dead-letters/groups").await.json();
    let fingerprint = &groups["data"][0]["fingerprint"];
    assert_eq!(count(json!({"fingerprint": fingerprint})).await["count"], 3);
    for id in ids {
        assert_eq!(status_of(&server, &id).await, "dead");
    }
    let operations = server.get("/v1/operations").await.json();
    assert_eq!(operations["data"], json!([]));
}

#[tokio::test]
async fn what_is_wrong_is_named_by_its_field() {
    let server = Server::start();
    server.dead(json!({})).await;
    for (wanted, fields) in [
        (json!({"action": "burn", "filter": {}}), &["action"][..]),
        (json!({"action": "retry"}), &["filter"]),
        (json!({"filter": {}}), &["action"]),
        (json!({"action": "retry", "filter": []}), &["filter"]),
        (
            json!({"action": "retry", "filter": {"finger": "x"}}),
            &["filter.finger"],
        ),
        (
            json!({"action": "retry", "filter": {"ids": []}}),
            &["filter.ids"],
        ),
        (
            json!({"action": "retry", "filter": {"ids": ["x"]}}),
            &["filter.ids[0]"],
        ),
        (
            json!({"action": "x", "filter": {"since": "noon"}, "rate_per_second": 0}),
            &["action", "rate_per_second", "filter.since"],
        ),
        (
            json!({"action": "retry", "filter": {}, "rate_per_second": 10_001}),
            &["rate_per_second"],
        ),
        (
            json!({"action": "retry", "filter": {}, "rate": 5}),
            &["rate"],
        ),
        (
            json!({"action": "retry", "filter": {}, "rate_per_second": "5"}),
            &["rate_per_second"],
        ),
    ] {
        let answer = server.post("/v1/operations", &wanted).await;
        assert_eq!(answer.is_problem(422).fields(), fields, "{wanted}");
    }
    let operations = server.get("/v1/operations").await.json();
    assert_eq!(operations["data"], json!([]), "nothing was begun");
}

#[tokio::test]
async fn only_admins_act_and_their_operations_are_not_an_owners() {
    let server = Server::start();
    dead_letters(&server, 2).await;
    let (_, admin) = server.key("default", &["admin"]).await;
    let (_, reader) = server.key("default", &["read"]).await;
    let wanted = json!({"action": "discard", "filter": {}});
    let refused = post_as(&server, &reader, "/v1/operations", &wanted).await;
    refused.is_problem(403);
    let made = post_as(&server, &admin, "/v1/operations", &wanted).await;
    let made = made.json();
    assert_eq!(made["total"], 3);
    let path = format!("/v1/operations/{}", made["id"].as_str().unwrap());
    let get = async |secret: &str| server.send(with_key("GET", &path, secret)).await;
    assert_eq!(get(&admin).await.json()["status"], "running");
    // It is about everyone's emails: someone who sees only his own does not see it.
    get(&reader).await.is_problem(404);
    let listed = server
        .send(with_key("GET", "/v1/operations", &reader))
        .await;
    assert_eq!(listed.json()["data"], json!([]));
    let pause = format!("{path}/pause");
    let act = async |secret: &str| server.send(with_key("POST", &pause, secret)).await;
    act(&reader).await.is_problem(403);
    assert_eq!(act(&admin).await.json()["status"], "paused");
}

#[tokio::test]
async fn an_operation_that_is_not_there_is_not_found() {
    let server = Server::start();
    for id in ["0195c5a0-0000-7000-8000-000000000000", "nonsense"] {
        server
            .get(&format!("/v1/operations/{id}"))
            .await
            .is_problem(404);
        let path = format!("/v1/operations/{id}/pause");
        server.act("POST", &path).await.is_problem(404);
    }
}
