//! What Slack takes: <https://docs.slack.dev/reference/block-kit/blocks>.

use posthaste_alert::Slack;
use posthaste_core::alert::{Alert, AlertReason};
use posthaste_core::port::AlertChannel as _;
use serde_json::Value;

use crate::receiver::{PATH, RECOVERED, STOPPED, alert, answering, flood, group, only, way};

async fn told(alert: &Alert) -> Value {
    let receiver = answering(200, &[], "ok").await;
    let slack = Slack::new(&receiver.url(PATH)).unwrap();
    slack.tell(alert).await.unwrap();
    let message = only(&receiver).json();
    check(&message);
    message
}

/// Fails for whatever Slack refuses.
fn check(message: &Value) {
    let message = message.as_object().expect("an object");
    let mut fields: Vec<_> = message.keys().collect();
    fields.sort();
    assert_eq!(fields, ["blocks", "text"]);
    assert!(length(&message["text"]) <= 40_000);
    let blocks = message["blocks"].as_array().expect("blocks");
    assert!((1..=50).contains(&blocks.len()));
    for block in blocks {
        match block["type"].as_str().expect("a type") {
            "header" => {
                assert_eq!(block["text"]["type"], "plain_text");
                assert!((1..=150).contains(&length(&block["text"]["text"])));
            }
            "section" => check_markup(&block["text"], 3000),
            "context" => {
                let elements = block["elements"].as_array().expect("elements");
                assert!((1..=10).contains(&elements.len()));
                for element in elements {
                    check_markup(element, 3000);
                }
            }
            other => panic!("no block of ours: {other}"),
        }
    }
}

/// `<…>` is a command: only links and dates are meant.
fn check_markup(text: &Value, most: usize) {
    assert_eq!(text["type"], "mrkdwn");
    assert!((1..=most).contains(&length(&text["text"])));
    let text = text["text"].as_str().expect("text");
    for command in text.split('<').skip(1) {
        assert!(
            command.starts_with("!date^") || command.starts_with("https://"),
            "{command}"
        );
    }
}

fn length(text: &Value) -> usize {
    text.as_str().expect("text").chars().count()
}

#[tokio::test]
async fn slack_is_told_how_many_died_of_what() {
    let message = told(&alert(vec![
        group("550 5.1.1 <ann@example.org>: no such user", 9_999),
        group("552 5.2.2 mailbox full", 1),
    ]))
    .await;
    let headline = "billing &amp; &lt;shop&gt;: 10000 emails were moved to the dead letter queue, \
                    for 2 different reasons";
    assert_eq!(message["text"], headline);
    let all = message.to_string();
    assert!(all.contains("*9999 emails* · HardBounce"), "{all}");
    assert!(all.contains("*1 email* ·"), "{all}");
    assert!(all.contains("550 5.1.1 &lt;address&gt; no such user"));
    assert!(all.contains("In the dead letter queue now: 12345"));
    assert!(all.contains("<https://mail.example.org/admin/dead-letters"));
    assert!(!all.contains("ann@"), "no recipient leaves the house");
}

#[tokio::test]
async fn a_flood_of_reasons_stays_within_slacks_limits() {
    let message = told(&flood()).await;
    let all = message.to_string();
    assert!(
        all.contains("… and 6000 more for 15 other reasons"),
        "{all}"
    );
    assert!(
        !all.contains("<!channel>"),
        "an error does not ring for all"
    );
}

#[tokio::test]
async fn slack_is_told_of_a_way_out_before_the_dead() {
    let mut groups: Vec<_> = (0..20).map(|n| group(&format!("55{n} no"), 9)).collect();
    groups.push(way(AlertReason::TransportStopped));
    let message = told(&alert(groups)).await;
    let text = message["text"].as_str().unwrap();
    let headline = format!("billing &amp; &lt;shop&gt;: {STOPPED}; 180 emails were moved");
    assert!(text.starts_with(&headline), "{text}");
    let first = message["blocks"][1]["text"]["text"].as_str().unwrap();
    let lines = format!("*1 time* · TransportStopped\n>{STOPPED}\n");
    assert!(first.starts_with(&lines), "{first}");
    let all = message.to_string();
    assert!(all.contains("… and 99 more for 11 other reasons"), "{all}");
}

#[tokio::test]
async fn slack_is_told_that_a_way_out_is_back() {
    let message = told(&alert(vec![way(AlertReason::TransportRecovered)])).await;
    let text = message["text"].as_str().unwrap();
    assert_eq!(text, format!("billing &amp; &lt;shop&gt;: {RECOVERED}"));
    let all = message.to_string();
    assert!(
        all.contains("<https://mail.example.org/admin|Open overview>"),
        "{all}"
    );
}

#[tokio::test]
async fn a_test_alert_says_so() {
    let test = Alert {
        is_test: true,
        ..alert(Vec::new())
    };
    let message = told(&test).await;
    assert!(message["text"].as_str().unwrap().contains("a test alert"));
}

#[tokio::test]
async fn a_webhook_that_was_removed_is_explained() {
    let receiver = answering(404, &[], "no_service").await;
    let slack = Slack::new(&receiver.url(PATH)).unwrap();
    let error = slack
        .tell(&alert(vec![group("550 no", 1)]))
        .await
        .unwrap_err();
    let expected = "it answered 404 Not Found (no_service): make a new webhook in Slack and set alerts.slack.url";
    assert_eq!(error, expected);
}
