//! The application, its mail server and its time.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use posthaste::rusqlite::Connection;
use posthaste::{Mailbox, Timestamp, Worker};
use posthaste_booking::settings::Settings;
use posthaste_booking::studio::Studio;
use posthaste_testkit::ManualClock;
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

use crate::mail_server::MailServer;

/// Whom mail comes from.
pub(crate) const HOST: &str = "studio@clay.example";
/// When to give up waiting for something that takes well under a second.
const DEADLINE: Duration = Duration::from_secs(60);

/// The application, its mail server and its time.
pub(crate) struct World {
    pub(crate) mail_server: MailServer,
    pub(crate) studio: Studio,
    pub(crate) client: Client,
    clock: Arc<ManualClock>,
    worker: Option<Worker>,
    address: SocketAddr,
    serving: AbortHandle,
    folder: Arc<TempDir>,
}

/// An answer. A body that is not JSON is a JSON string.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) location: String,
    pub(crate) body: Value,
}

impl World {
    /// Everything works.
    pub(crate) async fn start() -> Self {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        let mut world = Self::open(folder, MailServer::start().await).await;
        world.start_worker();
        world
    }

    /// The application, opened on this folder. Its worker is not started.
    pub(crate) async fn open(folder: Arc<TempDir>, mail_server: MailServer) -> Self {
        let clock = Arc::new(ManualClock::default());
        let settings = Settings {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            database: database(&folder),
            smtp_url: mail_server.url(),
            host: Mailbox::new("Clay Studio", HOST).unwrap(),
        };
        // Nobody gives up on a mail server because this machine is slow.
        let outbox = posthaste_booking::outbox(&settings)
            .inline_timeout(DEADLINE)
            .clock(Arc::<ManualClock>::clone(&clock));
        let studio = Studio::open(&settings, outbox.open().await.unwrap()).unwrap();
        let listener = TcpListener::bind(settings.listen).await.unwrap();
        let address = listener.local_addr().unwrap();
        let app = posthaste_booking::router(studio.clone());
        let app = app.into_make_service_with_connect_info::<SocketAddr>();
        let serving = tokio::spawn(axum::serve(listener, app).into_future());
        let client = Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none());
        Self {
            mail_server,
            studio,
            client: client.build().unwrap(),
            clock,
            worker: None,
            address,
            serving: serving.abort_handle(),
            folder,
        }
    }

    pub(crate) fn start_worker(&mut self) {
        self.worker = Some(self.studio.outbox().start());
    }

    pub(crate) async fn stop_worker(&mut self) {
        self.worker.take().unwrap().stop().await;
    }

    /// Waits until everything that is due was tried.
    pub(crate) async fn settle(&self) {
        let draining = self.worker.as_ref().unwrap().drain();
        let drained = tokio::time::timeout(DEADLINE, draining).await;
        drained.expect("it does not settle").unwrap();
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.studio.outbox().now()
    }

    /// Lets time pass until this moment is over, which takes a microsecond, and then what is due
    /// happen.
    pub(crate) async fn advance_past(&self, moment: Timestamp) {
        let wait = Duration::try_from(moment.duration_since(self.now())).unwrap();
        self.clock.advance(wait + Duration::from_micros(1));
        self.settle().await;
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask(self.client.get(self.url(path))).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.ask(self.client.post(self.url(path)).json(body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        let request = self.client.request(Method::DELETE, self.url(path));
        self.ask(request).await
    }

    /// Sends a form, as a browser does.
    pub(crate) async fn submit(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let mut form = form_urlencoded::Serializer::new(String::new());
        let request = self.client.post(self.url(path));
        let request = request
            .header("content-type", "application/x-www-form-urlencoded")
            .header("accept", "text/html")
            .body(form.extend_pairs(fields).finish());
        self.ask(request).await
    }

    async fn ask(&self, request: reqwest::RequestBuilder) -> Answer {
        let response = request.send().await.unwrap();
        let location = response.headers().get("location");
        let location = location.map(|value| value.to_str().unwrap().to_owned());
        let status = response.status();
        let text = response.text().await.unwrap();
        Answer {
            status,
            location: location.unwrap_or_default(),
            body: serde_json::from_str(&text).unwrap_or(Value::String(text)),
        }
    }

    /// What Ada asks for: the first slot that is free.
    pub(crate) async fn wish(&self) -> Value {
        let slots = self.get("/api/slots").await.body;
        json!({"name": "Ada", "email": "ada@example.org", "slot": slots[0]})
    }

    /// Ada books the first slot that is free.
    pub(crate) async fn book(&self) -> Value {
        let answer = self.post("/api/book", &self.wish().await).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.body
    }

    /// She cancels it.
    pub(crate) async fn cancel(&self, booking: &Value) -> Value {
        let path = format!("/api/bookings/{}/cancel", text(&booking["id"]));
        let answer = self.post(&path, &json!({})).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.body
    }

    /// Emails that are not delivered, as the operator's dashboard gets them.
    pub(crate) async fn entries(&self) -> Vec<Value> {
        let answer = self.get("/api/admin/outbox").await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.body.as_array().unwrap().clone()
    }

    /// The only one.
    pub(crate) async fn entry(&self) -> Value {
        let mut entries = self.entries().await;
        assert_eq!(entries.len(), 1, "{entries:?}");
        entries.remove(0)
    }

    /// A connection of the test's own to the file.
    pub(crate) fn database(&self) -> Connection {
        Connection::open(database(&self.folder)).unwrap()
    }

    /// How many emails the outbox has in the file.
    pub(crate) fn rows(&self) -> u32 {
        let sql = "SELECT count(*) FROM posthaste_email_log";
        let count = self.database().query_row(sql, [], |row| row.get(0));
        count.unwrap()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Where the database is in a folder.
pub(crate) fn database(folder: &TempDir) -> PathBuf {
    folder.path().join("booking.db")
}

/// A JSON string.
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// A time in JSON.
pub(crate) fn time(value: &Value) -> Timestamp {
    text(value).parse().unwrap()
}

/// How long after a moment a time in JSON is, in whole seconds.
pub(crate) fn seconds_after(moment: Timestamp, value: &Value) -> i64 {
    time(value).duration_since(moment).as_secs()
}

/// Waits until something is so.
pub(crate) async fn eventually(what: &str, is_so: impl AsyncFn() -> bool) {
    let waiting = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let waited = tokio::time::timeout(DEADLINE, waiting).await;
    assert!(waited.is_ok(), "in vain: {what}");
}
