//! One outage from its beginning to the last delivery.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use jiff::Timestamp;
use posthaste_sink::{Sink, SinkConfig};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};

use super::census::Census;
use super::hand_in::hand_in;
use super::options::Options;
use super::ramp::Arrivals;
use crate::rig::journal::Journal;
use crate::rig::stand::Stand;

/// How often the transport is looked at.
const LOOKS_EVERY: Duration = Duration::from_secs(1);
/// How often arrivals are counted.
const COUNTS_EVERY: Duration = Duration::from_millis(5);
/// How often it is asked whether anything is left.
const ASKS_EVERY: Duration = Duration::from_millis(500);
/// Below the ports that systems give to clients: while nobody listens, no client may get this one
/// and end up connected with itself.
const PORTS: std::ops::Range<u16> = 12_000..28_000;
/// What is shown while it runs.
const SHOWN: [&str; 2] = ["accepted", "delivered"];
/// States that something still has to happen to.
const UNDER_WAY: [&str; 4] = ["pending", "sending", "failed", "retry_queued"];

/// How the transport did at one moment.
#[derive(Debug, Clone)]
pub(super) struct Look {
    /// When, since the mail server was back; negative before.
    pub(super) seconds: f64,
    pub(super) state: String,
    pub(super) waiting: u64,
    pub(super) ramp_rate: Option<f64>,
}

impl Look {
    /// For programs.
    pub(super) fn json(&self) -> Value {
        json!({
            "seconds": (self.seconds * 10.0).round() / 10.0, "state": self.state,
            "waiting": self.waiting, "ramp_rate": self.ramp_rate,
        })
    }
}

/// What happened.
pub(super) struct Tale {
    pub(super) accepted: u64,
    /// From the first to the last acceptance.
    pub(super) accept_time: Duration,
    /// For how long the mail server was away after all were accepted.
    pub(super) away: Duration,
    pub(super) arrivals: Arrivals,
    /// The most copies of one email at the mail server.
    pub(super) most_copies: u64,
    /// How many emails the mail server has.
    pub(super) at_sink: u64,
    pub(super) census: Census,
    pub(super) looks: Vec<Look>,
    /// What is left, if the limit was hit.
    pub(super) not_drained: Option<String>,
    pub(super) verify: Option<String>,
}

/// What is known while it runs.
#[derive(Default)]
struct Watch {
    looks: Mutex<Vec<(Instant, Look)>>,
    stopped_at: Mutex<Option<Timestamp>>,
    accepted: Arc<AtomicU64>,
    delivered: AtomicU64,
}

/// Runs one outage, with breakers or without.
pub(super) async fn run(
    binary: &Path,
    folder: &Path,
    options: &Options,
    has_breaker: bool,
    journal: &Arc<Journal>,
) -> anyhow::Result<Tale> {
    let address = quiet_address(options.seed)?;
    let name = if has_breaker { "with" } else { "without" };
    let mut variables = options.variables(has_breaker);
    variables.push(("SMTP_URL", format!("smtp://{address}?tls=none")));
    let footing = &options.footing;
    let stand = Stand::start(binary, folder, name, footing, &variables, journal).await?;
    let watch = Watch::default();
    let playing = play(&stand, options, address, &watch, journal);
    let watching = watch.look_for_ever(&stand, journal);
    let showing = journal.show(options.emails, SHOWN, || {
        [&watch.accepted, &watch.delivered].map(|count| count.load(Ordering::Relaxed))
    });
    let played = tokio::select! {
        played = playing => played?,
        ended = watching => return ended.and_then(|()| bail!("nobody looks")),
        () = showing => bail!("nothing is shown"),
    };
    let tale = played
        .told(&stand, &watch, options.rules().first_probe)
        .await?;
    stand.stop().await?;
    Ok(tale)
}

/// What is known when everything is over.
struct Played {
    ids: Vec<String>,
    accept_time: Duration,
    away: Duration,
    back_at: Instant,
    arrivals: Arrivals,
    sink: Sink,
    not_drained: Option<String>,
}

async fn play(
    stand: &Stand,
    options: &Options,
    address: SocketAddr,
    watch: &Watch,
    journal: &Journal,
) -> anyhow::Result<Played> {
    let begun = Instant::now();
    let ids = hand_in(options, &stand.addresses()?, &watch.accepted).await?;
    let accept_time = begun.elapsed();
    let accepted_at = Instant::now();
    journal.line(&format!(
        "all are accepted; the mail server stays away for {:.1} s",
        options.outage().as_secs_f64()
    ));
    tokio::time::sleep(options.outage()).await;
    let away = accepted_at.elapsed();
    let config = SinkConfig {
        listen: address,
        ..SinkConfig::default()
    };
    let sink = Sink::start(config).await?;
    let back_at = Instant::now();
    journal.line("the mail server is back");
    let mut arrivals = Arrivals::default();
    let mut count = async || -> anyhow::Result<()> {
        loop {
            let (now, all) = (back_at.elapsed(), sink.accepted());
            while (arrivals.0.len() as u64) < all {
                arrivals.0.push(now);
            }
            watch.delivered.store(all, Ordering::Relaxed);
            tokio::time::sleep(COUNTS_EVERY).await;
        }
    };
    let settling = async {
        tokio::select! {
            settled = tokio::time::timeout(options.limit.0, settled(stand)) => settled,
            counted = count() => Ok(counted),
        }
    };
    let not_drained = match settling.await {
        Ok(settled) => {
            settled?;
            None
        }
        Err(_) => Some(format!(
            "not drained within {}: {:?}",
            options.limit,
            under_way(stand).await?
        )),
    };
    // Whatever came between the last count and now.
    while (arrivals.0.len() as u64) < sink.accepted() {
        arrivals.0.push(back_at.elapsed());
    }
    Ok(Played {
        ids,
        accept_time,
        away,
        back_at,
        arrivals,
        sink,
        not_drained,
    })
}

impl Played {
    async fn told(
        self,
        stand: &Stand,
        watch: &Watch,
        first_probe: Duration,
    ) -> anyhow::Result<Tale> {
        let stopped_at = *watch
            .stopped_at
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let tested_from = stopped_at
            .map(|at| at.checked_add(first_probe))
            .transpose()?;
        let census = Census::take(&stand.addresses()?, &self.ids, tested_from).await?;
        let verify = stand.verify(&self.ids).await?;
        let report = self.sink.report();
        let looks = watch.looks.lock().unwrap_or_else(PoisonError::into_inner);
        let looks = looks.iter().map(|(at, look)| {
            let before = self.back_at.saturating_duration_since(*at).as_secs_f64();
            let after = at.saturating_duration_since(self.back_at).as_secs_f64();
            Look {
                seconds: after - before,
                ..look.clone()
            }
        });
        let looks = looks.collect();
        Ok(Tale {
            accepted: self.ids.len() as u64,
            accept_time: self.accept_time,
            away: self.away,
            arrivals: self.arrivals,
            most_copies: report.copies.iter().map(|c| c.copies).max().unwrap_or(0),
            at_sink: report.copies.len() as u64,
            census,
            looks,
            not_drained: self.not_drained,
            verify,
        })
    }
}

impl Watch {
    /// Looks at the transport until dropped, and tells when it does something else.
    async fn look_for_ever(&self, stand: &Stand, journal: &Journal) -> anyhow::Result<()> {
        let mut every = tokio::time::interval(LOOKS_EVERY);
        let mut before = String::new();
        loop {
            every.tick().await;
            stand.check()?;
            let answer = stand.ask("/v1/transports").await?;
            let smtp = answer["data"].as_array().and_then(|all| all.first());
            let smtp = smtp.context("no transport")?;
            let state = smtp["state"].as_str().context("no state")?.to_owned();
            // One that is tested is as good as stopped.
            let shown = state.replace("probing", "stopped");
            if shown != before {
                journal.line(&format!(
                    "the transport is {shown}, {} wait",
                    smtp["waiting"]
                ));
                before = shown;
            }
            let is_stopped = matches!(state.as_str(), "stopped" | "probing");
            if let (true, Some(since)) = (is_stopped, smtp["since"].as_str()) {
                let since: Timestamp = since.parse()?;
                let mut stopped_at = self
                    .stopped_at
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                stopped_at.get_or_insert(since);
            }
            let look = Look {
                seconds: 0.0,
                state,
                waiting: smtp["waiting"].as_u64().context("no number")?,
                ramp_rate: smtp["ramp_rate"].as_f64(),
            };
            let mut looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
            looks.push((Instant::now(), look));
        }
    }
}

/// Returns once nothing is under way.
async fn settled(stand: &Stand) -> anyhow::Result<()> {
    while !under_way(stand).await?.is_empty() {
        tokio::time::sleep(ASKS_EVERY).await;
    }
    Ok(())
}

/// What is under way, by state.
async fn under_way(stand: &Stand) -> anyhow::Result<Vec<(&'static str, u64)>> {
    let answer = stand.ask("/v1/stats").await?;
    let counted = UNDER_WAY.map(|status| (status, answer["emails"][status].as_u64()));
    let counted = counted.into_iter().map(|(status, n)| {
        let n = n.with_context(|| format!("/v1/stats does not say how many are {status}"))?;
        Ok((status, n))
    });
    let counted: Vec<_> = counted.collect::<anyhow::Result<_>>()?;
    Ok(counted.into_iter().filter(|(_, n)| *n > 0).collect())
}

/// An address where nobody listens, and that no client gets by itself.
fn quiet_address(seed: u64) -> anyhow::Result<SocketAddr> {
    let mut dice = StdRng::seed_from_u64(seed);
    for _ in 0..100 {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, dice.random_range(PORTS)));
        if TcpListener::bind(address).is_ok() {
            return Ok(address);
        }
    }
    bail!("all of 100 ports are taken")
}
