//! People are told of dead emails, also when a channel or the server was down.

use std::collections::BTreeMap;

use posthaste_testkit::{Received, Receiver};

use crate::backend::{Backend, on_every_backend};
use crate::support::{a_sink, email_to, metric, run, submit, until, verify};

on_every_backend! {
    three_channels_are_told_and_one_that_was_down_is_told_later,
}

const KEY: &str = "0123456789abcdef0123456789abcdef";
const SECRET: &str = "whsec_BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=";

fn deaths(webhooks: &[Received]) -> u64 {
    let count = |one: &Received| one.json()["data"]["count"].as_u64().unwrap();
    webhooks.iter().map(count).sum()
}

async fn three_channels_are_told_and_one_that_was_down_is_told_later(backend: &Backend) {
    let receiver = Receiver::start().await;
    receiver.answer("/slack/token", 200, &[], "ok");
    receiver.answer("/pagerduty", 503, &[], "");
    let sink = a_sink().await;
    let mut server = backend
        .sending_to(&sink)
        .env("SERVICE_NAME", "billing")
        .env("POSTHASTE_ALERTS__GATHER", "200ms")
        .env("POSTHASTE_ALERTS__EVERY", "1s")
        .env("POSTHASTE_ALERTS__LONGEST", "2s")
        .env(
            "POSTHASTE_ALERTS__DASHBOARD_URL",
            "https://mail.example.org",
        )
        .env("POSTHASTE_ALERTS__SLACK__URL", receiver.url("/slack/token"))
        .env("POSTHASTE_ALERTS__PAGERDUTY__ROUTING_KEY", KEY)
        .env(
            "POSTHASTE_ALERTS__PAGERDUTY__URL",
            receiver.url("/pagerduty"),
        )
        .env("POSTHASTE_ALERTS__WEBHOOK__URL", receiver.url("/webhook"))
        .env("POSTHASTE_ALERTS__WEBHOOK__SECRET", SECRET)
        .start()
        .await;
    for recipient in ["reject@example.org", "spam@example.org"] {
        let id = submit(&server, &email_to(recipient)).await;
        until(&server, &id, "dead").await;
    }
    let webhooks = receiver.wait_for("/webhook", |all| deaths(all) == 2).await;
    let first = webhooks[0].json();
    assert_eq!(first["type"], "email.dead_lettered");
    assert_eq!(first["data"]["service"], "billing");
    assert!(!first.to_string().contains("@example.org"), "{first}");
    let slack = receiver
        .wait_for("/slack/token", |all| !all.is_empty())
        .await;
    let text = slack[0].json()["text"].to_string();
    assert!(text.contains("dead letter queue"), "{text}");

    // PagerDuty is away, and mail flows.
    receiver.wait_for("/pagerduty", |all| !all.is_empty()).await;
    let id = submit(&server, &email_to("ann@example.org")).await;
    until(&server, &id, "sent").await;
    while metric(
        &server,
        r#"posthaste_alerts_total{channel="pagerduty",outcome="failed"}"#,
    )
    .await
        < 1.0
    {
        tokio::task::yield_now().await;
    }
    let doctor = run(&server, &["doctor"]).await;
    assert_eq!(doctor.code, 1, "{}", doctor.stdout);
    let problem = "alerts: pagerduty";
    let line = doctor.stdout.lines().find(|line| line.contains(problem));
    assert!(
        line.unwrap().contains("503 Service Unavailable"),
        "{line:?}"
    );

    // It is told all of it, whatever happened in between.
    server.kill9();
    server.restart(&[]).await;
    let id = submit(&server, &email_to("reject@example.org")).await;
    until(&server, &id, "dead").await;
    receiver.wait_for("/webhook", |all| deaths(all) == 3).await;
    receiver.answer("/pagerduty", 202, &[], "{}");
    // What failed is told again as it was, and what came later in another alert.
    let told = |all: &[Received]| {
        let alerts = all.iter().map(|one| {
            let details = &one.json()["payload"]["custom_details"];
            (details["alert"].to_string(), details["emails"].as_u64())
        });
        let alerts: BTreeMap<_, _> = alerts.collect();
        alerts.into_values().sum::<Option<u64>>() == Some(3)
    };
    let events = receiver.wait_for("/pagerduty", told).await;
    assert_eq!(events[0].json()["routing_key"], KEY);
    assert_eq!(
        events[0].json()["dedup_key"],
        events.last().unwrap().json()["dedup_key"],
        "one incident"
    );

    let tested = run(&server, &["doctor", "--alert"]).await;
    assert_eq!(tested.code, 0, "{}", tested.stdout);
    let last = receiver.received("/webhook").pop().unwrap().json();
    assert_eq!(last["type"], "alert.test");
    let shown = run(&server, &["config", "show"]).await.stdout;
    for place in [server.log(), shown, doctor.stdout, tested.stdout] {
        for secret in [KEY, SECRET, "slack/token"] {
            assert!(!place.contains(secret), "{secret} in {place}");
        }
    }
    verify(&server).await;
}
