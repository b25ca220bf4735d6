//! What operators and callers do to emails.

use posthaste_core::email::EmailId;
use posthaste_core::lifecycle::{Refusal, Resolution};
use posthaste_core::port::{Acted, Action, Actor, AuditFilter};
use posthaste_core::status::{DeadReason, Outcome, Status};

use super::StoreFixture;
use super::scene::{ALL, HALF, HOUR, LEASE, Scene, operator};
use crate::{an_email, dead, sent, transient, unknown_hold};

pub async fn an_email_that_waits_can_be_cancelled(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let pending = scene.accept(an_email("pending")).await;
    let failed = scene.ended(an_email("failed"), transient(HALF)).await;
    let queued = scene.ended(an_email("queued"), transient(HOUR)).await;
    scene.advance(HOUR).await;
    scene.mark_queued(&[], &[]).await;
    for due in scene.claim(ALL).await {
        if due.id == failed {
            scene.mark_queued(&[], &[failed]).await;
        }
    }
    assert_eq!(scene.status(queued).await, Status::RetryQueued);
    for id in [pending, failed, queued] {
        let (acted, moment) = scene.timed(scene.act(id, Action::Cancel)).await;
        assert_eq!(acted, Acted::Done(Status::Cancelled));
        let state = scene.state(id).await;
        moment.is(state.finished_at);
        assert_eq!((state.next_attempt_at, state.locked_until), (None, None));
        let again = scene.act(id, Action::Cancel).await;
        let over = Refusal::AlreadyFinished(Status::Cancelled);
        assert_eq!(again, Acted::Refused(over, Status::Cancelled));
    }
    scene.advance(3 * HOUR).await;
    assert!(scene.schedule().await.is_empty());
    assert!(scene.rescue().await.is_empty());
    scene.assert_counted(&[(Status::Cancelled, 3)]).await;
}

pub async fn what_is_sending_or_over_cannot_be_cancelled(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let sending = scene.accept(an_email("sending")).await;
    let lease = scene.begin(sending).await.lease;
    let refused = Acted::Refused(Refusal::InProgress, Status::Sending);
    assert_eq!(scene.act(sending, Action::Cancel).await, refused);
    scene
        .finish(lease, sent())
        .await
        .expect("a lease that holds");

    let given_up = scene
        .ended(an_email("dead"), dead(DeadReason::HardBounce))
        .await;
    for (id, status) in [(sending, Status::Sent), (given_up, Status::Dead)] {
        let refused = Acted::Refused(Refusal::AlreadyFinished(status), status);
        assert_eq!(scene.act(id, Action::Cancel).await, refused);
        assert_eq!(scene.status(id).await, status);
    }
    let unknown = scene.ended(an_email("unknown"), unknown_hold()).await;
    let refused = Acted::Refused(Refusal::NotAllowed(Status::Unknown), Status::Unknown);
    assert_eq!(scene.act(unknown, Action::Cancel).await, refused);
}

pub async fn a_retry_gives_a_fresh_budget_and_goes_on_counting(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let gone = scene
        .ended(
            an_email("dead").max_attempts(1),
            dead(DeadReason::HardBounce),
        )
        .await;
    let failed = scene.ended(an_email("failed"), transient(9 * HOUR)).await;
    let unknown = scene.ended(an_email("unknown"), unknown_hold()).await;
    let unclear = scene.uncertain(an_email("undecided")).await.lease.id;
    for (id, outcome) in [
        (gone, Outcome::Permanent),
        (failed, Outcome::Transient),
        (unknown, Outcome::Unknown),
        (unclear, Outcome::Unknown),
    ] {
        let token = scene.state(id).await.lease_token;
        let (acted, moment) = scene.timed(scene.act(id, Action::Retry)).await;
        assert_eq!(acted, Acted::Done(Status::Pending));
        let state = scene.state(id).await;
        assert_eq!((state.attempt_count, state.attempt_number), (0, 1));
        assert_eq!((state.unknown_count, state.lost_count), (0, 0));
        assert_eq!((state.last_error, state.fingerprint), (None, None));
        assert_eq!((state.dead_reason, state.finished_at), (None, None));
        assert_eq!(state.possible_duplicate, outcome == Outcome::Unknown);
        assert!(state.lease_token > token);
        moment.is(state.next_attempt_at);

        assert_eq!(scene.schedule().await, [id], "it is due at once");
        let state = scene.attempt(id, transient(9 * HOUR)).await;
        assert_eq!((state.attempt_number, state.attempt_count), (2, 1));
        let outcomes = scene.outcomes(id).await;
        assert_eq!(outcomes, [(1, outcome), (2, Outcome::Transient)]);
    }
    assert!(scene.undecided().await.is_empty());
    scene.assert_counted(&[(Status::Failed, 4)]).await;
}

pub async fn a_retry_done_twice_is_done_once(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene
        .ended(an_email("a"), dead(DeadReason::HardBounce))
        .await;
    let both = scene
        .store
        .act(vec![id, id], Action::Retry, &operator())
        .await;
    let both = both.expect("act");
    let expected = [
        Acted::Done(Status::Pending),
        Acted::Unchanged(Status::Pending),
    ];
    assert_eq!(both, expected);
    let state = scene.state(id).await;
    scene.schedule().await;
    let queued = scene.act(id, Action::Retry).await;
    assert_eq!(queued, Acted::Unchanged(Status::RetryQueued));
    let started = scene.begin(id).await;
    assert_eq!(started.lease.token, state.lease_token + 1);
    let sending = scene.act(id, Action::Retry).await;
    assert_eq!(sending, Acted::Unchanged(Status::Sending));
    scene
        .finish(started.lease, sent())
        .await
        .expect("a lease that holds");
    assert_eq!(
        scene.act(id, Action::Retry).await,
        Acted::Refused(Refusal::NotAllowed(Status::Sent), Status::Sent)
    );
    assert_eq!(scene.state(id).await.attempt_number, 2);
}

pub async fn an_unknown_fate_is_resolved_by_an_operator(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    for (key, resolution, status) in [
        ("a", Resolution::Sent, Status::Sent),
        ("b", Resolution::Retry, Status::Pending),
        ("c", Resolution::Dead, Status::Dead),
    ] {
        let held = scene.ended(an_email(key), unknown_hold()).await;
        let undecided = an_email(&format!("{key} undecided"));
        let undecided = scene.uncertain(undecided).await.lease.id;
        for id in [held, undecided] {
            let action = Action::Resolve(resolution);
            let (acted, moment) = scene.timed(scene.act(id, action)).await;
            assert_eq!(acted, Acted::Done(status));
            let state = scene.state(id).await;
            let reason = (status == Status::Dead).then_some(DeadReason::Uncertain);
            assert_eq!((state.status, state.dead_reason), (status, reason));
            if status == Status::Sent {
                moment.is(state.sent_at);
            }
            if status.is_terminal() {
                moment.is(state.finished_at);
            }
            let again = scene.act(id, action).await;
            assert_eq!(again, Acted::Refused(Refusal::NotAllowed(status), status));
            assert_eq!(scene.outcomes(id).await, [(1, Outcome::Unknown)]);
        }
    }
    assert!(scene.undecided().await.is_empty());
    let counted = [Status::Sent, Status::Pending, Status::Dead];
    scene
        .assert_counted(&counted.map(|status| (status, 2)))
        .await;
}

pub async fn only_an_unknown_fate_is_resolved(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.accept(an_email("a")).await;
    for resolution in Resolution::ALL {
        let acted = scene.act(id, Action::Resolve(*resolution)).await;
        let refusal = Refusal::NotAllowed(Status::Pending);
        assert_eq!(acted, Acted::Refused(refusal, Status::Pending));
    }
    assert_eq!(scene.status(id).await, Status::Pending);
}

pub async fn a_dead_letter_is_discarded_and_restored(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene
        .ended(an_email("a"), dead(DeadReason::HardBounce))
        .await;
    assert_eq!(
        scene.act(id, Action::Discard).await,
        Acted::Done(Status::Discarded)
    );
    assert_eq!(
        scene.act(id, Action::Discard).await,
        Acted::Unchanged(Status::Discarded)
    );
    scene.assert_counted(&[(Status::Discarded, 1)]).await;
    let refused = Refusal::NotAllowed(Status::Discarded);
    assert_eq!(
        scene.act(id, Action::Retry).await,
        Acted::Refused(refused, Status::Discarded)
    );
    assert_eq!(
        scene.act(id, Action::Restore).await,
        Acted::Done(Status::Dead)
    );
    assert_eq!(
        scene.act(id, Action::Restore).await,
        Acted::Unchanged(Status::Dead)
    );
    let state = scene.state(id).await;
    assert_eq!(state.dead_reason, Some(DeadReason::HardBounce));
    assert!(state.last_error.is_some());
    scene.assert_counted(&[(Status::Dead, 1)]).await;
    assert_eq!(
        scene.act(id, Action::Retry).await,
        Acted::Done(Status::Pending)
    );
}

pub async fn only_dead_letters_are_discarded(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let delivered = scene.ended(an_email("sent"), sent()).await;
    let pending = scene.accept(an_email("pending")).await;
    for (id, status) in [(delivered, Status::Sent), (pending, Status::Pending)] {
        for action in [Action::Discard, Action::Restore] {
            let refused = Acted::Refused(Refusal::NotAllowed(status), status);
            assert_eq!(scene.act(id, action).await, refused);
        }
    }
}

pub async fn erasing_removes_body_and_addresses(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let email = an_email("a")
        .to(["secret@example.org", "other@example.org"])
        .metadata("name", "Bob");
    let size = email.clone().build().content.len() as u64;
    let refused = crate::dead_of(
        DeadReason::HardBounce,
        "550 5.1.1 <secret@example.org> no such user",
    );
    let id = scene.ended(email, refused).await;
    let (acted, moment) = scene.timed(scene.act(id, Action::Erase)).await;
    assert_eq!(acted, Acted::Done(Status::Dead));

    let content = scene.store.content(id).await.expect("content");
    assert!(content.is_none_or(|content| content.is_empty()));
    let found = scene.find(id).await;
    moment.is(found.erased_at);
    let shown = format!("{found:?}");
    for gone in ["secret@", "other@", "Bob", "ann@", "Subject"] {
        assert!(!shown.contains(gone), "{gone} is still there: {shown}");
    }
    assert_eq!(found.size_bytes, size, "counts are kept");
    assert_eq!(
        (found.state.status, found.attempts.len()),
        (Status::Dead, 1)
    );
    assert_eq!(found.state.dead_reason, Some(DeadReason::HardBounce));
    let filter = posthaste_core::port::EmailFilter {
        to: Some("secret@example.org".into()),
        ..Default::default()
    };
    assert!(scene.list(filter).await.is_empty());

    assert_eq!(scene.act(id, Action::Retry).await, Acted::Erased);
    assert_eq!(
        scene.act(id, Action::Erase).await,
        Acted::Unchanged(Status::Dead)
    );
    // The key stays used, for the same and for another email.
    let replayed = scene.hand_in(an_email("a"), true).await;
    let expected = posthaste_core::port::Accepted::Replayed(id, Status::Dead);
    assert_eq!(replayed, expected);
    scene.assert_counted(&[(Status::Dead, 1)]).await;
}

pub async fn what_can_still_be_sent_is_not_erased(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let pending = scene.accept(an_email("pending")).await;
    let sending = scene.accept(an_email("sending")).await;
    let lease = scene.begin(sending).await.lease;
    let failed = scene.ended(an_email("failed"), transient(HOUR)).await;
    let unknown = scene.ended(an_email("unknown"), unknown_hold()).await;
    for (id, status) in [
        (pending, Status::Pending),
        (sending, Status::Sending),
        (failed, Status::Failed),
        (unknown, Status::Unknown),
    ] {
        let refused = Acted::Refused(Refusal::NotAllowed(status), status);
        assert_eq!(scene.act(id, Action::Erase).await, refused);
        assert_eq!(scene.find(id).await.erased_at, None);
        let content = scene.store.content(id).await.expect("content");
        assert!(content.is_some_and(|content| !content.is_empty()));
    }
    scene
        .finish(lease, sent())
        .await
        .expect("a lease that holds");
    assert_eq!(
        scene.act(sending, Action::Erase).await,
        Acted::Done(Status::Sent)
    );
}

pub async fn another_owners_email_is_not_there(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.accept(an_email("a").owner("billing")).await;
    let given_up = an_email("dead").owner("billing");
    let given_up = scene.ended(given_up, dead(DeadReason::HardBounce)).await;
    let shop = Actor {
        name: "key:shop".into(),
        owner: Some("shop".into()),
    };
    for action in [
        Action::Cancel,
        Action::Retry,
        Action::Resolve(Resolution::Sent),
        Action::Discard,
        Action::Restore,
        Action::Erase,
    ] {
        for id in [id, given_up, EmailId::generate()] {
            assert_eq!(scene.act_as(&shop, id, action).await, Acted::NotFound);
        }
    }
    let audit = scene
        .store
        .audit(&AuditFilter::newest(ALL))
        .await
        .expect("audit");
    assert!(audit.is_empty(), "nothing was done");
    let billing = Actor {
        name: "key:billing".into(),
        owner: Some("billing".into()),
    };
    let acted = scene.act_as(&billing, id, Action::Cancel).await;
    assert_eq!(acted, Acted::Done(Status::Cancelled));
    assert_eq!(scene.status(given_up).await, Status::Dead);
}

pub async fn a_batch_of_actions_is_answered_in_its_order(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let pending = scene.accept(an_email("pending")).await;
    let delivered = scene.ended(an_email("sent"), sent()).await;
    let other = scene.accept(an_email("other")).await;
    let ids = vec![pending, delivered, EmailId::generate(), other];
    let acted = scene.store.act(ids, Action::Cancel, &operator()).await;
    assert_eq!(
        acted.expect("act"),
        [
            Acted::Done(Status::Cancelled),
            Acted::Refused(Refusal::AlreadyFinished(Status::Sent), Status::Sent),
            Acted::NotFound,
            Acted::Done(Status::Cancelled),
        ]
    );
}

pub async fn every_action_leaves_an_audit_entry(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene
        .ended(an_email("a"), dead(DeadReason::HardBounce))
        .await;
    let (_, moment) = scene.timed(scene.act(id, Action::Discard)).await;
    scene.advance(LEASE).await;
    scene.act(id, Action::Discard).await;
    scene.act(id, Action::Cancel).await;
    let ann = Actor {
        name: "key:ann".into(),
        owner: None,
    };
    scene.act_as(&ann, id, Action::Restore).await;
    let audit = scene
        .store
        .audit(&AuditFilter::newest(ALL))
        .await
        .expect("audit");
    let entries: Vec<_> = audit
        .iter()
        .map(|entry| (&entry.actor[..], &entry.action[..], &entry.result[..]))
        .collect();
    assert_eq!(
        entries,
        [
            ("key:ann", "restore", "dead"),
            ("cli:root", "cancel", "refused"),
            ("cli:root", "discard", "unchanged"),
            ("cli:root", "discard", "discarded"),
        ],
        "newest first"
    );
    assert!(audit.iter().all(|entry| entry.subject == id.to_string()));
    moment.is(Some(audit[3].at));
    let newest = scene
        .store
        .audit(&AuditFilter::newest(1))
        .await
        .expect("audit");
    assert_eq!(newest, audit[..1]);
}
