//! The ways out by HTTP, in health checks and in metrics.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use crate::fixture::{Server, with_key};

const PATH: &str = "/v1/transports";

async fn closed(server: &Server) -> Value {
    let answer = server.get("/v1/transports/closed").await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

#[tokio::test]
async fn transports_are_listed_with_all_that_is_known() {
    let server = Server::start();
    let list = server.get(PATH).await.json();
    let expected = json!({
        "name": "closed", "state": "flowing", "since": null, "paused_by": null, "last_error": null,
        "next_probe_at": null, "waiting": 0, "oldest_waiting_at": null, "ramp_rate": null,
        "rate": 12.5, "concurrency": 3, "under_way": 0, "learned_rate": null,
        "routes": ["default"], "listens": true, "domains": [],
    });
    assert_eq!(list["data"][0], expected);
    let spare = &list["data"][1];
    assert_eq!(spare["name"], "spare");
    assert_eq!(spare["routes"], json!(["backup", "default"]));
    assert_eq!(
        (&spare["listens"], &spare["rate"]),
        (&json!(false), &Value::Null)
    );
    assert_eq!(closed(&server).await, expected);
}

#[tokio::test]
async fn one_that_is_stopped_says_why_since_when_and_what_waits() {
    let server = Server::start();
    server.stop("closed").await;
    server.parked("closed,spare").await;
    server.parked("closed@example.net").await;
    server.stop("closed@example.net").await;
    let shown = closed(&server).await;
    assert_eq!(
        (&shown["state"], &shown["waiting"]),
        (&json!("stopped"), &json!(2))
    );
    assert_eq!(shown["last_error"], "421 4.3.2 <b>down</b>");
    for at in ["since", "next_probe_at", "oldest_waiting_at"] {
        assert!(shown[at].is_string(), "{at}");
    }
    let domain = &shown["domains"][0];
    assert_eq!(
        (&domain["domain"], &domain["state"]),
        (&json!("example.net"), &json!("stopped"))
    );
    for field in ["since", "last_error", "next_probe_at"] {
        assert!(domain[field].is_string(), "{field}");
    }
    let spare = server.get("/v1/transports/spare").await.json();
    assert_eq!(
        (&spare["state"], &spare["waiting"]),
        (&json!("flowing"), &json!(0))
    );
}

#[tokio::test]
async fn pausing_and_resuming_twice_is_done_once() {
    let server = Server::start();
    let act = async |action: &str| {
        let answer = server.act("POST", &format!("{PATH}/closed/{action}")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    };
    let paused = act("pause").await;
    assert_eq!(
        (&paused["state"], &paused["paused_by"]),
        (&json!("paused"), &json!("loopback"))
    );
    assert_eq!(act("pause").await, paused, "nothing changed");
    let resumed = act("resume").await;
    assert_eq!(
        (&resumed["state"], &resumed["paused_by"]),
        (&json!("ramping"), &Value::Null)
    );
    assert!(
        resumed["ramp_rate"].as_f64().unwrap() >= 5.0,
        "what gathered comes slowly"
    );
    assert_eq!(
        act("resume").await["since"],
        resumed["since"],
        "nothing changed"
    );
    let audit = server.get("/v1/audit?subject=closed").await.json();
    let told = audit["data"].as_array().unwrap().iter();
    let told: Vec<_> = told
        .map(|entry| (&entry["action"], &entry["result"]))
        .rev()
        .collect();
    let (pause, resume) = (json!("pause_transport"), json!("resume_transport"));
    let (paused, ramping, unchanged) = (json!("paused"), json!("ramping"), json!("unchanged"));
    assert_eq!(
        told,
        [
            (&pause, &paused),
            (&pause, &unchanged),
            (&resume, &ramping),
            (&resume, &unchanged)
        ]
    );
}

#[tokio::test]
async fn a_stopped_one_that_is_resumed_is_tested_now() {
    let server = Server::start();
    server.stop("closed").await;
    let before = closed(&server).await;
    let after = server
        .act("POST", &format!("{PATH}/closed/resume"))
        .await
        .json();
    assert_eq!(after["state"], "stopped", "until an email gets through");
    assert!(after["next_probe_at"].as_str() < before["next_probe_at"].as_str());
}

#[tokio::test]
async fn one_domain_by_a_transport_can_be_paused() {
    let server = Server::start();
    let path = format!("{PATH}/closed@Example.NET");
    let answer = server.act("POST", &format!("{path}/pause")).await.json();
    assert_eq!(
        (&answer["name"], &answer["state"]),
        (&json!("closed"), &json!("flowing"))
    );
    let domain = &answer["domains"][0];
    assert_eq!(
        (&domain["domain"], &domain["state"]),
        (&json!("example.net"), &json!("paused"))
    );
    assert_eq!(domain["paused_by"], "loopback");
    let answer = server.act("POST", &format!("{path}/resume")).await.json();
    assert_eq!(answer["domains"][0]["state"], "ramping");
}

#[tokio::test]
async fn a_name_that_nothing_has_is_404_and_says_which_there_are() {
    let server = Server::start();
    for (method, path) in [
        ("GET", "nobody"),
        ("GET", "%ff"),
        ("GET", "closed@example.net"),
        ("POST", "nobody/pause"),
        ("POST", "nobody/resume"),
        ("POST", "nobody@example.net/pause"),
        ("POST", "closed@/pause"),
        ("POST", "closed@a,b/pause"),
        ("POST", "%ff/pause"),
    ] {
        let answer = server.act(method, &format!("{PATH}/{path}")).await;
        let text = answer.is_problem(404).text();
        assert!(text.contains("known are: closed, spare"), "{path}: {text}");
    }
    let audit = server.get("/v1/audit").await.json();
    assert_eq!(audit["data"], json!([]), "bad input changes nothing");
}

#[tokio::test]
async fn reading_needs_read_and_switching_needs_admin() {
    let server = Server::start();
    server.stop("closed").await;
    server.stop("closed@example.net").await;
    let (_, read) = server.key("ann", &["read"]).await;
    let (_, send) = server.key("ann", &["send", "read"]).await;
    let (_, blind) = server.key("ann", &["send"]).await;
    let (_, admin) = server.key("root", &["admin"]).await;
    let get = async |path: &str, secret: &str| server.send(with_key("GET", path, secret)).await;
    for path in [PATH, "/v1/transports/closed"] {
        get(path, &blind).await.is_problem(403);
        server.get(path).await.is_problem(401);
    }
    for action in ["pause", "resume"] {
        let path = format!("{PATH}/closed/{action}");
        server
            .send(with_key("POST", &path, &send))
            .await
            .is_problem(403);
        assert_eq!(
            server.send(with_key("POST", &path, &admin)).await.status,
            200
        );
    }
    // Errors and domains can tell whom others write to.
    let own = get("/v1/transports/closed", &read).await.json();
    assert_eq!(
        (&own["last_error"], &own["domains"]),
        (&Value::Null, &json!([]))
    );
    let own = get(PATH, &read).await.json();
    assert_eq!(own["data"][0]["last_error"], Value::Null);
    let all = get("/v1/transports/closed", &admin).await.json();
    assert!(
        all["last_error"].is_string() && all["domains"][0].is_object(),
        "{all}"
    );
}

#[tokio::test]
async fn health_names_what_is_stopped_or_paused_and_how_much_waits() {
    let server = Server::start();
    server.stop("closed").await;
    server.parked("closed").await;
    server.act("POST", "/v1/transports/spare/pause").await;
    server.transport.in_trouble.store(true, Ordering::SeqCst);
    let answer = server.get("/readyz").await;
    assert_eq!(answer.status, 200);
    let degraded = json!([
        "transport closed is stopped, 1 waiting",
        "transport spare is paused, 0 waiting"
    ]);
    assert_eq!(answer.json()["degraded"], degraded);
    assert!(!answer.text().contains("421"), "no details for strangers");
}

#[tokio::test]
async fn metrics_say_in_which_state_a_transport_is_and_how_much_waits() {
    let server = Server::start();
    let lines = async |expected: &[&str]| {
        let text = server.get("/metrics").await.text();
        for line in expected {
            assert!(text.lines().any(|l| l == *line), "{line} is not in\n{text}");
        }
    };
    lines(&[
        "posthaste_emails_waiting_for_transport{transport=\"closed\"} 0",
        "posthaste_transport_state{transport=\"closed\",state=\"flowing\"} 1",
        "posthaste_transport_state{transport=\"spare\",state=\"paused\"} 0",
    ])
    .await;
    server.stop("closed").await;
    server.parked("closed").await;
    server.act("POST", "/v1/transports/spare/pause").await;
    lines(&[
        "posthaste_emails_waiting_for_transport{transport=\"closed\"} 1",
        "posthaste_transport_state{transport=\"closed\",state=\"flowing\"} 0",
        "posthaste_transport_state{transport=\"closed\",state=\"stopped\"} 1",
        "posthaste_transport_state{transport=\"spare\",state=\"flowing\"} 0",
        "posthaste_transport_state{transport=\"spare\",state=\"paused\"} 1",
    ])
    .await;
}
