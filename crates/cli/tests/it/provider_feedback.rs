//! What a provider says later, signed as Resend signs: it settles, it kills, it never undoes.

use posthaste_testkit::process::Posthaste;
use posthaste_testkit::{Provider, ProviderAnswer, webhook_headers};
use serde_json::{Value, json};

use crate::backend::{Backend, on_every_backend};
use crate::support::{email_to, get, outcomes, run, submit, until, verify};
use crate::ways_support::{WEBHOOK_SECRET, post_event, says, transport, with_provider};

on_every_backend! {
    a_delivered_email_of_unknown_fate_is_sent,
    a_bounce_kills_and_nothing_undoes_it,
    a_complaint_is_graver_than_a_delivery,
    what_is_not_signed_as_it_should_is_not_believed,
    what_is_said_of_no_email_of_ours_changes_nothing,
}

async fn email(server: &Posthaste, id: &str) -> Value {
    get(server, &format!("/v1/emails/{id}")).await.body
}

/// Addresses that get nothing any more, and why.
async fn suppressed(server: &Posthaste) -> Vec<(String, String)> {
    let page = get(server, "/v1/suppressions").await.body;
    let text = |entry: &Value, key: &str| entry[key].as_str().unwrap().to_owned();
    let entries = page["data"].as_array().unwrap().iter();
    entries
        .map(|entry| (text(entry, "address"), text(entry, "reason")))
        .collect()
}

async fn a_delivered_email_of_unknown_fate_is_sent(backend: &Backend) {
    let provider = Provider::start();
    let config = with_provider(&provider);
    let mut server = config
        .of(backend.posthaste())
        .env("LEASE_SECONDS", "1")
        .env("POSTHASTE_RETRY__ON_UNKNOWN", "hold")
        .start()
        .await;
    provider.answer("ann@example.org", [ProviderAnswer::TakenInSilence]);
    let id = submit(&server, &email_to("ann@example.org")).await;
    provider.wait_for_requests(&id, 1).await;
    // Whoever sent it dies before the answer: nobody knows.
    server.kill9();
    server.restart(&[]).await;
    until(&server, &id, "unknown").await;

    let summary = says(
        &server,
        "resend",
        &provider.taken_of(&id),
        "email.delivered",
    )
    .await;
    assert_eq!(summary["recorded"], 1, "{summary}");
    let sent = email(&server, &id).await;
    assert_eq!(sent["status"], "sent", "{sent}");
    assert_eq!(provider.requests_of(&id).len(), 1, "it was not sent again");
    // Again is once.
    let summary = says(
        &server,
        "resend",
        &provider.taken_of(&id),
        "email.delivered",
    )
    .await;
    assert_eq!(
        (&summary["recorded"], &summary["unchanged"]),
        (&json!(0), &json!(1))
    );
    verify(&server).await;
}

async fn a_bounce_kills_and_nothing_undoes_it(backend: &Backend) {
    let provider = Provider::start();
    let config = with_provider(&provider);
    let server = config.of(backend.posthaste()).start().await;
    assert_eq!(transport(&server, "resend").await["listens"], true);
    let id = submit(&server, &email_to("Gone@Example.org")).await;
    let sent = until(&server, &id, "sent").await;
    let taken = provider.taken_of(&id);
    assert_eq!(
        sent["attempts"][0]["provider_id"],
        taken.id.as_str(),
        "{sent}"
    );
    says(&server, "resend", &taken, "email.bounced").await;
    let dead = email(&server, &id).await;
    assert_eq!(
        (&dead["status"], &dead["dead_reason"]),
        (&json!("dead"), &json!("HardBounce"))
    );
    assert!(
        dead["last_error"]
            .as_str()
            .unwrap()
            .contains("does not exist"),
        "{dead}"
    );
    let entry = ("gone@example.org".to_owned(), "HardBounce".to_owned());
    assert_eq!(suppressed(&server).await, [entry]);

    let summary = says(&server, "resend", &taken, "email.delivered").await;
    assert_eq!(summary["unchanged"], 1, "{summary}");
    assert_eq!(email(&server, &id).await["status"], "dead");

    // The next one gets no connection.
    let next = submit(&server, &email_to("gone@example.org")).await;
    let dead = until(&server, &next, "dead").await;
    assert_eq!(dead["dead_reason"], "HardBounce", "{dead}");
    assert_eq!(outcomes(&dead), ["permanent"]);
    assert_eq!(provider.requests_of(&next).len(), 0);

    // Until someone takes it off the list.
    let removed = run(&server, &["suppressions", "remove", "gone@example.org"]).await;
    assert_eq!(removed.code, 0, "{}", removed.stderr);
    let last = submit(&server, &email_to("gone@example.org")).await;
    until(&server, &last, "sent").await;
    verify(&server).await;
}

async fn a_complaint_is_graver_than_a_delivery(backend: &Backend) {
    let provider = Provider::start();
    let config = with_provider(&provider);
    let server = config.of(backend.posthaste()).start().await;
    let id = submit(&server, &email_to("angry@example.org")).await;
    until(&server, &id, "sent").await;
    let taken = provider.taken_of(&id);
    for (kind, status) in [
        ("email.delivered", "sent"),
        ("email.complained", "dead"),
        ("email.delivered", "dead"),
        ("email.opened", "dead"),
    ] {
        says(&server, "resend", &taken, kind).await;
        assert_eq!(email(&server, &id).await["status"], status, "after {kind}");
    }
    assert_eq!(email(&server, &id).await["dead_reason"], "SpamComplaint");
    let entry = ("angry@example.org".to_owned(), "SpamComplaint".to_owned());
    assert_eq!(suppressed(&server).await, [entry]);
    let dead_letters = get(&server, "/v1/dead-letters").await.body;
    assert_eq!(dead_letters["data"][0]["id"], id.as_str());
    verify(&server).await;
}

async fn what_is_not_signed_as_it_should_is_not_believed(backend: &Backend) {
    let provider = Provider::start();
    let config = with_provider(&provider);
    let server = config.of(backend.posthaste()).start().await;
    let id = submit(&server, &email_to("ann@example.org")).await;
    until(&server, &id, "sent").await;
    let body = provider.taken_of(&id).event("email.bounced").to_string();
    let now = jiff::Timestamp::now().as_second();
    let other_secret = "whsec_BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=";
    let good = webhook_headers(WEBHOOK_SECRET, now, &body);
    let altered = body.replace("Permanent", "permanent");
    for (what, headers, body) in [
        (
            "another secret",
            webhook_headers(other_secret, now, &body).to_vec(),
            &body,
        ),
        (
            "an hour ago",
            webhook_headers(WEBHOOK_SECRET, now - 3_600, &body).to_vec(),
            &body,
        ),
        ("no signature", good[..2].to_vec(), &body),
        ("nothing", Vec::new(), &body),
        ("altered", good.to_vec(), &altered),
    ] {
        let answer = post_event(&server, "resend", &headers, body).await;
        assert_eq!(answer.status, 401, "{what}: {}", answer.body);
        assert!(
            !answer.body.to_string().contains("ann@"),
            "{what}: {}",
            answer.body
        );
    }
    assert_eq!(email(&server, &id).await["status"], "sent");
    assert_eq!(suppressed(&server).await, []);
    let nobody = post_event(&server, "smtp", &good, &body).await;
    assert_eq!(nobody.status, 404, "{}", nobody.body);
    assert_eq!(
        post_event(&server, "resend", &good, &body).await.status,
        200
    );
    assert_eq!(email(&server, &id).await["status"], "dead");
    for secret in [WEBHOOK_SECRET, Provider::API_KEY] {
        assert!(!server.log().contains(secret), "{}", server.log());
    }
    verify(&server).await;
}

async fn what_is_said_of_no_email_of_ours_changes_nothing(backend: &Backend) {
    let provider = Provider::start();
    let config = with_provider(&provider);
    let server = config.of(backend.posthaste()).start().await;
    let id = submit(&server, &email_to("ann@example.org")).await;
    until(&server, &id, "sent").await;
    let mut stranger = provider.taken_of(&id);
    stranger.id = "0b5e55ed-0000-0000-0000-ffffffffffff".to_owned();
    stranger.request.body["tags"] = json!([]);
    let summary = says(&server, "resend", &stranger, "email.bounced").await;
    assert_eq!(
        (&summary["recorded"], &summary["not_ours"]),
        (&json!(0), &json!(1)),
        "{summary}"
    );
    // Someone else's address on an email of ours.
    let mut other = provider.taken_of(&id);
    other.request.body["to"] = json!(["victim@example.org"]);
    let summary = says(&server, "resend", &other, "email.complained").await;
    assert_eq!(summary["recorded"], 0, "{summary}");
    assert_eq!(email(&server, &id).await["status"], "sent");
    assert_eq!(suppressed(&server).await, []);
    verify(&server).await;
}
