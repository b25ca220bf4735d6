//! Postmark.

use std::sync::Arc;

use posthaste_core::feedback::Happening;
use posthaste_core::port::{Callback, FeedbackReader};
use posthaste_transport::feedback::{FeedbackConfig, reader};
use serde_json::{Value, json};

use super::{OUR_ID, base64, callback, event, not_believed, not_understood, read};

const PROVIDER_ID: &str = "883953f4-6105-42a2-a16a-77a8eac79483";

fn expecting(server_id: Option<u64>) -> Arc<dyn FeedbackReader> {
    reader(FeedbackConfig::Postmark {
        username: "postmark".to_owned(),
        password: "pass:word".into(),
        server_id,
    })
    .unwrap()
}

fn postmark() -> Arc<dyn FeedbackReader> {
    expecting(Some(23))
}

fn authorized(authorization: &str, body: &str) -> Callback {
    callback(&[("authorization", authorization)], body)
}

fn genuine(body: &Value) -> Callback {
    let credentials = base64(b"postmark:pass:word");
    authorized(&format!("Basic {credentials}"), &body.to_string())
}

fn payload(kind: &str, extra: Value) -> Value {
    let mut event = json!({
        "RecordType": kind,
        "MessageStream": "outbound",
        "MessageID": PROVIDER_ID,
        "ServerID": 23,
        "Tag": "welcome-email",
        "Metadata": { "a_key": "a_value", "posthaste_id": OUR_ID },
    });
    let fields = extra.as_object().unwrap().clone();
    event.as_object_mut().unwrap().extend(fields);
    event
}

fn bounce(kind: &str) -> Value {
    let extra = json!({
        "ID": 42,
        "Type": kind,
        "TypeCode": 1,
        "Name": "Hard bounce",
        "Description": "The server was unable to deliver your message.",
        "Details": "smtp;550 5.1.1\r\n unknown user",
        "Email": "bob@example.org",
        "Inactive": true,
        "BouncedAt": "2026-05-04T11:59:00Z",
    });
    payload("Bounce", extra)
}

fn change(suppress: bool, reason: Option<&str>) -> Value {
    let extra = json!({
        "ChangedAt": "2026-05-04T11:59:00Z",
        "Recipient": "bob@example.org",
        "Origin": "Recipient",
        "SuppressSending": suppress,
        "SuppressionReason": reason,
    });
    payload("SubscriptionChange", extra)
}

#[tokio::test]
async fn delivered_bounced_and_complained_are_read() {
    let delivery = json!({ "Recipient": "bob@example.org", "Details": "Test delivery details" });
    let complaint = json!({ "Email": "bob@example.org", "Type": "SpamComplaint", "Details": "" });
    let bounced = "smtp;550 5.1.1   unknown user";
    let cases = [
        (
            payload("Delivery", delivery),
            Happening::Delivered,
            "Test delivery details",
        ),
        (bounce("HardBounce"), Happening::Bounced, bounced),
        (bounce("BadEmailAddress"), Happening::Bounced, bounced),
        (bounce("SpamComplaint"), Happening::Complained, bounced),
        (
            payload("SpamComplaint", complaint),
            Happening::Complained,
            "",
        ),
        (
            change(true, Some("HardBounce")),
            Happening::Bounced,
            "HardBounce",
        ),
        (
            change(true, Some("SpamComplaint")),
            Happening::Complained,
            "SpamComplaint",
        ),
    ];
    for (body, happening, words) in cases {
        let expected = event(happening, PROVIDER_ID, "bob@example.org", words);
        assert_eq!(
            read(&*postmark(), &genuine(&body)).await,
            [expected],
            "{body}"
        );
    }
}

#[tokio::test]
async fn what_does_not_decide_is_left_out() {
    let mut by_hand = change(true, Some("HardBounce"));
    by_hand["MessageID"] = Value::Null;
    for body in [
        bounce("SoftBounce"),
        bounce("Transient"),
        bounce("Blocked"),
        bounce("AutoResponder"),
        bounce("InventedTomorrow"),
        change(true, Some("ManualSuppression")),
        change(false, None),
        change(false, Some("HardBounce")),
        by_hand,
        payload("Open", json!({ "Recipient": "bob@example.org" })),
        payload("Click", json!({ "Recipient": "bob@example.org" })),
        payload("InventedTomorrow", json!({})),
    ] {
        assert_eq!(read(&*postmark(), &genuine(&body)).await, [], "{body}");
    }
}

#[tokio::test]
async fn only_the_right_user_and_password_are_believed() {
    let body = bounce("HardBounce").to_string();
    let right = base64(b"postmark:pass:word");
    assert_eq!(
        read(&*postmark(), &authorized(&format!("basic {right}"), &body))
            .await
            .len(),
        1
    );
    for wrong in [
        format!("Basic {}", base64(b"postmark:pass:wore")),
        format!("Basic {}", base64(b"postmark:pass:wor")),
        format!("Basic {}", base64(b"postmark:")),
        format!("Basic {}", base64(b"someone:pass:word")),
        format!("Basic {}", base64(b"")),
        format!("Bearer {right}"),
        right,
        "Basic".to_owned(),
        "Basic not base64!".to_owned(),
        String::new(),
    ] {
        not_believed(&*postmark(), &authorized(&wrong, &body), "user or password").await;
    }
    not_believed(
        &*postmark(),
        &callback(&[], &body),
        "`authorization` is missing",
    )
    .await;
}

#[tokio::test]
async fn nothing_of_a_strangers_body_is_read() {
    let stranger = authorized("Basic bm86bm8=", "not JSON");
    not_believed(&*postmark(), &stranger, "user or password").await;
}

#[tokio::test]
async fn another_server_of_the_account_is_not_believed() {
    let body = bounce("HardBounce");
    not_believed(&*expecting(Some(24)), &genuine(&body), "check `server_id`").await;
    assert_eq!(read(&*expecting(None), &genuine(&body)).await.len(), 1);
    let mut silent = body.clone();
    silent.as_object_mut().unwrap().remove("ServerID");
    not_believed(&*postmark(), &genuine(&silent), "check `server_id`").await;
    silent["ServerId"] = json!(23);
    assert_eq!(read(&*postmark(), &genuine(&silent)).await.len(), 1);
    silent["ServerId"] = json!("23");
    not_believed(&*postmark(), &genuine(&silent), "check `server_id`").await;
}

#[tokio::test]
async fn genuine_nonsense_is_not_understood() {
    let reader = expecting(None);
    let right = format!("Basic {}", base64(b"postmark:pass:word"));
    let nameless = json!({ "RecordType": "Delivery", "Recipient": "bob@example.org" });
    let for_nobody = json!({ "RecordType": "Delivery", "MessageID": PROVIDER_ID });
    for (body, why) in [
        ("{", "not JSON"),
        ("[]", "/RecordType"),
        (&nameless.to_string(), "/MessageID"),
        (&for_nobody.to_string(), "/Recipient"),
    ] {
        not_understood(&*reader, &authorized(&right, body), why).await;
    }
}
