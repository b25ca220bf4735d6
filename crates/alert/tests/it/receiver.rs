//! A server that keeps what it is told and answers as the test wants, and the alerts to tell.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use posthaste_core::Timestamp;
use posthaste_core::alert::{Alert, AlertGroup};
use posthaste_core::email::EmailId;
use posthaste_core::fingerprint::fingerprint;
use posthaste_core::status::DeadReason;
use serde_json::Value;

/// A request that came in.
#[derive(Clone)]
pub(crate) struct Received {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Received {
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.headers["content-type"], "application/json");
        serde_json::from_slice(&self.body).expect("JSON")
    }
}

pub(crate) struct Receiver {
    pub(crate) url: String,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Receiver {
    /// Answers every request like this.
    pub(crate) async fn answering(status: u16, headers: &[(&str, &str)], text: &str) -> Self {
        let received: Arc<Mutex<Vec<Received>>> = Arc::default();
        let kept = Arc::clone(&received);
        let status = StatusCode::from_u16(status).expect("a status");
        let headers: HeaderMap = headers
            .iter()
            .map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("text")))
            .collect();
        let text = text.to_owned();
        let take = async move |request: HeaderMap, body: Bytes| {
            let request = Received {
                headers: request,
                body,
            };
            kept.lock().expect("no panic").push(request);
            (status, headers.clone(), text.clone())
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port");
        let url = format!(
            "http://{}/hook/secret-token",
            listener.local_addr().expect("an address")
        );
        let app = Router::new().route("/hook/{token}", post(take));
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { url, received }
    }

    /// What came in, which must be one request.
    pub(crate) fn only(&self) -> Received {
        let received = self.received.lock().expect("no panic");
        assert_eq!(received.len(), 1);
        received[0].clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.received.lock().expect("no panic").len()
    }
}

pub(crate) fn group(error: &str, count: u64) -> AlertGroup {
    AlertGroup {
        fingerprint: fingerprint(error),
        reason: DeadReason::HardBounce,
        count,
        first_at: at("2026-11-16T06:00:00Z"),
        last_at: at("2026-11-16T06:01:00Z"),
        sample: Some(error.to_owned()),
        email_id: EmailId::generate(),
    }
}

pub(crate) fn alert(groups: Vec<AlertGroup>) -> Alert {
    Alert {
        id: "0198a7f2-0000-7000-8000-000000000001".into(),
        service: "billing & <shop>".into(),
        dashboard_url: Some("https://mail.example.org/".into()),
        is_test: false,
        groups,
        dead_letters: 12_345,
        at: at("2026-11-16T06:01:05Z"),
    }
}

/// As many different errors as nobody wants to read.
pub(crate) fn flood() -> Alert {
    let long = "so very long ".repeat(1000);
    let word = |n: u8| char::from(b'a' + n).to_string().repeat(3);
    let groups = (0..25)
        .map(|n| group(&format!("55{} {} <!channel> {long}", n % 10, word(n)), 400))
        .collect();
    Alert {
        service: "a name that never ends ".repeat(100),
        ..alert(groups)
    }
}

pub(crate) fn at(text: &str) -> Timestamp {
    text.parse().expect("a time")
}
