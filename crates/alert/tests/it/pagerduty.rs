//! What PagerDuty takes: <https://developer.pagerduty.com/docs/events-api-v2/trigger-events/>.

use posthaste_alert::PagerDuty;
use posthaste_core::Timestamp;
use posthaste_core::alert::{Alert, AlertReason};
use posthaste_core::port::AlertChannel as _;
use serde_json::Value;

use crate::receiver::{PATH, STOPPED, alert, answering, flood, group, only, way};

const KEY: &str = "0123456789abcdef0123456789abcdef";
const TAKEN: &str = r#"{"status":"success","message":"Event processed","dedup_key":"x"}"#;

async fn told(alert: &Alert) -> Value {
    let receiver = answering(202, &[], TAKEN).await;
    let pagerduty = PagerDuty::new(&receiver.url(PATH), KEY).unwrap();
    pagerduty.tell(alert).await.unwrap();
    let received = only(&receiver);
    assert!(received.body.len() <= 512 * 1024);
    let event = received.json();
    check(&event);
    event
}

/// Fails for whatever PagerDuty refuses or drops.
fn check(event: &Value) {
    known_fields(
        event,
        &[
            "routing_key",
            "event_action",
            "dedup_key",
            "payload",
            "client",
            "client_url",
            "links",
            "images",
        ],
    );
    assert_eq!(event["routing_key"], KEY);
    assert_eq!(event["event_action"], "trigger");
    assert!((1..=255).contains(&length(&event["dedup_key"])));
    let payload = &event["payload"];
    known_fields(
        payload,
        &[
            "summary",
            "source",
            "severity",
            "timestamp",
            "component",
            "group",
            "class",
            "custom_details",
        ],
    );
    assert!((1..=1024).contains(&length(&payload["summary"])));
    assert!(length(&payload["source"]) > 0);
    let severity = payload["severity"].as_str().unwrap();
    assert!(["critical", "error", "warning", "info"].contains(&severity));
    let timestamp = payload["timestamp"].as_str().unwrap();
    timestamp.parse::<Timestamp>().expect("ISO 8601");
    assert!(payload["custom_details"].is_object());
    for link in event["links"].as_array().into_iter().flatten() {
        known_fields(link, &["href", "text"]);
        assert!(link["href"].as_str().unwrap().starts_with("https://"));
    }
}

fn known_fields(object: &Value, known: &[&str]) {
    for field in object.as_object().expect("an object").keys() {
        assert!(known.contains(&field.as_str()), "{field}");
    }
}

fn length(text: &Value) -> usize {
    text.as_str().expect("text").chars().count()
}

#[tokio::test]
async fn pagerduty_is_told_how_many_died_of_what() {
    let event = told(&alert(vec![group(
        "550 5.1.1 <ann@example.org>: no such user",
        10_000,
    )]))
    .await;
    let summary = "billing & <shop>: 10000 emails were moved to the dead letter queue";
    assert_eq!(event["payload"]["summary"], summary);
    assert_eq!(event["payload"]["severity"], "error");
    let details = &event["payload"]["custom_details"];
    assert_eq!(details["emails"], 10_000);
    assert_eq!(details["dead_letters"], 12_345);
    assert_eq!(
        details["groups"][0]["error"],
        "550 5.1.1 <address> no such user"
    );
    assert!(!event.to_string().contains("ann@"));
}

#[tokio::test]
async fn all_alerts_of_a_service_are_one_incident() {
    let first = told(&alert(vec![group("550 no", 1)])).await;
    let later = Alert {
        id: "another".into(),
        ..alert(vec![group("451 later", 2)])
    };
    assert_eq!(told(&later).await["dedup_key"], first["dedup_key"]);
    let elsewhere = Alert {
        service: "elsewhere".into(),
        ..later.clone()
    };
    assert_ne!(told(&elsewhere).await["dedup_key"], first["dedup_key"]);
    let test = Alert {
        is_test: true,
        groups: Vec::new(),
        ..later
    };
    let test = told(&test).await;
    assert_ne!(test["dedup_key"], first["dedup_key"]);
    assert_eq!(test["payload"]["severity"], "info");
}

#[tokio::test]
async fn a_stopped_way_out_is_critical_and_an_incident_of_its_own() {
    let dead = told(&alert(vec![group("550 no", 1)])).await;
    let stopped = vec![group("550 no", 7), way(AlertReason::TransportStopped)];
    let stopped = told(&alert(stopped)).await;
    assert_eq!(stopped["payload"]["severity"], "critical");
    assert_ne!(stopped["dedup_key"], dead["dedup_key"]);
    let details = &stopped["payload"]["custom_details"];
    assert_eq!(details["emails"], 7, "only what died");
    assert_eq!(details["groups"][0]["reason"], "TransportStopped");
    assert_eq!(details["groups"][0]["error"], STOPPED);
    assert_eq!(details["groups"][0]["times"], 1);
    assert_eq!(details["groups"][1]["emails"], 7);
}

#[tokio::test]
async fn a_way_out_that_is_back_pages_nobody_anew() {
    let stopped = told(&alert(vec![way(AlertReason::TransportStopped)])).await;
    let back = told(&alert(vec![way(AlertReason::TransportRecovered)])).await;
    assert_eq!(back["payload"]["severity"], "info");
    assert_eq!(
        back["dedup_key"], stopped["dedup_key"],
        "of the same outage"
    );
    let summary = back["payload"]["summary"].as_str().unwrap();
    assert!(summary.ends_with("takes mail again"), "{summary}");
    let both = vec![way(AlertReason::TransportRecovered), group("550 no", 1)];
    let both = told(&alert(both)).await;
    assert_eq!(both["payload"]["severity"], "error", "emails died, too");
}

#[tokio::test]
async fn a_flood_of_reasons_stays_within_pagerdutys_limits() {
    let event = told(&flood()).await;
    let details = &event["payload"]["custom_details"];
    assert_eq!(details["emails"], 10_000);
    assert_eq!(details["groups"].as_array().unwrap().len(), 10);
    assert_eq!(details["other_groups"]["emails"], 6_000);
}

#[tokio::test]
async fn a_wrong_key_is_explained_and_never_shown() {
    let answer = format!(r#"{{"status":"invalid event","errors":["routing_key {KEY} unknown"]}}"#);
    let receiver = answering(400, &[], &answer).await;
    let pagerduty = PagerDuty::new(&receiver.url(PATH), KEY).unwrap();
    let error = pagerduty
        .tell(&alert(vec![group("550 no", 1)]))
        .await
        .unwrap_err();
    assert!(error.contains("check alerts.pagerduty.routing_key"));
    assert!(!error.contains(KEY), "{error}");
    assert!(!format!("{pagerduty:?}").contains(KEY));
    for key in ["", "short", &KEY[1..]] {
        assert!(PagerDuty::new(&receiver.url(PATH), key).is_err());
    }
}
