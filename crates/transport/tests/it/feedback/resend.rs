//! Resend.

use std::sync::Arc;

use posthaste_core::feedback::Happening;
use posthaste_core::port::{Callback, FeedbackReader};
use posthaste_transport::feedback::{FeedbackConfig, reader};
use serde_json::{Value, json};

use super::{
    OUR_ID, base64, callback, event, hmac_sha256, not_believed, not_understood, read, seconds,
    with_body,
};

const KEY: &[u8] = b"a key of four and twenty";
const PROVIDER_ID: &str = "56761188-7520-42d8-8898-ff6fc54ce618";

fn resend() -> Arc<dyn FeedbackReader> {
    let secret = format!("whsec_{}", base64(KEY)).into();
    reader(FeedbackConfig::Resend { secret }).unwrap()
}

fn signature(key: &[u8], id: &str, time: &str, body: &str) -> String {
    let signed = format!("{id}.{time}.{body}");
    format!("v1,{}", base64(&hmac_sha256(key, signed.as_bytes())))
}

fn signed_at(family: &str, later: i64, body: &str) -> Callback {
    let (id, time) = ("msg_p5jXN8AQM9LWM0D4loKWxJek", seconds(later));
    let signature = signature(KEY, id, &time, body);
    let name = |part: &str| format!("{family}-{part}");
    callback(
        &[
            ("content-type", "application/json"),
            (&name("id"), id),
            (&name("timestamp"), &time),
            (&name("signature"), &signature),
        ],
        body,
    )
}

fn signed(body: &Value) -> Callback {
    signed_at("svix", 0, &body.to_string())
}

fn payload(kind: &str, extra: Value) -> Value {
    let mut data = json!({
        "broadcast_id": "8b146471-e88e-4322-86af-016cd36fd216",
        "created_at": "2026-05-04T11:59:50.126Z",
        "email_id": PROVIDER_ID,
        "from": "Acme <onboarding@example.com>",
        "to": ["bob@example.org"],
        "subject": "Sending this example",
        "tags": { "category": "confirm_email", "posthaste_id": OUR_ID },
    });
    let fields = extra.as_object().unwrap().clone();
    data.as_object_mut().unwrap().extend(fields);
    json!({ "type": kind, "created_at": "2026-05-04T11:59:55.126Z", "data": data })
}

fn bounce(kind: &str) -> Value {
    let words = "The recipient's email provider sent a hard bounce.";
    payload(
        "email.bounced",
        json!({ "bounce": { "message": words, "subType": "General", "type": kind } }),
    )
}

#[tokio::test]
async fn delivered_bounced_and_complained_are_read() {
    let suppressed =
        json!({ "suppressed": { "message": "On the list", "type": "OnAccountSuppressionList" } });
    let cases = [
        (
            payload("email.delivered", json!({})),
            Happening::Delivered,
            "",
        ),
        (
            bounce("Permanent"),
            Happening::Bounced,
            "The recipient's email provider sent a hard bounce.",
        ),
        (
            payload("email.suppressed", suppressed),
            Happening::Bounced,
            "On the list",
        ),
        (
            payload("email.complained", json!({})),
            Happening::Complained,
            "",
        ),
    ];
    for (body, happening, words) in cases {
        let expected = event(happening, PROVIDER_ID, "bob@example.org", words);
        assert_eq!(read(&*resend(), &signed(&body)).await, [expected], "{body}");
    }
}

#[tokio::test]
async fn what_does_not_decide_is_left_out() {
    let failed = json!({ "failed": { "reason": "reached_daily_quota" } });
    for body in [
        bounce("Transient"),
        bounce("Undetermined"),
        payload("email.bounced", json!({})),
        payload("email.failed", failed),
        payload("email.sent", json!({})),
        payload("email.opened", json!({})),
        payload("email.delivery_delayed", json!({})),
        payload("email.invented_tomorrow", json!({})),
        json!({ "type": "contact.created", "data": {} }),
    ] {
        assert_eq!(read(&*resend(), &signed(&body)).await, [], "{body}");
    }
}

#[tokio::test]
async fn either_name_of_the_headers_will_do_but_not_a_mixture() {
    let body = payload("email.delivered", json!({})).to_string();
    for family in ["svix", "webhook"] {
        assert_eq!(
            read(&*resend(), &signed_at(family, 0, &body)).await.len(),
            1
        );
    }
    let mut mixed = signed_at("webhook", 0, &body);
    mixed
        .headers
        .push(("svix-id".to_owned(), "msg_other".to_owned()));
    not_believed(&*resend(), &mixed, "`svix-timestamp` is missing").await;
}

#[tokio::test]
async fn each_recipient_has_an_event_of_its_own() {
    let to = json!({ "to": ["Bob <bob@example.org>", "not an address", "eve@example.org"] });
    let events = read(&*resend(), &signed(&payload("email.delivered", to))).await;
    let expected = ["bob@example.org", "eve@example.org"]
        .map(|recipient| event(Happening::Delivered, PROVIDER_ID, recipient, ""));
    assert_eq!(events, expected);
}

#[tokio::test]
async fn our_id_is_found_in_both_shapes_of_tags_and_may_be_missing() {
    let list = json!({ "tags": [
        { "name": "category", "value": "confirm_email" },
        { "name": "posthaste_id", "value": OUR_ID },
    ] });
    let ours = Some(OUR_ID.parse().unwrap());
    for (tags, expected) in [
        (list, ours),
        (json!({ "tags": { "posthaste_id": OUR_ID } }), ours),
        (json!({ "tags": { "posthaste_id": "tampered" } }), None),
        (json!({ "tags": null }), None),
    ] {
        let events = read(&*resend(), &signed(&payload("email.delivered", tags))).await;
        assert_eq!(events[0].email_id, expected);
    }
}

#[tokio::test]
async fn one_good_signature_among_several_is_enough() {
    let body = payload("email.delivered", json!({})).to_string();
    let mut rotated = signed_at("svix", 0, &body);
    let good = rotated.header("svix-signature").unwrap().to_owned();
    let set = |callback: &mut Callback, value: String| callback.headers[3].1 = value;
    let old = signature(b"the key before this one", "msg", &seconds(0), &body);
    set(&mut rotated, format!("{old} v1a,Zm9v {good}"));
    assert_eq!(read(&*resend(), &rotated).await.len(), 1);
    // The version is part of the signature: another one is not checked as if it were this one.
    let bare = good.trim_start_matches("v1,");
    for bad in [
        old,
        bare.to_owned(),
        format!("v2,{bare}"),
        "v1,".to_owned(),
        String::new(),
    ] {
        set(&mut rotated, bad.clone());
        not_believed(&*resend(), &rotated, "check `secret`").await;
    }
}

#[tokio::test]
async fn a_signature_is_good_for_its_own_body_id_and_time_only() {
    let body = payload("email.delivered", json!({})).to_string();
    let genuine = signed_at("svix", 0, &body);
    assert_eq!(read(&*resend(), &genuine).await.len(), 1);
    let other = bounce("Permanent").to_string();
    not_believed(&*resend(), &with_body(&genuine, &other), "check `secret`").await;
    for (index, value) in [(1, "msg_other".to_owned()), (2, seconds(1))] {
        let mut altered = genuine.clone();
        altered.headers[index].1 = value;
        not_believed(&*resend(), &altered, "check `secret`").await;
    }
    for index in 1..4 {
        let mut without = genuine.clone();
        without.headers.remove(index);
        not_believed(&*resend(), &without, "is missing").await;
    }
}

#[tokio::test]
async fn another_accounts_secret_is_not_believed() {
    let body = payload("email.delivered", json!({})).to_string();
    let secret = format!("whsec_{}", base64(&[1; 24])).into();
    let other = reader(FeedbackConfig::Resend { secret }).unwrap();
    not_believed(&*other, &signed_at("svix", 0, &body), "check `secret`").await;
}

#[tokio::test]
async fn old_and_future_times_are_not_believed() {
    let body = payload("email.delivered", json!({})).to_string();
    for later in [-300, 300] {
        assert_eq!(
            read(&*resend(), &signed_at("svix", later, &body))
                .await
                .len(),
            1
        );
    }
    not_believed(&*resend(), &signed_at("svix", -301, &body), "too long ago").await;
    not_believed(&*resend(), &signed_at("svix", 301, &body), "in the future").await;
    let mut no_number = signed_at("svix", 0, &body);
    no_number.headers[2].1 = "yesterday".to_owned();
    not_believed(&*resend(), &no_number, "not a number").await;
}

#[tokio::test]
async fn genuine_nonsense_is_not_understood() {
    let no_id = json!({ "type": "email.delivered", "data": { "to": ["bob@example.org"] } });
    for (body, why) in [
        ("{\"type\":", "not JSON"),
        ("[]", "/type"),
        ("{}", "/type"),
        (&no_id.to_string(), "/data/email_id"),
    ] {
        not_understood(&*resend(), &signed_at("svix", 0, body), why).await;
    }
}
