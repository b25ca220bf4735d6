//! What operators do to messages.

use posthaste_core::message::{MessageAction, MessageRefusal, MessageStatus, Outcome};
use posthaste_core::port::{Actor, AuditFilter, MessageActed};

use super::StoreFixture;
use super::message_scene::{Messages, failing, id_of};
use super::scene::{ALL, HALF, HOUR, LEASE, operator};

use MessageAction::{Discard, Retry};

pub async fn a_message_in_review_gets_a_fresh_budget(fixture: &impl StoreFixture) {
    let messages = Messages::new(fixture);
    let id = messages.exhausted(failing("a").count(2)).await;
    let before = messages.state(id).await;
    let (acted, moment) = messages.scene.timed(messages.act(id, Retry)).await;
    assert_eq!(acted, MessageActed::Done(MessageStatus::Pending));
    let state = messages.state(id).await;
    assert_eq!(
        (state.status, state.retry_count),
        (MessageStatus::Pending, 0)
    );
    assert_eq!((&state.last_error, state.finished_at), (&None, None));
    assert!(state.token > before.token);
    moment.is(Some(state.next_retry_at));
    assert_eq!(messages.claim_one().await.id, id);
    messages
        .assert_counted(&[(MessageStatus::Pending, 1)])
        .await;
}

pub async fn a_message_that_waits_is_tried_now(fixture: &impl StoreFixture) {
    let messages = Messages::new(fixture);
    messages.arrive(failing("a").count(1)).await;
    let (acted, moment) = messages.scene.timed(messages.act(id_of("a"), Retry)).await;
    assert_eq!(acted, MessageActed::Done(MessageStatus::Pending));
    let claimed = messages.claim_one().await;
    moment.is(Some(claimed.state.next_retry_at));
    assert_eq!(claimed.state.retry_count, 1, "its budget is not spent");
}

pub async fn a_discarded_message_can_be_taken_up_again(fixture: &impl StoreFixture) {
    let messages = Messages::new(fixture);
    let failed = messages.exhausted(failing("failed")).await;
    messages.arrive(failing("waiting")).await;
    for id in [failed, id_of("waiting")] {
        let (acted, moment) = messages.scene.timed(messages.act(id, Discard)).await;
        assert_eq!(acted, MessageActed::Done(MessageStatus::Discarded));
        let state = messages.state(id).await;
        assert_eq!(state.status, MessageStatus::Discarded);
        moment.is(state.finished_at);
        let again = messages.act(id, Discard).await;
        assert_eq!(again, MessageActed::Unchanged(MessageStatus::Discarded));
        assert_eq!(messages.state(id).await, state);
    }
    messages
        .assert_counted(&[(MessageStatus::Discarded, 2)])
        .await;
    messages.scene.advance(9 * HOUR).await;
    assert!(messages.claim(ALL).await.is_empty());
    let acted = messages.act(failed, Retry).await;
    assert_eq!(acted, MessageActed::Done(MessageStatus::Pending));
    assert_eq!(messages.claim_one().await.id, failed);
}

pub async fn what_was_put_back_is_left_to_its_queue(fixture: &impl StoreFixture) {
    let messages = Messages::new(fixture);
    let id = messages.republished(failing("a")).await;
    let before = messages.state(id).await;
    let refused = MessageActed::Refused(MessageRefusal::Republished, MessageStatus::Retried);
    for action in [Retry, Discard] {
        assert_eq!(messages.act(id, action).await, refused);
    }
    assert_eq!(messages.state(id).await, before);
}

pub async fn what_is_being_put_back_is_left_alone(fixture: &impl StoreFixture) {
    let messages = Messages::new(fixture);
    messages.arrive(failing("a")).await;
    messages.scene.advance(HOUR).await;
    let claimed = messages.claim_one().await;
    let refused = MessageActed::Refused(MessageRefusal::Claimed, MessageStatus::Pending);
    for action in [Retry, Discard] {
        assert_eq!(messages.act(claimed.id, action).await, refused);
    }
    assert_eq!(messages.find(claimed.id).await, claimed);
    // Nobody settled it, and nobody will.
    messages.scene.advance(LEASE + HALF).await;
    let acted = messages.act(claimed.id, Discard).await;
    assert_eq!(acted, MessageActed::Done(MessageStatus::Discarded));
    let state = messages.state(claimed.id).await;
    assert_eq!((state.repeats, state.locked_until), (1, None));
    assert!(!messages.settle(&claimed, &Outcome::Done).await, "too late");
    messages
        .assert_counted(&[(MessageStatus::Discarded, 1)])
        .await;
}

pub async fn a_batch_of_actions_on_messages_is_answered_in_its_order(fixture: &impl StoreFixture) {
    let messages = Messages::new(fixture);
    messages.republished(failing("retried")).await;
    messages.arrive(failing("a")).await;
    messages.arrive(failing("b")).await;
    let ids = ["b", "retried", "nobody", "a", "b"].map(id_of).to_vec();
    let acted = messages
        .store
        .act_on_messages(ids, Discard, &operator())
        .await;
    assert_eq!(
        acted.expect("act"),
        [
            MessageActed::Done(MessageStatus::Discarded),
            MessageActed::Refused(MessageRefusal::Republished, MessageStatus::Retried),
            MessageActed::NotFound,
            MessageActed::Done(MessageStatus::Discarded),
            MessageActed::Unchanged(MessageStatus::Discarded),
        ]
    );
    let none = messages
        .store
        .act_on_messages(vec![], Retry, &operator())
        .await;
    assert_eq!(none.expect("act"), []);
    let counted = [(MessageStatus::Retried, 1), (MessageStatus::Discarded, 2)];
    messages.assert_counted(&counted).await;
}

pub async fn every_action_on_a_message_leaves_an_audit_entry(fixture: &impl StoreFixture) {
    let messages = Messages::new(fixture);
    messages.arrive(failing("a")).await;
    let id = id_of("a");
    let (_, moment) = messages.scene.timed(messages.act(id, Discard)).await;
    messages.act(id, Discard).await;
    let ann = Actor {
        name: "key:ann".into(),
        owner: None,
    };
    let acted = messages.store.act_on_messages(vec![id], Retry, &ann).await;
    acted.expect("act");
    messages.claim_one().await;
    messages.act(id, Retry).await;
    messages.act(id_of("nobody"), Discard).await;
    let audit = messages
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
            ("cli:root", "retry_message", "refused"),
            ("key:ann", "retry_message", "pending"),
            ("cli:root", "discard_message", "unchanged"),
            ("cli:root", "discard_message", "discarded"),
        ],
        "newest first"
    );
    assert!(audit.iter().all(|entry| entry.subject == id.to_string()));
    moment.is(Some(audit[3].at));
}
