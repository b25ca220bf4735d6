//! Several ways out: another one when the first is down, and back; never two copies.

use posthaste_sink::Mode;
use posthaste_testkit::process::Posthaste;
use posthaste_testkit::{Provider, Received, Receiver};
use serde_json::{Value, json};

use crate::backend::{Backend, on_every_backend};
use crate::support::{
    a_sink, copies, email_to, eventually, outcomes, post, run, submit, until, verify,
};
use crate::ways_support::{
    ConfigFile, a_guarded_sink, copies_in_all, counted, emails_to_many, quick, submit_all,
    transports, until_count, until_transport, url_with_password, with_backup,
};

on_every_backend! {
    while_the_primary_is_down_the_secondary_delivers_and_then_gives_back,
    a_wrong_password_at_the_primary_kills_nothing_while_there_is_a_secondary,
    what_the_primary_may_have_sent_is_sent_by_no_other,
}

const SECRET: &str = "whsec_BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=";

/// What people were told of ways out: the kinds of news and their words.
fn news(webhooks: &[Received]) -> Vec<(String, String)> {
    let groups = webhooks.iter().flat_map(|one| {
        let groups = one.json()["data"]["groups"].as_array().cloned();
        groups.unwrap_or_default()
    });
    let word = |group: &Value, key: &str| group[key].as_str().unwrap_or_default().to_owned();
    let told = groups.map(|group| (word(&group, "reason"), word(&group, "error")));
    told.filter(|(reason, _)| reason.starts_with("Transport"))
        .collect()
}

async fn while_the_primary_is_down_the_secondary_delivers_and_then_gives_back(backend: &Backend) {
    let (sink, provider, receiver) = (a_sink().await, Provider::start(), Receiver::start().await);
    let config = with_backup(&provider);
    let server = quick(config.of(backend.sending_to(&sink)))
        .env("POSTHASTE_ALERTS__GATHER", "200ms")
        .env("POSTHASTE_ALERTS__EVERY", "1s")
        .env("POSTHASTE_ALERTS__LONGEST", "1s")
        .env("POSTHASTE_ALERTS__WEBHOOK__URL", receiver.url("/alerts"))
        .env("POSTHASTE_ALERTS__WEBHOOK__SECRET", SECRET)
        .start()
        .await;
    sink.set_mode(Mode::RefuseConnections);
    let emails = emails_to_many(30);
    let mut ids = submit_all(&server, &emails).await;
    until_count(&server, 30, |email| email["status"] == "sent").await;
    for id in &ids {
        let sent = until(&server, id, "sent").await;
        assert_eq!(sent["attempt_count"], 0, "{sent}");
        let ways = transports(&sent);
        let (last, before) = ways.split_last().unwrap();
        assert_eq!(*last, "backup", "{sent}");
        assert!(before.iter().all(|way| *way == "smtp"), "{sent}");
        // What the way did is not counted.
        assert!(!counted(&sent).contains(&true), "{sent}");
    }
    assert_eq!((sink.accepted(), provider.taken()), (0, 30));
    let stopped = |all: &[Received]| {
        let told = news(all);
        told.iter()
            .any(|(reason, words)| reason == "TransportStopped" && words.contains("smtp"))
    };
    receiver.wait_for("/alerts", stopped).await;

    sink.set_mode(Mode::Normal);
    // One of those that come tests it, and then more and more go by it.
    eventually("an email goes by the primary", async || {
        let id = submit(&server, &email_to("back@example.org")).await;
        until(&server, &id, "sent").await;
        sink.accepted() > 0
    })
    .await;
    until_transport(&server, "smtp", "flowing").await;
    let by_backup = provider.taken();
    for n in 0..5 {
        let id = submit(&server, &email_to(&format!("later{n}@example.org"))).await;
        let sent = until(&server, &id, "sent").await;
        assert_eq!(transports(&sent), ["smtp"], "{sent}");
        ids.push(id);
    }
    assert_eq!(provider.taken(), by_backup);
    let recovered = |all: &[Received]| {
        let told = news(all);
        told.iter()
            .any(|(reason, _)| reason == "TransportRecovered")
    };
    receiver.wait_for("/alerts", recovered).await;

    assert!(sink.duplicates().is_empty(), "{:?}", sink.duplicates());
    for (id, email) in ids.iter().zip(&emails) {
        let to = email["to"].as_str().unwrap();
        assert_eq!(copies_in_all(&sink, &provider, id, to), 1, "{id}");
    }
    let all = until_total(&server).await;
    assert_eq!(
        sink.accepted() + provider.taken() as u64,
        all,
        "each one once"
    );
    verify(&server).await;
}

/// How many emails there are; all of them are sent.
async fn until_total(server: &Posthaste) -> u64 {
    let is_over = |stats: &Value| {
        let emails = stats["emails"].as_object().unwrap();
        emails
            .iter()
            .all(|(status, count)| status == "sent" || *count == 0)
    };
    let stats = server.wait_for("/v1/stats", is_over).await;
    stats["emails"]["sent"].as_u64().unwrap()
}

async fn a_wrong_password_at_the_primary_kills_nothing_while_there_is_a_secondary(
    backend: &Backend,
) {
    let (sink, provider) = (a_guarded_sink().await, Provider::start());
    let config = with_backup(&provider);
    let server = quick(config.of(backend.sending_to(&sink)))
        .env("SMTP_URL", url_with_password(&sink, "wrong"))
        .start()
        .await;
    let ids = submit_all(&server, &emails_to_many(10)).await;
    for id in &ids {
        let sent = until(&server, id, "sent").await;
        assert_eq!(sent["attempt_count"], 0, "{sent}");
        assert_eq!(provider.copies(id), 1);
    }
    let first = until(&server, &ids[0], "sent").await;
    if transports(&first).len() > 1 {
        assert_eq!(first["attempts"][0]["error_class"], "authentication_failed");
    }
    let troubled = run(&server, &["transports", "list", "--json"]).await.stdout;
    let smtp: Value = troubled
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .find(|entry| entry["name"] == "smtp")
        .unwrap();
    assert_ne!(smtp["state"], "flowing", "{smtp}");
    assert!(
        smtp["last_error"].as_str().unwrap().contains("535"),
        "{smtp}"
    );
    assert_eq!(sink.accepted(), 0);
    verify(&server).await;
}

async fn what_the_primary_may_have_sent_is_sent_by_no_other(backend: &Backend) {
    let (sink, provider) = (a_sink().await, Provider::start());
    let config = with_backup(&provider);
    let server = quick(config.of(backend.sending_to(&sink)))
        .env("BACKOFF_SCHEDULE", "4s")
        .start()
        .await;
    let to = "drop-after-dot@example.org";
    let id = submit(&server, &email_to(to)).await;
    let uncertain = |email: &Value| outcomes(email) == ["unknown"];
    server.wait_for_email(&id, uncertain).await;
    assert_eq!(copies(&sink, &id, to), 1);

    // Now the primary goes down, and others take the secondary.
    sink.set_mode(Mode::RefuseConnections);
    for other in submit_all(&server, &emails_to_many(5)).await {
        until(&server, &other, "sent").await;
    }
    until_transport(&server, "smtp", "stopped").await;
    let waits = |email: &Value| email["waiting_for"] == "smtp";
    let parked = server.wait_for_email(&id, waits).await;
    assert_eq!(parked["status_text"], "Waiting for smtp", "{parked}");

    sink.set_mode(Mode::Normal);
    let held = until(&server, &id, "unknown").await;
    assert_eq!(outcomes(&held).first().unwrap(), "unknown", "{held}");
    assert_eq!(outcomes(&held).last().unwrap(), "unknown", "{held}");
    assert!(transports(&held).iter().all(|way| *way == "smtp"), "{held}");
    assert_eq!(held["possible_duplicate"], true, "{held}");
    assert_eq!(copies(&sink, &id, to), 2, "one, and one more on record");
    assert_eq!(provider.requests_of(&id).len(), 0);
    verify(&server).await;
}

#[tokio::test]
async fn a_weighted_route_splits_and_uses_the_other_when_one_is_paused() {
    let (backend, sink, provider) = (Backend::sqlite().await, a_sink().await, Provider::start());
    let config = ConfigFile::new(&format!(
        "{}[route.default]\norder = [\"smtp\"]\n[route.bulk]\nweights = {{ smtp = 70, backup = 30 }}\n",
        provider.section("backup")
    ));
    let server = config.of(backend.sending_to(&sink)).start().await;
    let bulk = |count| {
        let mut emails = emails_to_many(count);
        emails
            .iter_mut()
            .for_each(|email| email["route"] = json!("bulk"));
        emails
    };
    submit_all(&server, &bulk(200)).await;
    until_count(&server, 200, |email| email["status"] == "sent").await;
    // 140 are expected; five standard deviations either way.
    let by_smtp = sink.accepted();
    assert!((107..=173).contains(&by_smtp), "{by_smtp} of 200");
    assert_eq!(by_smtp + provider.taken() as u64, 200);

    let paused = post(&server, "/v1/transports/smtp/pause", &json!({})).await;
    assert_eq!(paused.status, 200, "{}", paused.body);
    let before = sink.accepted();
    for id in submit_all(&server, &bulk(40)).await {
        let sent = until(&server, &id, "sent").await;
        assert_eq!(transports(&sent), ["backup"], "{sent}");
    }
    assert_eq!(sink.accepted(), before);
    verify(&server).await;
}

#[tokio::test]
async fn an_email_or_its_template_chooses_a_route_that_must_be_there() {
    let (backend, sink, provider) = (Backend::sqlite().await, a_sink().await, Provider::start());
    let config = ConfigFile::new(&format!(
        "{}[route.default]\norder = [\"smtp\"]\n[route.important]\norder = [\"backup\"]\n",
        provider.section("backup")
    ));
    let server = config.of(backend.sending_to(&sink)).start().await;
    let template = json!({"subject": "Hello", "text": "It works.", "route": "important"});
    let request = server.request(reqwest::Method::PUT, "/v1/templates/welcome");
    let (status, _, body) = server.answer(request.json(&template)).await;
    assert!(status.is_success(), "{body}");
    assert_eq!(body["route"], "important", "{body}");

    let plain = email_to("ann@example.org");
    let mut chosen = plain.clone();
    chosen["route"] = json!("important");
    let rendered =
        json!({"from": "app@example.org", "to": "ann@example.org", "template": "welcome"});
    let mut overruled = rendered.clone();
    overruled["route"] = json!("default");
    for (email, route, way) in [
        (&plain, "default", "smtp"),
        (&chosen, "important", "backup"),
        (&rendered, "important", "backup"),
        (&overruled, "default", "smtp"),
    ] {
        let id = submit(&server, email).await;
        let sent = until(&server, &id, "sent").await;
        assert_eq!(sent["route"], route, "{sent}");
        assert_eq!(transports(&sent), [way], "{sent}");
    }

    let mut wrong = plain.clone();
    wrong["route"] = json!("importnat");
    let answer = post(&server, "/v1/emails", &wrong).await;
    assert_eq!(answer.status, 422, "{}", answer.body);
    let error = &answer.body["errors"][0];
    assert_eq!(error["field"], "route", "{error}");
    assert!(
        error["message"].as_str().unwrap().contains("important"),
        "{error}"
    );
    let template = json!({"subject": "Hello", "text": "It works.", "route": "nowhere"});
    let request = server.request(reqwest::Method::PUT, "/v1/templates/other");
    let (status, _, body) = server.answer(request.json(&template)).await;
    assert_eq!(
        (status.as_u16(), &body["errors"][0]["field"]),
        (422, &json!("route")),
        "{body}"
    );
    verify(&server).await;
}
