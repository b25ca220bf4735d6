//! The clients: each hands in one email after the other until all are accepted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use anyhow::{Context as _, ensure};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::options::Options;
use crate::client::Client;

/// What is handed in.
struct Emails {
    text: String,
    domains: Vec<u32>,
    next: AtomicUsize,
}

impl Emails {
    fn new(options: &Options) -> Self {
        let mut dice = StdRng::seed_from_u64(options.seed);
        let letter = |at: usize| char::from(b'a' + ((at * at * 31 + at * 7) % 26) as u8);
        Self {
            text: (0..options.body)
                .map(|at| if at % 72 == 71 { '\n' } else { letter(at) })
                .collect(),
            domains: (0..options.emails)
                .map(|_| dice.random_range(0..options.domains))
                .collect(),
            next: AtomicUsize::new(0),
        }
    }

    fn request(&self, number: usize) -> String {
        let domain = self.domains[number];
        json!({
            "message_key": format!("outage-{number}"), "from": "bench@example.org",
            "to": format!("someone+{number}@d{domain}.example.org"),
            "subject": format!("Bench {number}"), "text": self.text,
        })
        .to_string()
    }
}

/// Hands in all emails, and gives their ids.
pub(super) async fn hand_in(
    options: &Options,
    addresses: &[String],
    accepted: &Arc<AtomicU64>,
) -> anyhow::Result<Vec<String>> {
    let emails = Arc::new(Emails::new(options));
    let total = options.emails;
    let mut clients = JoinSet::new();
    for place in 0..options.clients.max(1) {
        let address = addresses[place % addresses.len()].clone();
        let (emails, accepted) = (Arc::clone(&emails), Arc::clone(accepted));
        clients.spawn(async move {
            let mut client = Client::connect(&address).await?;
            let mut ids = Vec::new();
            loop {
                let number = emails.next.fetch_add(1, Ordering::Relaxed);
                if number >= total {
                    return anyhow::Ok(ids);
                }
                let (status, answer) = client.post("/v1/emails", &emails.request(number)).await?;
                ensure!(status == 202, "the server answered {status}: {answer}");
                let answer: Value = serde_json::from_str(&answer)?;
                ids.push(answer["id"].as_str().context("no id")?.to_owned());
                accepted.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let mut ids = Vec::with_capacity(total);
    while let Some(ended) = clients.join_next().await {
        ids.extend(ended??);
    }
    Ok(ids)
}
