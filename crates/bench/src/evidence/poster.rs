//! One client: it posts an email until it is accepted, whatever happens.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::ledger::{Ledger, Refusal};
use crate::client::Client;
use crate::rig::fleet::Fleet;
use crate::rig::journal::time;

/// When a request counts as unanswered. Longer than the server's own limit.
const PATIENCE: Duration = Duration::from_secs(40);
/// After a 503.
const PUT_OFF: Duration = Duration::from_millis(250);
/// After a request without an answer, with another process.
const RECONNECT: Duration = Duration::from_millis(20);

/// One client.
pub(crate) struct Poster {
    fleet: Arc<Fleet>,
    ledger: Arc<Ledger>,
    connection: Option<(String, Client)>,
    /// Which process comes next.
    turn: usize,
}

/// An email that was accepted.
pub(crate) struct Posted {
    pub(crate) id: uuid::Uuid,
    /// The answer was 200: it was there before, or it is sent already.
    pub(crate) is_over: bool,
    /// Its state, as the answer says.
    pub(crate) status: String,
    /// How often it was posted.
    pub(crate) tries: u64,
}

impl Poster {
    pub(crate) fn new(fleet: Arc<Fleet>, ledger: Arc<Ledger>, turn: usize) -> Self {
        Self {
            fleet,
            ledger,
            connection: None,
            turn,
        }
    }

    /// Posts one email until it is accepted, always with the same key. Fails at an answer that no
    /// fault explains, such as a 422.
    pub(crate) async fn post(&mut self, request: &str) -> anyhow::Result<Posted> {
        let mut tries = 0;
        loop {
            let answer = match self.connection().await {
                Some((address, client)) => {
                    tries += 1;
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
                return posted(&body, status, tries).with_context(|| format!("no id in {body}"));
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

fn posted(body: &str, status: u16, tries: u64) -> Option<Posted> {
    let answer: Value = serde_json::from_str(body).ok()?;
    Some(Posted {
        id: answer["id"].as_str()?.parse().ok()?,
        is_over: status == 200,
        status: answer["status"].as_str().unwrap_or_default().to_owned(),
        tries,
    })
}
