//! A provider's HTTP API on this machine: it takes emails the way Resend documents it, keeps every
//! request, and answers as it is told.
//!
//! It honours `Idempotency-Key` as Resend does: the same key with the same body is one email. So
//! what it counts as taken is what recipients would get.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Notify;
use uuid::Uuid;

/// When to give up waiting for requests.
const DEADLINE: Duration = Duration::from_secs(60);

/// How a request is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProviderAnswer {
    /// It is taken.
    Taken,
    /// It is refused: a status, the name of the error, what is said, and after how many seconds
    /// one may come again.
    Refused(u16, &'static str, &'static str, Option<u64>),
    /// It is read, and the connection is closed without a word.
    HangUp,
    /// It is read and never answered.
    Silence,
    /// It is taken, but nobody is ever told.
    TakenInSilence,
}

impl ProviderAnswer {
    /// A refusal with the documented name of an error.
    #[must_use]
    pub const fn refused(status: u16, name: &'static str, message: &'static str) -> Self {
        Self::Refused(status, name, message, None)
    }
}

/// A request as it arrived.
#[derive(Debug, Clone)]
pub struct ProviderRequest {
    /// Its `Idempotency-Key`.
    pub key: String,
    /// Its `Authorization`.
    pub authorization: String,
    /// Its body.
    pub body: Value,
}

impl ProviderRequest {
    /// Our own id of the email, as the tag says it.
    #[must_use]
    pub fn email_id(&self) -> &str {
        self.body["tags"][0]["value"].as_str().unwrap_or_default()
    }

    /// The first recipient.
    #[must_use]
    pub fn to(&self) -> &str {
        self.body["to"][0].as_str().unwrap_or_default()
    }
}

/// An email that the provider took.
#[derive(Debug, Clone)]
pub struct TakenEmail {
    /// What the provider calls it.
    pub id: String,
    /// The request that brought it first.
    pub request: ProviderRequest,
}

impl TakenEmail {
    /// What the provider posts about it: `email.delivered`, `email.bounced`, `email.complained`.
    #[must_use]
    pub fn event(&self, kind: &str) -> Value {
        let mut event = json!({
            "type": kind,
            "created_at": "2026-01-02T03:04:05.678Z",
            "data": {
                "created_at": "2026-01-02T03:04:04.000Z",
                "email_id": self.id,
                "from": self.request.body["from"],
                "to": self.request.body["to"],
                "subject": self.request.body["subject"],
                "tags": {"posthaste_id": self.request.email_id()},
            },
        });
        if kind == "email.bounced" {
            event["data"]["bounce"] = json!({
                "type": "Permanent",
                "subType": "General",
                "message": "The recipient's address does not exist.",
            });
        }
        event
    }
}

#[derive(Default)]
struct Board {
    scripts: HashMap<String, VecDeque<ProviderAnswer>>,
    for_all: Option<ProviderAnswer>,
    requests: Vec<ProviderRequest>,
    /// By key.
    taken: BTreeMap<String, TakenEmail>,
}

struct Shared {
    /// The key that `Authorization` must have.
    api_key: String,
    board: Mutex<Board>,
    arrived: Notify,
}

/// A provider on a port of this machine.
pub struct Provider {
    address: SocketAddr,
    socket: Mutex<Option<TcpSocket>>,
    shared: Arc<Shared>,
}

impl Provider {
    /// The key that requests need.
    pub const API_KEY: &str = "re_testkey_1234567890";

    /// One that listens.
    #[must_use]
    pub fn start() -> Self {
        let provider = Self::closed();
        provider.open();
        provider
    }

    /// One whose port refuses connections, and is nobody else's, until it is opened.
    #[must_use]
    pub fn closed() -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        socket.bind(any).expect("a free port");
        Self {
            address: socket.local_addr().expect("its address"),
            socket: Mutex::new(Some(socket)),
            shared: Arc::new(Shared {
                api_key: Self::API_KEY.to_owned(),
                board: Mutex::default(),
                arrived: Notify::new(),
            }),
        }
    }

    /// Listens from now on.
    pub fn open(&self) {
        let mut socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        let socket = socket.take().expect("a port that is not open yet");
        let listener = socket.listen(1024).expect("a listener");
        tokio::spawn(accept(listener, Arc::clone(&self.shared)));
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        self.shared.board()
    }

    /// The base URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The section of a configuration file that makes it a transport of this name.
    #[must_use]
    pub fn section(&self, name: &str) -> String {
        format!(
            "[transport.{name}]\nkind = \"resend\"\napi_key = \"{}\"\nbase_url = \"{}\"\n",
            self.shared.api_key,
            self.url()
        )
    }

    /// How the next requests for a recipient are answered, one after the other; then they are taken.
    pub fn answer(&self, to: &str, answers: impl IntoIterator<Item = ProviderAnswer>) {
        let mut board = self.board();
        let script = board.scripts.entry(to.to_owned()).or_default();
        script.extend(answers);
    }

    /// How all others are answered from now on; `None` for as if nothing were wrong.
    pub fn answer_all(&self, answer: Option<ProviderAnswer>) {
        self.board().for_all = answer;
    }

    /// Every request so far.
    #[must_use]
    pub fn requests(&self) -> Vec<ProviderRequest> {
        self.board().requests.clone()
    }

    /// Every request for one email of ours.
    #[must_use]
    pub fn requests_of(&self, email_id: &str) -> Vec<ProviderRequest> {
        let mut requests = self.requests();
        requests.retain(|request| request.email_id() == email_id);
        requests
    }

    /// How many emails it took.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.board().taken.len()
    }

    /// How many copies of an email of ours it took.
    #[must_use]
    pub fn copies(&self, email_id: &str) -> u64 {
        let board = self.board();
        let all = board.taken.values();
        all.filter(|taken| taken.request.email_id() == email_id)
            .count() as u64
    }

    /// The email of ours, as it was taken.
    #[must_use]
    pub fn taken_of(&self, email_id: &str) -> TakenEmail {
        let board = self.board();
        let found = board
            .taken
            .values()
            .find(|taken| taken.request.email_id() == email_id);
        found.cloned().expect("an email that was taken")
    }

    /// Waits until this many requests have come for an email of ours.
    pub async fn wait_for_requests(&self, email_id: &str, count: usize) {
        let wait = async {
            loop {
                let arrived = self.shared.arrived.notified();
                if self.requests_of(email_id).len() >= count {
                    return;
                }
                arrived.await;
            }
        };
        let waited = tokio::time::timeout(DEADLINE, wait).await;
        assert!(waited.is_ok(), "not enough came: {:?}", self.requests());
    }
}

impl Shared {
    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is wrong with the key, if something is.
    fn doubt(&self, authorization: &str) -> Option<ProviderAnswer> {
        if authorization.is_empty() {
            let said = "Missing API key in the authorization header.";
            return Some(ProviderAnswer::refused(401, "missing_api_key", said));
        }
        let is_ours = authorization == format!("Bearer {}", self.api_key);
        (!is_ours).then_some(ProviderAnswer::refused(
            403,
            "invalid_api_key",
            "API key is invalid.",
        ))
    }

    /// What to do about a request.
    fn judge(&self, request: &ProviderRequest) -> (ProviderAnswer, Option<String>) {
        use ProviderAnswer::{Refused, Taken, TakenInSilence};
        let mut board = self.board();
        board.requests.push(request.clone());
        if let Some(refusal) = self.doubt(&request.authorization) {
            return (refusal, None);
        }
        let scripted = board
            .scripts
            .get_mut(request.to())
            .and_then(VecDeque::pop_front);
        let answer = scripted.or_else(|| board.for_all.clone()).unwrap_or(Taken);
        if !matches!(answer, Taken | TakenInSilence) {
            return (answer, None);
        }
        if let Some(known) = board.taken.get(&request.key) {
            if known.request.body != request.body {
                let said = "Same idempotency key used with a different request payload.";
                return (Refused(409, "invalid_idempotent_request", said, None), None);
            }
            return (answer, Some(known.id.clone()));
        }
        let id = Uuid::from_u128(0x0b5e_55ed_u128 << 96 | board.taken.len() as u128).to_string();
        let taken = TakenEmail {
            id: id.clone(),
            request: request.clone(),
        };
        board.taken.insert(request.key.clone(), taken);
        (answer, Some(id))
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(serve(stream, Arc::clone(&shared)));
    }
}

/// Serves one connection until either side is done with it.
async fn serve(stream: TcpStream, shared: Arc<Shared>) -> Option<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let (line, headers) = read_head(&mut stream).await?;
        let length = headers.get("content-length").and_then(|n| n.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        stream.read_exact(&mut body).await.ok()?;
        let header = |name: &str| headers.get(name).cloned().unwrap_or_default();
        let (answer, id) = match &line[..] {
            "POST /emails HTTP/1.1" => {
                let judged = shared.judge(&ProviderRequest {
                    key: header("idempotency-key"),
                    authorization: header("authorization"),
                    body: serde_json::from_slice(&body).unwrap_or_default(),
                });
                shared.arrived.notify_waiters();
                judged
            }
            "GET /domains HTTP/1.1" => {
                let refusal = shared.doubt(&header("authorization"));
                // A key for sending only, as one should have.
                let said = "This API key is restricted to only send emails.";
                let restricted = ProviderAnswer::refused(401, "restricted_api_key", said);
                (refusal.unwrap_or(restricted), None)
            }
            _ => {
                let said = "There is no such endpoint.";
                (ProviderAnswer::refused(404, "not_found", said), None)
            }
        };
        let (status, body, retry_after) = match answer {
            ProviderAnswer::Taken => (200, json!({ "id": id }), None),
            ProviderAnswer::Refused(status, name, message, retry_after) => (
                status,
                json!({"statusCode": status, "name": name, "message": message}),
                retry_after,
            ),
            ProviderAnswer::HangUp => return None,
            // Until the other side leaves.
            ProviderAnswer::Silence | ProviderAnswer::TakenInSilence => {
                let _ = stream.read_u8().await;
                return None;
            }
        };
        let body = body.to_string();
        let more = retry_after.map_or(String::new(), |s| format!("retry-after: {s}\r\n"));
        let head = format!(
            "HTTP/1.1 {status} As Told\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{more}\r\n",
            body.len()
        );
        let whole = head + &body;
        stream.get_mut().write_all(whole.as_bytes()).await.ok()?;
    }
}

/// The request line and the headers, their names in lower case.
async fn read_head(stream: &mut BufReader<TcpStream>) -> Option<(String, HashMap<String, String>)> {
    let mut first = None;
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        let line = line.trim_end();
        match (&first, line.split_once(": ")) {
            (None, _) => first = Some(line.to_owned()),
            (Some(_), _) if line.is_empty() => break,
            (Some(_), Some((name, value))) => {
                headers.insert(name.to_ascii_lowercase(), value.to_owned());
            }
            _ => {}
        }
    }
    Some((first?, headers))
}

/// The headers that sign a body as Standard Webhooks says, under the names that Resend uses.
/// `secret`: `whsec_` and base64. `at`: seconds since 1970.
#[must_use]
pub fn webhook_headers(secret: &str, at: i64, body: &str) -> [(&'static str, String); 3] {
    let encoded = secret.trim_start_matches("whsec_");
    let key = STANDARD.decode(encoded).expect("a secret in base64");
    let mut signer = Hmac::<Sha256>::new_from_slice(&key).expect("a key of any length");
    let id = format!("msg_{}", Uuid::now_v7().simple());
    signer.update(format!("{id}.{at}.{body}").as_bytes());
    let signature = STANDARD.encode(signer.finalize().into_bytes());
    [
        ("svix-id", id),
        ("svix-timestamp", at.to_string()),
        ("svix-signature", format!("v1,{signature}")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn email(key: &str, to: &str) -> ProviderRequest {
        ProviderRequest {
            key: key.to_owned(),
            authorization: format!("Bearer {}", Provider::API_KEY),
            body: json!({"to": [to], "tags": [{"name": "posthaste_id", "value": key}]}),
        }
    }

    async fn post(provider: &Provider, request: &ProviderRequest) -> reqwest::Result<(u16, Value)> {
        let client = reqwest::Client::builder().no_proxy().build()?;
        let answer = client
            .post(format!("{}/emails", provider.url()))
            .header("authorization", &request.authorization)
            .header("idempotency-key", &request.key)
            .json(&request.body)
            .send()
            .await?;
        Ok((answer.status().as_u16(), answer.json().await?))
    }

    #[tokio::test]
    async fn it_takes_each_key_once_and_refuses_as_told() {
        let provider = Provider::closed();
        let ann = email("1", "ann@example.org");
        assert!(post(&provider, &ann).await.unwrap_err().is_connect());
        provider.open();
        let refusal = ProviderAnswer::refused(500, "application_error", "Oh.");
        let lost = [ProviderAnswer::TakenInSilence, ProviderAnswer::HangUp];
        provider.answer("ann@example.org", [refusal].into_iter().chain(lost));
        let (status, body) = post(&provider, &ann).await.unwrap();
        assert_eq!((status, &body["name"]), (500, &json!("application_error")));
        let silence = post(&provider, &ann);
        tokio::select! {
            answer = silence => panic!("an answer: {answer:?}"),
            () = provider.wait_for_requests("1", 2) => {}
        }
        assert!(post(&provider, &ann).await.is_err());
        let (status, body) = post(&provider, &ann).await.unwrap();
        assert_eq!((status, provider.copies("1")), (200, 1));
        assert_eq!(body["id"], provider.taken_of("1").id.as_str());
        let stranger = ProviderRequest {
            authorization: "Bearer re_other".to_owned(),
            ..email("2", "bob@example.org")
        };
        assert_eq!(post(&provider, &stranger).await.unwrap().0, 403);
        assert_eq!((provider.taken(), provider.requests().len()), (1, 5));
    }
}
