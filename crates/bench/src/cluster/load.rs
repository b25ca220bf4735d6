//! The clients: each posts one email after the other until all are accepted, whatever happens.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::ledger::{Ledger, Refusal};
use super::options::Options;
use crate::client::Client;
use crate::rig::fleet::Fleet;
use crate::rig::journal::time;

/// When a request counts as unanswered. Longer than the server's own limit.
const PATIENCE: Duration = Duration::from_secs(40);
/// After a 503.
const PUT_OFF: Duration = Duration::from_millis(250);
/// After a request without an answer, with another process.
const RECONNECT: Duration = Duration::from_millis(20);

/// What is posted.
struct Emails {
    text: String,
    /// Of each email how often the server puts it off.
    failures: Vec<u8>,
    next: AtomicUsize,
}

impl Emails {
    fn new(options: &Options) -> Self {
        let mut dice = StdRng::seed_from_u64(options.seed);
        let failures = (0..options.emails)
            .map(
                |_| match dice.random_bool(options.transient.clamp(0.0, 1.0)) {
                    false => 0,
                    // A few need more than one retry.
                    true => 1 + u8::from(dice.random_ratio(1, 10)),
                },
            )
            .collect();
        let letter = |at: usize| char::from(b'a' + ((at * at * 31 + at * 7) % 26) as u8);
        let text = (0..options.body)
            .map(|at| if at % 72 == 71 { '\n' } else { letter(at) })
            .collect();
        Self {
            text,
            failures,
            next: AtomicUsize::new(0),
        }
    }

    fn request(&self, number: usize, key: &str) -> String {
        let to = match self.failures[number] {
            0 => format!("someone+{number}@example.org"),
            times => format!("fail{times}+{number}@example.org"),
        };
        json!({
            "message_key": key, "from": "bench@example.org", "to": to,
            "subject": format!("Bench {number}"), "text": self.text,
        })
        .to_string()
    }
}

/// Posts all emails. Fails at an answer that no fault explains, such as a 422.
pub(super) async fn submit(
    options: &Options,
    fleet: &Arc<Fleet>,
    ledger: &Arc<Ledger>,
) -> anyhow::Result<()> {
    let emails = Arc::new(Emails::new(options));
    let mut clients: JoinSet<anyhow::Result<()>> = JoinSet::new();
    for turn in 0..options.clients.max(1) {
        let mut poster = Poster {
            fleet: Arc::clone(fleet),
            ledger: Arc::clone(ledger),
            connection: None,
            turn,
        };
        let emails = Arc::clone(&emails);
        clients.spawn(async move {
            loop {
                let number = emails.next.fetch_add(1, Ordering::Relaxed);
                if number >= emails.failures.len() {
                    return Ok(());
                }
                let key = poster.ledger.key(number);
                poster.post(number, &emails.request(number, &key)).await?;
            }
        });
    }
    while let Some(ended) = clients.join_next().await {
        ended??;
    }
    Ok(())
}

/// One client.
struct Poster {
    fleet: Arc<Fleet>,
    ledger: Arc<Ledger>,
    connection: Option<(String, Client)>,
    /// Which process comes next.
    turn: usize,
}

impl Poster {
    /// Posts one email until it is accepted, always with the same key.
    async fn post(&mut self, number: usize, request: &str) -> anyhow::Result<()> {
        loop {
            let answer = match self.connection().await {
                Some((address, client)) => {
                    let posting = client.post("/v1/emails", request);
                    match tokio::time::timeout(PATIENCE, posting).await {
                        Ok(Ok((status, body))) => Some((address.clone(), status, body)),
                        _ => None,
                    }
                }
                None => None,
            };
            let Some((address, status, body)) = answer else {
                if self.connection.take().is_some() {
                    self.ledger.no_answer();
                }
                tokio::time::sleep(RECONNECT).await;
                continue;
            };
            if matches!(status, 200 | 202) {
                let id = id_in(&body).with_context(|| format!("no id in {body}"))?;
                return self.ledger.accept(number, id, status == 200);
            }
            let what = format!("{} {address}: {status} {body}", time());
            if status < 500 {
                bail!("an email was refused: {what}");
            }
            let at = Instant::now();
            self.ledger.refuse(Refusal { at, status, what });
            tokio::time::sleep(PUT_OFF).await;
        }
    }

    /// The connection it has, or one to the next process that listens.
    async fn connection(&mut self) -> Option<&mut (String, Client)> {
        if self.connection.is_none() {
            let addresses = self.fleet.apis();
            self.turn += 1;
            let address = addresses.get(self.turn % addresses.len().max(1))?;
            let client = Client::connect(address).await.ok()?;
            self.connection = Some((address.clone(), client));
        }
        self.connection.as_mut()
    }
}

fn id_in(body: &str) -> Option<uuid::Uuid> {
    let answer: Value = serde_json::from_str(body).ok()?;
    answer["id"].as_str()?.parse().ok()
}
