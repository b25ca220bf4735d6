//! AUTH PLAIN and AUTH LOGIN.

use posthaste_sink::{Credentials, Sink};

use crate::client::{Client, sink_with};

/// `\0user\0secret`, `\0user\0wrong`, `user`, `secret` in base64.
const RIGHT: &str = "AHVzZXIAc2VjcmV0";
const WRONG: &str = "AHVzZXIAd3Jvbmc=";
const USER: &str = "dXNlcg==";
const PASSWORD: &str = "c2VjcmV0";

async fn guarded_sink() -> Sink {
    sink_with(|config| config.credentials = Some(Credentials::new("user", "secret"))).await
}

#[tokio::test]
async fn mail_needs_authentication_where_credentials_are_set() {
    let sink = guarded_sink().await;
    let mut client = Client::dial(&sink).await;
    assert!(client.hello().await.ends_with("250 AUTH PLAIN LOGIN"));
    client.expect("MAIL FROM:<a@x>", "530 5.7.0 ").await;
}

#[tokio::test]
async fn plain_is_accepted_with_and_without_an_initial_response() {
    let sink = guarded_sink().await;
    let mut client = Client::greet(&sink).await;
    client
        .expect(&format!("AUTH PLAIN {RIGHT}"), "235 2.7.0 ")
        .await;
    assert!(client.deliver("a", &["bob@x"]).await.starts_with("250 "));
    assert_eq!(sink.messages()[0].user.as_deref(), Some("user"));

    let mut client = Client::greet(&sink).await;
    assert_eq!(client.ask("auth plain").await, "334");
    client.expect(RIGHT, "235 2.7.0 ").await;
    client.expect("AUTH PLAIN", "503 5.5.1 ").await;
}

#[tokio::test]
async fn login_is_accepted_with_and_without_an_initial_response() {
    let sink = guarded_sink().await;
    let mut client = Client::greet(&sink).await;
    client.expect("AUTH LOGIN", "334 VXNlcm5hbWU6").await;
    client.expect(USER, "334 UGFzc3dvcmQ6").await;
    client.expect(PASSWORD, "235 2.7.0 ").await;

    let mut client = Client::greet(&sink).await;
    client
        .expect(&format!("AUTH LOGIN {USER}"), "334 UGFzc3dvcmQ6")
        .await;
    client.expect(PASSWORD, "235 2.7.0 ").await;
}

#[tokio::test]
async fn wrong_credentials_are_refused_and_may_be_tried_again() {
    let sink = guarded_sink().await;
    let mut client = Client::greet(&sink).await;
    client
        .expect(&format!("AUTH PLAIN {WRONG}"), "535 5.7.8 ")
        .await;
    client.expect("MAIL FROM:<a@x>", "530 5.7.0 ").await;
    client
        .expect(&format!("AUTH PLAIN {RIGHT}"), "235 2.7.0 ")
        .await;
    client.expect("MAIL FROM:<a@x>", "250 ").await;
}

#[tokio::test]
async fn a_broken_exchange_is_refused() {
    let sink = guarded_sink().await;
    let mut client = Client::greet(&sink).await;
    client.expect("AUTH", "501 5.5.4 ").await;
    client.expect("AUTH CRAM-MD5", "504 5.5.4 ").await;
    client.expect("AUTH PLAIN %%", "501 5.5.2 ").await;
    client.expect("AUTH PLAIN =", "501 5.5.2 ").await;
    client.expect("AUTH PLAIN", "334").await;
    client.expect("*", "501 5.7.0 ").await;
    client.expect("NOOP", "250 ").await;
}

#[test]
fn a_password_is_not_shown_by_debug() {
    let shown = format!("{:?}", Credentials::new("user", "secret"));
    assert!(
        shown.contains("user") && !shown.contains("secret"),
        "{shown}"
    );
}
