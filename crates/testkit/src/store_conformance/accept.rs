//! New emails.

use posthaste_core::port::Accepted;
use posthaste_core::status::{Phase, Priority, Status};

use super::scene::{HALF, HOUR, Scene, together};
use super::{StoreFixture, same_ids};
use crate::{an_email, sent};

pub async fn an_accepted_email_is_pending_and_due(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let email = an_email("welcome")
        .to(["bob@example.org", "carl@example.org"])
        .template("welcome")
        .priority(Priority::High)
        .metadata("order", "4711")
        .policy("notification")
        .expires_at(scene.now() + HOUR);
    let new = email.clone().build();
    let (id, moment) = scene.timed(scene.accept(email)).await;

    let found = scene.find(id).await;
    assert_eq!(
        (found.owner, found.message_key),
        (new.owner, new.message_key)
    );
    assert_eq!(
        (found.template, found.priority),
        (new.template, new.priority)
    );
    assert_eq!((found.summary, found.metadata), (new.summary, new.metadata));
    assert_eq!((found.policy, found.send_at), (new.policy, None));
    assert_eq!(found.expires_at, new.expires_at);
    assert_eq!(found.size_bytes, new.content.len() as u64);
    assert_eq!(found.erased_at, None);
    let addresses: Vec<_> = found.recipients.into_iter().map(|r| r.address).collect();
    assert_eq!(addresses, new.envelope.recipients);
    moment.is(Some(found.created_at));
    assert_eq!(
        scene.store.content(id).await.expect("content"),
        Some(new.content)
    );

    let state = found.state;
    assert_eq!((state.status, state.phase), (Status::Pending, Phase::Idle));
    assert_eq!((state.attempt_number, state.attempt_count), (0, 0));
    assert_eq!((state.max_attempts, state.locked_until), (None, None));
    moment.is(state.next_attempt_at);
    moment.is(state.last_queued_at);
    assert!(found.attempts.is_empty());
    scene.assert_counted(&[(Status::Pending, 1)]).await;
}

pub async fn an_email_without_a_ticket_was_never_queued(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.accept_unticketed(an_email("a").max_attempts(3)).await;
    let state = scene.state(id).await;
    assert_eq!((state.last_queued_at, state.max_attempts), (None, Some(3)));
}

pub async fn a_scheduled_email_waits_for_its_time(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let send_at = scene.now() + HOUR;
    let id = scene.accept(an_email("later").send_at(send_at)).await;
    let found = scene.find(id).await;
    assert_eq!(found.send_at, Some(send_at));
    assert_eq!(found.state.status, Status::Pending);
    assert_eq!(found.state.next_attempt_at, Some(send_at));
    // Its ticket is the scheduler's business, whatever the caller says.
    assert_eq!(found.state.last_queued_at, None);
}

pub async fn the_same_key_and_content_replay_the_first_answer(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.accept(an_email("a")).await;
    let again = scene.hand_in(an_email("a"), true).await;
    assert_eq!(again, Accepted::Replayed(id, Status::Pending));
    scene.attempt(id, sent()).await;
    let again = scene.hand_in(an_email("a"), true).await;
    assert_eq!(again, Accepted::Replayed(id, Status::Sent));
    scene.assert_counted(&[(Status::Sent, 1)]).await;
}

pub async fn the_same_key_with_other_content_conflicts(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.accept(an_email("a").subject("First")).await;
    let other = an_email("a").payload("something else").subject("Second");
    assert_eq!(scene.hand_in(other, true).await, Accepted::KeyConflict(id));
    assert_eq!(scene.find(id).await.summary.subject, "First");
    scene.assert_counted(&[(Status::Pending, 1)]).await;
}

pub async fn keys_belong_to_their_owners(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let billing = scene.accept(an_email("a").owner("billing")).await;
    let shop = scene
        .accept(an_email("a").owner("shop").payload("other"))
        .await;
    assert_eq!(scene.find(billing).await.owner, "billing");
    assert_eq!(scene.find(shop).await.owner, "shop");
    let again = scene.hand_in(an_email("a").owner("billing"), true).await;
    assert_eq!(again, Accepted::Replayed(billing, Status::Pending));
}

pub async fn what_was_accepted_before_is_known_by_its_key(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let (same, other) = (
        an_email("a").build(),
        an_email("a").payload("other").build(),
    );
    let before = |owner: &'static str, key: &'static str, hash| {
        let store = scene.store.clone();
        async move { store.accepted_before(owner, key, hash).await.expect("read") }
    };
    let hash = same.payload_hash;
    let owner = "billing";
    assert_eq!(before(owner, "a", hash).await, None);
    let id = scene.accept(an_email("a").owner(owner)).await;
    let replayed = Some(Accepted::Replayed(id, Status::Pending));
    assert_eq!(before(owner, "a", hash).await, replayed);
    let conflict = Some(Accepted::KeyConflict(id));
    assert_eq!(before(owner, "a", other.payload_hash).await, conflict);
    for (owner, key) in [("shop", "a"), (owner, "b"), (owner, "a\0"), ("\0", "a")] {
        assert_eq!(before(owner, key, hash).await, None, "{owner:?} {key:?}");
    }
    scene.attempt(id, sent()).await;
    let replayed = Some(Accepted::Replayed(id, Status::Sent));
    assert_eq!(before(owner, "a", hash).await, replayed);
}

pub async fn one_bad_entry_of_a_batch_spoils_no_other(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let taken = scene.accept(an_email("taken")).await;
    let (first, again) = (an_email("first").build(), an_email("first").build());
    let last = an_email("last").build();
    let batch = vec![
        first.clone(),
        an_email("taken").payload("other").build(),
        an_email("taken").build(),
        an_email("bad").id(taken).build(),
        again.clone(),
        last.clone(),
    ];
    let answers = scene.store.accept(batch, true).await.expect("accept");
    let [a, b, c, d, e, f] = &answers[..] else {
        panic!("{answers:?}")
    };
    // Of two with one key one is kept; which one, only a store with a single writer can say.
    let kept = match (a, e) {
        (Ok(Accepted::Created), Ok(Accepted::Replayed(id, _))) if *id == first.id => first.id,
        (Ok(Accepted::Replayed(id, _)), Ok(Accepted::Created)) if *id == again.id => again.id,
        other => panic!("{other:?}"),
    };
    assert!(
        matches!(b, Ok(Accepted::KeyConflict(id)) if *id == taken),
        "{b:?}"
    );
    assert!(
        matches!(c, Ok(Accepted::Replayed(id, _)) if *id == taken),
        "{c:?}"
    );
    assert!(d.is_err(), "an id may be used once: {d:?}");
    assert!(matches!(f, Ok(Accepted::Created)), "{f:?}");
    same_ids(scene.list(Default::default()).await, [taken, kept, last.id]);
    scene.assert_counted(&[(Status::Pending, 3)]).await;
}

pub async fn an_empty_batch_is_accepted_as_such(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let answers = scene.store.accept(Vec::new(), true).await.expect("accept");
    assert!(answers.is_empty());
    scene.assert_counted(&[]).await;
}

pub async fn what_differs_among_emails_that_come_together_stays_apart(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let later = scene.now() + HOUR;
    // Not in the order of their keys, and each with something that the others do not have.
    let emails = [
        an_email("d").template("welcome"),
        an_email("a").send_at(later),
        an_email("c").route("bulk").priority(Priority::Low),
        an_email("b").expires_at(later).owner("shop"),
        an_email("e").max_attempts(3).metadata("order", "4711"),
    ];
    let emails = emails.map(crate::EmailBuilder::build);
    let answers = scene.store.accept(emails.to_vec(), true).await;
    for answer in answers.expect("accept") {
        assert_eq!(answer.expect("accept"), Accepted::Created);
    }
    for new in emails {
        let found = scene.find(new.id).await;
        assert_eq!(found.message_key, new.message_key);
        assert_eq!((found.owner, found.template), (new.owner, new.template));
        assert_eq!((found.route, found.priority), (new.route, new.priority));
        assert_eq!(
            (found.send_at, found.expires_at),
            (new.send_at, new.expires_at)
        );
        assert_eq!((found.summary, found.metadata), (new.summary, new.metadata));
        assert_eq!(found.state.max_attempts, new.max_attempts);
        let is_for_later = new.send_at.is_some();
        assert_eq!(found.state.last_queued_at.is_none(), is_for_later);
    }
}

pub async fn thirty_two_tasks_with_one_key_create_one_email(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let answers = together(32, |_| {
        let store = scene.store.clone();
        async move {
            let email = an_email("one").build();
            let id = email.id;
            let mut answers = store.accept(vec![email], true).await.expect("accept");
            (id, answers.remove(0).expect("accept"))
        }
    })
    .await;
    let created: Vec<_> = answers
        .iter()
        .filter(|(_, answer)| *answer == Accepted::Created)
        .collect();
    assert_eq!(created.len(), 1);
    let winner = created[0].0;
    for (_, answer) in answers.iter().filter(|(id, _)| *id != winner) {
        assert_eq!(*answer, Accepted::Replayed(winner, Status::Pending));
    }
    scene.assert_counted(&[(Status::Pending, 1)]).await;
}

pub async fn a_time_to_send_that_has_passed_means_now(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let past = scene.now() - HALF;
    let id = scene.accept(an_email("late").send_at(past)).await;
    assert!(scene.state(id).await.last_queued_at.is_some());
    scene.attempt(id, sent()).await;
}
