//! Emails to several recipients whose fates differ.

use posthaste_core::email::{EmailId, Recipient, RecipientStatus};
use posthaste_core::lifecycle::Resolution;
use posthaste_core::port::{Acted, Action, EmailFilter};
use posthaste_core::status::{DeadReason, Status};

use RecipientStatus::{Accepted, Dead, Waiting};

use super::StoreFixture;
use super::scene::{HALF, HOUR, LEASE, Scene};
use crate::{EmailBuilder, an_email, dead, sent, transient, unknown_hold, with_recipients};

const ANN: &str = "ann@example.org";
const BOB: &str = "bob@example.org";
const CARL: &str = "carl@example.org";

fn to_three(key: &str) -> EmailBuilder {
    an_email(key).to([ANN, BOB, CARL])
}

fn shown(recipients: &[Recipient]) -> Vec<(&str, RecipientStatus)> {
    recipients
        .iter()
        .map(|recipient| (recipient.address.as_str(), recipient.status))
        .collect()
}

async fn assert_recipients<F: StoreFixture>(
    scene: &Scene<'_, F>,
    id: EmailId,
    expected: &[(&str, RecipientStatus)],
) {
    let found = scene.find(id).await;
    assert_eq!(shown(&found.recipients), expected);
    let filter = EmailFilter {
        q: Some(id.to_string()),
        limit: 1,
        ..Default::default()
    };
    let listed = scene.store.list(&filter).await.expect("list");
    assert_eq!(listed[0].recipients, found.recipients);
}

/// Ann was accepted, Bob waits, Carl was refused.
async fn mixed<F: StoreFixture>(scene: &Scene<'_, F>, email: EmailBuilder) -> EmailId {
    let id = scene.accept(email).await;
    let outcome = [(ANN, Accepted), (BOB, Waiting), (CARL, Dead)];
    scene
        .attempt(id, with_recipients(transient(HOUR), &outcome))
        .await;
    assert_recipients(scene, id, &outcome).await;
    id
}

pub async fn recipients_that_fare_alike_follow_the_email(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let all = |status| [(ANN, status), (BOB, status), (CARL, status)];
    let waiting = scene.ended(to_three("waiting"), transient(HOUR)).await;
    assert_recipients(&scene, waiting, &all(Waiting)).await;
    let accepted = scene.ended(to_three("accepted"), sent()).await;
    assert_recipients(&scene, accepted, &all(Accepted)).await;
    let refused = dead(DeadReason::HardBounce);
    let refused = scene.ended(to_three("refused"), refused).await;
    assert_recipients(&scene, refused, &all(Dead)).await;
}

pub async fn a_retry_knows_who_still_waits(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = mixed(&scene, to_three("a")).await;
    let found = scene.find(id).await;
    let details: Vec<_> = found.recipients.iter().map(|r| r.detail.clone()).collect();
    assert!(details.iter().all(Option::is_some), "{details:?}");
    assert_eq!(found.recipients[2].reason, Some(DeadReason::HardBounce));
    scene.advance(HOUR).await;
    scene.schedule().await;
    let started = scene.begin(id).await;
    assert_eq!(started.recipients, found.recipients);
    let lease = started.lease;
    scene.release(lease).await;
    let begun = scene.begin_unticketed(1, scene.now() + HOUR).await;
    assert!(
        begun
            .iter()
            .all(|begun| begun.recipients == found.recipients)
    );
}

pub async fn an_email_is_sent_once_all_have_accepted(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.accept(to_three("a")).await;
    let outcome = [(ANN, Accepted), (BOB, Waiting), (CARL, Accepted)];
    scene
        .attempt(id, with_recipients(transient(HOUR), &outcome))
        .await;
    scene.advance(HOUR).await;
    scene.schedule().await;
    let all = [(ANN, Accepted), (BOB, Accepted), (CARL, Accepted)];
    let state = scene.attempt(id, with_recipients(sent(), &all)).await;
    assert_eq!(state.status, Status::Sent);
    assert_recipients(&scene, id, &all).await;
}

pub async fn a_replay_goes_to_the_dead_ones_only(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.accept(to_three("a")).await;
    let outcome = [(ANN, Accepted), (BOB, Dead), (CARL, Dead)];
    let refused = with_recipients(dead(DeadReason::HardBounce), &outcome);
    scene.attempt(id, refused).await;
    assert_recipients(&scene, id, &outcome).await;
    assert_eq!(
        scene.act(id, Action::Retry).await,
        Acted::Done(Status::Pending)
    );
    let revived = [(ANN, Accepted), (BOB, Waiting), (CARL, Waiting)];
    assert_recipients(&scene, id, &revived).await;
    scene.schedule().await;
    let started = scene.begin(id).await;
    assert_eq!(shown(&started.recipients), revived);
    assert!(started.recipients.iter().all(|r| r.reason.is_none()));
    let all = [(ANN, Accepted), (BOB, Accepted), (CARL, Accepted)];
    let finished = scene
        .finish(started.lease, with_recipients(sent(), &all))
        .await;
    assert_eq!(finished.expect("a lease that holds").status, Status::Sent);
    assert_recipients(&scene, id, &all).await;
}

pub async fn a_replay_of_all_dead_ones_starts_anew(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.accept(to_three("a")).await;
    let outcome = [(ANN, Dead), (BOB, Waiting), (CARL, Waiting)];
    scene
        .attempt(id, with_recipients(transient(HOUR), &outcome))
        .await;
    scene.advance(HOUR).await;
    scene.schedule().await;
    let outcome = [(ANN, Dead), (BOB, Dead), (CARL, Dead)];
    let refused = with_recipients(dead(DeadReason::HardBounce), &outcome);
    scene.attempt(id, refused).await;
    scene.act(id, Action::Retry).await;
    scene.schedule().await;
    // All fare alike in this attempt, before and after: no one is recorded alone.
    let state = scene.attempt(id, sent()).await;
    assert_eq!(state.status, Status::Sent);
    let all = [(ANN, Accepted), (BOB, Accepted), (CARL, Accepted)];
    assert_recipients(&scene, id, &all).await;
}

pub async fn an_email_resolved_as_sent_reached_those_who_waited(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.accept(to_three("a")).await;
    let outcome = [(ANN, Accepted), (BOB, Waiting), (CARL, Waiting)];
    let lost = with_recipients(unknown_hold(), &outcome);
    scene.attempt(id, lost).await;
    let acted = scene.act(id, Action::Resolve(Resolution::Sent)).await;
    assert_eq!(acted, Acted::Done(Status::Sent));
    let all = [(ANN, Accepted), (BOB, Accepted), (CARL, Accepted)];
    assert_recipients(&scene, id, &all).await;
}

pub async fn an_email_resolved_as_sent_does_not_hide_whom_it_did_not_reach(
    fixture: &impl StoreFixture,
) {
    let scene = Scene::new(fixture);
    let id = scene.accept(to_three("a")).await;
    let outcome = [(ANN, Accepted), (BOB, Waiting), (CARL, Dead)];
    let mut lost = with_recipients(unknown_hold(), &outcome);
    lost.recipients[2].reason = Some(DeadReason::HardBounce);
    scene.attempt(id, lost).await;
    let acted = scene.act(id, Action::Resolve(Resolution::Sent)).await;
    assert_eq!(acted, Acted::Done(Status::Dead));
    let reached = [(ANN, Accepted), (BOB, Accepted), (CARL, Dead)];
    assert_recipients(&scene, id, &reached).await;
    assert_eq!(
        scene.state(id).await.dead_reason,
        Some(DeadReason::HardBounce)
    );
}

pub async fn those_who_wait_are_given_up_with_the_email(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let expires_at = scene.now() + 4 * HOUR;
    let exhausted = mixed(&scene, to_three("exhausted").max_attempts(1)).await;
    let expired = mixed(&scene, to_three("expired").expires_at(expires_at)).await;
    scene.advance(5 * HOUR).await;
    assert!(scene.schedule().await.is_empty());
    let unknown = scene.accept(to_three("unknown")).await;
    let outcome = [(ANN, Accepted), (BOB, Waiting), (CARL, Dead)];
    let lost = with_recipients(unknown_hold(), &outcome);
    scene.attempt(unknown, lost).await;
    scene.act(unknown, Action::Resolve(Resolution::Dead)).await;
    let ends = [(ANN, Accepted), (BOB, Dead), (CARL, Dead)];
    for (id, reason) in [
        (exhausted, DeadReason::MaxAttemptsExceeded),
        (expired, DeadReason::Expired),
        (unknown, DeadReason::Uncertain),
    ] {
        assert_recipients(&scene, id, &ends).await;
        let reasons: Vec<_> = scene.find(id).await.recipients;
        let reasons: Vec<_> = reasons.iter().map(|r| r.reason).collect();
        assert_eq!(reasons, [None, Some(reason), Some(DeadReason::HardBounce)]);
    }
}

pub async fn poison_gives_up_those_who_wait(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = mixed(&scene, to_three("a")).await;
    scene.advance(HOUR).await;
    for _ in 0..3 {
        assert_eq!(scene.schedule().await, [id]);
        let started = scene.begin(id).await;
        assert!(scene.store.prepare(started.lease).await.expect("prepare"));
        scene.advance(LEASE + HALF).await;
        scene.rescue().await;
    }
    let ends = [(ANN, Accepted), (BOB, Dead), (CARL, Dead)];
    assert_recipients(&scene, id, &ends).await;
}

pub async fn a_stale_finish_changes_no_recipient(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.accept(to_three("a")).await;
    let mut lease = scene.begin(id).await.lease;
    lease.token += 1;
    let outcome = [(ANN, Accepted), (BOB, Waiting), (CARL, Dead)];
    let stale = with_recipients(transient(HOUR), &outcome);
    assert!(scene.finish(lease, stale).await.is_err());
    let all = [(ANN, Waiting), (BOB, Waiting), (CARL, Waiting)];
    assert_recipients(&scene, id, &all).await;
}

pub async fn an_erased_email_that_was_sent_in_parts_stays_consistent(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.accept(to_three("a")).await;
    // Delivered to two, then, after a replay, to the third: two attempts that sent it.
    let mut parts = sent();
    parts.conclusion = posthaste_core::decision::Conclusion::Dead(DeadReason::HardBounce);
    let outcome = [(ANN, Accepted), (BOB, Accepted), (CARL, Dead)];
    scene.attempt(id, with_recipients(parts, &outcome)).await;
    scene.act(id, Action::Retry).await;
    scene.schedule().await;
    let all = [(ANN, Accepted), (BOB, Accepted), (CARL, Accepted)];
    scene.attempt(id, with_recipients(sent(), &all)).await;
    assert_eq!(
        scene.act(id, Action::Erase).await,
        Acted::Done(Status::Sent)
    );
    let found = scene.find(id).await;
    let shown = format!("{found:?}");
    assert!(!shown.contains("@example.org"), "{shown}");
}
