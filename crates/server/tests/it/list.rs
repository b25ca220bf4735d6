//! Lists: filters and pages.

use serde_json::{Value, json};

use crate::fixture::Server;

async fn ids(server: &Server, path: &str) -> Vec<String> {
    let answer = server.get(path).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let data = answer.json()["data"].as_array().unwrap().clone();
    data.iter()
        .map(|email| email["id"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn pages_follow_each_other_without_gap_or_repeat() {
    let server = Server::start();
    let mut expected = Vec::new();
    for _ in 0..7 {
        expected.push(server.accepted(json!({})).await);
    }
    expected.reverse();
    let mut seen = Vec::new();
    let mut path = "/v1/emails?limit=3".to_owned();
    let mut pages = 0;
    loop {
        let page = server.get(&path).await.json();
        pages += 1;
        seen.extend(
            page["data"]
                .as_array()
                .unwrap()
                .iter()
                .map(|e| e["id"].as_str().unwrap().to_owned()),
        );
        assert_eq!(page["has_more"], page["next"].is_string());
        let Some(next) = page["next"].as_str() else {
            break;
        };
        path = format!("/v1/emails?limit=3&after={next}");
    }
    assert_eq!((seen, pages), (expected, 3));
}

#[tokio::test]
async fn an_empty_list_says_that_there_is_no_more() {
    let server = Server::start();
    let page = server
        .get("/v1/emails?status=&template=&to=&q=&since=&limit=&after=")
        .await
        .json();
    assert_eq!(page, json!({"data": [], "has_more": false, "next": null}));
}

#[tokio::test]
async fn filters_find_what_they_name() {
    let server = Server::start();
    let pending = server
        .accepted(json!({"message_key": "k1", "subject": "Hello world"}))
        .await;
    let sent = server
        .sent(json!({"to": ["Bob <Bob@Example.org>", "c@example.org"]}))
        .await;
    let dead = server.dead(json!({})).await;
    for (query, expected) in [
        ("status=pending", vec![&pending]),
        ("status=sent,dead", vec![&dead, &sent]),
        ("status=sent&status=dead", vec![&dead, &sent]),
        ("to=bob@example.org", vec![&sent]),
        ("to=c@example.org", vec![&sent]),
        ("q=k1", vec![&pending]),
        ("q=hello", vec![&pending]),
        ("q=bob@example.org", vec![&sent]),
        (
            "since=2020-01-01T00:00:00%2B01:00",
            vec![&dead, &sent, &pending],
        ),
        ("since=2020-01-01T00:00:00+01:00&limit=1", vec![&dead]),
        ("since=2100-01-01T00:00:00Z", vec![]),
        ("template=welcome", vec![]),
    ] {
        let found = ids(&server, &format!("/v1/emails?{query}")).await;
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{query}");
    }
    assert_eq!(ids(&server, &format!("/v1/emails?q={dead}")).await, [dead]);
}

#[tokio::test]
async fn bad_parameters_are_named() {
    let server = Server::start();
    for (query, field) in [
        ("limit=0", "limit"),
        ("limit=501", "limit"),
        ("limit=-1", "limit"),
        ("limit=many", "limit"),
        ("limit=1&limit=2", "limit"),
        ("status=lost", "status"),
        ("since=yesterday", "since"),
        ("after=abc", "after"),
        ("colour=red", "colour"),
        ("fingerprint=x", "fingerprint"),
    ] {
        let answer = server.get(&format!("/v1/emails?{query}")).await;
        assert_eq!(answer.is_problem(422).fields(), [field], "{query}");
    }
    let answer = server.get("/v1/dead-letters?status=sent").await;
    assert_eq!(answer.is_problem(422).fields(), ["status"]);
}

#[tokio::test]
async fn a_list_shows_emails_without_their_attempts() {
    let server = Server::start();
    server.dead(json!({})).await;
    let page = server.get("/v1/emails").await.json();
    assert_eq!(page["data"][0].get("attempts"), None);
    assert_eq!(page["data"][0]["dead_reason"], "HardBounce");
}

#[tokio::test]
async fn dead_letters_are_listed_and_grouped() {
    let server = Server::start();
    server.accepted(json!({})).await;
    let dead = server.dead(json!({})).await;
    let other = server.dead(json!({})).await;
    assert_eq!(
        ids(&server, "/v1/dead-letters").await,
        [other.clone(), dead.clone()]
    );
    let groups = server.get("/v1/dead-letters/groups").await.json();
    let group = &groups["data"][0];
    assert_eq!(groups["data"].as_array().unwrap().len(), 1);
    assert_eq!(group["count"], 2);
    assert_eq!(group["sample"], "550 5.1.1 no such user");
    assert!(group["first_seen"].as_str().unwrap() <= group["last_seen"].as_str().unwrap());
    let fingerprint = group["fingerprint"].as_str().unwrap().replace(' ', "%20");
    let path = format!("/v1/dead-letters?fingerprint={fingerprint}");
    assert_eq!(ids(&server, &path).await, [other, dead]);
    assert_eq!(
        ids(&server, "/v1/dead-letters?fingerprint=x").await,
        Vec::<String>::new()
    );
}

#[tokio::test]
async fn the_audit_log_shows_who_did_what() {
    let server = Server::start();
    let id = server.accepted(json!({})).await;
    server.act("POST", &format!("/v1/emails/{id}/cancel")).await;
    server.act("POST", &format!("/v1/emails/{id}/retry")).await;
    let page = server.get("/v1/audit").await.json();
    let data = page["data"].as_array().unwrap();
    let done: Vec<_> = data.iter().map(|e| (&e["action"], &e["result"])).collect();
    assert_eq!(
        done,
        [
            (&json!("retry"), &json!("refused")),
            (&json!("cancel"), &json!("cancelled"))
        ]
    );
    assert_eq!(
        (&data[1]["actor"], &data[1]["subject"]),
        (&json!("loopback"), &Value::String(id))
    );
    let page = server.get("/v1/audit?limit=1").await.json();
    assert_eq!(
        (page["data"].as_array().unwrap().len(), &page["has_more"]),
        (1, &json!(true))
    );
}
