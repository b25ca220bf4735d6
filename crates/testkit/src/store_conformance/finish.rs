//! How attempts end.

use std::time::Duration;

use posthaste_core::decision::Decision;
use posthaste_core::email::EmailId;
use posthaste_core::fingerprint::fingerprint;
use posthaste_core::lifecycle::Refusal;
use posthaste_core::port::{Acted, Action, Begun, Finish, Lease};
use posthaste_core::status::{DeadReason, Outcome, Phase, Status};

use super::StoreFixture;
use super::scene::{BUDGET, HOUR, LEASE, Scene, TRANSPORT, WORKER};
use crate::{an_email, dead, exhausted, sent, transient, unknown_hold, unknown_resend};

pub async fn an_accepted_email_is_sent(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.accept(an_email("a")).await;
    let (lease, began) = scene.timed(scene.begin(id)).await;
    scene.advance(Duration::from_secs(3)).await;
    let (finished, moment) = scene.timed(scene.finish(lease.lease, sent())).await;

    let state = scene.state(id).await;
    assert_eq!(finished, Ok(state.clone()));
    assert_eq!((state.status, state.phase), (Status::Sent, Phase::Idle));
    assert_eq!((state.attempt_number, state.attempt_count), (1, 0));
    moment.is(state.sent_at);
    moment.is(state.finished_at);
    assert_eq!((state.next_attempt_at, state.locked_until), (None, None));
    assert_eq!((state.worker, state.last_error), (None, None));

    let attempts = scene.find(id).await.attempts;
    assert_eq!(attempts.len(), 1);
    let attempt = &attempts[0];
    assert_eq!((attempt.number, attempt.outcome), (1, Outcome::Sent));
    assert_eq!(attempt.reply.as_deref(), Some("250 2.0.0 OK"));
    assert_eq!(attempt.transport.as_deref(), Some(TRANSPORT));
    assert_eq!(attempt.worker.as_deref(), Some(WORKER));
    assert_eq!((&attempt.error, &attempt.error_class), (&None, &None));
    assert_eq!(attempt.next_attempt_at, None);
    began.is(Some(attempt.started_at));
    moment.is(Some(attempt.finished_at));
    scene.assert_counted(&[(Status::Sent, 1)]).await;
}

pub async fn a_transient_failure_waits_for_its_delay(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.accept(an_email("a")).await;
    let lease = scene.begin(id).await.lease;
    let decision = transient(HOUR);
    let (finished, moment) = scene.timed(scene.finish(lease, decision.clone())).await;

    let state = scene.state(id).await;
    assert_eq!(finished, Ok(state.clone()));
    assert_eq!((state.status, state.phase), (Status::Failed, Phase::Idle));
    assert_eq!((state.attempt_number, state.attempt_count), (1, 1));
    moment.is_followed_by(state.next_attempt_at, HOUR);
    assert_eq!((state.locked_until, state.worker), (None, None));
    assert_eq!((state.sent_at, state.finished_at), (None, None));
    assert_eq!(state.last_error, decision.error);
    assert_eq!(state.error_class, decision.error_class);
    assert_eq!(state.fingerprint, decision.fingerprint);

    let attempt = &scene.find(id).await.attempts[0];
    assert_eq!((attempt.number, attempt.outcome), (1, Outcome::Transient));
    assert_eq!(attempt.error, decision.error);
    assert_eq!(attempt.error_class, decision.error_class);
    assert_eq!(attempt.reply, decision.reply);
    assert_eq!(attempt.next_attempt_at, state.next_attempt_at);
    scene.assert_counted(&[(Status::Failed, 1)]).await;
}

pub async fn a_permanent_failure_is_dead(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.accept(an_email("a")).await;
    let lease = scene.begin(id).await.lease;
    let decision = dead(DeadReason::HardBounce);
    let (finished, moment) = scene.timed(scene.finish(lease, decision)).await;

    let state = scene.state(id).await;
    assert_eq!(finished, Ok(state.clone()));
    assert_eq!((state.status, state.attempt_count), (Status::Dead, 1));
    assert_eq!(state.dead_reason, Some(DeadReason::HardBounce));
    assert_eq!(
        state.fingerprint,
        Some(fingerprint("550 5.1.1 No such user"))
    );
    assert_eq!((state.next_attempt_at, state.locked_until), (None, None));
    moment.is(state.finished_at);
    assert_eq!(scene.outcomes(id).await, [(1, Outcome::Permanent)]);
    scene.assert_counted(&[(Status::Dead, 1)]).await;
}

pub async fn the_last_transient_failure_is_dead(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene
        .ended(an_email("a").max_attempts(2), transient(HOUR))
        .await;
    scene.advance(HOUR).await;
    scene.schedule().await;
    let state = scene.attempt(id, exhausted()).await;
    assert_eq!((state.status, state.attempt_count), (Status::Dead, 2));
    assert_eq!(state.dead_reason, Some(DeadReason::MaxAttemptsExceeded));
    let outcomes = scene.outcomes(id).await;
    assert_eq!(outcomes, [(1, Outcome::Transient), (2, Outcome::Transient)]);
}

pub async fn an_error_is_forgotten_once_it_is_sent(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.ended(an_email("a"), transient(HOUR)).await;
    scene.advance(HOUR).await;
    scene.schedule().await;
    let state = scene.attempt(id, sent()).await;
    assert_eq!((state.last_error, state.error_class), (None, None));
    assert_eq!((state.fingerprint, state.attempt_count), (None, 1));
    let attempts = scene.find(id).await.attempts;
    assert!(attempts[0].error.is_some(), "the record keeps it");
}

pub async fn a_lost_reply_may_be_followed_by_another_attempt(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.accept(an_email("a")).await;
    let lease = scene.begin(id).await.lease;
    assert!(scene.pass_gate(lease).await);
    let (finished, moment) = scene.timed(scene.finish(lease, unknown_resend(HOUR))).await;
    let state = finished.expect("a lease that holds");
    assert_eq!((state.status, state.attempt_count), (Status::Failed, 1));
    assert_eq!((state.unknown_count, state.possible_duplicate), (1, true));
    moment.is_followed_by(state.next_attempt_at, HOUR);
    assert_eq!(scene.state(id).await, state);
    assert_eq!(scene.outcomes(id).await, [(1, Outcome::Unknown)]);
    // And is sent again.
    scene.advance(HOUR).await;
    scene.schedule().await;
    scene.attempt(id, sent()).await;
    assert!(scene.state(id).await.possible_duplicate);
}

pub async fn a_lost_reply_may_be_left_to_an_operator(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.ended(an_email("a"), unknown_hold()).await;
    let state = scene.state(id).await;
    assert_eq!((state.status, state.attempt_count), (Status::Unknown, 1));
    assert_eq!((state.unknown_count, state.next_attempt_at), (1, None));
    assert_eq!((state.locked_until, state.finished_at), (None, None));
    assert!(scene.undecided().await.is_empty(), "it was decided");
    scene.advance(10 * HOUR).await;
    assert!(scene.schedule().await.is_empty());
    assert_eq!(scene.outcomes(id).await, [(1, Outcome::Unknown)]);
    scene.assert_counted(&[(Status::Unknown, 1)]).await;
}

pub async fn a_due_time_is_never_rounded_down(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.accept(an_email("a")).await;
    let delay = HOUR + Duration::from_nanos(1);
    let before = scene.now();
    let finished = scene.attempt(id, transient(delay)).await;
    let state = scene.state(id).await;
    assert_eq!(finished, state, "what is answered is what is kept");
    assert!(state.next_attempt_at >= Some(before + delay));
    let attempt = &scene.find(id).await.attempts[0];
    assert_eq!(attempt.next_attempt_at, state.next_attempt_at);
}

pub async fn a_finish_with_another_token_changes_nothing(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.ended(an_email("a"), transient(HOUR)).await;
    scene.advance(HOUR).await;
    scene.schedule().await;
    let lease = scene.begin(id).await.lease;
    let before = scene.find(id).await;
    for token in [lease.token - 1, lease.token + 1, 0] {
        for decision in [sent(), transient(HOUR), dead(DeadReason::HardBounce)] {
            let stale = Lease { token, ..lease };
            let finished = scene.finish(stale, decision).await;
            assert_eq!(finished, Err(Refusal::StaleToken));
        }
    }
    let after = scene.find(id).await;
    assert_eq!(
        (after.state, after.attempts),
        (before.state, before.attempts)
    );
    scene.assert_counted(&[(Status::Sending, 1)]).await;
}

pub async fn an_attempt_is_finished_once(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    for (key, first) in [
        ("sent", sent()),
        ("dead", dead(DeadReason::HardBounce)),
        ("failed", transient(HOUR)),
    ] {
        let id = scene.accept(an_email(key)).await;
        let lease = scene.begin(id).await.lease;
        let state = scene
            .finish(lease, first)
            .await
            .expect("a lease that holds");
        for second in [
            transient(2 * HOUR),
            dead(DeadReason::Expired),
            unknown_hold(),
        ] {
            let finished = scene.finish(lease, second).await;
            assert_eq!(finished, Err(Refusal::StaleToken), "{key}");
        }
        assert_eq!(scene.state(id).await, state, "{key}");
        assert_eq!(scene.find(id).await.attempts.len(), 1, "{key}");
    }
}

pub async fn a_finish_after_a_cancel_changes_nothing(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.accept(an_email("a")).await;
    let lease = scene.begin(id).await.lease;
    scene.release(lease).await;
    let cancelled = scene.act(id, Action::Cancel).await;
    assert_eq!(cancelled, Acted::Done(Status::Cancelled));
    assert_eq!(scene.finish(lease, sent()).await, Err(Refusal::StaleToken));
    scene.assert_counted(&[(Status::Cancelled, 1)]).await;
    assert_eq!(scene.outcomes(id).await, [(1, Outcome::Cancelled)]);
}

pub async fn a_finish_after_a_replay_changes_nothing(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let lease = scene.uncertain(an_email("a")).await.lease;
    let replayed = scene.act(lease.id, Action::Retry).await;
    assert_eq!(replayed, Acted::Done(Status::Pending));
    let before = scene.state(lease.id).await;
    for decision in [sent(), transient(HOUR)] {
        let finished = scene.finish(lease, decision).await;
        assert_eq!(finished, Err(Refusal::StaleToken));
    }
    // Nor with the token that the replay made and nobody was given.
    let never_given = Lease {
        token: before.lease_token,
        ..lease
    };
    let finished = scene.finish(never_given, sent()).await;
    assert_eq!(finished, Err(Refusal::StaleToken));
    assert_eq!(scene.state(lease.id).await, before);
    assert_eq!(scene.outcomes(lease.id).await, [(1, Outcome::Unknown)]);
}

pub async fn a_batch_of_finishes_is_answered_in_its_order(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let mut finishes = Vec::new();
    for (key, decision) in [
        ("a", sent()),
        ("b", transient(HOUR)),
        ("c", dead(DeadReason::PolicyBlocked)),
    ] {
        let id = scene.accept(an_email(key)).await;
        finishes.push(Finish {
            lease: scene.begin(id).await.lease,
            decision,
            transport: Some(TRANSPORT.into()),
            budget: BUDGET,
            removes_sent: false,
        });
    }
    let mut stale = finishes[0].clone();
    stale.lease.token += 1;
    let mut gone = finishes[0].clone();
    gone.lease.id = EmailId::generate();
    finishes.insert(1, stale);
    finishes.insert(2, gone);
    let answers = scene.store.finish(finishes).await.expect("finish");
    let statuses: Vec<_> = answers
        .into_iter()
        .map(|answer| answer.map(|state| state.status))
        .collect();
    assert_eq!(
        statuses,
        [
            Ok(Status::Sent),
            Err(Refusal::StaleToken),
            Err(Refusal::StaleToken),
            Ok(Status::Failed),
            Ok(Status::Dead),
        ]
    );
    scene
        .assert_counted(&[(Status::Sent, 1), (Status::Failed, 1), (Status::Dead, 1)])
        .await;
}

pub async fn attempts_that_succeed_together_are_recorded_each_as_it_was(
    fixture: &impl StoreFixture,
) {
    let scene = Scene::new(fixture);
    let mut ids = Vec::new();
    for key in ["a", "b", "c", "d"] {
        ids.push(scene.accept(an_email(key)).await);
    }
    // One of them has failed before.
    scene.attempt(ids[2], transient(HOUR)).await;
    scene.advance(HOUR * 2).await;
    assert_eq!(scene.schedule().await, [ids[2]]);
    let begun = scene.store.begin(ids.clone(), WORKER, LEASE).await;
    let leases = begun.expect("begin").into_iter().map(|begun| match begun {
        Begun::Started(started) => started.lease,
        other => panic!("did not begin: {other:?}"),
    });
    let leases: Vec<Lease> = leases.collect();
    let ways = ["smtp", "resend", "smtp", "ses"];
    // In another order at the gate, and at the end.
    let passages = leases.iter().zip(ways).rev();
    let passages = passages.map(|(lease, way)| (*lease, way.into())).collect();
    let passed = scene.store.pass_gate(passages).await.expect("gate");
    assert_eq!(passed, [true; 4]);
    let finish = |at: usize| Finish {
        lease: leases[at],
        decision: Decision {
            reply: (at != 3).then(|| format!("250 {at}")),
            provider_id: (at == 1).then(|| "re_1".to_owned()),
            ..sent()
        },
        transport: Some(ways[at].into()),
        budget: BUDGET,
        removes_sent: false,
    };
    let finishes = [2, 0, 3, 1].map(finish).to_vec();
    let finished = scene.store.finish(finishes).await.expect("finish");
    assert!(finished.iter().all(|state| {
        let status = state.as_ref().map(|state| state.status);
        status == Ok(Status::Sent)
    }));
    for (at, id) in ids.iter().enumerate() {
        let found = scene.find(*id).await;
        assert_eq!(found.state.status, Status::Sent);
        assert_eq!(found.state.attempt_count, u32::from(at == 2));
        assert_eq!(found.state.transport.as_deref(), Some(ways[at]));
        let last = found.attempts.last().expect("an attempt");
        assert_eq!(last.number, if at == 2 { 2 } else { 1 });
        assert_eq!(last.outcome, Outcome::Sent);
        assert_eq!(last.transport.as_deref(), Some(ways[at]));
        assert_eq!(last.reply, (at != 3).then(|| format!("250 {at}")));
        assert_eq!(last.provider_id.as_deref(), (at == 1).then_some("re_1"));
        assert_eq!(last.worker.as_deref(), Some(WORKER));
        assert_eq!((last.error.as_deref(), last.is_free), (None, false));
    }
    scene.assert_counted(&[(Status::Sent, 4)]).await;
}
