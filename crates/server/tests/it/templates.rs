//! Templates and retry policies over HTTP, and emails that are made from them.

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};

use crate::fixture::{Answer, Server, local, with_key};

fn order() -> Value {
    json!({
        "description": "Sent when an order was placed",
        "from": "Shop <shop@example.org>",
        "subject": "Order {{ number }}",
        "html": "<p>Hello {{ name }}</p>",
        "text": "Hello {{ name }}",
        "priority": "high",
        "retry_policy": {"max_attempts": 5, "backoff": {"schedule": ["10s", "1m"]}},
        "sample": {"number": 7, "name": "Ann"},
    })
}

pub(crate) fn put(name: &str, body: &Value) -> Request<Body> {
    let request = local("PUT", &format!("/v1/templates/{name}"));
    let request = request.header("content-type", "application/json");
    request.body(body.to_string().into()).unwrap()
}

impl Server {
    async fn save(&self, name: &str, body: &Value) -> Answer {
        self.send(put(name, body)).await
    }

    async fn save_with(&self, header: (&'static str, &str), body: &Value) -> Answer {
        let mut request = put("order", body);
        request
            .headers_mut()
            .insert(header.0, header.1.parse().unwrap());
        self.send(request).await
    }
}

#[tokio::test]
async fn a_template_is_saved_shown_listed_and_deleted() {
    let server = Server::start();
    let saved = server.save("order", &order()).await;
    assert_eq!(saved.status, 201, "{}", saved.text());
    assert_eq!(saved.header("etag"), "\"1\"");
    let shown = server.get("/v1/templates/order").await.json();
    assert_eq!(shown, saved.json());
    assert_eq!(shown["name"], "order");
    assert_eq!(shown["version"], 1);
    assert_eq!(shown["variables"], json!(["name", "number"]));
    assert_eq!(shown["sample"]["name"], "Ann");
    assert_eq!(shown["retry_policy"]["max_attempts"], 5);
    assert_eq!(shown["saved_by"], "loopback");

    let mut changed = order();
    changed["html"] = Value::Null;
    assert_eq!(server.save("order", &changed).await.status, 200);
    assert_eq!(
        server.save("order", &changed).await.json()["version"],
        2,
        "unchanged"
    );
    let first = server.get("/v1/templates/order?version=1").await.json();
    assert_eq!(first["html"], order()["html"]);
    server
        .get("/v1/templates/order?version=9")
        .await
        .is_problem(404);
    server
        .get("/v1/templates/order?version=x")
        .await
        .is_problem(422);
    let versions = server.get("/v1/templates/order/versions").await.json();
    assert_eq!(versions["data"][0]["version"], 2);
    assert_eq!(versions["data"][1]["version"], 1);

    server.save("another", &order()).await;
    let list = server.get("/v1/templates").await.json();
    let names: Vec<_> = list["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| &t["name"])
        .collect();
    assert_eq!(names, ["another", "order"]);

    assert_eq!(
        server.act("DELETE", "/v1/templates/order").await.status,
        204
    );
    for path in [
        "/v1/templates/order",
        "/v1/templates/order/versions",
        "/v1/templates/%ff",
    ] {
        server.get(path).await.is_problem(404);
    }
    server
        .act("DELETE", "/v1/templates/order")
        .await
        .is_problem(404);
    let anew = server.save("order", &order()).await;
    assert_eq!(
        (anew.status.as_u16(), anew.json()["version"].clone()),
        (201, json!(3))
    );
}

#[tokio::test]
async fn two_who_edit_the_same_version_are_told() {
    let server = Server::start();
    let mut body = order();
    body["based_on"] = json!(0);
    assert_eq!(server.save("order", &body).await.status, 201);
    body["subject"] = json!("Other");
    server.save("order", &body).await.is_problem(409);
    let mut body = order();
    body["subject"] = json!("Other");
    server
        .save_with(("if-none-match", "*"), &body)
        .await
        .is_problem(409);
    assert_eq!(
        server.save_with(("if-match", "\"1\""), &body).await.status,
        200
    );
    body["subject"] = json!("Third");
    let late = server.save_with(("if-match", "\"1\""), &body).await;
    late.is_problem(409);
    assert!(late.text().contains("version 2"), "{}", late.text());
    server
        .save_with(("if-match", "1"), &body)
        .await
        .is_problem(422);
    body["based_on"] = json!(2);
    let both = server.save_with(("if-match", "\"1\""), &body).await;
    assert_eq!(both.is_problem(422).fields(), ["based_on"]);
    body["based_on"] = json!(-1);
    assert_eq!(
        server.save("order", &body).await.is_problem(422).fields(),
        ["based_on"]
    );
}

#[tokio::test]
async fn what_is_wrong_with_a_template_is_named() {
    let server = Server::start();
    let cases: [(Value, &[&str]); 6] = [
        (json!({}), &["subject", "text"]),
        (
            json!({"subject": "{{ a", "text": "{% if %}"}),
            &["subject", "text"],
        ),
        (
            json!({"subject": "s", "text": "t", "priority": "urgent"}),
            &["priority"],
        ),
        (
            json!({"subject": "s", "text": "t", "retry_policy": "emial"}),
            &["retry_policy"],
        ),
        (
            json!({"subject": "s", "text": "t", "retry_policy": {"max_attempts": 5, "backoff": {"schedule": ["1m"]}}}),
            &["retry_policy.max_attempts"],
        ),
        (
            json!({"subject": "s", "text": "t", "from": "x", "titel": 1}),
            &["titel"],
        ),
    ];
    for (body, fields) in cases {
        let answer = server.save("order", &body).await;
        assert_eq!(answer.is_problem(422).fields(), fields, "{body}");
    }
    let named = server.save("Order!", &order()).await;
    assert_eq!(named.is_problem(422).fields(), ["name"]);
    let list = server.get("/v1/templates").await.json();
    assert_eq!(list["data"], json!([]), "bad input changes nothing");
}

#[tokio::test]
async fn an_email_is_made_from_a_template() {
    let server = Server::start();
    server.save("order", &order()).await;
    let request = json!({
        "to": "ann@example.net", "template": "order",
        "variables": {"number": 8, "name": "<Bob>"},
    });
    let answer = server.post("/v1/emails", &request).await;
    assert_eq!(answer.status, 202, "{}", answer.text());
    let id = answer.json()["id"].as_str().unwrap().to_owned();
    let email = server.get(&format!("/v1/emails/{id}")).await.json();
    assert_eq!(email["subject"], "Order 8");
    assert_eq!(email["template"], "order");
    assert_eq!(email["max_attempts"], 5);
    assert_eq!(email["from"], "Shop <shop@example.org>");

    let missing = json!({"to": "ann@example.net", "template": "order", "variables": {"number": 8}});
    let answer = server.post("/v1/emails", &missing).await;
    assert_eq!(answer.is_problem(422).fields(), ["variables.name"]);
    let unknown = json!({"to": "a@example.net", "from": "b@example.net", "template": "odrer"});
    let answer = server.post("/v1/emails", &unknown).await;
    assert_eq!(answer.is_problem(422).fields(), ["template"]);
    assert!(
        answer.text().contains("did you mean `order`?"),
        "{}",
        answer.text()
    );

    let batch = json!({ "emails": [request, missing, request] });
    let answer = server.post("/v1/emails/batch", &batch).await.json();
    assert!(answer["data"][0]["id"].is_string(), "{answer}");
    assert_eq!(
        answer["data"][1]["error"]["errors"][0]["field"],
        "variables.name"
    );
    assert!(answer["data"][2]["id"].is_string(), "{answer}");
}

#[tokio::test]
async fn the_same_request_gets_the_same_answer_after_its_template_changed_or_went() {
    let server = Server::start();
    server.save("order", &order()).await;
    let with = |key: &str, number: u32| {
        json!({
            "message_key": key, "to": "ann@example.net", "template": "order",
            "variables": {"number": number, "name": "Ann"},
        })
    };
    let request = with("order-8", 8);
    let first = server.post("/v1/emails", &request).await;
    assert_eq!(first.status, 202, "{}", first.text());
    let id = first.json()["id"].clone();

    let answers_are_as_before = async || {
        let again = server.post("/v1/emails", &request).await;
        assert_eq!(again.status, 200, "{}", again.text());
        assert_eq!(again.json()["id"], id);
        let other = server.post("/v1/emails", &with("order-8", 9)).await;
        assert_eq!(other.is_problem(422).fields(), ["message_key"]);
        let new = server.post("/v1/emails", &with("order-9", 8)).await;
        assert_ne!(new.is_problem(422).fields(), ["message_key"]);
        let batch = json!({ "emails": [with("order-9", 8), request, with("order-8", 9)] });
        let batch = server.post("/v1/emails/batch", &batch).await.json();
        assert!(batch["data"][0]["error"].is_object(), "{batch}");
        assert_eq!(batch["data"][1]["id"], id, "{batch}");
        assert!(batch["data"][2]["error"].is_object(), "{batch}");
    };
    let mut changed = order();
    changed["text"] = "{{ something_new }}".into();
    assert_eq!(server.save("order", &changed).await.status, 200);
    answers_are_as_before().await;
    let delete = local("DELETE", "/v1/templates/order").body(Body::empty());
    assert_eq!(server.send(delete.unwrap()).await.status, 204);
    answers_are_as_before().await;
}

#[tokio::test]
async fn a_preview_shows_what_a_template_comes_to() {
    let server = Server::start();
    server.save("order", &order()).await;
    let preview = async |name: &str, body: Value| {
        let path = format!("/v1/templates/{name}/preview");
        server.post(&path, &body).await
    };
    let sample = preview("order", json!({})).await.json();
    let expected = json!({
        "subject": "Order 7", "html": "<p>Hello Ann</p>", "text": "Hello Ann", "route": "default",
        "variables": ["name", "number"],
    });
    assert_eq!(sample, expected);
    let given = json!({"variables": {"number": 1, "name": "<b>"}, "subject": "{{ number }}!"});
    let given = preview("order", given).await.json();
    assert_eq!(given["subject"], "1!");
    assert_eq!(given["html"], "<p>Hello &lt;b&gt;</p>");
    let missing = preview("order", json!({"variables": {"number": 1}})).await;
    assert_eq!(missing.is_problem(422).fields(), ["variables.name"]);
    let wrong = preview("order", json!({"html": "\n{% nothing %}"})).await;
    assert_eq!(wrong.is_problem(422).fields(), ["html"]);
    assert!(wrong.text().contains("line 2"), "{}", wrong.text());
    let unsaved = preview("new", json!({"subject": "s", "text": "t"})).await;
    assert_eq!(unsaved.json()["text"], "t");
    preview("new", json!({"subject": "s"}))
        .await
        .is_problem(404);
    let endless = json!({"text": "{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}"});
    assert_eq!(
        preview("order", endless).await.is_problem(422).fields(),
        ["text"]
    );
}

#[tokio::test]
async fn readers_see_templates_and_only_admins_change_them() {
    let server = Server::start();
    let (_, reader) = server.key("shop", &["read", "send"]).await;
    let (_, sender) = server.key("shop", &["send"]).await;
    let (_, admin) = server.key("shop", &["admin"]).await;
    let keyed = |secret: &str, body: &Value| {
        let mut request = put("order", body);
        let bearer = format!("Bearer {secret}").parse().unwrap();
        request.headers_mut().insert("authorization", bearer);
        request
    };
    for secret in [&reader, &sender] {
        server.send(keyed(secret, &order())).await.is_problem(403);
        let delete = with_key("DELETE", "/v1/templates/order", secret);
        server.send(delete).await.is_problem(403);
    }
    assert_eq!(server.send(keyed(&admin, &order())).await.status, 201);
    // Trying out what is saved is reading; what is not saved is run for those who may save it.
    let preview = |body: &Value| {
        let mut request = put("order/preview", body);
        *request.method_mut() = axum::http::Method::POST;
        let bearer = format!("Bearer {reader}").parse().unwrap();
        request.headers_mut().insert("authorization", bearer);
        request
    };
    assert_eq!(server.send(preview(&json!({}))).await.status, 200);
    let own = server
        .send(preview(&json!({"subject": "{{ 'x' * 9 }}"})))
        .await;
    own.is_problem(403);
    for path in ["/v1/templates", "/v1/templates/order", "/v1/retry-policies"] {
        assert_eq!(
            server.send(with_key("GET", path, &reader)).await.status,
            200,
            "{path}"
        );
        server
            .send(with_key("GET", path, &sender))
            .await
            .is_problem(403);
    }
}

#[tokio::test]
async fn a_policy_tells_when_it_tries() {
    let server = Server::start();
    let list = server.get("/v1/retry-policies").await.json();
    assert_eq!(list["data"][0]["name"], "email");
    assert_eq!(list["data"][0]["policy"]["max_attempts"], 8);
    let preview = async |body: Value| server.post("/v1/retry-policies/preview", &body).await;
    let wanted = json!({"policy": "notification", "start": "2026-11-16T10:00:00Z"});
    let attempts = preview(wanted).await.json()["attempts"].clone();
    let expected = json!([
        {"number": 1, "earliest": "2026-11-16T10:00:00.000000Z", "latest": "2026-11-16T10:00:00.000000Z"},
        {"number": 2, "earliest": "2026-11-16T10:01:00.000000Z", "latest": "2026-11-16T10:01:30.000000Z"},
        {"number": 3, "earliest": "2026-11-16T10:06:00.000000Z", "latest": "2026-11-16T10:07:00.000000Z"},
    ]);
    assert_eq!(attempts, expected);
    let own = json!({"policy": {"max_attempts": 2, "backoff": {"base": "30s"}}});
    let own = preview(own).await.json();
    assert_eq!(own["attempts"].as_array().unwrap().len(), 2, "{own}");
    let cases: [(Value, &str); 5] = [
        (json!({}), "policy"),
        (json!({"policy": "emial"}), "policy"),
        (
            json!({"policy": {"max_attempts": 0, "backoff": {"schedule": ["1m"]}}}),
            "policy.max_attempts",
        ),
        (
            json!({"policy": {"max_attempts": 1, "backoff": {"schedule": ["1x"]}}}),
            "policy.backoff.schedule[0]",
        ),
        (json!({"policy": "email", "start": "soon"}), "start"),
    ];
    for (body, field) in cases {
        assert_eq!(
            preview(body.clone()).await.is_problem(422).fields(),
            [field],
            "{body}"
        );
    }
}
