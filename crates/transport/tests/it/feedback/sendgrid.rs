//! SendGrid.

use std::sync::{Arc, LazyLock};

use posthaste_core::feedback::Happening;
use posthaste_core::port::{Callback, FeedbackReader};
use posthaste_transport::feedback::{FeedbackConfig, reader};
use rcgen::{KeyPair, PublicKeyData, SigningKey};
use serde_json::{Value, json};

use super::{
    OUR_ID, base64, callback, event, not_believed, not_understood, read, seconds, with_body,
};

static KEY: LazyLock<KeyPair> = LazyLock::new(|| KeyPair::generate().unwrap());
const MESSAGE: &str = "PpqRdW_ATgqt4YkeSG-4fQ.recvd-5fb7cd9ddf-c8bbq-1-6620F2DF-38.0";
const PROVIDER_ID: &str = "PpqRdW_ATgqt4YkeSG-4fQ";

fn trusting(key: &KeyPair) -> Arc<dyn FeedbackReader> {
    let public_key = base64(&key.subject_public_key_info());
    reader(FeedbackConfig::SendGrid { public_key }).unwrap()
}

fn sendgrid() -> Arc<dyn FeedbackReader> {
    trusting(&KEY)
}

fn signed_at(later: i64, body: &str) -> Callback {
    let time = seconds(later);
    let signature = base64(&KEY.sign(format!("{time}{body}").as_bytes()).unwrap());
    callback(
        &[
            ("x-twilio-email-event-webhook-signature", &signature),
            ("x-twilio-email-event-webhook-timestamp", &time),
        ],
        body,
    )
}

fn signed(events: &Value) -> Callback {
    signed_at(0, &events.to_string())
}

fn payload(recipient: &str, extra: Value) -> Value {
    let mut event = json!({
        "email": recipient,
        "timestamp": 1_777_895_999,
        "smtp-id": "<14c5d75ce93.dfd.64b469@ismtpd-555>",
        "category": ["cat facts"],
        "sg_event_id": "ZGVsaXZlcmVk",
        "sg_message_id": MESSAGE,
        "posthaste_id": OUR_ID,
    });
    let fields = extra.as_object().unwrap().clone();
    event.as_object_mut().unwrap().extend(fields);
    event
}

fn bounce(kind: &str) -> Value {
    let reason = "500 unknown recipient";
    payload(
        "bob@example.org",
        json!({ "event": "bounce", "type": kind, "status": "5.0.0", "reason": reason }),
    )
}

fn dropped(reason: &str) -> Value {
    payload(
        "bob@example.org",
        json!({ "event": "dropped", "reason": reason, "status": "5.0.0" }),
    )
}

#[tokio::test]
async fn delivered_bounced_and_complained_are_read() {
    let delivered = json!({ "event": "delivered", "response": "250 OK" });
    let cases = [
        (
            payload("bob@example.org", delivered),
            Happening::Delivered,
            "250 OK",
        ),
        (
            bounce("bounce"),
            Happening::Bounced,
            "500 unknown recipient",
        ),
        (
            dropped("Bounced Address"),
            Happening::Bounced,
            "Bounced Address",
        ),
        (dropped("Invalid"), Happening::Bounced, "Invalid"),
        (
            dropped("Spam Reporting Address"),
            Happening::Complained,
            "Spam Reporting Address",
        ),
        (
            payload("bob@example.org", json!({ "event": "spamreport" })),
            Happening::Complained,
            "",
        ),
    ];
    for (body, happening, words) in cases {
        let expected = event(happening, PROVIDER_ID, "bob@example.org", words);
        assert_eq!(
            read(&*sendgrid(), &signed(&json!([body]))).await,
            [expected],
            "{body}"
        );
    }
}

#[tokio::test]
async fn what_does_not_decide_is_left_out() {
    let kinds = [
        "processed",
        "deferred",
        "open",
        "click",
        "unsubscribe",
        "invented_tomorrow",
    ];
    let mut batch: Vec<Value> = kinds
        .iter()
        .map(|kind| payload("bob@example.org", json!({ "event": kind })))
        .collect();
    batch.extend([
        bounce("blocked"),
        payload("bob@example.org", json!({ "event": "bounce" })),
        dropped("Unsubscribed Address"),
        dropped("Invalid SMTPAPI header"),
        dropped("Recipient List over Package Quota"),
    ]);
    assert_eq!(read(&*sendgrid(), &signed(&Value::Array(batch))).await, []);
}

#[tokio::test]
async fn a_batch_is_read_in_order_and_one_bad_entry_spoils_no_other() {
    let delivered = || json!({ "event": "delivered" });
    let mut nameless = payload("eve@example.org", delivered());
    nameless.as_object_mut().unwrap().remove("sg_message_id");
    let batch = json!([
        payload("bob@example.org", delivered()),
        payload("not an email address", json!({ "event": "dropped", "reason": "Invalid" })),
        nameless,
        { "event": 7 },
        "nonsense",
        payload("zoe@example.org", json!({ "event": "spamreport" })),
    ]);
    let expected = [
        event(Happening::Delivered, PROVIDER_ID, "bob@example.org", ""),
        event(Happening::Complained, PROVIDER_ID, "zoe@example.org", ""),
    ];
    assert_eq!(read(&*sendgrid(), &signed(&batch)).await, expected);
}

#[tokio::test]
async fn our_id_may_be_missing() {
    let body = json!([payload(
        "bob@example.org",
        json!({ "event": "delivered", "posthaste_id": 7 })
    )]);
    assert_eq!(read(&*sendgrid(), &signed(&body)).await[0].email_id, None);
}

#[tokio::test]
async fn a_signature_is_good_for_its_own_body_and_time_only() {
    let genuine = signed(&json!([payload(
        "bob@example.org",
        json!({ "event": "delivered" })
    )]));
    assert_eq!(read(&*sendgrid(), &genuine).await.len(), 1);
    let other = json!([bounce("bounce")]).to_string();
    not_believed(
        &*sendgrid(),
        &with_body(&genuine, &other),
        "check `public_key`",
    )
    .await;
    for (value, why) in [
        (base64(b"no signature"), "check `public_key`"),
        (String::new(), "check `public_key`"),
        ("not base64!".to_owned(), "not base64"),
    ] {
        let mut altered = genuine.clone();
        altered.headers[0].1 = value;
        not_believed(&*sendgrid(), &altered, why).await;
    }
    let mut later = genuine.clone();
    later.headers[1].1 = seconds(1);
    not_believed(&*sendgrid(), &later, "check `public_key`").await;
    for index in 0..2 {
        let mut without = genuine.clone();
        without.headers.remove(index);
        not_believed(&*sendgrid(), &without, "is missing").await;
    }
}

#[tokio::test]
async fn another_accounts_key_is_not_believed() {
    let other = trusting(&KeyPair::generate().unwrap());
    not_believed(&*other, &signed(&json!([])), "check `public_key`").await;
}

#[tokio::test]
async fn a_key_on_another_curve_is_refused_at_once() {
    let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap();
    let public_key = base64(&key.subject_public_key_info());
    let error = reader(FeedbackConfig::SendGrid { public_key })
        .err()
        .unwrap();
    assert!(error.to_string().contains("`public_key`"), "{error}");
}

#[tokio::test]
async fn old_and_future_times_are_not_believed() {
    for later in [-300, 300] {
        assert_eq!(read(&*sendgrid(), &signed_at(later, "[]")).await, []);
    }
    not_believed(&*sendgrid(), &signed_at(-301, "[]"), "too long ago").await;
    not_believed(&*sendgrid(), &signed_at(301, "[]"), "in the future").await;
}

#[tokio::test]
async fn genuine_nonsense_is_not_understood() {
    for (body, why) in [("[{]", "not JSON"), ("", "not JSON"), ("{}", "not a list")] {
        not_understood(&*sendgrid(), &signed_at(0, body), why).await;
    }
}
