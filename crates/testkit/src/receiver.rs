//! An HTTP server that remembers what is posted to it and answers as it is told.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::Notify;

/// When to give up waiting for a request.
const DEADLINE: Duration = Duration::from_secs(60);

/// A request as it arrived.
#[derive(Debug, Clone)]
pub struct Received {
    /// Where it went.
    pub path: String,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

impl Received {
    /// The body, which must be JSON and say so.
    #[must_use]
    pub fn json(&self) -> Value {
        let kind = self.headers.get("content-type").expect("a content type");
        assert_eq!(kind, "application/json");
        serde_json::from_slice(&self.body).expect("JSON")
    }
}

#[derive(Default)]
struct Board {
    answers: Mutex<BTreeMap<String, (StatusCode, HeaderMap, String)>>,
    received: Mutex<Vec<Received>>,
    arrived: Notify,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A receiver on a free port of this machine.
pub struct Receiver {
    address: String,
    board: Arc<Board>,
}

impl Receiver {
    /// Starts to listen. Whatever is not told otherwise is answered with 200.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("its address");
        let board = Arc::new(Board::default());
        let router = Router::new().fallback(take).with_state(Arc::clone(&board));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self {
            address: format!("http://{address}"),
            board,
        }
    }

    /// The URL of a path.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.address)
    }

    /// How requests to a path are answered from now on.
    pub fn answer(&self, path: &str, status: u16, headers: &[(&str, &str)], text: &str) {
        let status = StatusCode::from_u16(status).expect("a status");
        let headers = headers
            .iter()
            .map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("text")))
            .collect();
        let answer = (status, headers, text.to_owned());
        locked(&self.board.answers).insert(path.to_owned(), answer);
    }

    /// What was posted to a path, in order.
    #[must_use]
    pub fn received(&self, path: &str) -> Vec<Received> {
        let all = locked(&self.board.received);
        all.iter().filter(|one| one.path == path).cloned().collect()
    }

    /// Waits until what was posted to a path is enough.
    pub async fn wait_for(
        &self,
        path: &str,
        enough: impl Fn(&[Received]) -> bool,
    ) -> Vec<Received> {
        let wait = async {
            loop {
                let arrived = self.board.arrived.notified();
                let received = self.received(path);
                if enough(&received) {
                    return received;
                }
                arrived.await;
            }
        };
        let waited = tokio::time::timeout(DEADLINE, wait).await;
        waited.unwrap_or_else(|_| panic!("not enough came to {path}: {:?}", self.received(path)))
    }
}

async fn take(
    State(board): State<Arc<Board>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, HeaderMap, String) {
    let path = uri.path().to_owned();
    let answer = locked(&board.answers).get(&path).cloned();
    locked(&board.received).push(Received {
        path,
        headers,
        body,
    });
    board.arrived.notify_waiters();
    answer.unwrap_or_default()
}
