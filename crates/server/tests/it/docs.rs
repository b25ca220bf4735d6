//! The description of the API.

use serde_json::{Value, json};

use crate::fixture::Server;

const ROUTES: [(&str, &str); 37] = [
    ("post", "/v1/emails"),
    ("get", "/v1/emails"),
    ("post", "/v1/emails/batch"),
    ("get", "/v1/emails/{id}"),
    ("post", "/v1/emails/{id}/cancel"),
    ("post", "/v1/emails/{id}/retry"),
    ("post", "/v1/emails/{id}/resolve"),
    ("delete", "/v1/emails/{id}/content"),
    ("get", "/v1/dead-letters"),
    ("get", "/v1/dead-letters/groups"),
    ("post", "/v1/dead-letters/{id}/retry"),
    ("post", "/v1/dead-letters/{id}/discard"),
    ("post", "/v1/dead-letters/{id}/restore"),
    ("post", "/v1/operations"),
    ("get", "/v1/operations"),
    ("get", "/v1/operations/{id}"),
    ("post", "/v1/operations/{id}/pause"),
    ("post", "/v1/operations/{id}/resume"),
    ("post", "/v1/operations/{id}/cancel"),
    ("get", "/v1/messages"),
    ("get", "/v1/messages/{id}"),
    ("post", "/v1/messages/{id}/retry"),
    ("post", "/v1/messages/{id}/discard"),
    ("get", "/v1/transports"),
    ("get", "/v1/transports/{name}"),
    ("post", "/v1/transports/{name}/pause"),
    ("post", "/v1/transports/{name}/resume"),
    ("post", "/v1/provider-events/{transport}"),
    ("get", "/v1/suppressions"),
    ("post", "/v1/suppressions"),
    ("delete", "/v1/suppressions/{address}"),
    ("get", "/v1/stats"),
    ("get", "/v1/audit"),
    ("get", "/metrics"),
    ("get", "/livez"),
    ("get", "/readyz"),
    ("get", "/healthz"),
];

#[test]
fn the_document_names_every_route_and_what_it_refers_to_is_there() {
    let document: Value = serde_json::from_str(&posthaste_server::openapi()).unwrap();
    assert_eq!(document["openapi"], "3.1.0");
    for (method, path) in ROUTES {
        let operation = &document["paths"][path][method];
        assert!(operation.is_object(), "{method} {path}");
        assert!(operation["summary"].is_string(), "{method} {path}");
        let responses = operation["responses"].as_object().unwrap();
        assert!(
            responses.keys().any(|status| status.starts_with('2')),
            "{method} {path}"
        );
        assert!(
            !path.starts_with("/v1") || responses.contains_key("401"),
            "{method} {path}"
        );
    }
    let mut names: Vec<&str> = ROUTES
        .iter()
        .map(|(method, path)| {
            document["paths"][path][method]["operationId"]
                .as_str()
                .unwrap()
        })
        .collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(
        names.len(),
        ROUTES.len(),
        "every operation has its own name"
    );
    let mut references = Vec::new();
    collect_references(&document, &mut references);
    assert!(references.len() > 20);
    for reference in references {
        let pointer = reference.trim_start_matches('#');
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
}

fn collect_references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            if let Some(Value::String(reference)) = map.get("$ref") {
                found.push(reference.clone());
            }
            map.values()
                .for_each(|value| collect_references(value, found));
        }
        Value::Array(list) => list
            .iter()
            .for_each(|value| collect_references(value, found)),
        _ => {}
    }
}

#[test]
fn the_document_describes_a_new_email_as_the_contract_does() {
    let document: Value = serde_json::from_str(&posthaste_server::openapi()).unwrap();
    let email = &document["components"]["schemas"]["NewEmail"];
    for field in [
        "message_key",
        "from",
        "to",
        "cc",
        "bcc",
        "reply_to",
        "subject",
        "text",
        "html",
        "template",
        "variables",
        "headers",
        "attachments",
        "calendar",
        "send_at",
        "expires_at",
        "expire_after",
        "route",
        "retry_policy",
        "priority",
        "metadata",
        "delivery",
    ] {
        assert!(email["properties"][field].is_object(), "{field}");
    }
    let delivery = email["properties"]["delivery"]["description"].as_str();
    assert!(delivery.unwrap().contains("`inline`: tried at once"));
    let accepted = &document["components"]["schemas"]["Accepted"];
    for field in ["next_attempt_at", "dead_reason", "last_error"] {
        assert!(accepted["properties"][field].is_object(), "{field}");
    }
    assert_eq!(accepted["required"], json!(["id", "status", "message_key"]));
    // Even the sender may come from the template.
    assert_eq!(email["required"], Value::Null);
}

#[tokio::test]
async fn the_example_of_a_new_email_is_one() {
    let document: Value = serde_json::from_str(&posthaste_server::openapi()).unwrap();
    let example = &document["components"]["schemas"]["NewEmail"]["example"];
    let answer = Server::start().post("/v1/emails", example).await;
    assert_eq!(answer.status, 202, "{}", answer.text());
}

#[test]
fn the_document_says_what_may_be_chosen_and_how_much() {
    let document: Value = serde_json::from_str(&posthaste_server::openapi()).unwrap();
    let schemas = &document["components"]["schemas"];
    let choices = [
        (
            "Resolve",
            "as",
            "Resolution",
            json!(["sent", "retry", "dead"]),
        ),
        (
            "NewOperation",
            "action",
            "BulkAction",
            json!(["retry", "discard"]),
        ),
    ];
    for (schema, field, choice, names) in choices {
        let described = &schemas[schema]["properties"][field];
        let reference = format!("#/components/schemas/{choice}");
        assert_eq!(described["$ref"], reference, "{schema}.{field}");
        assert_eq!(schemas[choice]["enum"], names, "{choice}");
    }
    let mut limits = 0;
    for item in document["paths"].as_object().unwrap().values() {
        let parameters = item["get"]["parameters"].as_array().into_iter().flatten();
        for limit in parameters.filter(|parameter| parameter["name"] == "limit") {
            let range = (&limit["schema"]["minimum"], &limit["schema"]["maximum"]);
            assert_eq!(range, (&json!(1), &json!(500)), "{limit}");
            limits += 1;
        }
    }
    assert_eq!(limits, 6);
    // A version that is no number is refused.
    let shown = &document["paths"]["/v1/templates/{name}"]["get"]["responses"];
    assert!(shown["422"].is_object());
}

#[test]
fn the_document_describes_a_message_with_all_of_its_fields() {
    let document: Value = serde_json::from_str(&posthaste_server::openapi()).unwrap();
    let schemas = &document["components"]["schemas"];
    let fields = |name: &str| schemas[name]["properties"].as_object().unwrap().len();
    assert_eq!((fields("Message"), fields("Properties")), (14, 7));
    let operations = document["paths"].as_object().unwrap();
    for (path, item) in operations
        .iter()
        .filter(|(path, _)| path.contains("messages"))
    {
        for operation in item.as_object().unwrap().values() {
            assert_eq!(operation["tags"][0], "messages", "{path}");
            assert_eq!(operation["security"][0]["key"][0], "admin", "{path}");
        }
    }
}

#[test]
fn the_document_describes_a_transport_and_who_may_switch_it() {
    let document: Value = serde_json::from_str(&posthaste_server::openapi()).unwrap();
    let schemas = &document["components"]["schemas"];
    let fields = |name: &str| schemas[name]["properties"].as_object().unwrap().len();
    assert_eq!((fields("Transport"), fields("TroubledDomain")), (16, 6));
    assert_eq!((fields("Suppression"), fields("NewSuppression")), (7, 3));
    assert_eq!(schemas["NewSuppression"]["required"], json!(["address"]));
    let scope = |path: &str, method: &str| {
        let security = &document["paths"][path][method]["security"];
        security[0]["key"][0].as_str().map(str::to_owned)
    };
    assert_eq!(scope("/v1/transports", "get").unwrap(), "read");
    assert_eq!(
        scope("/v1/transports/{name}/pause", "post").unwrap(),
        "admin"
    );
    assert_eq!(scope("/v1/suppressions", "post").unwrap(), "send");
    assert_eq!(
        scope("/v1/provider-events/{transport}", "post"),
        None,
        "no key"
    );
    // A retry has a body, but needs none.
    for path in ["/v1/emails/{id}/retry", "/v1/dead-letters/{id}/retry"] {
        let body = &document["paths"][path]["post"]["requestBody"];
        assert!(body["content"]["application/json"].is_object(), "{body}");
        assert_ne!(body["required"], json!(true));
    }
}

#[tokio::test]
async fn the_document_and_its_page_are_served_without_anything_from_elsewhere() {
    let server = Server::start();
    let document = server.get("/openapi.json").await;
    assert_eq!(document.header("content-type"), "application/json");
    assert_eq!(document.json()["info"]["version"], "1.2.3-test");
    let page = server.get("/docs").await;
    assert!(page.header("content-type").starts_with("text/html"));
    assert!(
        page.header("content-security-policy")
            .starts_with("default-src 'none'")
    );
    let text = page.text();
    for (_, path) in ROUTES {
        assert!(text.contains(path), "{path}");
    }
    assert!(text.contains("<code>inline</code>: tried at once"));
    assert!(text.contains("id=\"problem-invalid\"") && text.contains("id=\"shape-NewEmail\""));
    assert!(!text.contains("<script") && !text.contains("http://") && !text.contains("https://"));
    let style = text
        .split('"')
        .find(|part| part.starts_with("/admin/assets/"));
    let kind = server
        .get(style.unwrap())
        .await
        .header("content-type")
        .to_owned();
    assert!(
        ["image/svg+xml", "text/css; charset=utf-8"].contains(&kind.as_str()),
        "{kind}"
    );
}

#[tokio::test]
async fn the_front_door_leads_to_the_overview() {
    let server = Server::start();
    assert_eq!(server.get("/").await.header("location"), "/admin");
    assert!(
        server
            .get("/admin")
            .await
            .text()
            .contains("<h1>Overview</h1>")
    );
}
