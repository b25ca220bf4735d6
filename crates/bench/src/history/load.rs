//! Emails handed in over HTTP, as different from each other as real ones are: indexes must not get
//! away with one page.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::ensure;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::Value;
use tokio::task::JoinSet;

use crate::client::Client;

/// How many people there are to write to. As many as in the past.
const PEOPLE: u64 = 100_000;
/// Spreads numbers over the people; it has no divisor in common with them.
const STRIDE: u64 = 61_803;

/// Whom emails are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum To {
    /// People.
    People,
    /// People whose mail server refuses each email once, for the time being.
    RefusedOnce,
}

/// What is handed in.
#[derive(Clone)]
pub(crate) struct Load {
    /// The body as JSON.
    text: Arc<str>,
    /// How many were handed in so far: no two are alike.
    next: Arc<AtomicU64>,
    clients: u64,
}

impl Load {
    /// Emails with bodies of this size, by so many clients at the same time.
    pub(crate) fn new(body_bytes: usize, clients: u64) -> Self {
        // Always the same, and yet nothing that a database could pack: no letters come again.
        let mut dice = StdRng::seed_from_u64(body_bytes as u64);
        let letter = |at: usize| match at % 72 {
            71 => '\n',
            _ => char::from(dice.random_range(b'a'..=b'z')),
        };
        let text: String = (0..body_bytes).map(letter).collect();
        Self {
            text: Value::from(text).to_string().into(),
            next: Arc::default(),
            clients,
        }
    }

    /// Hands so many in as fast as they are taken.
    pub(crate) async fn hand_in(&self, address: &str, emails: u64, to: To) -> anyhow::Result<()> {
        let taken = Arc::new(AtomicU64::new(0));
        let mut clients = JoinSet::new();
        for _ in 0..self.clients.min(emails) {
            let (load, taken, address) = (self.clone(), Arc::clone(&taken), address.to_owned());
            clients.spawn(async move {
                let mut client = Client::connect(&address).await?;
                while taken.fetch_add(1, Ordering::Relaxed) < emails {
                    load.hand_in_one(&mut client, to).await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(done) = clients.join_next().await {
            done??;
        }
        Ok(())
    }

    /// Hands in so many in a second until dropped, or until one is not taken. Those that are late
    /// because others took long are made up for.
    pub(crate) async fn hand_in_steadily(
        &self,
        address: &str,
        per_second: f64,
        handed_in: &AtomicU64,
    ) -> anyhow::Result<()> {
        let began = tokio::time::Instant::now();
        let turn = Arc::new(AtomicU64::new(0));
        let clients = (0..self.clients).map(async |_| {
            let mut client = Client::connect(address).await?;
            loop {
                let number = turn.fetch_add(1, Ordering::Relaxed);
                let at = began + Duration::from_secs_f64(number as f64 / per_second);
                tokio::time::sleep_until(at).await;
                self.hand_in_one(&mut client, To::People).await?;
                handed_in.fetch_add(1, Ordering::Relaxed);
            }
        });
        let stopped: anyhow::Result<Vec<()>> = futures_util::future::try_join_all(clients).await;
        stopped.map(drop)
    }

    async fn hand_in_one(&self, client: &mut Client, to: To) -> anyhow::Result<()> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (status, answer) = client.post("/v1/emails", &self.email(number, to)).await?;
        ensure!(status == 202, "the server answered {status}: {answer}");
        Ok(())
    }

    fn email(&self, number: u64, to: To) -> String {
        let person = number * STRIDE % PEOPLE;
        let to = match to {
            To::People => format!("user{person}@example.org"),
            To::RefusedOnce => format!("fail1+{person}@example.org"),
        };
        format!(
            r#"{{"from":"shop@example.org","to":"{to}","subject":"Order {number}","text":{}}}"#,
            self.text
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_email_is_another_one_and_as_large_as_asked_for() {
        let load = Load::new(4096, 1);
        let read = |number| -> Value {
            serde_json::from_str(&load.email(number, To::People)).unwrap_or_default()
        };
        let (one, other) = (read(1), read(2));
        assert_eq!(one["to"], "user61803@example.org");
        assert_ne!(one["to"], other["to"]);
        assert_ne!(one["subject"], other["subject"]);
        assert_eq!(one["text"].as_str().map(str::len), Some(4096));
    }
}
