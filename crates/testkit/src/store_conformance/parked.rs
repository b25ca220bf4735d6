//! Emails that wait until a way out is free again.

use std::time::Duration;

use posthaste_core::decision::Parking;
use posthaste_core::email::EmailId;
use posthaste_core::lifecycle::Refusal;
use posthaste_core::port::{
    Acted, Action, Budgets, EmailFilter, Lease, Opener, Pick, SharedStore, Started, Unticketed,
};
use posthaste_core::status::{DeadReason, Outcome, Phase, Priority, Status};

use super::scene::{ALL, HALF, HOUR, LEASE, Scene, WORKER, together};
use super::{StoreFixture, same_ids};
use crate::{EmailBuilder, an_email, budgets, parking, sent, transient, unknown_resend};

const WAYS: &str = "primary,secondary";
const NONE: Duration = Duration::ZERO;

fn ids(begun: &[Started]) -> Vec<EmailId> {
    begun.iter().map(|started| started.lease.id).collect()
}

async fn look(store: &SharedStore, ways: &str, most: usize) -> Unticketed {
    let budgets = budgets();
    let found = store.begin_parked(ways, Pick::UpTo(most), WORKER, LEASE, &budgets);
    found.await.expect("begin parked")
}

async fn park<F: StoreFixture>(scene: &Scene<'_, F>, lease: Lease, parking: Parking) -> bool {
    let parked = scene.store.park(vec![(lease, parking)]).await;
    parked.expect("park")[0]
}

/// A new email that found no way out.
async fn parked<F: StoreFixture>(scene: &Scene<'_, F>, email: EmailBuilder) -> EmailId {
    let id = scene.accept(email).await;
    let lease = scene.begin(id).await.lease;
    assert!(park(scene, lease, parking(WAYS, NONE)).await);
    id
}

/// Begins all that wait for the ways, all of which must be alive.
async fn begin<F: StoreFixture>(scene: &Scene<'_, F>, most: usize) -> Vec<Started> {
    let found = look(&scene.store, WAYS, most).await;
    assert!(found.dead.is_empty(), "{:?}", found.dead);
    found.started
}

pub async fn one_that_found_no_way_out_waits_and_was_not_tried(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.accept(an_email("a")).await;
    let before = scene.begin(id).await;
    let parking = parking(WAYS, HOUR);
    let (is_parked, moment) = scene.timed(park(&scene, before.lease, parking)).await;
    assert!(is_parked);
    let state = scene.state(id).await;
    assert_eq!((state.status, state.phase), (Status::Failed, Phase::Idle));
    assert_eq!((state.attempt_number, state.attempt_count), (0, 0));
    assert_eq!(state.lease_token, before.lease.token);
    assert_eq!((state.locked_until, state.worker), (None, None));
    assert_eq!(state.waiting_for.as_deref(), Some(WAYS));
    moment.is_followed_by(state.next_attempt_at, HOUR);
    assert_eq!(scene.outcomes(id).await, [], "nothing is recorded");
    scene.assert_counted(&[(Status::Failed, 1)]).await;
    let steps = scene.store.history(60, 2).await.expect("history");
    let failures: u64 = steps.iter().map(|step| step.failed).sum();
    assert_eq!(failures, 0, "it was not tried, so nothing failed");
    // Nobody else finds it, and its ticket is worth nothing.
    scene.advance(9 * HOUR).await;
    assert!(scene.claim(ALL).await.is_empty());
    assert!(scene.begin_unticketed(ALL, scene.now()).await.is_empty());
    assert_eq!(scene.refusal(id).await, Refusal::NotDue);
    assert_eq!(scene.store.next_due().await.expect("next due"), None);
    let failed = EmailFilter {
        statuses: vec![Status::Failed],
        ..EmailFilter::default()
    };
    assert_eq!(scene.list(failed).await, [id], "people do");
    let several = EmailFilter {
        statuses: vec![Status::Failed, Status::Dead, Status::Pending],
        ..EmailFilter::default()
    };
    assert_eq!(scene.list(several).await, [id]);
    let several = EmailFilter {
        statuses: vec![Status::Pending, Status::Unknown],
        ..EmailFilter::default()
    };
    assert!(scene.list(several).await.is_empty());
}

pub async fn who_has_waited_longest_tests_a_way_whatever_its_priority(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let mut waiting = Vec::new();
    for (key, priority) in [
        ("a", Priority::Low),
        ("b", Priority::High),
        ("c", Priority::Normal),
    ] {
        waiting.push(parked(&scene, an_email(key).priority(priority)).await);
        scene.advance(HALF).await;
    }
    // Each test fails, and whoever made it waits anew: everyone has a turn.
    for turn in 0..6 {
        let budgets = budgets();
        let found = scene
            .store
            .begin_parked(WAYS, Pick::Longest, WORKER, LEASE, &budgets);
        let found = found.await.expect("begin parked");
        assert_eq!(ids(&found.started), [waiting[turn % 3]], "{turn}");
        let lease = found.started[0].lease;
        assert!(park(&scene, lease, parking(WAYS, NONE)).await);
        scene.advance(HALF).await;
    }
}

pub async fn it_is_begun_by_exactly_the_ways_it_waits_for(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.accept(an_email("a")).await;
    let first = scene.begin(id).await;
    assert!(park(&scene, first.lease, parking(WAYS, HOUR)).await);
    scene.advance(HALF).await;
    assert!(begin(&scene, ALL).await.is_empty(), "not before the floor");
    scene.advance(HALF).await;
    for others in [
        "primary",
        "secondary,primary",
        "primary,secondary ",
        "",
        "\0",
    ] {
        let found = look(&scene.store, others, ALL).await;
        assert!(found.started.is_empty(), "{others:?}");
    }
    let (begun, moment) = scene.timed(begin(&scene, ALL)).await;
    assert_eq!(ids(&begun), [id]);
    let state = scene.state(id).await;
    assert_eq!(begun[0].state, state, "what is answered is what is kept");
    assert_eq!((state.status, state.attempt_number), (Status::Sending, 1));
    assert_eq!(state.lease_token, first.lease.token + 1);
    assert_eq!((&state.waiting_for, state.waits_until), (&None, None));
    moment.is_followed_by(state.locked_until, LEASE);
    assert_eq!(begun[0].content, first.content);
    scene.assert_counted(&[(Status::Sending, 1)]).await;
    let finished = scene.finish(begun[0].lease, sent()).await;
    assert_eq!(finished.expect("a lease that holds").status, Status::Sent);
    assert_eq!(scene.outcomes(id).await, [(1, Outcome::Sent)]);
}

pub async fn parking_again_and_again_never_counts(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.ended(an_email("a"), transient(HOUR)).await;
    scene.advance(HOUR).await;
    assert_eq!(scene.schedule().await, [id]);
    let mut lease = scene.begin(id).await.lease;
    for _ in 0..12 {
        assert!(park(&scene, lease, parking(WAYS, NONE)).await);
        let state = scene.state(id).await;
        assert_eq!((state.attempt_number, state.attempt_count), (1, 1));
        assert!(state.last_error.is_some(), "the last failure is still it");
        let begun = begin(&scene, ALL).await;
        assert_eq!(begun[0].state.attempt_number, 2);
        lease = begun[0].lease;
    }
    let finished = scene.finish(lease, sent()).await.expect("a lease");
    assert_eq!((finished.attempt_number, finished.attempt_count), (2, 1));
    let outcomes = scene.outcomes(id).await;
    assert_eq!(outcomes, [(1, Outcome::Transient), (2, Outcome::Sent)]);
}

pub async fn a_lost_lease_parks_nothing(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let mut leases = Vec::new();
    for key in ["held", "released", "gated", "other"] {
        let id = scene.accept(an_email(key)).await;
        leases.push(scene.begin(id).await.lease);
    }
    scene.release(leases[1]).await;
    assert!(scene.pass_gate(leases[2]).await);
    leases[3].token += 1;
    leases.push(Lease {
        id: EmailId::generate(),
        token: 1,
    });
    let wanted = leases.iter().map(|lease| (*lease, parking(WAYS, NONE)));
    let parked = scene.store.park(wanted.collect()).await.expect("park");
    assert_eq!(parked, [true, false, false, false, false]);
    for (at, status) in [
        (0, Status::Failed),
        (1, Status::Pending),
        (2, Status::Sending),
        (3, Status::Sending),
    ] {
        let state = scene.state(leases[at].id).await;
        assert_eq!(state.status, status, "{at}");
        assert_eq!(state.waiting_for.is_some(), at == 0);
    }
    assert!(!park(&scene, leases[0], parking(WAYS, NONE)).await, "once");
}

pub async fn what_goes_first_is_begun_first_and_the_oldest_of_it(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let mut expected = Vec::new();
    for (place, priority) in [Priority::Low, Priority::High, Priority::Normal]
        .into_iter()
        .enumerate()
    {
        for n in 0..3 {
            let email = an_email(&format!("{priority} {n}")).priority(priority);
            let id = parked(&scene, email).await;
            // In the order in which they began to wait.
            scene.advance(Duration::from_secs(60)).await;
            expected.push((([2, 0, 1][place], n), id));
        }
    }
    let far = an_email("far").priority(Priority::High);
    let far = scene.accept(far).await;
    let lease = scene.begin(far).await.lease;
    assert!(park(&scene, lease, parking(WAYS, 9 * HOUR)).await);
    expected.sort_unstable();
    let expected: Vec<_> = expected.into_iter().map(|(_, id)| id).collect();
    let mut begun = Vec::new();
    for most in [0, 1, 4, 2, ALL] {
        let some = ids(&begin(&scene, most).await);
        assert!(some.len() <= most);
        begun.extend(some);
    }
    assert_eq!(begun, expected);
}

pub async fn each_is_begun_once_by_many_instances(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let mut expected = Vec::new();
    for n in 0..60 {
        expected.push(parked(&scene, an_email(&n.to_string())).await);
    }
    let stores = [scene.store.clone(), fixture.another().await];
    let begun = together(8, |task| {
        let store = stores[task % 2].clone();
        async move {
            let mut mine = Vec::new();
            loop {
                mine.extend(ids(&look(&store, WAYS, 7).await.started));
                let report = store.watch_ways(None, NONE).await.expect("watch");
                if report.waiting_for.is_empty() {
                    return mine;
                }
            }
        }
    })
    .await;
    same_ids(begun.concat(), expected);
    scene.assert_counted(&[(Status::Sending, 60)]).await;
}

pub async fn what_waits_too_long_is_dead_for_whoever_looks(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let until = scene.now() + 2 * HOUR;
    let mut all = Vec::new();
    for n in 0..3 {
        let id = scene
            .accept(an_email(&n.to_string()).expires_at(until))
            .await;
        let lease = scene.begin(id).await.lease;
        let parking = Parking {
            waits_until: Some(until),
            ..parking(WAYS, NONE)
        };
        assert!(park(&scene, lease, parking).await);
        assert_eq!(scene.state(id).await.waits_until, Some(until));
        all.push(id);
    }
    let next = scene.store.next_due().await.expect("next due");
    assert_eq!(next, Some(until), "a scheduler comes by");
    scene.advance(HOUR).await;
    assert!(scene.claim(ALL).await.is_empty());
    assert!(
        scene
            .find_unticketed(ALL, scene.now())
            .await
            .dead
            .is_empty()
    );
    scene.advance(HOUR).await;
    let by_scheduler = scene.claim(1).await;
    let by_sender = scene.find_unticketed(1, scene.now()).await.dead;
    assert_eq!((by_scheduler.len(), by_sender.len()), (1, 1));
    let by_way = look(&scene.store, WAYS, ALL).await;
    assert!(by_way.started.is_empty());
    let dead = [by_scheduler, by_sender, by_way.dead].concat();
    assert!(dead.iter().all(|due| due.expired && !due.exhausted));
    same_ids(dead.iter().map(|due| due.id), all.clone());
    for id in all {
        let state = scene.state(id).await;
        assert_eq!(state.dead_reason, Some(DeadReason::Expired));
        assert_eq!((&state.waiting_for, state.waits_until), (&None, None));
    }
    assert_eq!(scene.store.next_due().await.expect("next due"), None);
    scene.assert_counted(&[(Status::Dead, 3)]).await;
}

pub async fn one_whose_budget_is_spent_dies_instead(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.ended(an_email("a"), transient(HOUR)).await;
    scene.advance(HOUR).await;
    scene.schedule().await;
    let lease = scene.begin(id).await.lease;
    assert!(park(&scene, lease, parking(WAYS, NONE)).await);
    let lowered = Budgets {
        fallback: 1,
        ..Budgets::default()
    };
    let found = scene
        .store
        .begin_parked(WAYS, Pick::UpTo(ALL), WORKER, LEASE, &lowered)
        .await;
    let found = found.expect("begin parked");
    assert!(found.started.is_empty());
    assert_eq!(found.dead.len(), 1);
    assert!(found.dead[0].id == id && found.dead[0].exhausted);
    let state = scene.state(id).await;
    assert_eq!(state.dead_reason, Some(DeadReason::MaxAttemptsExceeded));
    assert_eq!(state.waiting_for, None);
}

pub async fn operators_do_with_it_what_they_do_with_any_other(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let cancelled = parked(&scene, an_email("cancelled")).await;
    let replayed = parked(&scene, an_email("replayed")).await;
    for id in [cancelled, replayed] {
        let erased = scene.act(id, Action::Erase).await;
        let refusal = Refusal::NotAllowed(Status::Failed);
        assert_eq!(erased, Acted::Refused(refusal, Status::Failed));
    }
    let done = scene.act(cancelled, Action::Cancel).await;
    assert_eq!(done, Acted::Done(Status::Cancelled));
    let done = scene.act(replayed, Action::Retry).await;
    assert_eq!(done, Acted::Done(Status::Pending));
    for id in [cancelled, replayed] {
        let state = scene.state(id).await;
        assert_eq!((&state.waiting_for, state.waits_until), (&None, None));
    }
    assert!(begin(&scene, ALL).await.is_empty());
    assert_eq!(
        scene.act(cancelled, Action::Erase).await,
        Acted::Done(Status::Cancelled)
    );
    assert_eq!(scene.schedule().await, [replayed]);
    let state = scene.attempt(replayed, sent()).await;
    assert_eq!((state.status, state.attempt_number), (Status::Sent, 1));
}

pub async fn a_first_attempt_that_was_parked_was_not_its_callers(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let opened = scene
        .store
        .accept_begun(vec![an_email("a").build()], Opener::Caller, WORKER, LEASE)
        .await;
    let opened = opened.expect("accept").remove(0).expect("accept");
    let posthaste_core::port::Opened::Started(started) = opened else {
        panic!("not started: {opened:?}")
    };
    assert!(park(&scene, started.lease, parking(WAYS, NONE)).await);
    let id = started.lease.id;
    assert!(!scene.state(id).await.inline);
    let begun = begin(&scene, ALL).await;
    let finished = scene.finish(begun[0].lease, transient(HOUR)).await;
    let state = finished.expect("a lease that holds");
    assert_eq!((state.attempt_number, state.attempt_count), (1, 1));
}

pub async fn an_attempt_that_fails_by_the_ways_fault_is_free_and_waits(
    fixture: &impl StoreFixture,
) {
    let scene = Scene::new(fixture);
    let id = scene.accept(an_email("a")).await;
    let lease = scene.begin(id).await.lease;
    let decision = transient(HOUR).parked(parking(WAYS, HALF));
    let (finished, moment) = scene.timed(scene.finish(lease, decision)).await;
    let state = finished.expect("a lease that holds");
    assert_eq!(state, scene.state(id).await);
    assert_eq!((state.attempt_number, state.attempt_count), (1, 0));
    assert_eq!(state.waiting_for.as_deref(), Some(WAYS));
    moment.is_followed_by(state.next_attempt_at, HALF);
    let attempt = &scene.find(id).await.attempts[0];
    assert!(attempt.is_free);
    assert_eq!(attempt.outcome, Outcome::Transient);
    assert!(attempt.error.is_some());
    scene.advance(HALF).await;
    let begun = begin(&scene, ALL).await;
    assert_eq!(begun[0].state.attempt_number, 2);
    scene.release(begun[0].lease).await;
}

pub async fn what_is_parked_is_not_due_but_waits(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let numbers = async || scene.store.statistics().await.expect("statistics");
    let first = parked(&scene, an_email("a")).await;
    let oldest = scene.state(first).await.next_attempt_at;
    scene.advance(HOUR).await;
    let other = scene.accept(an_email("b")).await;
    let lease = scene.begin(other).await.lease;
    assert!(park(&scene, lease, parking("third", NONE)).await);
    let now = numbers().await;
    assert_eq!((now.oldest_waiting, now.due), (oldest, 0));
    scene.act(first, Action::Cancel).await;
    let later = scene.state(other).await.next_attempt_at;
    assert_eq!(numbers().await.oldest_waiting, later);
}

pub async fn a_late_sent_finds_one_that_waits_for_its_way(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.accept(an_email("a")).await;
    let first = scene.begin(id).await.lease;
    assert!(scene.pass_gate(first).await);
    let resend = scene.finish(first, unknown_resend(HOUR)).await;
    resend.expect("a lease that holds");
    scene.advance(HOUR).await;
    assert_eq!(scene.schedule().await, [id]);
    let second = scene.begin(id).await.lease;
    assert!(park(&scene, second, parking(WAYS, NONE)).await);
    let state = scene.state(id).await;
    assert_eq!((state.attempt_number, state.unknown_count), (1, 1));
    assert!(state.bound_to.is_some());
    // The first worker's token is an older one.
    let late = scene.finish(first, sent()).await;
    assert_eq!(late, Err(Refusal::StaleToken));
    assert_eq!(ids(&begin(&scene, ALL).await), [id]);
}
