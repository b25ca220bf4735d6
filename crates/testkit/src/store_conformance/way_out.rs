//! Which way out an email takes, and what its attempts cost.

use std::time::Duration;

use posthaste_core::email::EmailId;
use posthaste_core::port::{Action, Finish, Lease, Opener};
use posthaste_core::status::{Outcome, Status};
use posthaste_core::way::{BreakerRules, FaultNote, WayAnswer, WayEvent, WayName};

use super::StoreFixture;
use super::scene::{BUDGET, HALF, HOUR, LEASE, Scene};
use crate::{an_email, parking, sent, sent_as, transient, unknown_hold, unknown_resend};

async fn pass<F: StoreFixture>(scene: &Scene<'_, F>, lease: Lease, transport: &str) {
    let passed = scene.store.pass_gate(vec![(lease, transport.into())]).await;
    assert_eq!(passed.expect("gate"), [true]);
}

async fn finish<F: StoreFixture>(
    scene: &Scene<'_, F>,
    lease: Lease,
    decision: posthaste_core::decision::Decision,
    transport: Option<&str>,
) -> posthaste_core::lifecycle::State {
    let finish = Finish {
        lease,
        decision,
        transport: transport.map(Into::into),
        budget: BUDGET,
        removes_sent: false,
    };
    let mut finished = scene.store.finish(vec![finish]).await.expect("finish");
    finished.remove(0).expect("a lease that holds")
}

pub async fn a_route_is_kept_and_handed_to_the_sender(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    for (key, route) in [("by default", None), ("by a route", Some("bulk"))] {
        let email = match route {
            Some(route) => an_email(key).route(route),
            None => an_email(key),
        };
        let id = scene.accept(email).await;
        assert_eq!(scene.find(id).await.route.as_deref(), route);
        let started = scene.begin(id).await;
        assert_eq!(started.route.as_deref(), route);
        scene.release(started.lease).await;
        let found = scene.begin_unticketed(1, scene.now()).await;
        assert_eq!(found[0].route.as_deref(), route);
    }
    let email = an_email("inline").route("bulk").build();
    let opened = scene
        .store
        .accept_begun(vec![email], Opener::Caller, "w", LEASE)
        .await;
    let opened = opened.expect("accept").remove(0).expect("accept");
    let posthaste_core::port::Opened::Started(started) = opened else {
        panic!("not started: {opened:?}")
    };
    assert_eq!(started.route.as_deref(), Some("bulk"));
}

pub async fn an_attempt_is_recorded_with_its_way_and_the_providers_name(
    fixture: &impl StoreFixture,
) {
    let scene = Scene::new(fixture);
    let id = scene.accept(an_email("a")).await;
    let lease = scene.begin(id).await.lease;
    finish(&scene, lease, transient(HOUR), None).await;
    scene.advance(HOUR).await;
    scene.schedule().await;
    let lease = scene.begin(id).await.lease;
    pass(&scene, lease, "resend").await;
    finish(&scene, lease, sent_as("m-1"), Some("resend")).await;
    let attempts = scene.find(id).await.attempts;
    let told: Vec<_> = attempts
        .iter()
        .map(|a| (a.transport.as_deref(), a.provider_id.as_deref(), a.is_free))
        .collect();
    let expected = [(None, None, false), (Some("resend"), Some("m-1"), false)];
    assert_eq!(told, expected);
    let by_list = scene.store.attempts(&[id]).await.expect("attempts");
    let by_list: Vec<_> = by_list.into_iter().map(|(_, attempt)| attempt).collect();
    assert_eq!(by_list, attempts);
}

pub async fn one_that_may_have_been_sent_keeps_to_its_way(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.accept(an_email("told")).await;
    let lease = scene.begin(id).await.lease;
    pass(&scene, lease, "primary").await;
    let state = finish(&scene, lease, unknown_resend(HOUR), Some("primary")).await;
    assert_eq!(state.bound_to.as_deref(), Some("primary"));
    scene.advance(HOUR).await;
    scene.schedule().await;
    let again = scene.begin(id).await;
    assert_eq!(again.state.bound_to.as_deref(), Some("primary"));
    let state = finish(&scene, again.lease, unknown_hold(), Some("secondary")).await;
    assert_eq!(state.bound_to.as_deref(), Some("primary"));
    scene.act(id, Action::Retry).await;
    assert_eq!(scene.state(id).await.bound_to, None);
}

pub async fn a_worker_that_is_lost_past_the_gate_leaves_its_way(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.accept(an_email("a")).await;
    let lease = scene.begin(id).await.lease;
    pass(&scene, lease, "secondary").await;
    scene.advance(LEASE + HALF).await;
    assert_eq!(scene.rescue().await.len(), 1);
    let record = scene.find(id).await;
    assert_eq!(record.state.bound_to.as_deref(), Some("secondary"));
    let attempt = &record.attempts[0];
    assert_eq!(attempt.transport.as_deref(), Some("secondary"));
    assert_eq!(attempt.outcome, Outcome::Unknown);
}

pub async fn another_way_is_tried_at_once_and_costs_nothing(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.accept(an_email("a")).await;
    let lease = scene.begin(id).await.lease;
    let elsewhere = || transient(HOUR).failed_over();
    let finished = finish(&scene, lease, elsewhere(), Some("primary"));
    let (state, moment) = scene.timed(finished).await;
    assert_eq!(state, scene.state(id).await);
    assert_eq!((state.status, state.attempt_count), (Status::Failed, 0));
    assert_eq!(state.tried.as_deref(), Some("primary"));
    moment.is(state.next_attempt_at);
    assert!(scene.find(id).await.attempts[0].is_free);
    let begun = scene.begin_unticketed(1, scene.now()).await;
    assert!(begun[0].state.has_tried("primary"));
    let state = finish(&scene, begun[0].lease, elsewhere(), Some("secondary")).await;
    assert_eq!(state.tried.as_deref(), Some("primary,secondary"));
    let begun = scene.begin_unticketed(1, scene.now()).await;
    let state = finish(&scene, begun[0].lease, transient(HOUR), Some("primary")).await;
    assert_eq!((state.tried, state.attempt_count), (None, 1));
    let free: Vec<_> = scene.find(id).await.attempts;
    let free: Vec<_> = free.iter().map(|attempt| attempt.is_free).collect();
    assert_eq!(free, [true, true, false]);
}

/// Two faults stop the way.
const RULES: BreakerRules = BreakerRules {
    failures: 2,
    credential_failures: 2,
    window: Duration::from_secs(24 * 3600),
    first_probe: HOUR,
    longest_probe: HOUR,
    ramp_rate: 5.0,
    ramp_doubling: HOUR,
    ramp: HOUR,
};

async fn fault<F: StoreFixture>(
    scene: &Scene<'_, F>,
    way: &str,
    email: EmailId,
    attempt: u32,
) -> WayAnswer {
    let event = WayEvent::Fault {
        note: FaultNote { email, attempt },
        is_ours: false,
        error: "connection refused".into(),
        floor: None,
    };
    let way = WayName::transport(way);
    let told = scene.store.tell_way(&way, event, &RULES, None).await;
    told.expect("tell").1
}

pub async fn only_what_was_spent_is_given_back_and_only_once(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    // The first attempt spends, the second one is free, both by the fault of ways that stop later.
    let id = scene.ended(an_email("a"), transient(HOUR)).await;
    assert_eq!(fault(&scene, "first", id, 1).await, WayAnswer::Spends);
    scene.advance(HOUR).await;
    scene.schedule().await;
    let lease = scene.begin(id).await.lease;
    let elsewhere = transient(HOUR).failed_over();
    finish(&scene, lease, elsewhere, Some("second")).await;
    assert_eq!(fault(&scene, "second", id, 2).await, WayAnswer::Spends);
    let other = EmailId::generate();
    for way in ["first", "second"] {
        assert_eq!(fault(&scene, way, other, 1).await, WayAnswer::Waits);
        let state = scene.state(id).await;
        assert_eq!(state.attempt_count, 1, "{way}: it had gone on, or was free");
    }
    // One whose third attempt found no way out stands where its second attempt left it.
    scene.schedule().await;
    let lease = scene.begin(id).await.lease;
    let parked = vec![(lease, parking("first", Duration::ZERO))];
    assert_eq!(scene.store.park(parked).await.expect("park"), [true]);
    fault(&scene, "third", id, 2).await;
    fault(&scene, "third", other, 1).await;
    assert_eq!(scene.state(id).await.attempt_count, 1);

    let spent = scene.ended(an_email("b"), transient(HOUR)).await;
    for way in ["fourth", "fifth"] {
        fault(&scene, way, spent, 1).await;
        fault(&scene, way, other, 1).await;
        let record = scene.find(spent).await;
        assert_eq!(
            (record.state.attempt_count, record.state.attempt_number),
            (0, 1)
        );
        assert!(record.attempts[0].is_free);
        assert_eq!(record.state.status, Status::Failed);
    }
    scene.advance(HOUR).await;
    scene.schedule().await;
    scene.attempt(spent, sent()).await;
}
