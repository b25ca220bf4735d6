//! What providers say later of emails that they took.

use posthaste_core::decision::Decision;
use posthaste_core::email::{EmailId, RecipientStatus};
use posthaste_core::feedback::{Happening, ProviderEvent, Recorded};
use posthaste_core::port::{Acted, Action, SuppressionFilter};
use posthaste_core::status::{DeadReason, Status};

use Happening::{Bounced, Complained, Delivered};

use super::StoreFixture;
use super::scene::{ALL, HOUR, Scene, TRANSPORT, operator, together};
use crate::email::address;
use crate::{EmailBuilder, an_email, dead, sent, transient, unknown_hold, unknown_resend};

pub(super) const ANN: &str = "Ann@example.org";
pub(super) const BOB: &str = "bob@example.org";
pub(super) const CARL: &str = "carl@example.org";
pub(super) const DETAIL: &str = "550 5.1.1 no such user";

/// The provider took it, and calls it so.
pub(super) fn sent_as(provider_id: &str) -> Decision {
    Decision {
        provider_id: Some(provider_id.into()),
        ..sent()
    }
}

/// What happened to the message of this name, to all of its recipients.
pub(super) fn word(happening: Happening, provider_id: &str) -> ProviderEvent {
    let detail = match happening {
        Delivered => None,
        Bounced => Some(DETAIL.into()),
        Complained => Some("called it spam".into()),
    };
    ProviderEvent {
        happening,
        provider_id: provider_id.into(),
        email_id: None,
        recipient: None,
        detail,
    }
}

/// The same to one of them.
pub(super) fn word_of(happening: Happening, provider_id: &str, recipient: &str) -> ProviderEvent {
    ProviderEvent {
        recipient: Some(address(recipient)),
        ..word(happening, provider_id)
    }
}

/// The same with our own id.
pub(super) fn of(id: EmailId, event: ProviderEvent) -> ProviderEvent {
    ProviderEvent {
        email_id: Some(id),
        ..event
    }
}

async fn hear_all<F: StoreFixture>(
    scene: &Scene<'_, F>,
    events: Vec<ProviderEvent>,
) -> Vec<Recorded> {
    let recorded = scene.store.record_feedback(TRANSPORT, events).await;
    recorded.expect("record")
}

pub(super) async fn hear<F: StoreFixture>(scene: &Scene<'_, F>, event: ProviderEvent) -> Recorded {
    let recorded = hear_all(scene, vec![event]).await;
    assert_eq!(recorded.len(), 1);
    recorded[0]
}

/// The addresses on the list, and why.
pub(super) async fn listed<F: StoreFixture>(scene: &Scene<'_, F>) -> Vec<(String, DeadReason)> {
    let filter = SuppressionFilter {
        limit: ALL,
        ..Default::default()
    };
    let listed = scene.store.suppressions(&filter).await.expect("list");
    let listed = listed.into_iter().map(|one| (one.address, one.reason));
    listed.collect()
}

pub(super) fn to_three(key: &str) -> EmailBuilder {
    an_email(key).to([ANN, BOB, CARL])
}

pub async fn what_comes_back_is_dead_and_its_address_gets_no_more(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let email = an_email("a").owner("billing").to([ANN]);
    let id = scene.ended(email, sent_as("p1")).await;
    let event = of(id, word_of(Bounced, "p1", "ann@EXAMPLE.org"));
    let (recorded, moment) = scene.timed(hear(&scene, event.clone())).await;
    assert_eq!(recorded, Recorded::Done);
    let state = scene.state(id).await;
    assert_eq!(state.status, Status::Dead);
    assert_eq!(state.dead_reason, Some(DeadReason::HardBounce));
    let error = "the provider said later: HardBounce (550 5.1.1 no such user)";
    assert_eq!(state.last_error.as_deref(), Some(error));
    moment.is(state.finished_at);
    let filter = SuppressionFilter {
        owner: Some("billing".into()),
        limit: ALL,
        ..Default::default()
    };
    let listed = scene.store.suppressions(&filter).await.expect("list");
    let [entry] = &listed[..] else {
        panic!("{listed:?}");
    };
    assert_eq!(entry.address, "ann@example.org");
    assert_eq!(entry.created_by, "provider:smtp");
    assert_eq!(
        (entry.email_id, entry.detail.as_deref()),
        (Some(id), Some(DETAIL))
    );
    moment.is(Some(entry.created_at));
    assert_eq!(
        hear(&scene, event).await,
        Recorded::Unchanged,
        "it is known"
    );
    let notices = scene.store.take_notices(ALL, HOUR).await.expect("take");
    assert_eq!(notices.len(), 1);
    assert_eq!(notices[0].1.reason, DeadReason::HardBounce);
    let channels = ["slack".to_owned()];
    let deaths = scene.store.gather_deaths(&channels, ALL).await;
    assert_eq!(deaths.expect("gather"), 1);
    scene.assert_counted(&[(Status::Dead, 1)]).await;
}

pub async fn a_complaint_is_graver_than_a_bounce(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.ended(an_email("a"), sent_as("p1")).await;
    hear(&scene, word(Bounced, "p1")).await;
    assert_eq!(hear(&scene, word(Complained, "p1")).await, Recorded::Done);
    let state = scene.state(id).await;
    assert_eq!(state.dead_reason, Some(DeadReason::SpamComplaint));
    let error = "the provider said later: SpamComplaint (called it spam)";
    assert_eq!(state.last_error.as_deref(), Some(error));
    let expected = [(BOB.to_owned(), DeadReason::SpamComplaint)];
    assert_eq!(listed(&scene).await, expected);
    for late in [Delivered, Bounced, Complained] {
        let recorded = hear(&scene, word(late, "p1")).await;
        assert_eq!(recorded, Recorded::Unchanged, "{late}");
    }
    assert_eq!(scene.state(id).await, state);
    let notices = scene.store.take_notices(ALL, HOUR).await.expect("take");
    assert_eq!(notices.len(), 1, "it died once");
}

pub async fn a_delivery_of_what_was_sent_is_no_news(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.ended(an_email("a"), sent_as("p1")).await;
    let before = scene.state(id).await;
    assert_eq!(
        hear(&scene, word(Delivered, "p1")).await,
        Recorded::Unchanged
    );
    assert_eq!(scene.state(id).await, before);
    assert_eq!(listed(&scene).await, []);
}

pub async fn only_what_names_a_message_of_ours_is_believed(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.ended(an_email("a"), sent_as("p1")).await;
    let other = scene.ended(an_email("b"), sent_as("p2")).await;
    for event in [
        word(Bounced, "p3"),
        word(Bounced, ""),
        word(Bounced, "p1\0"),
        of(other, word(Bounced, "p1")),
        of(EmailId::generate(), word(Bounced, "p1")),
        of(id, word(Bounced, "p3")),
        word_of(Bounced, "p1", "eve@example.org"),
    ] {
        let recorded = hear(&scene, event.clone()).await;
        assert_eq!(recorded, Recorded::NotOurs, "{event:?}");
    }
    let elsewhere = vec![of(id, word(Bounced, "p1"))];
    let elsewhere = scene.store.record_feedback("other", elsewhere).await;
    assert_eq!(elsewhere.expect("record"), [Recorded::NotOurs]);
    scene.assert_counted(&[(Status::Sent, 2)]).await;
    assert_eq!(listed(&scene).await, []);
}

pub async fn a_word_about_what_is_being_sent_is_to_be_said_again(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.accept(an_email("a")).await;
    let started = scene.begin(id).await;
    assert!(scene.pass_gate(started.lease).await);
    // The provider is faster than our own record.
    let event = of(id, word(Delivered, "p1"));
    assert_eq!(hear(&scene, event.clone()).await, Recorded::TryLater);
    let finished = scene.finish(started.lease, sent_as("p1")).await;
    finished.expect("a lease that holds");
    assert_eq!(hear(&scene, event).await, Recorded::Unchanged);
    // It came back, and an operator has it sent again.
    hear(&scene, word(Bounced, "p1")).await;
    scene.act(id, Action::Retry).await;
    scene.schedule().await;
    let started = scene.begin(id).await;
    let late = word(Complained, "p1");
    assert_eq!(hear(&scene, late.clone()).await, Recorded::TryLater);
    let finished = scene.finish(started.lease, sent_as("p2")).await;
    assert_eq!(finished.expect("a lease that holds").status, Status::Sent);
    // What the operator knew then is no news; a complaint is.
    let known = word(Bounced, "p1");
    assert_eq!(hear(&scene, known).await, Recorded::Unchanged);
    assert_eq!(scene.status(id).await, Status::Sent);
    assert_eq!(hear(&scene, late).await, Recorded::Done);
    assert_eq!(scene.status(id).await, Status::Dead);
}

pub async fn a_delivery_settles_an_unknown_fate(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    // With the answer, the name got lost, too: the provider repeats our own.
    let id = scene.ended(an_email("a"), unknown_hold()).await;
    let nameless = word(Delivered, "p1");
    assert_eq!(hear(&scene, nameless.clone()).await, Recorded::NotOurs);
    assert_eq!(hear(&scene, of(id, nameless)).await, Recorded::Done);
    assert_eq!(scene.status(id).await, Status::Sent);
    let lost = scene.uncertain(an_email("b")).await.lease.id;
    assert_eq!(
        hear(&scene, of(lost, word(Delivered, "p2"))).await,
        Recorded::Done
    );
    assert_eq!(scene.status(lost).await, Status::Sent);
    let back = scene.ended(an_email("c"), unknown_hold()).await;
    assert_eq!(
        hear(&scene, of(back, word(Bounced, "p3"))).await,
        Recorded::Done
    );
    assert_eq!(scene.status(back).await, Status::Dead);
}

pub async fn what_arrived_after_all_is_not_sent_again(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    for (key, happening, end) in [("a", Delivered, Status::Sent), ("b", Bounced, Status::Dead)] {
        let id = scene.ended(an_email(key), unknown_resend(HOUR)).await;
        assert_eq!(scene.status(id).await, Status::Failed);
        let recorded = hear(&scene, of(id, word(happening, key))).await;
        assert_eq!(recorded, Recorded::Done);
        assert_eq!(scene.status(id).await, end);
    }
    // What never left is not known by any name.
    let id = scene.ended(an_email("c"), transient(HOUR)).await;
    let event = of(id, word(Delivered, "c"));
    assert_eq!(hear(&scene, event).await, Recorded::NotOurs);
    scene.advance(HOUR).await;
    assert_eq!(scene.schedule().await, [id], "only this one is tried again");
}

/// Every order of these.
fn orders(items: &[ProviderEvent]) -> Vec<Vec<ProviderEvent>> {
    if items.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for at in 0..items.len() {
        let mut rest = items.to_vec();
        let first = rest.remove(at);
        for mut order in orders(&rest) {
            order.insert(0, first.clone());
            all.push(order);
        }
    }
    all
}

/// What is the same in the end, whatever the order.
async fn end_of<F: StoreFixture>(scene: &Scene<'_, F>, id: EmailId) -> String {
    let found = scene.find(id).await;
    let state = found.state;
    format!(
        "{} {:?} {:?} {:?}",
        state.status, state.dead_reason, state.last_error, found.recipients
    )
}

pub async fn words_in_any_order_end_in_the_same_state(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let alone = [Delivered, Bounced, Complained].map(|happening| word(happening, ""));
    let several = [
        word_of(Delivered, "", ANN),
        word_of(Bounced, "", BOB),
        word_of(Complained, "", BOB),
        word_of(Delivered, "", CARL),
    ];
    let mut n = 0;
    for (events, to) in [(&alone[..], &[BOB][..]), (&several, &[ANN, BOB, CARL])] {
        for is_unknown in [false, true] {
            let mut ends = Vec::new();
            for order in orders(events) {
                n += 1;
                let name = format!("p{n}");
                let decision = match is_unknown {
                    true => unknown_hold(),
                    false => sent_as(&name),
                };
                let email = an_email(&name).to(to.iter().copied());
                let id = scene.ended(email, decision).await;
                let named = order.into_iter().map(|event| ProviderEvent {
                    provider_id: name.clone(),
                    email_id: Some(id),
                    ..event
                });
                let named: Vec<_> = named.collect();
                // All at once, or one by one, and each twice.
                if n % 2 == 0 {
                    hear_all(&scene, named.clone()).await;
                }
                for event in named {
                    hear(&scene, event.clone()).await;
                    hear(&scene, event).await;
                }
                ends.push(end_of(&scene, id).await);
            }
            ends.sort();
            ends.dedup();
            assert_eq!(ends.len(), 1, "{ends:#?}");
            assert!(ends[0].starts_with("dead Some(SpamComplaint)"), "{ends:?}");
        }
    }
    let mut found = listed(&scene).await;
    found.dedup();
    assert_eq!(found, [(BOB.to_owned(), DeadReason::SpamComplaint)]);
}

pub async fn an_address_goes_on_the_list_whatever_became_of_its_email(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.ended(an_email("a"), sent_as("p1")).await;
    hear(&scene, word(Bounced, "p1")).await;
    scene.act(id, Action::Discard).await;
    let removed = scene.store.unsuppress("default", BOB, &operator()).await;
    assert!(removed.expect("unsuppress"));
    let recorded = hear(&scene, word(Complained, "p1")).await;
    assert_eq!(recorded, Recorded::Done, "the list is another one");
    assert_eq!(scene.status(id).await, Status::Discarded);
    let expected = [(BOB.to_owned(), DeadReason::SpamComplaint)];
    assert_eq!(listed(&scene).await, expected);
    assert_eq!(
        hear(&scene, word(Complained, "p1")).await,
        Recorded::Unchanged
    );
}

pub async fn nothing_that_was_erased_comes_back_with_a_word(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.ended(an_email("a"), sent_as("p1")).await;
    let several = scene.ended(to_three("b"), sent_as("p2")).await;
    for id in [id, several] {
        assert_eq!(
            scene.act(id, Action::Erase).await,
            Acted::Done(Status::Sent)
        );
    }
    assert_eq!(
        hear(&scene, word_of(Bounced, "p1", BOB)).await,
        Recorded::Done
    );
    let recorded = hear(&scene, word_of(Complained, "p2", CARL)).await;
    assert_eq!(recorded, Recorded::Done, "at least the address is known");
    let state = scene.state(id).await;
    assert_eq!(state.status, Status::Dead);
    let error = "the provider said later: HardBounce";
    assert_eq!(state.last_error.as_deref(), Some(error));
    assert_eq!(
        scene.status(several).await,
        Status::Sent,
        "who knows of whom"
    );
    let expected = [
        (BOB.to_owned(), DeadReason::HardBounce),
        (CARL.to_owned(), DeadReason::SpamComplaint),
    ];
    assert_eq!(listed(&scene).await, expected);
}

pub async fn what_came_back_may_be_sent_again(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    for (key, email) in [("p1", an_email("a")), ("p2", to_three("b"))] {
        let id = scene.ended(email, sent_as(key)).await;
        hear(&scene, word_of(Bounced, key, BOB)).await;
        assert_eq!(
            scene.act(id, Action::Retry).await,
            Acted::Done(Status::Pending)
        );
        scene.schedule().await;
        let started = scene.begin(id).await;
        let waiting = started
            .recipients
            .iter()
            .filter(|one| one.status == RecipientStatus::Waiting);
        let waiting: Vec<_> = waiting.map(|one| one.address.as_str()).collect();
        assert_eq!(waiting, [BOB], "nobody else gets it twice");
        scene.release(started.lease).await;
        scene.schedule().await;
        let state = scene.attempt(id, sent_as(&format!("{key} again"))).await;
        assert_eq!(state.status, Status::Sent);
    }
}

pub async fn a_batch_of_words_is_answered_in_its_order(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    scene.ended(an_email("a"), sent_as("p1")).await;
    scene.ended(to_three("b"), sent_as("p2")).await;
    scene
        .ended(an_email("c"), dead(DeadReason::HardBounce))
        .await;
    let events = vec![
        word(Bounced, "p1"),
        word_of(Complained, "p2", CARL),
        word(Delivered, "p9"),
        word_of(Bounced, "p2", ANN),
        word(Bounced, "p1"),
        word(Delivered, "p1"),
    ];
    use Recorded::{Done, NotOurs, Unchanged};
    assert_eq!(
        hear_all(&scene, events).await,
        [Done, Done, NotOurs, Done, Unchanged, Unchanged]
    );
    assert_eq!(hear_all(&scene, Vec::new()).await, []);
}

pub async fn the_same_word_said_at_once_is_news_once(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.ended(to_three("a"), sent_as("p1")).await;
    let stores = [scene.store.clone(), fixture.another().await];
    let recorded = together(12, |n| {
        let store = stores[n % 2].clone();
        let events = [word_of(Bounced, "p1", BOB), word_of(Complained, "p1", ANN)];
        let event = events[n % 4 / 2].clone();
        async move {
            let recorded = store.record_feedback(TRANSPORT, vec![event]).await;
            recorded.expect("record")[0]
        }
    });
    let news = recorded.await.into_iter().filter(|r| *r == Recorded::Done);
    assert_eq!(news.count(), 2);
    let state = scene.state(id).await;
    assert_eq!(state.dead_reason, Some(DeadReason::SpamComplaint));
    let notices = scene.store.take_notices(ALL, HOUR).await.expect("take");
    assert_eq!(notices.len(), 1);
}
