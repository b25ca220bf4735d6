//! How the ways out do, shared by all instances.

use std::time::Duration;

use posthaste_core::alert::AlertReason;
use posthaste_core::decision::Parking;
use posthaste_core::email::EmailId;
use posthaste_core::port::{AuditFilter, Digest, Retention, SharedStore, WaysReport};
use posthaste_core::status::Status;
use posthaste_core::way::{BreakerRules, Condition, FaultNote, Way, WayAnswer, WayEvent, WayName};

use super::StoreFixture;
use super::scene::{ALL, HALF, HOUR, Scene, operator, together};
use crate::{an_email, sent, transient};

/// Three failures in a row stop a way; steps of time are hours.
const RULES: BreakerRules = BreakerRules {
    failures: 3,
    credential_failures: 2,
    window: Duration::from_secs(24 * 3600),
    first_probe: HOUR,
    longest_probe: Duration::from_secs(4 * 3600),
    ramp_rate: 5.0,
    ramp_doubling: HOUR,
    ramp: HOUR,
};
const ERROR: &str = "connection refused (at connect)";

fn primary() -> WayName {
    WayName::transport("primary")
}

fn fault(email: EmailId, attempt: u32) -> WayEvent {
    WayEvent::Fault {
        note: FaultNote { email, attempt },
        is_ours: false,
        error: ERROR.into(),
        floor: None,
    }
}

fn probe(email: EmailId) -> WayEvent {
    let lease = HOUR;
    WayEvent::Probe { email, lease }
}

fn pause() -> WayEvent {
    let actor = operator().name;
    WayEvent::Pause { actor }
}

async fn tell_to(store: &SharedStore, event: WayEvent, rules: &BreakerRules) -> (Way, WayAnswer) {
    let told = store.tell_way(&primary(), event, rules, None).await;
    told.expect("tell")
}

async fn tell<F: StoreFixture>(scene: &Scene<'_, F>, event: WayEvent) -> (Way, WayAnswer) {
    tell_to(&scene.store, event, &RULES).await
}

/// What an operator does.
async fn operate<F: StoreFixture>(scene: &Scene<'_, F>, event: WayEvent) -> (Way, WayAnswer) {
    let (name, actor) = (primary(), operator());
    let told = scene.store.tell_way(&name, event, &RULES, Some(&actor));
    told.await.expect("tell")
}

/// Stops the way; what it answered last.
async fn stop<F: StoreFixture>(scene: &Scene<'_, F>) -> (Way, WayAnswer) {
    for _ in 0..2 {
        let (_, answer) = tell(scene, fault(EmailId::generate(), 1)).await;
        assert_eq!(answer, WayAnswer::Spends);
    }
    tell(scene, fault(EmailId::generate(), 1)).await
}

async fn look(store: &SharedStore) -> WaysReport {
    let report = store.watch_ways(None, Duration::ZERO).await;
    report.expect("watch")
}

/// What a channel is told next.
async fn digest<F: StoreFixture>(scene: &Scene<'_, F>) -> Option<Digest> {
    let channels = ["slack".to_owned()];
    let gathered = scene.store.gather_deaths(&channels, ALL).await;
    gathered.expect("gather");
    let none = Duration::ZERO;
    let taken = scene.store.take_digest("slack", none, HOUR, none).await;
    let digest = taken.expect("take")?;
    let told = posthaste_core::port::Told::Told { rest: none };
    let settled = scene.store.settle_digest("slack", &digest, told).await;
    settled.expect("settle");
    Some(digest)
}

pub async fn a_way_of_which_nothing_is_known_is_not_kept(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let email = EmailId::generate();
    for (event, expected) in [
        (WayEvent::Success { email }, WayAnswer::Noted),
        (WayEvent::Abandon { email }, WayAnswer::Noted),
        (probe(email), WayAnswer::Refused),
        (WayEvent::Resume, WayAnswer::Refused),
    ] {
        let (way, answer) = tell(&scene, event).await;
        assert_eq!(answer, expected);
        assert!(way.is_plain());
    }
    assert_eq!(look(&scene.store).await, WaysReport::default());
    tell(&scene, fault(email, 1)).await;
    assert_eq!(look(&scene.store).await.ways.len(), 1);
    tell(&scene, WayEvent::Success { email }).await;
    assert_eq!(look(&scene.store).await.ways, []);
}

pub async fn faults_in_a_row_stop_a_way_for_all_instances(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let ((way, answer), moment) = scene.timed(stop(&scene)).await;
    assert_eq!(answer, WayAnswer::Waits);
    assert_eq!(way.condition, Condition::Stopped);
    moment.is(Some(way.since));
    moment.is_followed_by(way.next_probe_at, HOUR);
    assert_eq!(way.last_error.as_deref(), Some(ERROR));
    let known = look(&fixture.another().await).await.ways;
    assert_eq!(known, [(primary(), way)], "as it was answered");
    // Another way is another way.
    let domain = WayName::domain("primary", "example.org");
    let event = fault(EmailId::generate(), 7);
    let told = scene.store.tell_way(&domain, event, &RULES, None).await;
    let (way, answer) = told.expect("tell");
    assert_eq!(answer, WayAnswer::Spends);
    let known = look(&scene.store).await.ways;
    assert_eq!(known[1], (domain, way));
}

pub async fn faults_told_at_the_same_time_are_counted_exactly(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let stores = [scene.store.clone(), fixture.another().await];
    let rules = BreakerRules {
        failures: 20,
        ..RULES
    };
    let tell_all = async |most: usize| {
        let answers = together(most, |n| {
            let store = stores[n % 2].clone();
            async move {
                tell_to(&store, fault(EmailId::generate(), 1), &rules)
                    .await
                    .1
            }
        });
        answers.await
    };
    let spent = |answers: &[WayAnswer]| answers.iter().filter(|a| **a == WayAnswer::Spends).count();
    assert_eq!(spent(&tell_all(12).await), 12);
    let (_, way) = look(&scene.store).await.ways.remove(0);
    assert_eq!(way.faults.len(), 12, "none got lost");
    let answers = tell_all(30).await;
    assert_eq!(spent(&answers), 7, "the twentieth is one too many");
    let (_, way) = look(&stores[1]).await.ways.remove(0);
    assert_eq!((way.condition, way.faults.len()), (Condition::Stopped, 0));
    let digest = digest(&scene).await.expect("news");
    let counts: Vec<u64> = digest.groups.iter().map(|group| group.count).collect();
    assert_eq!(counts, [1], "it was stopped once");
}

pub async fn a_way_that_comes_and_goes_ends_as_it_was_told_last(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let stores = [scene.store.clone(), fixture.another().await];
    let rules = BreakerRules {
        failures: 1000,
        ..RULES
    };
    // Its row comes with a fault and goes with a success, under everyone's hands.
    let told = together(8, |n| {
        let store = stores[n % 2].clone();
        async move {
            let email = EmailId::generate();
            for _ in 0..10 {
                tell_to(&store, fault(email, 1), &rules).await;
                tell_to(&store, WayEvent::Success { email }, &rules).await;
            }
        }
    });
    told.await;
    assert_eq!(look(&scene.store).await.ways, []);
}

pub async fn what_failed_by_the_fault_of_a_way_spends_nothing(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let mut emails = Vec::new();
    for (key, delay) in [("a", 4 * HOUR), ("b", HOUR)] {
        let id = scene.accept(an_email(key)).await;
        let started = scene.begin(id).await;
        let (_, answer) = tell(&scene, fault(id, started.state.attempt_number)).await;
        assert_eq!(answer, WayAnswer::Spends);
        let finished = scene.finish(started.lease, transient(delay)).await;
        assert_eq!(finished.expect("a lease that holds").attempt_count, 1);
        emails.push(id);
    }
    // The second one has been tried again since: what it spent is spent.
    scene.advance(HOUR).await;
    scene.schedule().await;
    let again = scene.begin(emails[1]).await;
    let last = scene.accept(an_email("c")).await;
    let started = scene.begin(last).await;
    let (_, answer) = tell(&scene, fault(last, started.state.attempt_number)).await;
    assert_eq!(
        answer,
        WayAnswer::Waits,
        "this one is not to spend anything"
    );
    let refunded = scene.find(emails[0]).await;
    assert_eq!(refunded.state.attempt_count, 0);
    assert_eq!(refunded.state.status, Status::Failed);
    assert!(refunded.attempts[0].is_free);
    let kept = scene.find(emails[1]).await;
    assert_eq!(
        (kept.state.attempt_count, kept.attempts[0].is_free),
        (1, false)
    );
    for lease in [again.lease, started.lease] {
        scene.release(lease).await;
    }
}

pub async fn a_stop_and_a_recovery_are_told(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let email = EmailId::generate();
    tell(&scene, fault(EmailId::generate(), 1)).await;
    tell(&scene, fault(EmailId::generate(), 1)).await;
    let (_, moment) = scene.timed(tell(&scene, fault(email, 1))).await;
    let news = digest(&scene).await.expect("news");
    let [group] = &news.groups[..] else {
        panic!("{news:?}");
    };
    assert_eq!(group.reason, AlertReason::TransportStopped);
    let sentence = "The way out primary is stopped: connection refused (at connect); \
                    emails wait for it";
    assert_eq!(group.sample.as_deref(), Some(sentence));
    assert_eq!((group.email_id, group.count), (email, 1));
    moment.is(Some(group.last_at));

    // A probe that fails is no news.
    scene.advance(HOUR).await;
    assert_eq!(tell(&scene, probe(email)).await.1, WayAnswer::Taken);
    let (way, answer) = tell(&scene, fault(email, 2)).await;
    assert_eq!(answer, WayAnswer::Waits);
    assert_eq!(way.probe_rest, 2 * HOUR);
    assert_eq!(digest(&scene).await, None);

    scene.advance(2 * HOUR).await;
    assert_eq!(tell(&scene, probe(email)).await.1, WayAnswer::Taken);
    tell(&scene, WayEvent::Success { email }).await;
    let channels = ["slack".to_owned()];
    let gathered = scene.store.gather_deaths(&channels, ALL).await;
    assert_eq!(gathered.expect("gather"), 1);
    let state = scene.store.alert_channels().await.expect("channels");
    assert_eq!(state[0].waiting, 0, "nothing died");
    let news = digest(&scene).await.expect("news");
    assert_eq!(news.groups[0].reason, AlertReason::TransportRecovered);
    let sentence = "The way out primary takes mail again";
    assert_eq!(news.groups[0].sample.as_deref(), Some(sentence));
    let statistics = scene.store.statistics().await.expect("statistics");
    assert_eq!(statistics.dead_last_day, 0);
    let notices = scene.store.take_notices(ALL, HOUR).await;
    assert_eq!(notices.expect("take"), []);
}

pub async fn what_is_told_of_a_way_outlives_its_email(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let email = scene.ended(an_email("a"), sent()).await;
    tell(&scene, fault(EmailId::generate(), 1)).await;
    tell(&scene, fault(EmailId::generate(), 1)).await;
    tell(&scene, fault(email, 1)).await;
    scene.act(email, posthaste_core::port::Action::Erase).await;
    let news = digest(&scene).await.expect("news");
    assert!(news.groups[0].sample.is_some(), "it names nobody");
}

pub async fn of_many_who_would_probe_one_does(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    stop(&scene).await;
    let early = tell(&scene, probe(EmailId::generate())).await.1;
    assert_eq!(early, WayAnswer::Refused, "not yet");
    scene.advance(HOUR).await;
    let stores = [scene.store.clone(), fixture.another().await];
    let answers = together(8, |n| {
        let store = stores[n % 2].clone();
        async move {
            let email = EmailId::generate();
            (email, tell_to(&store, probe(email), &RULES).await.1)
        }
    });
    let answers = answers.await;
    let taken: Vec<_> = answers
        .iter()
        .filter(|(_, a)| *a == WayAnswer::Taken)
        .collect();
    let [(prober, _)] = taken[..] else {
        panic!("{answers:?}");
    };
    let (_, way) = look(&stores[1]).await.ways.remove(0);
    assert_eq!(
        (way.condition, way.probe),
        (Condition::Probing, Some(*prober))
    );
    assert!(way.probe_until.is_some());
    // One that never comes back does not hold up the others for ever.
    scene.advance(HOUR + HALF).await;
    let another = tell(&scene, probe(EmailId::generate())).await.1;
    assert_eq!(another, WayAnswer::Taken);
}

pub async fn a_way_that_came_back_is_forgotten_in_the_end(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    stop(&scene).await;
    scene.advance(HOUR).await;
    let email = EmailId::generate();
    tell(&scene, probe(email)).await;
    let (way, _) = tell(&scene, WayEvent::Success { email }).await;
    assert_eq!(way.condition, Condition::Ramping);
    assert_eq!(look(&scene.store).await.ways, [(primary(), way)]);
    scene.advance(HOUR).await;
    tell(&scene, WayEvent::Success { email }).await;
    assert_eq!(look(&scene.store).await.ways, []);
}

pub async fn a_paused_way_stays_so_until_it_is_resumed(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let (way, answer) = operate(&scene, pause()).await;
    assert_eq!(answer, WayAnswer::Taken);
    assert_eq!(way.paused_by.as_deref(), Some("cli:root"));
    let known = look(&fixture.another().await).await.ways;
    assert_eq!(known, [(primary(), way)]);
    assert_eq!(operate(&scene, pause()).await.1, WayAnswer::Refused);
    let email = EmailId::generate();
    tell(&scene, WayEvent::Success { email }).await;
    let (_, way) = look(&scene.store).await.ways.remove(0);
    assert!(way.paused_by.is_some());
    let (way, answer) = operate(&scene, WayEvent::Resume).await;
    assert_eq!(
        (answer, way.condition),
        (WayAnswer::Taken, Condition::Ramping)
    );
    assert_eq!(digest(&scene).await, None, "who did it knows it");
    let filter = AuditFilter {
        subject: Some("primary".into()),
        ..AuditFilter::newest(ALL)
    };
    let audit = scene.store.audit(&filter).await.expect("audit");
    let entries: Vec<_> = audit
        .iter()
        .map(|entry| (&entry.actor[..], &entry.action[..], &entry.result[..]))
        .collect();
    assert_eq!(
        entries,
        [
            ("cli:root", "resume_transport", "ramping"),
            ("cli:root", "pause_transport", "unchanged"),
            ("cli:root", "pause_transport", "paused"),
        ]
    );
}

pub async fn what_is_told_to_a_way_wakes_other_instances(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let other = fixture.another().await;
    // More often than a word from before can be left over.
    for _ in 0..3 {
        for event in [pause(), WayEvent::Resume] {
            operate(&scene, event).await;
            other.changed().await;
        }
    }
}

pub async fn senders_are_counted_while_they_are_there(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let watch = async |sender: Option<&str>, present| {
        let report = scene.store.watch_ways(sender, present).await;
        report.expect("watch").senders
    };
    assert_eq!(watch(None, HOUR).await, 0, "one that only looks is none");
    assert_eq!(watch(Some("a"), HOUR).await, 1);
    assert_eq!(watch(Some("b"), HOUR).await, 2);
    assert_eq!(watch(Some("a"), HOUR).await, 2);
    scene.advance(HALF).await;
    assert_eq!(watch(Some("a"), HOUR).await, 2, "for as long as it said");
    scene.advance(HOUR).await;
    assert_eq!(watch(None, HOUR).await, 1, "only one of them came back");
    assert_eq!(watch(Some("a"), Duration::ZERO).await, 1);
    assert_eq!(watch(None, HOUR).await, 0, "one that leaves is gone");
    scene.advance(4 * HOUR).await;
    assert_eq!(watch(Some("c"), HOUR).await, 1);
}

pub async fn what_emails_wait_for_is_told_and_counted(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    assert_eq!(scene.store.parked().await.expect("parked"), []);
    let mut oldest = None;
    for (key, ways) in [
        ("a", "primary,secondary"),
        ("b", "primary"),
        ("c", "primary,secondary"),
        ("d", "primary@example.org"),
        ("e", "primary,secondary"),
    ] {
        let id = scene.accept(an_email(key)).await;
        let lease = scene.begin(id).await.lease;
        let parking = Parking {
            waiting_for: ways.into(),
            floor: Duration::ZERO,
            waits_until: None,
        };
        let (parked, moment) = scene.timed(scene.store.park(vec![(lease, parking)])).await;
        assert_eq!(parked.expect("park"), [true]);
        oldest.get_or_insert(moment);
        scene.advance(HALF).await;
    }
    let mut waiting = look(&scene.store).await.waiting_for;
    waiting.sort();
    assert_eq!(
        waiting,
        ["primary", "primary,secondary", "primary@example.org"]
    );
    let parked = scene.store.parked().await.expect("parked");
    let counts: Vec<_> = parked
        .iter()
        .map(|p| (&p.waiting_for[..], p.count))
        .collect();
    assert_eq!(counts[0], ("primary,secondary", 3), "most first");
    assert_eq!(counts.iter().map(|(_, n)| n).sum::<u64>(), 5);
    oldest.expect("a moment").is(Some(parked[0].oldest));
}

pub async fn pruning_leaves_ways_and_the_list_alone(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    stop(&scene).await;
    let listed = super::suppression::an_entry("ann@example.org");
    let put = scene.store.suppress(vec![listed], &operator()).await;
    assert_eq!(put.expect("suppress"), [true]);
    scene.advance(100 * 24 * HOUR).await;
    let none = Duration::ZERO;
    let retention = Retention {
        sent: none,
        dead: none,
        attempts: Some(none),
        content: Some(none),
        captures: none,
        audit: none,
    };
    scene.store.prune(retention, ALL).await.expect("prune");
    assert_eq!(look(&scene.store).await.ways.len(), 1);
    let filter = posthaste_core::port::SuppressionFilter {
        limit: ALL,
        ..Default::default()
    };
    let listed = scene.store.suppressions(&filter).await;
    assert_eq!(listed.expect("list").len(), 1);
}
