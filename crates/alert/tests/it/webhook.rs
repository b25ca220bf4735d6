//! What a receiver of Standard Webhooks takes:
//! <https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md>.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use posthaste_alert::Webhook;
use posthaste_core::Timestamp;
use posthaste_core::alert::{Alert, AlertReason};
use posthaste_core::port::AlertChannel as _;
use posthaste_testkit::Received;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::receiver::{PATH, RECOVERED, STOPPED, alert, answering, flood, group, only, way};

const KEY: [u8; 32] = [7; 32];

fn secret() -> String {
    format!("whsec_{}", STANDARD.encode(KEY))
}

async fn told(alert: &Alert) -> Value {
    let receiver = answering(204, &[], "").await;
    let webhook = Webhook::new(&receiver.url(PATH), &secret()).unwrap();
    webhook.tell(alert).await.unwrap();
    let received = only(&receiver);
    check(&received, alert);
    received.json()
}

/// HMAC as RFC 2104 writes it, apart from the library that signs.
fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let pad = |byte: u8| -> Vec<u8> {
        let mut block = [byte; 64];
        for (place, byte) in block.iter_mut().zip(key) {
            *place ^= byte;
        }
        block.to_vec()
    };
    let inner = Sha256::digest([&pad(0x36), message].concat());
    Sha256::digest([&pad(0x5c)[..], &inner[..]].concat()).to_vec()
}

fn check(received: &Received, alert: &Alert) {
    let header = |name: &str| received.headers[name].to_str().unwrap();
    assert_eq!(header("webhook-id"), alert.id);
    let timestamp: i64 = header("webhook-timestamp").parse().expect("seconds");
    assert_eq!(timestamp, alert.at.as_second());
    let signed = [
        header("webhook-id").as_bytes(),
        b".",
        header("webhook-timestamp").as_bytes(),
        b".",
        &received.body,
    ]
    .concat();
    let expected = STANDARD.encode(hmac(&KEY, &signed));
    assert_eq!(header("webhook-signature"), format!("v1,{expected}"));
    assert!(
        received.body.len() < 20 * 1024,
        "as the standard recommends"
    );
    let message = received.json();
    let fields: Vec<_> = message.as_object().unwrap().keys().collect();
    assert_eq!(fields.len(), 3);
    assert!(message["type"].as_str().unwrap().contains('.'));
    let timestamp = message["timestamp"].as_str().unwrap();
    timestamp.parse::<Timestamp>().expect("ISO 8601");
    assert!(message["data"].is_object());
}

#[tokio::test]
async fn a_receiver_is_told_how_many_died_of_what() {
    let message = told(&alert(vec![
        group("550 5.1.1 <ann@example.org>: no such user", 9_999),
        group("552 5.2.2 mailbox full", 1),
    ]))
    .await;
    assert_eq!(message["type"], "email.dead_lettered");
    let data = &message["data"];
    assert_eq!(data["count"], 10_000);
    assert_eq!(data["groups"][0]["count"], 9_999);
    assert_eq!(data["groups"][0]["reason"], "HardBounce");
    assert_eq!(data["url"], "https://mail.example.org/admin/dead-letters");
    assert!(!message.to_string().contains("ann@"));
}

#[tokio::test]
async fn a_receiver_is_told_of_ways_out() {
    for (reason, kind, sentence) in [
        (AlertReason::TransportStopped, "transport.stopped", STOPPED),
        (
            AlertReason::TransportRecovered,
            "transport.recovered",
            RECOVERED,
        ),
    ] {
        let message = told(&alert(vec![way(reason)])).await;
        assert_eq!(message["type"], kind);
        let data = &message["data"];
        assert_eq!(data["headline"], sentence);
        assert_eq!(data["count"], 0, "nothing died");
        assert_eq!(data["groups"][0]["reason"], reason.as_str());
        assert_eq!(data["groups"][0]["error"], sentence, "word for word");
        let message = told(&alert(vec![way(reason), group("550 no", 2)])).await;
        assert_eq!(message["type"], "email.dead_lettered");
        assert_eq!(message["data"]["count"], 2);
    }
}

#[tokio::test]
async fn a_flood_of_reasons_stays_small() {
    let data = told(&flood()).await["data"].clone();
    assert_eq!(data["count"], 10_000);
    assert_eq!(data["groups"].as_array().unwrap().len(), 10);
    assert_eq!(data["other_groups"]["count"], 6_000);
}

#[tokio::test]
async fn a_secret_has_the_form_of_the_standard() {
    let url = "https://example.org/";
    let long = format!("whsec_{}", STANDARD.encode([1; 65]));
    for bad in ["", "secret", "whsec_", "whsec_c2hvcnQ=", "whsec_!", &long] {
        let error = Webhook::new(url, bad).unwrap_err().to_string();
        assert!(error.contains("24 to 64 bytes"), "{error}");
    }
    let webhook = Webhook::new(url, &secret()).unwrap();
    let shown = format!("{webhook:?}");
    assert!(!shown.contains(&STANDARD.encode(KEY)) && !shown.contains("example.org"));
}

#[tokio::test]
async fn a_receiver_that_does_not_know_the_secret_is_explained() {
    let receiver = answering(401, &[], "").await;
    let webhook = Webhook::new(&receiver.url(PATH), &secret()).unwrap();
    let told = webhook.tell(&alert(vec![group("550 no", 1)])).await;
    assert!(
        told.unwrap_err()
            .contains("check that alerts.webhook.secret")
    );
}
