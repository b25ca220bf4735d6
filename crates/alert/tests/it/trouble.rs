//! What goes wrong on the way to any channel.

use posthaste_alert::Slack;
use posthaste_core::port::AlertChannel as _;

use crate::receiver::{PATH, alert, answering, group};

async fn error_of(url: &str) -> String {
    let slack = Slack::new(url).unwrap();
    let told = slack.tell(&alert(vec![group("550 no", 1)])).await;
    let error = told.unwrap_err();
    assert!(!error.contains("secret-token"), "{error}");
    assert!(!format!("{slack:?}").contains("secret-token"));
    error
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = answering(200, &[], "ok").await;
    let receiver = answering(307, &[("location", &elsewhere.url(PATH))], "").await;
    let error = error_of(&receiver.url(PATH)).await;
    assert!(error.contains("redirects are not followed"), "{error}");
    assert_eq!(elsewhere.received(PATH).len(), 0);
}

#[tokio::test]
async fn a_channel_in_trouble_is_tried_again() {
    for status in [429, 500, 503] {
        let receiver = answering(status, &[], &"<html> ".repeat(9_999)).await;
        let error = error_of(&receiver.url(PATH)).await;
        assert!(error.contains("tried again by itself"), "{error}");
        assert!(error.chars().count() < 400, "{error}");
    }
}

#[tokio::test]
async fn a_channel_that_is_not_there_is_an_error() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = error_of(&format!("http://{address}/hook/secret-token")).await;
    assert!(error.contains("cannot reach it"), "{error}");
}

#[test]
fn a_url_that_gives_secrets_away_is_refused() {
    for url in [
        "",
        "hooks.slack.com/x",
        "ftp://example.org/",
        "http://example.org/secret-token",
    ] {
        let error = Slack::new(url).unwrap_err().to_string();
        assert!(error.contains("https://"), "{error}");
        assert!(!error.contains("secret-token"));
    }
    Slack::new("https://hooks.slack.com/services/T0/B0/x").unwrap();
}
