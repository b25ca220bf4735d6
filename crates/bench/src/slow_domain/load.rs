//! The emails of one round: handed in at their moments, whatever became of those before.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::options::Options;
use crate::client::Client;

/// Time to get ready before the first moment.
const LEAD: Duration = Duration::from_millis(50);

/// One email to hand in.
struct Planned {
    /// When, since the beginning of the round.
    at: Duration,
    to: String,
}

/// Which emails there are in a round.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mix {
    /// How many go to fast domains.
    pub(super) fast: usize,
    /// How many go to slow ones.
    pub(super) slow: u64,
    /// Whether those are slow this time.
    pub(super) is_slow: bool,
}

/// What is handed in in a round.
pub(super) struct Round {
    planned: Vec<Planned>,
    /// Which round, in the addresses of its emails.
    name: String,
    fast: usize,
}

/// What was handed in.
pub(super) struct HandedIn {
    /// The moment of each email to a fast domain, by its number.
    pub(super) moments: Vec<Instant>,
    pub(super) ids: Vec<String>,
}

impl Round {
    /// Plans a round. The slow domain's emails are spread evenly among the others.
    pub(super) fn plan(options: &Options, name: &str, mix: Mix) -> Self {
        let Mix { fast, slow, .. } = mix;
        let mut dice = StdRng::seed_from_u64(options.seed);
        let time = fast as f64 / options.rate.max(0.001);
        let mut planned: Vec<_> = (0..fast)
            .map(|number| {
                let domain = dice.random_range(0..options.domains);
                Planned {
                    at: Duration::from_secs_f64(number as f64 / options.rate.max(0.001)),
                    to: format!("{name}-{number}@d{domain}.example.org"),
                }
            })
            .collect();
        let millis = if mix.is_slow {
            options.slow.0.as_millis()
        } else {
            0
        };
        planned.extend((0..slow).map(|number| {
            let domain = number % options.slow_domains;
            Planned {
                at: Duration::from_secs_f64(time * number as f64 / slow as f64),
                to: format!("slow{millis}+{name}-{number}@slow{domain}.example.net"),
            }
        }));
        planned.sort_by_key(|one| one.at);
        Self {
            planned,
            name: name.to_owned(),
            fast,
        }
    }

    /// The number of an email of this round to a fast domain, by its recipient.
    pub(super) fn number_of(&self, recipient: &str) -> Option<usize> {
        let rest = recipient.strip_prefix(&self.name)?.strip_prefix('-')?;
        rest.split_once('@')?.0.parse().ok()
    }

    /// Hands all in.
    pub(super) async fn hand_in(
        self: &Arc<Self>,
        options: &Options,
        addresses: &[String],
    ) -> anyhow::Result<HandedIn> {
        let next = Arc::new(AtomicUsize::new(0));
        let letter = |at: usize| char::from(b'a' + ((at * at * 31 + at * 7) % 26) as u8);
        let text: Arc<str> = (0..options.body)
            .map(|at| if at % 72 == 71 { '\n' } else { letter(at) })
            .collect::<String>()
            .into();
        let begin = Instant::now() + LEAD;
        let mut clients = JoinSet::new();
        for place in 0..options.clients.max(1) {
            let address = addresses[place % addresses.len()].clone();
            let (round, next, text) = (Arc::clone(self), Arc::clone(&next), Arc::clone(&text));
            clients.spawn(async move { round.hand_in_some(&address, begin, &next, &text).await });
        }
        let mut ids = Vec::with_capacity(self.planned.len());
        while let Some(ended) = clients.join_next().await {
            ids.extend(ended??);
        }
        let mut moments = vec![begin; self.fast];
        for planned in &self.planned {
            if let Some(number) = self.number_of(&planned.to) {
                moments[number] = begin + planned.at;
            }
        }
        Ok(HandedIn { moments, ids })
    }

    async fn hand_in_some(
        &self,
        address: &str,
        begin: Instant,
        next: &AtomicUsize,
        text: &str,
    ) -> anyhow::Result<Vec<String>> {
        let mut client = Client::connect(address).await?;
        let mut ids = Vec::new();
        while let Some(planned) = self.planned.get(next.fetch_add(1, Ordering::Relaxed)) {
            tokio::time::sleep_until((begin + planned.at).into()).await;
            let email = json!({
                "from": "bench@example.org", "to": planned.to, "subject": "Bench", "text": text,
            });
            let (status, answer) = client.post("/v1/emails", &email.to_string()).await?;
            ensure!(status == 202, "the server answered {status}: {answer}");
            let answer: Value = serde_json::from_str(&answer)?;
            ids.push(answer["id"].as_str().context("no id")?.to_owned());
        }
        Ok(ids)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        options: Options,
    }

    fn mix(fast: usize, slow: u64) -> Mix {
        Mix {
            fast,
            slow,
            is_slow: true,
        }
    }

    #[test]
    fn slow_emails_are_among_the_fast_ones() {
        let options = Command::parse_from(["test", "--slow", "30s"]).options;
        let round = Round::plan(&options, "b1", mix(400, 100));
        let is_slow: Vec<bool> = round
            .planned
            .iter()
            .map(|one| one.to.starts_with("slow30000+b1-"))
            .collect();
        assert_eq!(is_slow.iter().filter(|slow| **slow).count(), 100);
        let half = is_slow[..250].iter().filter(|slow| **slow).count();
        assert_eq!(half, 50);
        let domains = round.planned.iter().filter(|one| one.to.ends_with(".net"));
        assert!(domains.clone().all(|one| one.to.contains("@slow0.")));
    }

    #[test]
    fn an_email_is_known_by_its_recipient() {
        let options = Command::parse_from(["test"]).options;
        let round = Round::plan(&options, "b1", mix(4, 4));
        assert_eq!(round.number_of("b1-3@d77.example.org"), Some(3));
        assert_eq!(round.number_of("b10-3@d77.example.org"), None);
        assert_eq!(round.number_of("slow30000+b1-3@slow0.example.net"), None);
    }
}
