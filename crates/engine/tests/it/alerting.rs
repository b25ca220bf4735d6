//! Many deaths are few alerts, and a channel in trouble holds up nobody.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use posthaste_core::alert::Alert;
use posthaste_core::port::{AlertChannel, Begun, Finish};
use posthaste_core::status::DeadReason;
use posthaste_engine::alerter::{AlertConfig, Gatherer, Teller};
use posthaste_engine::service::{self, Service as _};
use posthaste_engine::{Metrics, Operator, Policies};
use posthaste_testkit::{an_email, dead_of};
use prometheus_client::registry::Registry;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::world::World;

/// Keeps what it is told, fails, or hangs, as the test wants.
struct Channel {
    name: &'static str,
    fails: AtomicBool,
    hangs: bool,
    reached: Notify,
    told: Mutex<Vec<Alert>>,
}

impl Channel {
    fn new(name: &'static str) -> Arc<Self> {
        Self::with(name, false)
    }

    fn hanging(name: &'static str) -> Arc<Self> {
        Self::with(name, true)
    }

    fn with(name: &'static str, hangs: bool) -> Arc<Self> {
        Arc::new(Self {
            name,
            fails: AtomicBool::new(false),
            hangs,
            reached: Notify::new(),
            told: Mutex::default(),
        })
    }

    fn told(&self) -> Vec<Alert> {
        self.told.lock().unwrap().clone()
    }

    fn deaths(&self) -> u64 {
        self.told().iter().map(Alert::count).sum()
    }
}

#[async_trait]
impl AlertChannel for Channel {
    fn name(&self) -> &str {
        self.name
    }

    async fn tell(&self, alert: &Alert) -> Result<(), String> {
        self.reached.notify_one();
        if self.hangs {
            return std::future::pending().await;
        }
        if self.fails.load(Ordering::SeqCst) {
            return Err("as the test wants".into());
        }
        self.told.lock().unwrap().push(alert.clone());
        Ok(())
    }
}

/// A world with tellers for channels.
struct Desk {
    world: World,
    gatherer: Gatherer,
    tellers: Vec<Arc<Teller>>,
    registry: Registry,
    shutdown: CancellationToken,
    dead: usize,
}

impl Desk {
    fn new(channels: &[Arc<Channel>]) -> Self {
        Self::patient_for(MINUTE, channels)
    }

    fn patient_for(deadline: Duration, channels: &[Arc<Channel>]) -> Self {
        let world = World::new();
        let mut registry = Registry::default();
        let metrics = Arc::new(Metrics::new(&mut registry, &[]));
        let shutdown = CancellationToken::new();
        let all: Vec<Arc<dyn AlertChannel>> = channels
            .iter()
            .map(|channel| Arc::<Channel>::clone(channel) as Arc<dyn AlertChannel>)
            .collect();
        let tellers = all.iter().map(|channel| {
            Arc::new(Teller::new(
                Arc::clone(&world.store),
                Arc::clone(channel),
                AlertConfig {
                    deadline,
                    ..AlertConfig::default()
                },
                Arc::clone(&metrics),
                shutdown.clone(),
            ))
        });
        Self {
            tellers: tellers.collect(),
            gatherer: Gatherer::new(Arc::clone(&world.store), &all),
            world,
            registry,
            shutdown,
            dead: 0,
        }
    }

    /// Lets emails die, of one of two things each.
    async fn die(&mut self, count: usize) {
        let emails: Vec<_> = (self.dead..self.dead + count)
            .map(|n| an_email(&n.to_string()).build())
            .collect();
        self.dead += count;
        let store = &self.world.store;
        let ids: Vec<_> = emails.iter().map(|email| email.id).collect();
        store.accept(emails, true).await.unwrap();
        let begun = store.begin(ids, "worker", Duration::from_secs(60)).await;
        let finishes = begun.unwrap().into_iter().enumerate().map(|(n, begun)| {
            let Begun::Started(started) = begun else {
                panic!("{begun:?}");
            };
            let error = ["550 5.1.1 no such user", "552 5.2.2 mailbox full"][n % 2];
            Finish {
                lease: started.lease,
                decision: dead_of(DeadReason::HardBounce, error),
                transport: Some("smtp".into()),
                budget: 8,
                removes_sent: false,
            }
        });
        store.finish(finishes.collect()).await.unwrap();
    }

    /// Lets time pass, with a round of every service each few seconds.
    async fn pass(&mut self, time: Duration) {
        const STEP: Duration = Duration::from_secs(5);
        for _ in 0..time.as_secs() / STEP.as_secs() {
            self.round().await;
            self.world.clock.advance(STEP);
        }
        self.round().await;
    }

    async fn round(&self) {
        self.gatherer.run_once().await.unwrap();
        for teller in &self.tellers {
            teller.run_once().await.unwrap();
        }
    }

    fn metric(&self, channel: &str, outcome: &str) -> u64 {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        let line =
            format!("posthaste_alerts_total{{channel=\"{channel}\",outcome=\"{outcome}\"}} ");
        let found = text.lines().find_map(|one| one.strip_prefix(&line));
        found.expect("a metric").parse().unwrap()
    }
}

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn an_outage_that_kills_ten_thousand_is_a_handful_of_alerts() {
    let slack = Channel::new("slack");
    let mut desk = Desk::new(&[Arc::clone(&slack)]);
    for _ in 0..100 {
        desk.die(100).await;
        desk.pass(Duration::from_secs(15)).await;
    }
    desk.pass(30 * MINUTE).await;
    let told = slack.told();
    assert!((2..=8).contains(&told.len()), "{} alerts", told.len());
    assert_eq!(slack.deaths(), 10_000, "each death counts once");
    let last = told.last().unwrap();
    assert_eq!(last.dead_letters, 10_000);
    assert_eq!(last.groups.len(), 2);
    assert_eq!(last.service, "posthaste");
    assert_eq!(desk.metric("slack", "told"), told.len() as u64);
    assert_eq!(desk.metric("slack", "failed"), 0);
    desk.world.verify().await;
}

#[tokio::test]
async fn after_a_quiet_time_the_next_death_is_told_at_once() {
    let slack = Channel::new("slack");
    let mut desk = Desk::new(&[Arc::clone(&slack)]);
    for expected in [1, 2, 3] {
        desk.die(1).await;
        desk.pass(Duration::from_secs(10)).await;
        assert_eq!(slack.told().len(), expected);
        desk.pass(20 * MINUTE).await;
    }
    // Deaths that go on are told ever more rarely.
    desk.die(1).await;
    desk.pass(Duration::from_secs(10)).await;
    let mut told = Vec::new();
    for _ in 0..16 {
        desk.die(1).await;
        desk.pass(MINUTE).await;
        told.push(slack.told().len() - 4);
    }
    assert_eq!(*told.last().unwrap(), 4, "{told:?}");
}

#[tokio::test]
async fn a_failing_channel_is_told_all_of_it_later() {
    let slack = Channel::new("slack");
    let webhook = Channel::new("webhook");
    webhook.fails.store(true, Ordering::SeqCst);
    let mut desk = Desk::new(&[Arc::clone(&slack), Arc::clone(&webhook)]);
    for _ in 0..30 {
        desk.die(10).await;
        desk.pass(2 * MINUTE).await;
    }
    assert!(slack.deaths() >= 200, "the other one is told meanwhile");
    let failures = desk.metric("webhook", "failed");
    assert!((8..=20).contains(&failures), "{failures} tries in an hour");
    let operator = Operator::new(
        Arc::clone(&desk.world.store),
        Arc::new(Policies::default()),
        Arc::new(Notify::new()),
    );
    let all: [Arc<dyn AlertChannel>; 3] = [
        Arc::<Channel>::clone(&slack),
        Arc::<Channel>::clone(&webhook),
        Channel::new("new"),
    ];
    let states = operator.alerting(&all).alert_channels().await.unwrap();
    assert_eq!(states[0].failures, 0);
    assert_eq!(u64::from(states[1].failures), failures);
    assert_eq!(states[1].waiting, 300);
    assert_eq!((states[2].name.as_str(), states[2].waiting), ("new", 0));

    webhook.fails.store(false, Ordering::SeqCst);
    desk.pass(13 * MINUTE).await;
    let counts: Vec<u64> = webhook.told().iter().map(Alert::count).collect();
    assert_eq!(counts, [10, 290], "what failed at first, and then the rest");
    let told = webhook.told();
    assert_ne!(told[0].id, told[1].id, "the rest is not taken for a copy");
}

#[tokio::test]
async fn a_hanging_channel_holds_up_neither_others_nor_the_end() {
    let slack = Channel::hanging("slack");
    let webhook = Channel::new("webhook");
    let mut desk = Desk::new(&[Arc::clone(&slack), Arc::clone(&webhook)]);
    desk.die(3).await;
    desk.gatherer.run_once().await.unwrap();
    desk.world.clock.advance(MINUTE);
    let running: Vec<_> = desk
        .tellers
        .iter()
        .map(|teller| {
            let teller = Arc::<Teller>::clone(teller);
            tokio::spawn(service::run(teller, Arc::default(), desk.shutdown.clone()))
        })
        .collect();
    slack.reached.notified().await;
    webhook.reached.notified().await;
    while desk.metric("webhook", "told") == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(webhook.deaths(), 3);
    desk.shutdown.cancel();
    for task in running {
        task.await.unwrap();
    }
    assert_eq!(desk.metric("slack", "failed"), 0, "it was not waited for");
}

#[tokio::test]
async fn a_channel_that_does_not_answer_has_failed() {
    let slack = Channel::hanging("slack");
    let mut desk = Desk::patient_for(Duration::from_millis(1), &[Arc::clone(&slack)]);
    desk.die(1).await;
    desk.pass(Duration::from_secs(5)).await;
    assert_eq!(desk.metric("slack", "failed"), 1);
    let states = desk.world.store.alert_channels().await.unwrap();
    assert_eq!(
        states[0].last_error.as_deref(),
        Some("no answer within 1ms")
    );
}

#[tokio::test]
async fn without_channels_deaths_do_not_pile_up() {
    let mut desk = Desk::new(&[]);
    desk.die(10).await;
    assert_eq!(desk.gatherer.run_once().await.unwrap().done, 10);
    assert_eq!(desk.gatherer.run_once().await.unwrap().done, 0);
}
