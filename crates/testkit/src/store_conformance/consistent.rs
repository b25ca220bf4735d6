//! What holds after every case.

use std::collections::BTreeMap;

use posthaste_core::message::MessageStatus;
use posthaste_core::port::{EmailFilter, MessageFilter, SharedStore};
use posthaste_core::status::Status;

use super::StoreFixture;

/// Asserts that the counters match the rows and that no promise is broken.
pub async fn assert_consistent(fixture: &impl StoreFixture) {
    let store = fixture.store();
    let violations = store.verify(&[]).await.expect("verify");
    assert_eq!(violations, []);
    let mut rows: BTreeMap<Status, u64> = Status::ALL.iter().map(|s| (*s, 0)).collect();
    let mut filter = EmailFilter {
        limit: 500,
        ..Default::default()
    };
    loop {
        let page = store.list(&filter).await.expect("list");
        let Some(last) = page.last() else { break };
        filter.after = Some(last.id);
        for record in page {
            *rows.entry(record.state.status).or_default() += 1;
        }
    }
    let statistics = store.statistics().await.expect("statistics");
    assert_eq!(statistics.by_status, rows, "counted and there");
    let there: u64 = rows.values().sum();
    assert_eq!(statistics.accepted, there + statistics.pruned);
    assert_messages_counted(&store).await;
}

async fn assert_messages_counted(store: &SharedStore) {
    let mut rows: BTreeMap<_, u64> = MessageStatus::ALL.iter().map(|s| (*s, 0)).collect();
    let mut filter = MessageFilter {
        limit: 500,
        ..Default::default()
    };
    loop {
        let page = store.list_messages(&filter).await.expect("list");
        let Some(last) = page.last() else { break };
        filter.after = Some(last.number);
        for message in page {
            *rows.entry(message.state.status).or_default() += 1;
        }
    }
    let statistics = store.message_statistics().await.expect("statistics");
    assert_eq!(statistics.by_status, rows, "counted and there");
}
