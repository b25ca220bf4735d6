//! Removing messages that are over for long enough.

use std::time::Duration;

use posthaste_core::message::MessageStatus;
use posthaste_core::port::MessageRetention;

use super::message_scene::{Messages, failing, id_of};
use super::scene::ALL;
use super::{StoreFixture, assert_consistent};

const DAY: Duration = Duration::from_secs(24 * 3600);
const RETENTION: MessageRetention = MessageRetention {
    retried: Duration::from_secs(10 * 24 * 3600),
    failed: Duration::from_secs(30 * 24 * 3600),
};

async fn prune<F: StoreFixture>(messages: &Messages<'_, F>, most: usize) -> u64 {
    let pruned = messages.store.prune_messages(RETENTION, most).await;
    pruned.expect("prune")
}

pub async fn only_messages_that_are_over_for_long_enough_are_removed(fixture: &impl StoreFixture) {
    let messages = Messages::new(fixture);
    messages.republished(failing("retried")).await;
    messages.exhausted(failing("failed")).await;
    messages.discarded(failing("discarded")).await;
    messages.arrive(failing("waiting")).await;
    messages.arrive(failing("claimed").max_retries(0)).await;
    messages.claim_one().await;
    messages.scene.advance(9 * DAY).await;
    assert_eq!(prune(&messages, ALL).await, 0);
    messages.scene.advance(2 * DAY).await;
    assert_eq!(prune(&messages, ALL).await, 1);
    let found = messages.store.find_message(id_of("retried")).await;
    assert_eq!(found.expect("find"), None);
    messages
        .assert_counted(&[
            (MessageStatus::Pending, 2),
            (MessageStatus::Failed, 1),
            (MessageStatus::Discarded, 1),
        ])
        .await;
    assert_consistent(fixture).await;
    messages.scene.advance(500 * DAY).await;
    assert_eq!(prune(&messages, ALL).await, 2);
    assert_eq!(prune(&messages, ALL).await, 0);
    messages
        .assert_counted(&[(MessageStatus::Pending, 2)])
        .await;
    assert_eq!(messages.claim(ALL).await.len(), 2, "they still wait");
}

pub async fn a_message_that_fails_again_is_kept(fixture: &impl StoreFixture) {
    let messages = Messages::new(fixture);
    messages.republished(failing("a")).await;
    messages.scene.advance(9 * DAY).await;
    // Its age is counted from its last end.
    messages.republished(failing("a")).await;
    messages.scene.advance(9 * DAY).await;
    assert_eq!(prune(&messages, ALL).await, 0);
    assert_eq!(messages.state(id_of("a")).await.retry_count, 2);
    messages.scene.advance(2 * DAY).await;
    assert_eq!(prune(&messages, ALL).await, 1);
    let state = messages.arrive(failing("a")).await;
    assert_eq!((state.retry_count, state.token), (0, 0), "it is a new one");
}

pub async fn no_more_messages_are_removed_than_asked_for(fixture: &impl StoreFixture) {
    let messages = Messages::new(fixture);
    for n in 0..3 {
        messages.republished(failing(&format!("retried {n}"))).await;
        messages.exhausted(failing(&format!("failed {n}"))).await;
        messages.discarded(failing(&format!("discarded {n}"))).await;
    }
    messages.scene.advance(31 * DAY).await;
    for expected in [4, 4, 1, 0] {
        assert_eq!(prune(&messages, 4).await, expected);
        assert_consistent(fixture).await;
    }
    assert_eq!(prune(&messages, 0).await, 0);
    messages.assert_counted(&[]).await;
}
