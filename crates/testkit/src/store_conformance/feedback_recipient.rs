//! What providers say later of emails to several recipients.

use posthaste_core::decision::Decision;
use posthaste_core::email::{EmailId, RecipientStatus};
use posthaste_core::feedback::Happening::{Bounced, Complained, Delivered};
use posthaste_core::feedback::Recorded;
use posthaste_core::status::{DeadReason, Status};

use super::StoreFixture;
use super::feedback::{ANN, BOB, CARL, DETAIL, hear, listed, of, sent_as, to_three, word, word_of};
use super::scene::{HOUR, Scene};
use crate::{an_email, transient, unknown_hold, with_recipients};

async fn standing<F: StoreFixture>(
    scene: &Scene<'_, F>,
    id: EmailId,
) -> Vec<(RecipientStatus, Option<DeadReason>)> {
    let recipients = scene.find(id).await.recipients;
    let standing = recipients.iter().map(|one| (one.status, one.reason));
    standing.collect()
}

pub async fn of_several_recipients_each_has_its_own_fate(fixture: &impl StoreFixture) {
    use RecipientStatus::{Accepted, Dead};
    let scene = Scene::new(fixture);
    let id = scene.ended(to_three("a"), sent_as("p1")).await;
    let recorded = hear(&scene, word_of(Bounced, "p1", BOB)).await;
    assert_eq!(recorded, Recorded::Done);
    let bounced = (Dead, Some(DeadReason::HardBounce));
    let accepted = (Accepted, None);
    assert_eq!(standing(&scene, id).await, [accepted, bounced, accepted]);
    let found = scene.find(id).await;
    assert_eq!(found.state.status, Status::Dead);
    assert_eq!(found.recipients[1].detail.as_deref(), Some(DETAIL));
    assert_eq!(found.status_text(8, scene.now()), "Delivered to 2 of 3");
    let late = hear(&scene, word_of(Delivered, "p1", BOB)).await;
    assert_eq!(late, Recorded::Unchanged);
    let recorded = hear(&scene, word_of(Complained, "p1", ANN)).await;
    assert_eq!(recorded, Recorded::Done);
    let complained = (Dead, Some(DeadReason::SpamComplaint));
    assert_eq!(standing(&scene, id).await, [complained, bounced, accepted]);
    let state = scene.state(id).await;
    assert_eq!(state.dead_reason, Some(DeadReason::SpamComplaint));
    let expected = [
        ("ann@example.org".to_owned(), DeadReason::SpamComplaint),
        (BOB.to_owned(), DeadReason::HardBounce),
    ];
    assert_eq!(listed(&scene).await, expected);
}

pub async fn an_unknown_fate_of_several_is_settled_by_the_last_word(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.ended(to_three("a"), unknown_hold()).await;
    for (recipient, end) in [
        (CARL, Status::Unknown),
        (ANN, Status::Unknown),
        (BOB, Status::Sent),
    ] {
        let event = of(id, word_of(Delivered, "p1", recipient));
        assert_eq!(hear(&scene, event).await, Recorded::Done);
        assert_eq!(scene.status(id).await, end);
    }
    // One was refused when it was sent: it reached the others.
    let mixed = [
        (ANN, RecipientStatus::Waiting),
        (BOB, RecipientStatus::Waiting),
        (CARL, RecipientStatus::Dead),
    ];
    let mut decision = with_recipients(unknown_hold(), &mixed);
    decision.recipients[2].reason = Some(DeadReason::InvalidRecipient);
    let id = scene.ended(to_three("b"), decision).await;
    assert_eq!(
        hear(&scene, of(id, word(Delivered, "p2"))).await,
        Recorded::Done
    );
    let state = scene.state(id).await;
    assert_eq!(state.status, Status::Dead);
    assert_eq!(state.dead_reason, Some(DeadReason::InvalidRecipient));
    let found = scene.find(id).await;
    assert_eq!(found.status_text(8, scene.now()), "Delivered to 2 of 3");
}

pub async fn one_that_came_back_does_not_hold_up_those_who_wait(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let mixed = [
        (ANN, RecipientStatus::Accepted),
        (BOB, RecipientStatus::Waiting),
    ];
    let decision = Decision {
        provider_id: Some("p1".into()),
        ..with_recipients(transient(HOUR), &mixed)
    };
    let email = an_email("a").to([ANN, BOB]);
    let id = scene.ended(email, decision).await;
    let recorded = hear(&scene, word_of(Bounced, "p1", ANN)).await;
    assert_eq!(recorded, Recorded::Done);
    assert_eq!(scene.status(id).await, Status::Failed);
    // What the provider was not given cannot have come back.
    let recorded = hear(&scene, word_of(Delivered, "p1", BOB)).await;
    assert_eq!(recorded, Recorded::Unchanged);
    scene.advance(HOUR).await;
    assert_eq!(scene.schedule().await, [id]);
    let started = scene.begin(id).await;
    let standing: Vec<_> = started.recipients.iter().map(|one| one.status).collect();
    assert_eq!(standing, [RecipientStatus::Dead, RecipientStatus::Waiting]);
    scene.release(started.lease).await;
}
