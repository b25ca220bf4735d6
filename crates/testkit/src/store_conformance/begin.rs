//! A ticket becomes an attempt.

use posthaste_core::email::{EmailId, RecipientStatus};
use posthaste_core::lifecycle::Refusal;
use posthaste_core::port::{Action, Begun};
use posthaste_core::status::{DeadReason, Phase, Status};

use super::StoreFixture;
use super::scene::{HALF, HOUR, LEASE, Scene, WORKER, together};
use crate::{an_email, dead, sent, transient, unknown_hold};

pub async fn beginning_gives_the_content_and_a_lease(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let email = an_email("a")
        .to(["bob@example.org", "carl@example.org"])
        .content("Subject: x\r\n\r\n.\r\n\0 any octets \u{ff}\r\n")
        .policy("notification")
        .expires_at(scene.now() + HOUR);
    let new = email.clone().build();
    let (id, accepted) = scene.timed(scene.accept(email)).await;
    let (started, moment) = scene.timed(scene.begin(id)).await;

    assert_eq!(started.lease.id, id);
    assert_eq!(started.from, new.envelope.from);
    assert_eq!(started.content, new.content);
    assert_eq!(started.policy, new.policy);
    assert_eq!(started.expires_at, new.expires_at);
    accepted.is(Some(started.created_at));
    moment.is(Some(started.now));
    let to = started.recipients.iter();
    assert_eq!(
        to.map(|r| (r.address.clone(), r.status))
            .collect::<Vec<_>>(),
        new.envelope
            .recipients
            .into_iter()
            .map(|address| (address, RecipientStatus::Waiting))
            .collect::<Vec<_>>()
    );

    let state = scene.state(id).await;
    assert_eq!(started.state, state);
    assert_eq!(
        (state.status, state.phase),
        (Status::Sending, Phase::Preparing)
    );
    assert_eq!((state.attempt_number, state.attempt_count), (1, 0));
    assert_eq!(state.lease_token, started.lease.token);
    assert_eq!(state.worker.as_deref(), Some(WORKER));
    moment.is(state.started_at);
    moment.is_followed_by(state.locked_until, LEASE);
    scene.assert_counted(&[(Status::Sending, 1)]).await;
}

pub async fn each_attempt_raises_the_token_and_the_number(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.accept(an_email("a")).await;
    let mut last = None;
    for number in 1..=3 {
        let started = scene.begin(id).await;
        assert_eq!(started.state.attempt_number, number);
        assert!(Some(started.lease.token) > last);
        last = Some(started.lease.token);
        scene
            .finish(started.lease, transient(HOUR))
            .await
            .expect("a lease that holds");
        scene.advance(HOUR).await;
        assert_eq!(scene.schedule().await, [id]);
    }
    assert_eq!(scene.state(id).await.attempt_count, 3);
}

pub async fn an_email_that_is_being_sent_is_in_progress(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.accept(an_email("a")).await;
    // A doubled ticket, in one batch and later.
    let begun = scene.store.begin(vec![id, id], WORKER, LEASE).await;
    let begun = begun.expect("begin");
    assert!(matches!(begun[0], Begun::Started(_)));
    assert!(matches!(begun[1], Begun::Refused(Refusal::InProgress)));
    assert_eq!(scene.refusal(id).await, Refusal::InProgress);
    assert_eq!(scene.state(id).await.attempt_number, 1);
}

pub async fn a_finished_email_is_already_finished(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let delivered = scene.ended(an_email("sent"), sent()).await;
    let refused = scene
        .ended(an_email("dead"), dead(DeadReason::HardBounce))
        .await;
    let withdrawn = scene.accept(an_email("cancelled")).await;
    scene.act(withdrawn, Action::Cancel).await;
    for (id, status) in [
        (delivered, Status::Sent),
        (refused, Status::Dead),
        (withdrawn, Status::Cancelled),
    ] {
        assert_eq!(scene.refusal(id).await, Refusal::AlreadyFinished(status));
        assert_eq!(scene.status(id).await, status);
    }
}

pub async fn an_email_is_not_begun_before_its_time(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let later = scene
        .accept(an_email("later").send_at(scene.now() + HOUR))
        .await;
    let failed = scene.ended(an_email("failed"), transient(HOUR)).await;
    scene.advance(HALF).await;
    for id in [later, failed] {
        assert_eq!(scene.refusal(id).await, Refusal::NotDue);
    }
    scene.advance(HALF).await;
    scene.attempt(later, sent()).await;
    // A failed one is due only once the scheduler has looked at its budget.
    assert_eq!(scene.refusal(failed).await, Refusal::NotDue);
}

pub async fn an_email_of_unknown_fate_is_not_begun(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.ended(an_email("a"), unknown_hold()).await;
    let refusal = scene.refusal(id).await;
    assert_eq!(refusal, Refusal::NotAllowed(Status::Unknown));
}

pub async fn an_unknown_id_is_not_found(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let begun = scene.try_begin(EmailId::generate()).await;
    assert!(matches!(begun, Begun::NotFound));
}

pub async fn a_batch_is_answered_in_its_order(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let done = scene.ended(an_email("done"), sent()).await;
    let mut ids = vec![done, EmailId::generate()];
    for key in ["c", "b", "a"] {
        ids.insert(0, scene.accept(an_email(key)).await);
    }
    let begun = scene.store.begin(ids.clone(), WORKER, LEASE).await;
    let begun = begun.expect("begin");
    assert_eq!(begun.len(), ids.len());
    for (id, begun) in ids[..3].iter().zip(&begun) {
        assert!(matches!(begun, Begun::Started(started) if started.lease.id == *id));
    }
    assert!(matches!(
        begun[3],
        Begun::Refused(Refusal::AlreadyFinished(_))
    ));
    assert!(matches!(begun[4], Begun::NotFound));
    scene
        .assert_counted(&[(Status::Sending, 3), (Status::Sent, 1)])
        .await;
}

pub async fn one_of_many_doubled_tickets_is_begun(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.accept(an_email("a")).await;
    let begun = together(16, |_| {
        let store = scene.store.clone();
        async move { store.begin(vec![id], WORKER, LEASE).await.expect("begin") }
    })
    .await;
    let started = begun
        .iter()
        .flatten()
        .filter(|begun| matches!(begun, Begun::Started(_)));
    assert_eq!(started.count(), 1);
    assert_eq!(scene.state(id).await.attempt_number, 1);
}
