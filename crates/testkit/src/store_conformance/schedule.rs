//! Emails that are due: claimed, published, marked.

use std::collections::BTreeSet;

use posthaste_core::port::{Action, Budgets, Due};
use posthaste_core::status::{DeadReason, Outcome, Priority, Status};

use super::scene::{ALL, HALF, HOUR, LEASE, Scene, together};
use super::{StoreFixture, same_ids};
use crate::{an_email, budgets, dead, sent, transient};

pub async fn only_what_is_due_is_claimed(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let soon = an_email("soon").priority(Priority::Low);
    let soon = scene.ended(soon, transient(HOUR)).await;
    let later = scene.ended(an_email("later"), transient(3 * HOUR)).await;
    scene.accept(an_email("ticketed")).await;
    scene.ended(an_email("sent"), sent()).await;
    let due_at = scene.state(soon).await.next_attempt_at;
    scene.advance(HALF).await;
    assert!(scene.claim(ALL).await.is_empty());
    scene.advance(HALF).await;
    let (due, moment) = scene.timed(scene.claim(ALL)).await;
    assert_eq!(due.len(), 1);
    assert_eq!((due[0].id, &due[0].message_key[..]), (soon, "soon"));
    assert_eq!((due[0].priority, due[0].attempt_count), (Priority::Low, 1));
    assert_eq!(Some(due[0].due_at), due_at);
    assert!(!due[0].exhausted && !due[0].expired);

    let state = scene.state(soon).await;
    assert_eq!(
        (state.status, state.attempt_count),
        (Status::RetryQueued, 1)
    );
    moment.is_followed_by(state.locked_until, LEASE);
    assert_eq!(scene.status(later).await, Status::Failed);
    assert!(scene.claim(ALL).await.is_empty(), "it is claimed already");
    let counted = [
        Status::Pending,
        Status::Sent,
        Status::Failed,
        Status::RetryQueued,
    ];
    scene
        .assert_counted(&counted.map(|status| (status, 1)))
        .await;
}

pub async fn a_scheduled_email_is_claimed_at_its_time(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let send_at = scene.now() + HOUR;
    let id = scene.accept(an_email("later").send_at(send_at)).await;
    scene.advance(HALF).await;
    assert!(scene.claim(ALL).await.is_empty());
    scene.advance(HALF).await;
    let due = scene.claim(ALL).await;
    assert_eq!((due[0].id, due[0].due_at), (id, send_at));
    scene.mark_queued(&[id], &[]).await;
    let state = scene.attempt(id, sent()).await;
    assert_eq!((state.status, state.attempt_number), (Status::Sent, 1));
}

pub async fn no_more_are_claimed_than_asked_for_and_the_oldest_first(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let mut expected = Vec::new();
    for n in 1..=5 {
        let id = scene
            .ended(an_email(&format!("{n}")), transient(n * HOUR))
            .await;
        expected.push(id);
    }
    scene.advance(10 * HOUR).await;
    assert!(scene.claim(0).await.is_empty());
    let claimed = |due: Vec<posthaste_core::port::Due>| due.into_iter().map(|due| due.id);
    same_ids(claimed(scene.claim(2).await), expected[..2].to_vec());
    same_ids(claimed(scene.claim(2).await), expected[2..4].to_vec());
    same_ids(claimed(scene.claim(2).await), expected[4..].to_vec());
    assert!(scene.claim(2).await.is_empty());
}

pub async fn a_spent_budget_is_the_end(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene
        .ended(an_email("a").max_attempts(1), transient(HOUR))
        .await;
    scene.advance(HOUR).await;
    let (due, moment) = scene.timed(scene.claim(ALL)).await;
    assert_eq!((due.len(), due[0].id), (1, id));
    assert!(due[0].exhausted && !due[0].expired);
    let state = scene.state(id).await;
    assert_eq!((state.status, state.locked_until), (Status::Dead, None));
    assert_eq!(state.dead_reason, Some(DeadReason::MaxAttemptsExceeded));
    moment.is(state.finished_at);
    assert!(state.last_error.is_some(), "the last error tells why");
    scene.assert_counted(&[(Status::Dead, 1)]).await;
}

pub async fn a_lowered_budget_acts_on_waiting_emails(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let named = scene.accept(an_email("named")).await;
    let other = scene.accept(an_email("other").policy("outbox")).await;
    let own = scene.accept(an_email("own").max_attempts(5)).await;
    for round in 0..3 {
        if round > 0 {
            scene.advance(HOUR).await;
            assert_eq!(scene.schedule().await.len(), 3);
        }
        for id in [named, other, own] {
            scene.attempt(id, transient(HOUR)).await;
        }
    }
    scene.advance(HOUR).await;
    let lowered = Budgets {
        by_name: [("email".to_owned(), 2)].into(),
        fallback: 4,
    };
    let due = scene.store.claim_due(ALL, LEASE, &lowered).await;
    let due = due.expect("claim");
    let exhausted: Vec<_> = due.iter().filter(|d| d.exhausted).map(|d| d.id).collect();
    assert_eq!((due.len(), exhausted), (3, vec![named]));
    assert_eq!(scene.status(named).await, Status::Dead);
    let reason = scene.state(named).await.dead_reason;
    assert_eq!(reason, Some(DeadReason::MaxAttemptsExceeded));
    for id in [other, own] {
        assert_eq!(scene.status(id).await, Status::RetryQueued);
    }
    let violations = scene.store.verify(&[named]).await;
    assert_eq!(violations.expect("verify"), []);
}

pub async fn what_has_become_too_late_is_the_end(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let expires_at = scene.now() + 2 * HOUR;
    let failed = an_email("failed").expires_at(expires_at);
    let failed = scene.ended(failed, transient(3 * HOUR)).await;
    let scheduled = an_email("scheduled")
        .send_at(scene.now() + HOUR)
        .expires_at(expires_at);
    let scheduled = scene.accept(scheduled).await;
    scene.advance(4 * HOUR).await;
    let due = scene.claim(ALL).await;
    assert_eq!(due.len(), 2);
    assert!(due.iter().all(|due| due.expired && !due.exhausted));
    for id in [failed, scheduled] {
        let state = scene.state(id).await;
        assert_eq!(state.status, Status::Dead);
        assert_eq!(state.dead_reason, Some(DeadReason::Expired));
    }
    assert!(scene.schedule().await.is_empty());
    scene.assert_counted(&[(Status::Dead, 2)]).await;
}

pub async fn two_schedulers_never_claim_the_same(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let mut expected = Vec::new();
    for n in 0..100 {
        let id = scene
            .ended(an_email(&format!("{n}")), transient(HOUR))
            .await;
        expected.push(id);
    }
    scene.advance(HOUR).await;
    let claimed = together(4, |_| {
        let store = scene.store.clone();
        async move {
            let mut mine = Vec::new();
            loop {
                let due = store.claim_due(7, LEASE, &budgets()).await;
                let due = due.expect("claim");
                mine.extend(due.iter().map(|due| due.id));
                // Others may hold for a moment what is left.
                if due.is_empty() && store.next_due().await.expect("next due").is_none() {
                    return mine;
                }
            }
        }
    })
    .await;
    same_ids(claimed.concat(), expected);
    scene.assert_counted(&[(Status::RetryQueued, 100)]).await;
}

pub async fn a_published_ticket_unlocks_its_email(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.ended(an_email("a"), transient(HOUR)).await;
    scene.advance(HOUR).await;
    scene.claim(ALL).await;
    let (_, moment) = scene.timed(scene.mark_queued(&[id], &[])).await;
    let state = scene.state(id).await;
    assert_eq!(
        (state.status, state.locked_until),
        (Status::RetryQueued, None)
    );
    moment.is(state.last_queued_at);
    // No lock is left to expire.
    scene.advance(3 * HOUR).await;
    assert!(scene.rescue().await.is_empty());
    scene.attempt(id, sent()).await;
}

pub async fn a_refused_ticket_leaves_its_email_due(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let failed = scene.ended(an_email("failed"), transient(HOUR)).await;
    let later = an_email("later").send_at(scene.now() + HOUR);
    let later = scene.accept(later).await;
    let due_at = scene.state(failed).await.next_attempt_at;
    scene.advance(HOUR).await;
    for _ in 0..2 {
        assert_eq!(scene.claim(ALL).await.len(), 2);
        scene.mark_queued(&[], &[failed, later]).await;
        let state = scene.state(failed).await;
        assert_eq!((state.status, state.locked_until), (Status::Failed, None));
        assert_eq!((state.next_attempt_at, state.attempt_count), (due_at, 1));
        assert_eq!(state.last_queued_at, None);
        assert_eq!(scene.status(later).await, Status::Pending);
    }
    scene
        .assert_counted(&[(Status::Failed, 1), (Status::Pending, 1)])
        .await;
    same_ids(scene.schedule().await, [failed, later]);
}

pub async fn a_new_email_whose_ticket_was_refused_is_claimed(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.accept(an_email("a")).await;
    assert!(scene.claim(ALL).await.is_empty(), "it has a ticket");
    scene.mark_queued(&[], &[id]).await;
    let state = scene.state(id).await;
    assert_eq!(
        (state.status, state.last_queued_at),
        (Status::Pending, None)
    );
    assert_eq!(scene.schedule().await, [id]);
    scene.attempt(id, sent()).await;
}

pub async fn a_ticket_taken_before_it_was_marked_is_harmless(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let mut ids = Vec::new();
    for key in ["sending", "sent", "failed", "cancelled"] {
        ids.push(scene.ended(an_email(key), transient(HOUR)).await);
    }
    scene.advance(HOUR).await;
    assert_eq!(scene.claim(ALL).await.len(), 4);
    let lease = scene.begin(ids[0]).await.lease;
    scene.attempt(ids[1], sent()).await;
    scene.attempt(ids[2], transient(HOUR)).await;
    scene.act(ids[3], Action::Cancel).await;
    let mut before = Vec::new();
    for id in &ids {
        before.push(scene.state(*id).await);
    }
    scene.mark_queued(&ids, &[]).await;
    scene.mark_queued(&[], &ids).await;
    for (id, before) in ids.iter().zip(before) {
        assert_eq!(scene.state(*id).await, before);
    }
    scene
        .finish(lease, sent())
        .await
        .expect("a lease that holds");
    assert_eq!(
        scene.outcomes(ids[0]).await,
        [(1, Outcome::Transient), (2, Outcome::Sent)]
    );
}

pub async fn each_ticket_is_marked_by_its_own_token(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let mut ids = Vec::new();
    for key in [
        "four attempts",
        "three attempts",
        "two attempts",
        "one attempt",
    ] {
        scene.advance(HOUR).await;
        scene.schedule().await;
        for id in &ids {
            scene.attempt(*id, transient(HOUR)).await;
        }
        ids.push(scene.ended(an_email(key), transient(HOUR)).await);
    }
    scene.advance(HOUR).await;
    let mut leases: Vec<_> = scene.claim(ALL).await.iter().map(Due::lease).collect();
    leases.sort_by_key(|lease| std::cmp::Reverse(lease.id));
    let tokens: Vec<i64> = leases.iter().map(|lease| lease.token).collect();
    assert_eq!(tokens, [1, 2, 3, 4]);
    let late = ids[1];
    let stale = leases.iter_mut().find(|lease| lease.id == late);
    stale.expect("claimed").token -= 1;
    scene.mark(leases, Vec::new()).await;
    for id in ids {
        let is_held = scene.state(id).await.locked_until.is_some();
        assert_eq!(is_held, id == late);
    }
}

pub async fn a_late_word_about_a_ticket_changes_nothing(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.ended(an_email("a"), transient(HOUR)).await;
    scene.advance(HOUR).await;
    let late = vec![scene.claim(ALL).await[0].lease()];
    // A sender is faster than the scheduler's note, and an operator as fast as that.
    scene.attempt(id, dead(DeadReason::HardBounce)).await;
    scene.act(id, Action::Retry).await;
    let replayed = scene.state(id).await;
    scene.mark(late.clone(), Vec::new()).await;
    assert_eq!(scene.state(id).await, replayed, "it still has no ticket");
    // Nor is the claim of another scheduler taken back.
    assert_eq!(scene.claim(ALL).await[0].id, id);
    let claimed = scene.state(id).await;
    scene.mark(Vec::new(), late).await;
    assert_eq!(scene.state(id).await, claimed);
}

pub async fn the_next_due_time_is_the_earliest(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let next_due = async || scene.store.next_due().await.expect("next due");
    assert_eq!(next_due().await, None);
    scene.accept(an_email("ticketed")).await;
    scene.ended(an_email("sent"), sent()).await;
    assert_eq!(next_due().await, None, "no scheduler cares for these");

    let later = scene.now() + 3 * HOUR;
    scene.accept(an_email("later").send_at(later)).await;
    assert_eq!(next_due().await, Some(later));
    let failed = scene.ended(an_email("failed"), transient(HOUR)).await;
    let due_at = scene.state(failed).await.next_attempt_at;
    assert_eq!(next_due().await, due_at);
    scene.advance(2 * HOUR).await;
    assert_eq!(next_due().await, due_at, "it is overdue");
    scene.schedule().await;
    assert_eq!(next_due().await, Some(later));
}

pub async fn a_claim_never_takes_what_is_cancelled(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let mut ids = BTreeSet::new();
    for n in 0..6 {
        ids.insert(
            scene
                .ended(an_email(&format!("{n}")), transient(HOUR))
                .await,
        );
    }
    let cancelled: Vec<_> = ids.iter().copied().take(3).collect();
    for id in &cancelled {
        scene.act(*id, Action::Cancel).await;
        ids.remove(id);
    }
    scene.advance(HOUR).await;
    same_ids(scene.schedule().await, ids);
    scene
        .assert_counted(&[(Status::Cancelled, 3), (Status::RetryQueued, 3)])
        .await;
}
