//! The clients: each posts one email after the other until all are accepted, whatever happens.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::json;
use tokio::task::JoinSet;

use super::options::Options;
use crate::evidence::ledger::{Expected, Ledger};
use crate::evidence::poster::Poster;
use crate::rig::fleet::Fleet;

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
        let mut poster = Poster::new(Arc::clone(fleet), Arc::clone(ledger), turn);
        let (emails, ledger) = (Arc::clone(&emails), Arc::clone(ledger));
        clients.spawn(async move {
            loop {
                if emails.next.fetch_add(1, Ordering::Relaxed) >= emails.failures.len() {
                    return Ok(());
                }
                let (number, key) = ledger.open(Expected::Delivered);
                let posted = poster.post(&emails.request(number, &key)).await?;
                ledger.accept(number, posted.id, posted.is_over)?;
            }
        });
    }
    while let Some(ended) = clients.join_next().await {
        ended??;
    }
    Ok(())
}
