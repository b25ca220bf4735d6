//! The only way out is down for far longer than any email may be tried: nothing is lost, nothing is
//! spent, and it is asked by one at a time.

use posthaste_sink::{Mode, Sink};
use posthaste_testkit::process::{Posthaste, PosthasteBuilder};
use posthaste_testkit::{Received, Receiver};
use serde_json::Value;

use crate::backend::{Backend, on_every_backend};
use crate::support::{a_sink, copies, eventually, get, metric, run, text, until, verify};
use crate::ways_support::{
    a_guarded_sink, all_emails, counted, emails_to_many, is_parked, quick, submit_all,
    until_all_are_parked, until_count, until_transport, url_with_password,
};

on_every_backend! {
    an_outage_spends_nothing_and_everything_is_delivered_once,
    without_breakers_the_same_outage_kills,
    the_death_of_whoever_tests_the_way_does_not_keep_it_stopped,
    a_wrong_password_kills_few_and_the_rest_waits_until_it_is_mended,
}

const EMAILS: usize = 60;
const SECRET: &str = "whsec_BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=";

/// Three attempts, half a second apart; in silence, the server is given up after a moment.
fn three_attempts(builder: PosthasteBuilder) -> PosthasteBuilder {
    quick(builder)
        .env("MAX_ATTEMPTS", "3")
        .env("BACKOFF_SCHEDULE", "500ms")
        .env("POSTHASTE_SMTP__COMMAND_TIMEOUT", "300ms")
}

/// Waits until the sink has had so many more connections, and gives how many were open at once.
async fn most_open_during(sink: &Sink, connections: u64) -> u64 {
    let until = sink.report().connections + connections;
    let mut most = 0;
    loop {
        let report = sink.report();
        most = most.max(report.open_connections);
        if report.connections >= until {
            return most;
        }
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}

async fn is_delivered_once(server: &Posthaste, sink: &Sink, ids: &[String]) {
    for (n, id) in ids.iter().enumerate() {
        let sent = until(server, id, "sent").await;
        assert_eq!(sent["attempt_count"], 0, "{sent}");
        assert!(!counted(&sent).contains(&true), "{sent}");
        let to = format!("user{n}@d{n}.example.org");
        assert_eq!(copies(sink, id, &to), 1, "{sent}");
    }
}

async fn an_outage_spends_nothing_and_everything_is_delivered_once(backend: &Backend) {
    let sink = a_sink().await;
    let server = three_attempts(backend.sending_to(&sink)).start().await;
    outlives_an_outage(&sink, &server).await;
}

/// Two senders, one breaker.
#[tokio::test]
async fn two_senders_share_one_breaker() {
    for backend in [
        Backend::postgres().await,
        Backend::postgres_and_rabbitmq().await,
    ] {
        let sink = a_sink().await;
        let (one, _other) = tokio::join!(
            three_attempts(backend.sending_to(&sink)).start(),
            three_attempts(backend.sending_to(&sink)).start()
        );
        outlives_an_outage(&sink, &one).await;
    }
}

async fn outlives_an_outage(sink: &Sink, server: &Posthaste) {
    sink.set_mode(Mode::RefuseConnections);
    let ids = submit_all(server, &emails_to_many(EMAILS)).await;
    until_all_are_parked(server, EMAILS).await;

    // Silence this time. One at a time tests it, for many times the whole schedule of a second.
    sink.set_mode(Mode::HangAll);
    eventually("old connections are gone", async || {
        sink.report().open_connections <= 1
    })
    .await;
    assert_eq!(most_open_during(sink, 12).await, 1);
    let emails = all_emails(server).await;
    assert_eq!(emails.len(), EMAILS);
    for email in emails.values() {
        assert_eq!(email["attempt_count"], 0, "{email}");
        if is_parked(email) {
            assert_eq!(email["status_text"], "Waiting for smtp", "{email}");
        }
    }
    let attempts = get(server, &format!("/v1/emails/{}", ids[0])).await.body;
    assert!(!counted(&attempts).contains(&true), "{attempts}");
    // It is counted once in a while.
    let many_wait = |shown: &Value| shown["waiting"].as_u64() >= Some((EMAILS - 1) as u64);
    let shown = server.wait_for("/v1/transports/smtp", many_wait).await;
    assert!(
        ["stopped", "probing"].contains(&shown["state"].as_str().unwrap()),
        "{shown}"
    );
    assert!(shown["last_error"].is_string(), "{shown}");
    eventually("the gauges follow", async || {
        let waiting = r#"posthaste_emails_waiting_for_transport{transport="smtp"}"#;
        let stopped = r#"posthaste_transport_state{transport="smtp",state="stopped"} 1"#;
        let probing = r#"posthaste_transport_state{transport="smtp",state="probing"} 1"#;
        let metrics = text(server, "/metrics").await;
        let is_down = metrics.contains(stopped) || metrics.contains(probing);
        is_down && metric(server, waiting).await >= (EMAILS - 1) as f64
    })
    .await;
    assert_eq!(
        metric(
            server,
            r#"posthaste_dead_total{reason="MaxAttemptsExceeded"}"#
        )
        .await,
        0.0
    );

    sink.set_mode(Mode::Normal);
    is_delivered_once(server, sink, &ids).await;
    assert_eq!(sink.accepted(), EMAILS as u64);
    until_transport(server, "smtp", "flowing").await;
    let nobody_waits = |shown: &Value| shown["waiting"] == 0;
    server.wait_for("/v1/transports/smtp", nobody_waits).await;
    verify(server).await;
}

async fn without_breakers_the_same_outage_kills(backend: &Backend) {
    let sink = a_sink().await;
    let server = three_attempts(backend.sending_to(&sink))
        .env("POSTHASTE_BREAKER__ENABLED", "false")
        .start()
        .await;
    sink.set_mode(Mode::RefuseConnections);
    submit_all(&server, &emails_to_many(EMAILS)).await;
    let is_dead = |email: &Value| {
        email["status"] == "dead"
            && email["dead_reason"] == "MaxAttemptsExceeded"
            && email["attempt_count"] == 3
    };
    until_count(&server, EMAILS, is_dead).await;
    verify(&server).await;
}

async fn the_death_of_whoever_tests_the_way_does_not_keep_it_stopped(backend: &Backend) {
    let sink = a_sink().await;
    let mut server = three_attempts(backend.sending_to(&sink))
        .env("POSTHASTE_SMTP__COMMAND_TIMEOUT", "60s")
        .start()
        .await;
    sink.set_mode(Mode::RefuseConnections);
    let ids = submit_all(&server, &emails_to_many(20)).await;
    until_all_are_parked(&server, 20).await;
    sink.set_mode(Mode::HangAll);
    // It hangs in the middle of its test.
    until_transport(&server, "smtp", "probing").await;
    eventually("it is connected", async || {
        sink.report().open_connections >= 1
    })
    .await;
    server.kill9();
    sink.set_mode(Mode::Normal);
    server.restart(&[]).await;
    for (n, id) in ids.iter().enumerate() {
        until(&server, id, "sent").await;
        assert_eq!(copies(&sink, id, &format!("user{n}@d{n}.example.org")), 1);
    }
    verify(&server).await;
}

/// The same with another process that goes on.
#[tokio::test]
async fn another_process_takes_over_from_one_that_died_testing() {
    for backend in [
        Backend::postgres().await,
        Backend::postgres_and_rabbitmq().await,
    ] {
        let sink = a_sink().await;
        let start = || {
            three_attempts(backend.sending_to(&sink)).env("POSTHASTE_SMTP__COMMAND_TIMEOUT", "60s")
        };
        let (one, other) = tokio::join!(start().start(), start().start());
        sink.set_mode(Mode::RefuseConnections);
        let ids = submit_all(&one, &emails_to_many(20)).await;
        until_all_are_parked(&one, 20).await;
        sink.set_mode(Mode::HangAll);
        until_transport(&one, "smtp", "probing").await;
        eventually("it is connected", async || {
            sink.report().open_connections >= 1
        })
        .await;
        let sending = one
            .wait_for("/v1/emails?status=sending", |page| {
                !page["data"].as_array().unwrap().is_empty()
            })
            .await;
        let id = sending["data"][0]["id"].as_str().unwrap().to_owned();
        // The last of the two to have said so.
        let tests = |server: &Posthaste| {
            let log = server.log();
            let line = log
                .lines()
                .rfind(|line| line.contains("this email tests the way out") && line.contains(&id));
            line.and_then(|line| {
                let line: Value = serde_json::from_str(line).ok()?;
                Some(line["timestamp"].as_str()?.to_owned())
            })
        };
        let (mut dead, alive) = if tests(&one) > tests(&other) {
            (one, other)
        } else {
            (other, one)
        };
        dead.kill9();
        sink.set_mode(Mode::Normal);
        for (n, id) in ids.iter().enumerate() {
            until(&alive, id, "sent").await;
            assert_eq!(copies(&sink, id, &format!("user{n}@d{n}.example.org")), 1);
        }
        verify(&alive).await;
    }
}

async fn a_wrong_password_kills_few_and_the_rest_waits_until_it_is_mended(backend: &Backend) {
    let (sink, receiver) = (a_guarded_sink().await, Receiver::start().await);
    let mut server = quick(backend.sending_to(&sink))
        .env("SMTP_URL", url_with_password(&sink, "rotated"))
        // Nobody tests it by itself while this scenario lasts.
        .env("POSTHASTE_BREAKER__FIRST_PROBE", "1h")
        .env("POSTHASTE_BREAKER__LONGEST_PROBE", "1h")
        .env("POSTHASTE_ALERTS__GATHER", "1s")
        .env("POSTHASTE_ALERTS__EVERY", "1h")
        .env("POSTHASTE_ALERTS__LONGEST", "1h")
        .env("POSTHASTE_ALERTS__WEBHOOK__URL", receiver.url("/alerts"))
        .env("POSTHASTE_ALERTS__WEBHOOK__SECRET", SECRET)
        .start()
        .await;
    submit_all(&server, &emails_to_many(40)).await;
    let is_settled = |email: &Value| email["status"] == "dead" || is_parked(email);
    until_count(&server, 40, is_settled).await;
    let emails = all_emails(&server).await;
    let dead: Vec<_> = emails
        .values()
        .filter(|email| email["status"] == "dead")
        .collect();
    assert!((1..=5).contains(&dead.len()), "{} are dead", dead.len());
    for email in &dead {
        assert_eq!(email["dead_reason"], "AuthenticationFailed", "{email}");
    }
    let told = |all: &[Received]| {
        let deaths: u64 = all
            .iter()
            .map(|one| one.json()["data"]["count"].as_u64().unwrap())
            .sum();
        deaths == dead.len() as u64
    };
    let alerts = receiver.wait_for("/alerts", told).await;
    assert_eq!(alerts.len(), 1, "one alert: {alerts:?}");
    let alert = alerts[0].json();
    let groups = alert["data"]["groups"].as_array().unwrap();
    assert!(
        groups
            .iter()
            .any(|group| group["reason"] == "TransportStopped"),
        "{alert}"
    );
    assert!(
        groups
            .iter()
            .any(|group| group["reason"] == "AuthenticationFailed"),
        "{alert}"
    );

    server
        .restart(&[("SMTP_URL", &url_with_password(&sink, "right"))])
        .await;
    let resumed = run(&server, &["transports", "resume", "smtp"]).await;
    assert_eq!(resumed.code, 0, "{}", resumed.stderr);
    until_count(&server, 40 - dead.len(), |email| email["status"] == "sent").await;
    assert_eq!(sink.accepted(), (40 - dead.len()) as u64);
    assert!(sink.duplicates().is_empty());
    verify(&server).await;
}
