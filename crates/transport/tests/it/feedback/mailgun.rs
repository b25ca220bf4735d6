//! Mailgun.

use std::sync::Arc;

use posthaste_core::feedback::Happening;
use posthaste_core::port::{Callback, FeedbackReader};
use posthaste_transport::feedback::{FeedbackConfig, reader};
use serde_json::{Value, json};

use super::{OUR_ID, callback, event, hmac_sha256, not_believed, not_understood, read, seconds};

const KEY: &str = "key-of-the-account";
const TOKEN: &str = "a8ce0edb2dd8301dee6c2405235584e45aa91d1e9f979f3de0";
const PROVIDER_ID: &str = "20260504115950.1.A1B2C3@mg.example.com";

fn expecting(domain: Option<&str>) -> Arc<dyn FeedbackReader> {
    reader(FeedbackConfig::Mailgun {
        signing_key: KEY.into(),
        domain: domain.map(str::to_owned),
    })
    .unwrap()
}

fn mailgun() -> Arc<dyn FeedbackReader> {
    expecting(Some("mg.example.com"))
}

fn signature(key: &str, time: &str, token: &str) -> Value {
    let tag = hmac_sha256(key.as_bytes(), format!("{time}{token}").as_bytes());
    let hex: String = tag.iter().map(|byte| format!("{byte:02x}")).collect();
    json!({ "timestamp": time, "token": token, "signature": hex })
}

fn signed_with(signature: Value, event: &Value) -> Callback {
    let body = json!({ "signature": signature, "event-data": event });
    callback(&[("content-type", "application/json")], &body.to_string())
}

fn signed(event: &Value) -> Callback {
    signed_with(signature(KEY, &seconds(0), TOKEN), event)
}

fn payload(kind: &str, extra: Value) -> Value {
    let mut event = json!({
        "event": kind,
        "id": "CPgfbmQMTCKtHW6uIWtuVe",
        "timestamp": 1_777_895_990.25,
        "log-level": "info",
        "account": { "id": "1234567890303a4bd1f33898" },
        "domain": { "name": "mg.example.com" },
        "recipient": "bob@example.org",
        "recipient-domain": "example.org",
        "message": { "headers": {
            "to": "Bob <bob@example.org>",
            "message-id": PROVIDER_ID,
            "from": "Ann <ann@mg.example.com>",
            "subject": "Test delivered webhook",
        } },
        "user-variables": { "my_var_1": "Mailgun Variable #1", "posthaste_id": OUR_ID },
    });
    let fields = extra.as_object().unwrap().clone();
    event.as_object_mut().unwrap().extend(fields);
    event
}

fn failed(severity: &str, reason: &str) -> Value {
    payload(
        "failed",
        json!({
            "severity": severity,
            "reason": reason,
            "delivery-status": {
                "attempt-no": 1,
                "code": 550,
                "message": "5.1.1 no such user",
                "description": "",
            },
        }),
    )
}

#[tokio::test]
async fn delivered_bounced_and_complained_are_read() {
    let status = json!({ "delivery-status": { "code": 250, "message": "OK", "description": "" } });
    let described = json!({
        "severity": "permanent",
        "reason": "suppress-bounce",
        "delivery-status": { "code": 605, "message": "", "description": "Not delivering to previously bounced address" },
    });
    let cases = [
        (payload("delivered", status), Happening::Delivered, "OK"),
        (
            failed("permanent", "bounce"),
            Happening::Bounced,
            "5.1.1 no such user",
        ),
        (
            failed("permanent", "generic"),
            Happening::Bounced,
            "5.1.1 no such user",
        ),
        (
            payload("failed", described),
            Happening::Bounced,
            "Not delivering to previously bounced address",
        ),
        (
            failed("permanent", "suppress-complaint"),
            Happening::Complained,
            "5.1.1 no such user",
        ),
        (payload("complained", json!({})), Happening::Complained, ""),
    ];
    for (body, happening, words) in cases {
        let expected = event(happening, PROVIDER_ID, "bob@example.org", words);
        assert_eq!(
            read(&*mailgun(), &signed(&body)).await,
            [expected],
            "{body}"
        );
    }
}

#[tokio::test]
async fn what_does_not_decide_is_left_out() {
    for body in [
        failed("temporary", "generic"),
        failed("permanent", "old"),
        failed("permanent", "espblock"),
        failed("permanent", "suppress-unsubscribe"),
        payload("failed", json!({})),
        payload("accepted", json!({})),
        payload("opened", json!({})),
        payload("clicked", json!({})),
        payload("unsubscribed", json!({})),
        payload("invented_tomorrow", json!({})),
    ] {
        assert_eq!(read(&*mailgun(), &signed(&body)).await, [], "{body}");
    }
}

#[tokio::test]
async fn the_id_is_the_same_with_and_without_brackets() {
    let message = json!({ "message": { "headers": { "message-id": format!("<{PROVIDER_ID}>") } } });
    let events = read(&*mailgun(), &signed(&payload("delivered", message))).await;
    assert_eq!(events[0].provider_id, PROVIDER_ID);
}

#[tokio::test]
async fn our_id_may_be_missing() {
    for variables in [
        json!({ "user-variables": [] }),
        json!({ "user-variables": {} }),
    ] {
        let events = read(&*mailgun(), &signed(&payload("delivered", variables))).await;
        assert_eq!(events[0].email_id, None);
    }
}

#[tokio::test]
async fn a_wrong_signature_is_not_believed() {
    let body = payload("delivered", json!({}));
    let good = signature(KEY, &seconds(0), TOKEN);
    let with = |field: &str, value: &str| {
        let mut altered = good.clone();
        altered[field] = json!(value);
        signed_with(altered, &body)
    };
    let other = signature("key-of-another", &seconds(0), TOKEN);
    let reader = mailgun();
    not_believed(&*reader, &signed_with(other, &body), "check `signing_key`").await;
    not_believed(&*reader, &with("token", "another"), "check `signing_key`").await;
    not_believed(
        &*reader,
        &with("timestamp", &seconds(1)),
        "check `signing_key`",
    )
    .await;
    not_believed(&*reader, &with("signature", "abcd"), "check `signing_key`").await;
    let exotic = "äö".repeat(16);
    not_believed(&*reader, &with("signature", &exotic), "check `signing_key`").await;
    for field in ["timestamp", "token", "signature"] {
        let why = format!("no `signature.{field}`");
        not_believed(&*reader, &with(field, ""), &why).await;
    }
    assert_eq!(
        read(&*reader, &signed_with(good.clone(), &body))
            .await
            .len(),
        1
    );
}

#[tokio::test]
async fn a_signature_cannot_be_used_again_for_another_body() {
    let reader = mailgun();
    let genuine = signed(&payload("delivered", json!({})));
    assert_eq!(read(&*reader, &genuine).await.len(), 1);
    let forged = signed(&failed("permanent", "bounce"));
    not_believed(&*reader, &forged, "used with another body").await;
    // A repetition of the genuine one is none of a thief's business.
    assert_eq!(read(&*reader, &genuine).await.len(), 1);
    // Moving the border between time and token leaves the signature as it is.
    let (time, token) = (seconds(0), TOKEN);
    let mut moved = signature(KEY, &time, token);
    moved["token"] = json!(format!("{}{token}", &time[time.len() - 1..]));
    moved["timestamp"] = json!(&time[..time.len() - 1]);
    let moved = signed_with(moved, &failed("permanent", "bounce"));
    not_believed(&*reader, &moved, "too long ago").await;
}

#[tokio::test]
async fn another_domain_of_the_account_is_not_believed() {
    let body = payload("delivered", json!({}));
    not_believed(
        &*expecting(Some("example.net")),
        &signed(&body),
        "check `domain`",
    )
    .await;
    assert_eq!(
        read(&*expecting(Some("MG.Example.com")), &signed(&body))
            .await
            .len(),
        1
    );
    assert_eq!(read(&*expecting(None), &signed(&body)).await.len(), 1);
}

#[tokio::test]
async fn an_event_without_the_domains_name_tells_it_by_its_storage() {
    let mut body = payload("delivered", json!({}));
    body.as_object_mut().unwrap().remove("domain");
    not_believed(&*mailgun(), &signed(&body), "check `domain`").await;
    let url = |domain: &str| format!("https://se.api.mailgun.net/v3/domains/{domain}/messages/key");
    body["storage"] = json!({ "key": "key", "url": url("mg.example.com") });
    assert_eq!(read(&*mailgun(), &signed(&body)).await.len(), 1);
    body["storage"] = json!({ "key": "key", "url": url("example.net") });
    not_believed(&*mailgun(), &signed(&body), "check `domain`").await;
    // What the event says of itself goes first.
    body["domain"] = json!({ "name": "mg.example.com" });
    assert_eq!(read(&*mailgun(), &signed(&body)).await.len(), 1);
}

#[tokio::test]
async fn old_and_future_times_are_not_believed() {
    let body = payload("delivered", json!({}));
    let at = |later| signed_with(signature(KEY, &seconds(later), TOKEN), &body);
    // What Mailgun says again, for eight hours, is not signed anew.
    let limit = 9 * 3600;
    for later in [-limit, limit] {
        assert_eq!(read(&*mailgun(), &at(later)).await.len(), 1);
    }
    not_believed(&*mailgun(), &at(-limit - 1), "too long ago").await;
    not_believed(&*mailgun(), &at(limit + 1), "in the future").await;
}

#[tokio::test]
async fn nonsense_is_not_understood() {
    not_understood(&*mailgun(), &callback(&[], "{\"signature\""), "not JSON").await;
    not_believed(
        &*mailgun(),
        &callback(&[], "[]"),
        "no `signature.timestamp`",
    )
    .await;
    let reader = expecting(None);
    let no_event = json!({ "recipient": "bob@example.org" });
    not_understood(&*reader, &signed(&no_event), "/event-data/event").await;
    let no_id = json!({ "event": "delivered", "recipient": "bob@example.org" });
    let other = signature(KEY, &seconds(0), "another token");
    not_understood(&*reader, &signed_with(other, &no_id), "message-id").await;
}
