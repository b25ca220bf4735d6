//! Emails that wait for a way out: an operator may stop and start it by hand, and do with each of
//! them what one may do with any email.

use posthaste_sink::Mode;
use posthaste_testkit::process::Posthaste;
use serde_json::{Value, json};

use crate::backend::{Backend, on_every_backend};
use crate::inline::{id_in, inline};
use crate::support::{a_sink, copies, email_to, eventually, get, post, run, submit, until, verify};
use crate::ways_support::{
    emails_to_many, is_parked, quick, submit_all, until_all_are_parked, until_transport,
};

on_every_backend! {
    a_transport_is_paused_and_resumed_by_api,
    a_transport_is_paused_and_resumed_by_hand,
    what_waits_can_be_cancelled_retried_and_erased,
    a_caller_who_waits_is_answered_while_the_way_is_stopped,
}

/// Waits until the way out shows that so many wait for it; it counts once in a while.
async fn until_so_many_wait(server: &Posthaste, count: u64) {
    let waiting = |transport: &Value| transport["waiting"] == count;
    server.wait_for("/v1/transports/smtp", waiting).await;
}

async fn a_transport_is_paused_and_resumed_by_api(backend: &Backend) {
    let sink = a_sink().await;
    let server = quick(backend.sending_to(&sink)).start().await;
    let paused = post(&server, "/v1/transports/smtp/pause", &json!({})).await;
    assert_eq!(
        (paused.status, &paused.body["state"]),
        (200, &json!("paused")),
        "{}",
        paused.body
    );
    assert!(paused.body["paused_by"].is_string(), "{}", paused.body);
    let id = submit(&server, &email_to("ann@example.org")).await;
    let parked = server.wait_for_email(&id, is_parked).await;
    assert_eq!(parked["status_text"], "Waiting for smtp", "{parked}");
    assert_eq!(
        (&parked["waiting_for"], &parked["attempt_count"]),
        (&json!("smtp"), &json!(0))
    );
    until_so_many_wait(&server, 1).await;
    // Twice is once.
    let again = post(&server, "/v1/transports/smtp/pause", &json!({})).await;
    assert_eq!(
        (again.status, &again.body["state"]),
        (200, &json!("paused"))
    );
    assert_eq!(sink.report().connections, 0);

    let resumed = post(&server, "/v1/transports/smtp/resume", &json!({})).await;
    assert_eq!(resumed.status, 200, "{}", resumed.body);
    assert_ne!(resumed.body["state"], "paused", "{}", resumed.body);
    until(&server, &id, "sent").await;
    assert_eq!(copies(&sink, &id, "ann@example.org"), 1);
    let nobody = post(&server, "/v1/transports/nowhere/pause", &json!({})).await;
    assert_eq!(nobody.status, 404, "{}", nobody.body);
    let detail = nobody.body["detail"].as_str().unwrap();
    assert!(
        detail.contains("smtp"),
        "it names those that are there: {detail}"
    );
    let audit = get(&server, "/v1/audit").await.body.to_string();
    assert!(
        audit.contains("pause") && audit.contains("resume"),
        "{audit}"
    );
    verify(&server).await;
}

async fn a_transport_is_paused_and_resumed_by_hand(backend: &Backend) {
    let sink = a_sink().await;
    let server = quick(backend.sending_to(&sink)).start().await;
    let paused = run(&server, &["transports", "pause", "smtp"]).await;
    assert_eq!(paused.code, 0, "{}", paused.stderr);
    // The server looks once in a while.
    eventually("the server has noticed", async || {
        let id = submit(&server, &email_to("ann@example.org")).await;
        let over = |email: &Value| is_parked(email) || email["status"] == "sent";
        is_parked(&server.wait_for_email(&id, over).await)
    })
    .await;
    let listed = run(&server, &["transports", "list", "--json"]).await.stdout;
    let entry: Value = serde_json::from_str(listed.trim()).unwrap();
    assert_eq!(
        (&entry["name"], &entry["state"], &entry["waiting"]),
        (&json!("smtp"), &json!("paused"), &json!(1)),
        "{entry}"
    );
    let table = run(&server, &["transports", "list"]).await.stdout;
    assert!(
        table.contains("smtp") && table.contains("paused"),
        "{table}"
    );
    let resumed = run(&server, &["transports", "resume", "smtp"]).await;
    assert_eq!(resumed.code, 0, "{}", resumed.stderr);
    until_transport(&server, "smtp", "flowing").await;
    let all_sent =
        |stats: &Value| stats["emails"]["failed"] == 0 && stats["emails"]["sending"] == 0;
    server.wait_for("/v1/stats", all_sent).await;
    assert!(sink.duplicates().is_empty());
    let nobody = run(&server, &["transports", "pause", "nowhere"]).await;
    assert_eq!(nobody.code, 4, "{}", nobody.stderr);
    assert!(nobody.stderr.contains("smtp"), "{}", nobody.stderr);
    verify(&server).await;
}

async fn what_waits_can_be_cancelled_retried_and_erased(backend: &Backend) {
    let sink = a_sink().await;
    let server = quick(backend.sending_to(&sink)).start().await;
    post(&server, "/v1/transports/smtp/pause", &json!({})).await;
    let ids = submit_all(&server, &emails_to_many(5)).await;
    for id in &ids {
        server.wait_for_email(id, is_parked).await;
    }
    let cancelled = post(
        &server,
        &format!("/v1/emails/{}/cancel", ids[0]),
        &json!({}),
    )
    .await;
    assert_eq!(cancelled.status, 200, "{}", cancelled.body);
    // There is no way out, however often one asks.
    let retried = post(&server, &format!("/v1/emails/{}/retry", ids[1]), &json!({})).await;
    assert_eq!(retried.status, 200, "{}", retried.body);
    server.wait_for_email(&ids[1], is_parked).await;
    let path = format!("/v1/emails/{}/content", ids[0]);
    let (status, _, body) = server
        .answer(server.request(reqwest::Method::DELETE, &path))
        .await;
    assert!(status.is_success(), "{body}");
    let cancelled = until(&server, &ids[0], "cancelled").await;
    assert!(cancelled["erased_at"].is_string(), "{cancelled}");
    until_so_many_wait(&server, 4).await;

    post(&server, "/v1/transports/smtp/resume", &json!({})).await;
    for (n, id) in ids.iter().enumerate().skip(1) {
        until(&server, id, "sent").await;
        assert_eq!(copies(&sink, id, &format!("user{n}@d{n}.example.org")), 1);
    }
    assert_eq!(sink.accepted(), 4);
    verify(&server).await;
}

async fn a_caller_who_waits_is_answered_while_the_way_is_stopped(backend: &Backend) {
    let sink = a_sink().await;
    let server = quick(backend.sending_to(&sink))
        .env("POSTHASTE_BREAKER__FIRST_PROBE", "1h")
        .env("POSTHASTE_BREAKER__LONGEST_PROBE", "1h")
        .start()
        .await;
    sink.set_mode(Mode::RefuseConnections);
    submit_all(&server, &emails_to_many(20)).await;
    until_all_are_parked(&server, 20).await;
    sink.set_mode(Mode::Normal);
    let connections = sink.report().connections;
    let answer = post(&server, "/v1/emails", &inline(email_to("ann@example.org"))).await;
    assert_eq!(
        (answer.status, &answer.body["status"]),
        (202, &json!("failed")),
        "{}",
        answer.body
    );
    let id = id_in(&answer).to_owned();
    let parked = get(&server, &format!("/v1/emails/{id}")).await.body;
    assert_eq!(parked["status_text"], "Waiting for smtp", "{parked}");
    assert_eq!(sink.report().connections, connections, "nobody was asked");

    let resumed = run(&server, &["transports", "resume", "smtp"]).await;
    assert_eq!(resumed.code, 0, "{}", resumed.stderr);
    until(&server, &id, "sent").await;
    assert_eq!(copies(&sink, &id, "ann@example.org"), 1);
    verify(&server).await;
}
