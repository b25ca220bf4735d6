//! What channels have to tell of emails that died.

use std::time::Duration;

use posthaste_core::alert::AlertReason;
use posthaste_core::decision::Decision;
use posthaste_core::fingerprint::fingerprint;
use posthaste_core::port::{Action, ChannelState, Digest, Told};
use posthaste_core::status::DeadReason;

use super::StoreFixture;
use super::scene::{ALL, HALF, HOUR, LEASE, Scene, operator, together};
use crate::{an_email, dead, dead_of, sent, transient};

const GATHER: Duration = HALF;
/// Rest after an alert.
const REST: Duration = Duration::from_secs(2 * 3600);
const QUIET: Duration = Duration::from_secs(4 * 3600);

/// Dies of an error of these words.
fn dying_of(error: &str) -> Decision {
    dead_of(DeadReason::HardBounce, error)
}

async fn die<F: StoreFixture>(scene: &Scene<'_, F>, keys: impl IntoIterator<Item = &str>) {
    for key in keys {
        scene.ended(an_email(key), dying_of("550 no")).await;
    }
}

async fn gather<F: StoreFixture>(scene: &Scene<'_, F>, channels: &[&str]) -> usize {
    let channels: Vec<String> = channels.iter().map(|name| (*name).to_owned()).collect();
    let gathered = scene.store.gather_deaths(&channels, ALL).await;
    gathered.expect("gather")
}

async fn take<F: StoreFixture>(scene: &Scene<'_, F>, channel: &str) -> Option<Digest> {
    let taken = scene.store.take_digest(channel, GATHER, QUIET, LEASE).await;
    taken.expect("take")
}

/// What a channel has to tell once it has waited for long enough.
async fn taken<F: StoreFixture>(scene: &Scene<'_, F>, channel: &str) -> Digest {
    scene.advance(GATHER).await;
    take(scene, channel).await.expect("something to tell")
}

async fn settle<F: StoreFixture>(scene: &Scene<'_, F>, channel: &str, digest: &Digest, told: Told) {
    let settled = scene.store.settle_digest(channel, digest, told).await;
    settled.expect("settle");
}

fn told() -> Told {
    Told::Told { rest: REST }
}

fn failed() -> Told {
    Told::Failed {
        rest: REST,
        error: "503 from the channel".into(),
    }
}

fn counts(digest: &Digest) -> Vec<u64> {
    digest.groups.iter().map(|group| group.count).collect()
}

async fn channel<F: StoreFixture>(scene: &Scene<'_, F>, name: &str) -> ChannelState {
    let all = scene.store.alert_channels().await.expect("channels");
    all.into_iter()
        .find(|state| state.name == name)
        .expect("a channel")
}

pub async fn deaths_are_counted_by_what_they_died_of(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    scene.ended(an_email("sent"), sent()).await;
    scene.ended(an_email("failed"), transient(HALF)).await;
    assert_eq!(gather(&scene, &["slack"]).await, 0);
    let full = dying_of("552 5.2.2 <ann@example.org> mailbox full");
    let ((), first) = scene
        .timed(async {
            scene.ended(an_email("first"), full.clone()).await;
        })
        .await;
    die(&scene, ["refused"]).await;
    let full = dying_of("552 5.2.2 <bob@example.org> mailbox full");
    let (last, end) = scene.timed(scene.ended(an_email("last"), full)).await;
    assert_eq!(gather(&scene, &["slack"]).await, 3);
    assert_eq!(gather(&scene, &["slack"]).await, 0, "each counts once");

    let digest = taken(&scene, "slack").await;
    assert_eq!(counts(&digest), [2, 1], "most first");
    assert_eq!((digest.failures, digest.streak), (0, 0));
    let group = &digest.groups[0];
    assert_eq!(
        group.fingerprint,
        fingerprint("552 5.2.2 <x@example.org> mailbox full")
    );
    assert_eq!(group.reason, AlertReason::Dead(DeadReason::HardBounce));
    first.is(Some(group.first_at));
    end.is(Some(group.last_at));
    let sample = "552 5.2.2 <bob@example.org> mailbox full";
    assert_eq!(group.sample.as_deref(), Some(sample), "the last one");
    assert_eq!(group.email_id, last);
}

pub async fn an_error_without_words_goes_by_its_reason(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let silent = Decision {
        error: None,
        fingerprint: None,
        ..dead(DeadReason::Poison)
    };
    scene.ended(an_email("a"), silent).await;
    gather(&scene, &["slack"]).await;
    let digest = taken(&scene, "slack").await;
    assert_eq!(digest.groups[0].fingerprint, DeadReason::Poison.as_str());
    assert_eq!(digest.groups[0].sample, None);
}

pub async fn every_channel_is_told_by_itself(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    die(&scene, ["a", "b"]).await;
    assert_eq!(gather(&scene, &["slack", "webhook"]).await, 2);
    let slack = taken(&scene, "slack").await;
    settle(&scene, "slack", &slack, told()).await;
    let webhook = take(&scene, "webhook").await.expect("a digest");
    assert_eq!(counts(&webhook), [2]);
    assert_ne!(slack.id, webhook.id);
    assert_eq!(channel(&scene, "slack").await.waiting, 0);
    assert_eq!(channel(&scene, "webhook").await.waiting, 2);
}

pub async fn without_channels_deaths_are_forgotten(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    die(&scene, ["a"]).await;
    assert_eq!(gather(&scene, &[]).await, 1);
    assert_eq!(gather(&scene, &["slack"]).await, 0);
    scene.advance(GATHER).await;
    assert_eq!(take(&scene, "slack").await, None);
}

pub async fn what_died_waits_to_be_gathered(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    die(&scene, ["a"]).await;
    gather(&scene, &["slack"]).await;
    assert_eq!(take(&scene, "slack").await, None, "more may follow");
    scene.advance(GATHER).await;
    die(&scene, ["b"]).await;
    gather(&scene, &["slack"]).await;
    let digest = take(&scene, "slack").await.expect("a digest");
    assert_eq!(
        counts(&digest),
        [2],
        "the last one does not delay the first"
    );
}

pub async fn a_digest_is_told_by_one(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    die(&scene, ["a"]).await;
    gather(&scene, &["slack"]).await;
    scene.advance(GATHER).await;
    let digests = together(8, |_| {
        let store = scene.store.clone();
        async move {
            let taken = store.take_digest("slack", GATHER, QUIET, LEASE).await;
            taken.expect("take")
        }
    });
    let digests: Vec<_> = digests.await.into_iter().flatten().collect();
    assert_eq!(digests.len(), 1);
    // Whoever had it is gone; another takes over and tells the same.
    scene.advance(LEASE).await;
    assert_eq!(take(&scene, "slack").await.as_ref(), digests.first());
}

pub async fn a_channel_rests_between_alerts(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    die(&scene, ["a"]).await;
    gather(&scene, &["slack"]).await;
    let first = taken(&scene, "slack").await;
    settle(&scene, "slack", &first, told()).await;
    die(&scene, ["b"]).await;
    gather(&scene, &["slack"]).await;
    scene.advance(HOUR).await;
    assert_eq!(take(&scene, "slack").await, None, "it rests");
    scene.advance(HOUR).await;
    let second = take(&scene, "slack").await.expect("a digest");
    assert_eq!(counts(&second), [1], "what was told is not told again");
    assert_ne!(second.id, first.id);
}

pub async fn alerts_in_a_row_are_counted_until_it_is_quiet(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    for streak in 0..3 {
        die(&scene, [&*format!("{streak}")]).await;
        gather(&scene, &["slack"]).await;
        let digest = taken(&scene, "slack").await;
        assert_eq!(digest.streak, streak);
        settle(&scene, "slack", &digest, told()).await;
        scene.advance(REST).await;
    }
    scene.advance(QUIET).await;
    die(&scene, ["later"]).await;
    gather(&scene, &["slack"]).await;
    assert_eq!(taken(&scene, "slack").await.streak, 0);
}

pub async fn what_died_while_it_was_told_stays(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    die(&scene, ["a", "b"]).await;
    gather(&scene, &["slack"]).await;
    let digest = taken(&scene, "slack").await;
    die(&scene, ["c"]).await;
    let other = dying_of("551 elsewhere");
    scene.ended(an_email("d"), other).await;
    gather(&scene, &["slack"]).await;
    settle(&scene, "slack", &digest, told()).await;
    assert_eq!(channel(&scene, "slack").await.waiting, 2);
    scene.advance(REST).await;
    let rest = take(&scene, "slack").await.expect("a digest");
    assert_eq!(counts(&rest), [1, 1]);
    let last = digest.groups[0].last_at;
    assert!(rest.groups.iter().all(|group| group.first_at > last));
    assert_ne!(rest.id, digest.id);
}

pub async fn what_a_channel_failed_to_tell_stays_as_it_is(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    die(&scene, ["a"]).await;
    gather(&scene, &["slack"]).await;
    let first = taken(&scene, "slack").await;
    settle(&scene, "slack", &first, failed()).await;
    let state = channel(&scene, "slack").await;
    assert_eq!((state.failures, state.waiting), (1, 1));
    assert_eq!(state.last_error.as_deref(), Some("503 from the channel"));
    assert_eq!(state.last_told_at, None);

    die(&scene, ["b"]).await;
    gather(&scene, &["slack"]).await;
    scene.advance(HOUR).await;
    assert_eq!(take(&scene, "slack").await, None, "not before its time");
    scene.advance(HOUR).await;
    let second = take(&scene, "slack").await.expect("a digest");
    assert_eq!((second.id.as_str(), second.failures), (&*first.id, 1));
    assert_eq!(second.groups, first.groups, "a copy tells nothing else");
    assert_eq!(channel(&scene, "slack").await.waiting, 2);
    let ((), moment) = scene.timed(settle(&scene, "slack", &second, told())).await;
    let state = channel(&scene, "slack").await;
    assert_eq!(
        (state.failures, state.waiting, state.last_error),
        (0, 1, None)
    );
    moment.is(state.last_told_at);
    scene.advance(REST).await;
    let third = take(&scene, "slack").await.expect("a digest");
    assert_eq!(counts(&third), [1], "what died meanwhile");
    assert_ne!(third.id, first.id);
}

pub async fn nothing_is_lost_when_nobody_says_how_it_went(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    die(&scene, ["a", "b"]).await;
    gather(&scene, &["slack"]).await;
    let lost = taken(&scene, "slack").await;
    scene.advance(LEASE).await;
    die(&scene, ["c"]).await;
    gather(&scene, &["slack"]).await;
    let again = take(&scene, "slack").await.expect("a digest");
    assert_eq!(again, lost, "a receiver can tell that it is a copy");
    settle(&scene, "slack", &again, told()).await;
    // The first one comes back from the dead.
    settle(&scene, "slack", &lost, failed()).await;
    settle(&scene, "slack", &lost, told()).await;
    let state = channel(&scene, "slack").await;
    assert_eq!((state.waiting, state.failures), (1, 0));
    scene.advance(REST).await;
    let rest = take(&scene, "slack").await.expect("a digest");
    assert_eq!(counts(&rest), [1]);
    settle(&scene, "slack", &lost, told()).await;
    assert_eq!(channel(&scene, "slack").await.waiting, 1, "not of this one");
}

pub async fn a_letter_that_is_restored_does_not_die_again(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.ended(an_email("a"), dying_of("550 no")).await;
    assert_eq!(gather(&scene, &["slack"]).await, 1);
    scene.act(id, Action::Discard).await;
    scene.act(id, Action::Restore).await;
    assert_eq!(gather(&scene, &["slack"]).await, 0);
    scene.act(id, Action::Retry).await;
    scene.attempt(id, dying_of("550 no")).await;
    assert_eq!(gather(&scene, &["slack"]).await, 1, "but this one does");
}

pub async fn many_gatherers_count_each_death_once(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    for n in 0..60 {
        let error = format!("55{} no", n % 3);
        scene
            .ended(an_email(&n.to_string()), dying_of(&error))
            .await;
    }
    let gathered = together(8, |_| {
        let store = scene.store.clone();
        async move {
            let channels = ["slack".to_owned(), "webhook".to_owned()];
            let mut all = 0;
            for _ in 0..20 {
                all += store.gather_deaths(&channels, 7).await.expect("gather");
            }
            all
        }
    });
    assert_eq!(gathered.await.iter().sum::<usize>(), 60);
    scene.advance(GATHER).await;
    for channel in ["slack", "webhook"] {
        let digest = take(&scene, channel).await.expect("a digest");
        assert_eq!(counts(&digest), [20, 20, 20]);
    }
}

pub async fn counts_are_exact_while_gathering_and_telling_overlap(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    for n in 0..40 {
        scene
            .ended(an_email(&n.to_string()), dying_of("550 no"))
            .await;
    }
    let told = together(4, |task| {
        let store = scene.store.clone();
        async move {
            let (now, channels) = (Duration::ZERO, ["slack".to_owned()]);
            let mut told = 0;
            for _ in 0..40 {
                if task % 2 == 0 {
                    store.gather_deaths(&channels, 1).await.expect("gather");
                    continue;
                }
                let taken = store.take_digest("slack", now, QUIET, LEASE).await;
                if let Some(digest) = taken.expect("take") {
                    told += counts(&digest).iter().sum::<u64>();
                    let done = Told::Told { rest: now };
                    let settled = store.settle_digest("slack", &digest, done).await;
                    settled.expect("settle");
                }
            }
            told
        }
    });
    let told: u64 = told.await.iter().sum();
    gather(&scene, &["slack"]).await;
    assert_eq!(told + channel(&scene, "slack").await.waiting, 40);
}

pub async fn erasing_an_email_leaves_no_sample(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let before = scene.ended(an_email("a"), dying_of("550 no")).await;
    scene.act(before, Action::Erase).await;
    gather(&scene, &["slack"]).await;
    let digest = taken(&scene, "slack").await;
    assert_eq!(
        digest.groups[0].sample, None,
        "erased before it was counted"
    );
    settle(&scene, "slack", &digest, told()).await;
    let after = scene.ended(an_email("b"), dying_of("550 no")).await;
    gather(&scene, &["slack"]).await;
    scene.act(after, Action::Erase).await;
    scene.advance(REST).await;
    let digest = take(&scene, "slack").await.expect("a digest");
    assert_eq!(digest.groups[0].sample, None, "erased after it was counted");
    settle(&scene, "slack", &digest, told()).await;
    let later = scene.ended(an_email("c"), dying_of("550 no")).await;
    gather(&scene, &["slack"]).await;
    scene.advance(REST).await;
    let digest = take(&scene, "slack").await.expect("a digest");
    assert!(digest.groups[0].sample.is_some());
    scene.act(later, Action::Erase).await;
    scene.advance(LEASE).await;
    let digest = take(&scene, "slack").await.expect("a digest");
    assert_eq!(digest.groups[0].sample, None, "erased while it was told");
    assert_eq!(counts(&digest), [1]);
}

pub async fn erasing_does_not_stand_in_the_way_of_counting(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let errors = [
        "550 no",
        "551 elsewhere",
        "552 full",
        "553 what",
        "554 never",
    ];
    let mut ids = Vec::new();
    for n in 0..60 {
        let decision = dying_of(errors[n % errors.len()]);
        ids.push(scene.ended(an_email(&n.to_string()), decision).await);
    }
    let channels = ["webhook", "slack", "pagerduty"].map(str::to_owned);
    let counted = together(4, |task| {
        let (store, ids, channels) = (scene.store.clone(), ids.clone(), channels.clone());
        async move {
            let mut counted = 0;
            for n in 0..30 {
                if task % 2 == 0 {
                    let of_every_kind = ids.chunks(errors.len()).cycle().nth(n + task);
                    let some = of_every_kind.expect("some").to_vec();
                    let erased = store.act(some, Action::Erase, &operator()).await;
                    erased.expect("erase");
                } else {
                    let gathered = store.gather_deaths(&channels, 3).await;
                    counted += gathered.expect("gather") as u64;
                }
            }
            counted
        }
    });
    let counted: u64 = counted.await.iter().sum();
    let left = gather(&scene, &["pagerduty", "slack", "webhook"]).await as u64;
    assert_eq!(counted + left, 60);
    for name in &channels {
        assert_eq!(channel(&scene, name).await.waiting, 60);
    }
    scene.advance(GATHER).await;
    let digest = take(&scene, "slack").await.expect("a digest");
    assert!(digest.groups.iter().all(|group| group.sample.is_none()));
}
