//! PostgreSQL is away, or hangs: nothing is accepted, nothing is lost, nothing is doubled.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use posthaste_testkit::Proxy;
use posthaste_testkit::process::{Posthaste, PosthasteBuilder};
use serde_json::json;

use crate::backend::Backend;
use crate::recording_server::RecordingServer;
use crate::support::{
    Reply, a_sink, copies, email_to, eventually, get, outcomes, post, submit, until, verify,
};

/// The same process by way of a proxy, and quick to give up.
fn by_way_of(process: PosthasteBuilder, backend: &Backend, proxy: &Proxy) -> PosthasteBuilder {
    let url = proxy.by_way_of(&backend.database().url());
    process
        .env("DATABASE_URL", url)
        .env("POSTHASTE_STORE__TIMEOUT", "2s")
        // An answer that is lost leaves a lease that nobody holds, or an email without a ticket.
        .env("LEASE_SECONDS", "10")
        .env("RETRY_INTERVAL_SECONDS", "1")
}

fn assert_unavailable(reply: &Reply) {
    assert_eq!(reply.status, 503, "{}", reply.body);
    let seconds: u32 = reply.header("retry-after").unwrap().parse().unwrap();
    assert!(seconds > 0);
    let problem = "application/problem+json";
    assert_eq!(reply.header("content-type"), Some(problem));
    assert_eq!(reply.body["status"], 503);
    for field in ["type", "title", "detail"] {
        assert!(reply.body[field].is_string(), "{}", reply.body);
    }
}

/// Everything that needs the store says so; nothing hangs.
async fn assert_everything_says_so(api: &Posthaste) {
    let email = email_to("ann@example.org");
    let (one, many) = (&email, &json!({"emails": [email, email]}));
    let nobody = "/v1/emails/0198a000-0000-7000-8000-000000000000";
    let (posted, again, batch, shown, listed, counted, health) = tokio::join!(
        post(api, "/v1/emails", one),
        post(api, "/v1/emails", one),
        post(api, "/v1/emails/batch", many),
        get(api, nobody),
        get(api, "/v1/emails"),
        get(api, "/v1/stats"),
        get(api, "/readyz"),
    );
    for reply in [posted, again, batch, shown, listed, counted] {
        assert_unavailable(&reply);
    }
    assert_eq!(
        (health.status, &health.body["store"]),
        (503, &json!("unavailable"))
    );
    assert_eq!(get(api, "/livez").await.status, 200);
    assert_eq!(get(api, "/metrics").await.status, 200);
}

#[tokio::test]
async fn while_postgres_is_away_the_api_says_so_and_works_again_by_itself() {
    let (backend, sink) = (Backend::postgres_and_rabbitmq().await, a_sink().await);
    let proxy = Proxy::to(&backend.database().url()).await;
    let server = by_way_of(backend.sending_to(&sink), &backend, &proxy);
    let server = server.start().await;
    let before = submit(&server, &email_to("before@example.org")).await;
    until(&server, &before, "sent").await;
    for (take_away, accepted) in [(Proxy::cut as fn(&Proxy), 1), (Proxy::fall_silent, 2)] {
        take_away(&proxy);
        assert_everything_says_so(&server).await;
        // Whatever was refused left nothing behind.
        let rows: u64 = backend.rows_by_status().await.values().sum();
        assert_eq!(rows, accepted);
        proxy.restore();
        server
            .wait_for("/readyz", |health| health["store"] == "ok")
            .await;
        eventually("emails are accepted again", async || {
            post(&server, "/v1/emails", &email_to("again@example.org"))
                .await
                .status
                == 202
        })
        .await;
    }
    let all_sent = async || backend.rows_by_status().await.into_keys().eq(["sent"]);
    eventually("everything is sent", all_sent).await;
    assert!(sink.report().messages >= 3);
    assert!(sink.duplicates().is_empty());
    verify(&server).await;
}

#[tokio::test]
async fn an_outage_under_load_loses_and_doubles_nothing_that_was_accepted() {
    let (backend, sink) = (Backend::postgres_and_rabbitmq().await, a_sink().await);
    let proxy = Proxy::to(&backend.database().url()).await;
    let process = || by_way_of(backend.sending_to(&sink), &backend, &proxy);
    let api = process().role("api").start().await;
    let _working = process().role("sender,scheduler").start().await;
    let (over, refused) = (AtomicBool::new(false), AtomicUsize::new(0));
    let is_over = || over.load(Ordering::SeqCst);
    let refusals = || refused.load(Ordering::SeqCst);
    // A client that insists: the same key again until it is accepted. It goes on for as long as
    // there are outages to come, or they would find nobody at work.
    let client = async |number: usize| {
        let mut accepted = Vec::new();
        for n in (0..).take_while(|_| !is_over()) {
            let recipient = format!("slow5+{number}-{n}@example.org");
            let mut email = email_to(&recipient);
            email["message_key"] = json!(recipient);
            let id = loop {
                let answer = post(&api, "/v1/emails", &email).await;
                if [200, 202].contains(&answer.status) {
                    break answer.body["id"].as_str().unwrap().to_owned();
                }
                assert_unavailable(&answer);
                refused.fetch_add(1, Ordering::SeqCst);
            };
            accepted.push((recipient, id));
        }
        accepted
    };
    let clients = async {
        let (a, b, c) = tokio::join!(client(0), client(1), client(2));
        [a, b, c].concat()
    };
    // Cut in the middle of the work, until somebody noticed.
    let network = async {
        for _ in 0..3 {
            let more = sink.accepted() + 15;
            eventually("some arrive", async || sink.accepted() >= more).await;
            let before = refusals();
            proxy.cut();
            eventually("it is noticed", async || refusals() > before).await;
            proxy.restore();
        }
        over.store(true, Ordering::SeqCst);
    };
    let (accepted, ()) = tokio::join!(clients, network);
    for (recipient, id) in &accepted {
        until(&api, id, "sent").await;
        assert_eq!(copies(&sink, id, recipient), 1, "{recipient}");
    }
    assert_eq!(sink.report().messages, accepted.len() as u64);
    verify(&api).await;
}

#[tokio::test]
async fn a_sender_that_cannot_commit_the_gate_does_not_send_the_dot() {
    let cases = [
        (Proxy::cut as fn(&Proxy), false),
        (Proxy::cut, true),
        (Proxy::fall_silent, false),
    ];
    for (take_away, is_large) in cases {
        let backend = Backend::postgres_and_rabbitmq().await;
        let mut recorder = RecordingServer::start_asking_before_the_body().await;
        let proxy = Proxy::to(&backend.database().url()).await;
        let process = || backend.posthaste().env("SMTP_URL", &recorder.url);
        let api = process().role("api,scheduler").start().await;
        let sender = by_way_of(process(), &backend, &proxy);
        let sender = sender.role("sender").start().await;
        let mut email = email_to("ann@example.org");
        if is_large {
            email["text"] = "It works.\n".repeat(10_000).into();
        }
        let id = submit(&api, &email).await;

        // A large body may come when the store is away: the gate comes after it. A small one goes
        // with its dot.
        let body = recorder.bodies.recv().await.unwrap();
        take_away(&proxy);
        body.send(()).unwrap();
        let bytes = recorder.cut_off.recv().await.unwrap();
        let has_body = String::from_utf8_lossy(&bytes).contains("It works.");
        assert_eq!(has_body, is_large);
        assert!(recorder.dots.try_recv().is_err(), "no dot");

        proxy.restore();
        recorder.bodies.recv().await.unwrap().send(()).unwrap();
        let dot = recorder.dots.recv().await.unwrap();
        dot.answer.send("250 2.0.0 kept\r\n").unwrap();
        let sent = until(&api, &id, "sent").await;
        assert_eq!(outcomes(&sent), ["cancelled", "sent"]);
        assert_eq!(sent["possible_duplicate"], false);
        assert!(recorder.dots.try_recv().is_err(), "no second copy");
        verify(&api).await;
        drop(sender);
    }
}
