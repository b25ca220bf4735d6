//! Failed messages of other services: lists and shapes.

use std::collections::BTreeMap;

use axum::body::Bytes;
use posthaste_core::message::{
    Arrival, Failure, HeaderValue, MessageId, MessagePolicy, Properties,
};
use posthaste_core::port::{MessageStore, Scheduled};
use posthaste_core::retry_policy::RetryPolicy;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::fixture::Server;

pub(crate) fn policy() -> MessagePolicy {
    MessagePolicy {
        retry: RetryPolicy::message(),
        max_publish_failures: 3,
    }
}

/// A failure of the queue `orders`, to be tried again in the next century. Later ones have lower
/// ids.
pub(crate) fn failure() -> Failure {
    Failure {
        message_id: MessageId(Uuid::from_u128(!Uuid::now_v7().as_u128())),
        payload: Bytes::from_static(b"{\"order\":4711}"),
        original_queue: "orders".into(),
        error_reason: "timeout".into(),
        retry_count: 0,
        max_retries: None,
        not_before: Some("2100-01-01T00:00:00Z".parse().unwrap()),
        properties: Properties::default(),
    }
}

/// Hands a failure in and gives the id of its message.
pub(crate) async fn hand_in(server: &Server, failure: Failure) -> String {
    let id = failure.message_id.to_string();
    let arrival = Arrival {
        failure,
        hash: [1; 32],
        redelivered: false,
        random: 0.0,
    };
    let scheduled = server.store.schedule(vec![arrival], &policy()).await;
    assert!(matches!(scheduled.unwrap()[..], [Scheduled::Scheduled(_)]));
    id
}

/// The message as it is shown.
pub(crate) async fn shown(server: &Server, id: &str) -> Value {
    let answer = server.get(&format!("/v1/messages/{id}")).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

async fn ids(server: &Server, query: &str) -> Vec<String> {
    let answer = server.get(&format!("/v1/messages{query}")).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let data = answer.json()["data"].as_array().unwrap().clone();
    data.iter()
        .map(|message| message["id"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn a_message_shows_everything_and_missing_values_are_null() {
    let server = Server::start();
    let id = hand_in(&server, failure()).await;
    let mut message = shown(&server, &id).await;
    let created_at = message["created_at"].take();
    let created_at = created_at.as_str().unwrap();
    assert_eq!((created_at.len(), created_at.ends_with('Z')), (27, true));
    assert_eq!(
        message,
        json!({
            "id": id, "original_queue": "orders", "status": "pending",
            "status_text": "Waiting (retry 1 of 3)", "error_reason": "timeout",
            "retry_count": 0, "max_retries": 3, "next_retry_at": "2100-01-01T00:00:00.000000Z",
            "last_error": null, "publish_failures": 0, "repeats": 0, "payload_bytes": 14, "created_at": null,
            "finished_at": null, "payload": "eyJvcmRlciI6NDcxMX0=",
            "payload_text": "{\"order\":4711}",
            "properties": {
                "content_type": null, "content_encoding": null, "correlation_id": null,
                "reply_to": null, "type": null, "priority": null, "headers": {},
            },
        })
    );
}

#[tokio::test]
async fn only_payloads_that_people_can_read_are_shown_as_text() {
    let server = Server::start();
    let longest = "ä".repeat(32 * 1024);
    let too_long = format!("{longest}.");
    for (payload, is_text) in [
        (&b"two lines\r\n\tand a tab"[..], true),
        (b"", true),
        (longest.as_bytes(), true),
        (too_long.as_bytes(), false),
        (b"\xff\xfe", false),
        (b"a\0b", false),
        (b"\x1b[31mred", false),
        ("\u{85}".as_bytes(), false),
    ] {
        let failure = Failure {
            payload: Bytes::copy_from_slice(payload),
            ..failure()
        };
        let id = hand_in(&server, failure).await;
        let message = shown(&server, &id).await;
        let text = message["payload_text"].as_str().map(str::as_bytes);
        assert_eq!(text, is_text.then_some(payload));
        assert_eq!(message["payload_bytes"], payload.len());
    }
    let failure = Failure {
        payload: Bytes::from_static(b"\xff\xfe\0"),
        ..failure()
    };
    let id = hand_in(&server, failure).await;
    assert_eq!(shown(&server, &id).await["payload"], "//4A");
}

#[tokio::test]
async fn what_a_message_says_about_itself_keeps_its_types() {
    let server = Server::start();
    let table = BTreeMap::from([
        ("count".to_owned(), HeaderValue::Integer(2)),
        ("queue".to_owned(), "orders".into()),
    ]);
    let headers = [
        ("nothing", HeaderValue::Void),
        ("yes", HeaderValue::Boolean(true)),
        ("lowest", HeaderValue::Integer(i64::MIN)),
        ("half", HeaderValue::Double(0.5)),
        ("text", "grüße \u{7}".into()),
        ("bytes", HeaderValue::Bytes(vec![255, 0])),
        ("moment", HeaderValue::Timestamp(1_800_000_000)),
        ("never", HeaderValue::Timestamp(u64::MAX)),
        (
            "x-death",
            HeaderValue::List(vec![HeaderValue::Table(table)]),
        ),
    ];
    let properties = Properties {
        content_type: Some("application/json".into()),
        content_encoding: Some("gzip".into()),
        correlation_id: Some("c-1".into()),
        reply_to: Some("answers".into()),
        kind: Some("order.created".into()),
        priority: Some(9),
        headers: headers.map(|(name, value)| (name.to_owned(), value)).into(),
    };
    let failure = Failure {
        properties,
        ..failure()
    };
    let id = hand_in(&server, failure).await;
    assert_eq!(
        shown(&server, &id).await["properties"],
        json!({
            "content_type": "application/json", "content_encoding": "gzip",
            "correlation_id": "c-1", "reply_to": "answers", "type": "order.created",
            "priority": 9,
            "headers": {
                "nothing": null, "yes": true, "lowest": i64::MIN, "half": 0.5,
                "text": "grüße \u{7}", "bytes": {"base64": "/wA="},
                "moment": "2027-01-15T08:00:00.000000Z", "never": u64::MAX,
                "x-death": [{"count": 2, "queue": "orders"}],
            },
        })
    );
}

#[tokio::test]
async fn pages_follow_each_other_without_gap_or_repeat() {
    let server = Server::start();
    let mut expected = Vec::new();
    for _ in 0..7 {
        expected.push(hand_in(&server, failure()).await);
    }
    expected.reverse();
    let mut seen = Vec::new();
    let mut query = "?limit=3".to_owned();
    let mut pages = 0;
    loop {
        seen.extend(ids(&server, &query).await);
        pages += 1;
        let page = server.get(&format!("/v1/messages{query}")).await.json();
        assert_eq!(page["has_more"], page["next"].is_string());
        let Some(next) = page["next"].as_str() else {
            break;
        };
        query = format!("?limit=3&after={next}");
    }
    assert_eq!((seen, pages), (expected, 3));
}

#[tokio::test]
async fn a_list_has_everything_but_the_content() {
    let server = Server::start();
    let empty = server
        .get("/v1/messages?status=&queue=&limit=&after=")
        .await
        .json();
    assert_eq!(empty, json!({"data": [], "has_more": false, "next": null}));

    let id = hand_in(&server, failure()).await;
    let mut whole = shown(&server, &id).await;
    for name in ["payload", "payload_text", "properties"] {
        whole.as_object_mut().unwrap().remove(name);
    }
    let page = server.get("/v1/messages").await.json();
    assert_eq!(page["data"], json!([whole]));
}

#[tokio::test]
async fn filters_find_what_they_name() {
    let server = Server::start();
    let pending = hand_in(&server, failure()).await;
    let discarded = hand_in(&server, failure()).await;
    let path = format!("/v1/messages/{discarded}/discard");
    assert_eq!(server.act("POST", &path).await.status, 200);
    let other = Failure {
        original_queue: "billing & more".into(),
        ..failure()
    };
    let elsewhere = hand_in(&server, other).await;
    for (query, expected) in [
        ("", vec![&elsewhere, &discarded, &pending]),
        ("?status=pending", vec![&elsewhere, &pending]),
        ("?status=retried,%20discarded", vec![&discarded]),
        (
            "?status=pending&status=discarded",
            vec![&elsewhere, &discarded, &pending],
        ),
        ("?status=failed", vec![]),
        ("?queue=orders", vec![&discarded, &pending]),
        ("?queue=billing+%26+more", vec![&elsewhere]),
        ("?queue=billing", vec![]),
        ("?queue=orders&status=pending&limit=1", vec![&pending]),
    ] {
        let found = ids(&server, query).await;
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{query}");
    }
}

#[tokio::test]
async fn bad_parameters_are_named() {
    let server = Server::start();
    for (query, field, fix) in [
        ("limit=0", "limit", "from 1 to 500"),
        ("limit=501", "limit", "from 1 to 500"),
        ("limit=1&limit=2", "limit", "more than once"),
        ("queue=a&queue=b", "queue", "more than once"),
        ("status=sent", "status", "pending retried failed discarded"),
        (
            "status=pending,",
            "status",
            "pending retried failed discarded",
        ),
        ("after=abc", "after", "`next` of the page before"),
        ("after=1&after=2", "after", "more than once"),
        ("to=a@b.example", "to", "status, queue, limit, after"),
        ("q=x", "q", "status, queue, limit, after"),
    ] {
        let answer = server.get(&format!("/v1/messages?{query}")).await;
        assert_eq!(answer.is_problem(422).fields(), [field], "{query}");
        let message = answer.json()["errors"][0]["message"].to_string();
        assert!(message.contains(fix), "{query}: {message}");
    }
}
