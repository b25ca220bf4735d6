//! Finding messages, and numbers about them.

use posthaste_core::message::{MessageId, MessageStatus};
use posthaste_core::port::MessageFilter;

use super::StoreFixture;
use super::message_scene::{Messages, failing, id_of};
use super::scene::{ALL, HALF, HOUR};

async fn list<F: StoreFixture>(
    messages: &Messages<'_, F>,
    filter: MessageFilter,
) -> Vec<MessageId> {
    let filter = MessageFilter {
        limit: if filter.limit == 0 { ALL } else { filter.limit },
        ..filter
    };
    let found = messages.store.list_messages(&filter).await.expect("list");
    found.iter().map(|message| message.id).collect()
}

fn by_status(statuses: &[MessageStatus]) -> MessageFilter {
    MessageFilter {
        statuses: statuses.to_vec(),
        ..Default::default()
    }
}

fn by_queue(queue: &str) -> MessageFilter {
    MessageFilter {
        queue: Some(queue.into()),
        ..Default::default()
    }
}

pub async fn the_newest_come_first_and_without_payloads(fixture: &impl StoreFixture) {
    let messages = Messages::new(fixture);
    let names = ["a", "b", "c"];
    for name in names {
        messages.arrive(failing(name).payload(vec![7; 5000])).await;
    }
    let all = list(&messages, MessageFilter::default()).await;
    assert_eq!(all, ["c", "b", "a"].map(id_of));
    let filter = MessageFilter {
        limit: 2,
        ..Default::default()
    };
    let listed = messages.store.list_messages(&filter).await.expect("list");
    assert_eq!(listed.len(), 2);
    for message in listed {
        let mut found = messages.find(message.id).await;
        assert_eq!((message.payload.len(), message.payload_bytes), (0, 5000));
        found.payload.clear();
        assert_eq!(message, found);
    }
}

pub async fn pages_of_messages_have_no_gaps_and_no_repeats(fixture: &impl StoreFixture) {
    let messages = Messages::new(fixture);
    for start in [0, 50, 100] {
        let batch = (start..start + 50).map(|n| failing(&n.to_string()));
        messages.arrive_all(batch).await;
    }
    let expected = list(&messages, MessageFilter::default()).await;
    assert_eq!(expected.len(), 150);
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let filter = MessageFilter {
            limit: 33,
            after,
            ..Default::default()
        };
        let page = messages.store.list_messages(&filter).await.expect("list");
        assert!(page.len() <= 33);
        let Some(last) = page.last() else { break };
        assert!(page.is_sorted_by(|a, b| a.number > b.number));
        after = Some(last.number);
        seen.extend(page.iter().map(|message| message.id));
        // What arrives meanwhile is newer and moves nothing.
        let name = format!("meanwhile {}", seen.len());
        messages.arrive(failing(&name)).await;
    }
    assert_eq!(seen, expected);
}

pub async fn messages_are_found_by_status_and_queue(fixture: &impl StoreFixture) {
    use MessageStatus::{Discarded, Failed, Pending, Retried};
    let messages = Messages::new(fixture);
    let retried = messages.republished(failing("retried")).await;
    let failed = messages.exhausted(failing("failed").queue("other")).await;
    let discarded = messages.discarded(failing("discarded")).await;
    let pending = id_of("pending");
    messages.arrive(failing("pending").queue("other")).await;
    let claimed = id_of("claimed");
    messages.arrive(failing("claimed").max_retries(0)).await;
    assert_eq!(messages.claim_one().await.id, claimed);
    for (statuses, expected) in [
        (&[Retried][..], vec![retried]),
        (&[Failed], vec![failed]),
        (&[Discarded], vec![discarded]),
        (&[Pending], vec![claimed, pending]),
        (&[Failed, Discarded], vec![discarded, failed]),
        (&[Discarded, Failed, Failed], vec![discarded, failed]),
        (&[Pending, Retried], vec![claimed, pending, retried]),
        (
            MessageStatus::ALL,
            vec![claimed, pending, discarded, failed, retried],
        ),
    ] {
        let found = list(&messages, by_status(statuses)).await;
        assert_eq!(found, expected, "{statuses:?}");
    }
    assert_eq!(list(&messages, by_queue("other")).await, [pending, failed]);
    assert_eq!(list(&messages, by_queue("oth")).await, []);
    assert_eq!(list(&messages, by_queue("other\0")).await, []);
    let both = MessageFilter {
        queue: Some("other".into()),
        ..by_status(&[Failed, Retried])
    };
    assert_eq!(list(&messages, both).await, [failed]);
    let older = MessageFilter {
        after: Some(messages.find(discarded).await.number),
        ..by_status(&[Failed, Discarded])
    };
    assert_eq!(list(&messages, older).await, [failed]);
}

pub async fn a_message_that_is_not_there_is_not_found(fixture: &impl StoreFixture) {
    let messages = Messages::new(fixture);
    messages.arrive(failing("a")).await;
    let found = messages.store.find_message(id_of("b")).await;
    assert_eq!(found.expect("find"), None);
}

pub async fn messages_are_counted_where_they_are(fixture: &impl StoreFixture) {
    let messages = Messages::new(fixture);
    let numbers = async || {
        messages
            .store
            .message_statistics()
            .await
            .expect("statistics")
    };
    let none = numbers().await;
    let statuses: Vec<_> = none.by_status.keys().copied().collect();
    assert_eq!(statuses, MessageStatus::ALL, "each has its number");
    assert!(none.by_status.values().all(|n| *n == 0));
    assert_eq!(none.oldest_due, None);
    messages.republished(failing("retried")).await;
    messages.exhausted(failing("failed")).await;
    let due = messages.arrive(failing("a")).await.next_retry_at;
    messages.arrive(failing("later").count(2)).await;
    assert_eq!(numbers().await.oldest_due, None, "none is due");
    messages.scene.advance(HOUR + HALF).await;
    let then = numbers().await;
    assert_eq!(then.oldest_due, Some(due));
    assert_eq!(then.by_status[&MessageStatus::Pending], 2);
    let claimed = messages.claim_one().await;
    assert_eq!(numbers().await.oldest_due, Some(due), "it is not over yet");
    let done = posthaste_core::message::Outcome::Done;
    assert!(messages.settle(&claimed, &done).await);
    let then = numbers().await;
    assert_eq!(then.oldest_due, None);
    assert_eq!(then.by_status[&MessageStatus::Retried], 2);
}
