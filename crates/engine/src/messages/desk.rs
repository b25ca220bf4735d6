//! What people see of messages and do to them.

use std::sync::Arc;

use posthaste_core::Timestamp;
use posthaste_core::message::{MessageAction, MessageId, MessageRecord};
use posthaste_core::port::{
    Actor, MessageActed, MessageFilter, MessageStatistics, SharedStore, StoreResult,
};
use tokio::sync::Notify;

use crate::operator::LONGEST_LIST;

/// A page of a list.
#[derive(Debug, Clone)]
pub struct MessagePage {
    /// The messages, newest first, without their payloads.
    pub messages: Vec<MessageRecord>,
    /// Where the next page begins, if there is one.
    pub next: Option<i64>,
}

/// Acts on messages and shows them. API, dashboard and command line all come through here.
pub struct MessageDesk {
    store: SharedStore,
    republisher: Arc<Notify>,
}

impl MessageDesk {
    /// A desk over this store, which wakes `republisher` when there is something to do.
    #[must_use]
    pub const fn new(store: SharedStore, republisher: Arc<Notify>) -> Self {
        Self { store, republisher }
    }

    /// The store's time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.store.now()
    }

    /// Acts on messages; the answers are in their order.
    pub async fn act_on(
        &self,
        ids: Vec<MessageId>,
        action: MessageAction,
        actor: &Actor,
    ) -> StoreResult<Vec<MessageActed>> {
        let acted = self.store.act_on_messages(ids, action, actor).await?;
        self.republisher.notify_one();
        Ok(acted)
    }

    /// Acts on one message.
    pub async fn act(
        &self,
        id: MessageId,
        action: MessageAction,
        actor: &Actor,
    ) -> StoreResult<MessageActed> {
        let mut acted = self.act_on(vec![id], action, actor).await?;
        Ok(acted.pop().unwrap_or(MessageActed::NotFound))
    }

    /// One message with its payload.
    pub async fn find(&self, id: MessageId) -> StoreResult<Option<MessageRecord>> {
        self.store.find_message(id).await
    }

    /// A page of messages.
    pub async fn list(&self, mut filter: MessageFilter) -> StoreResult<MessagePage> {
        let limit = filter.limit.clamp(1, LONGEST_LIST);
        filter.limit = limit + 1;
        let mut messages = self.store.list_messages(&filter).await?;
        let has_more = messages.len() > limit;
        messages.truncate(limit);
        let next = messages.last().filter(|_| has_more).map(|last| last.number);
        Ok(MessagePage { messages, next })
    }

    /// Numbers about messages.
    pub async fn statistics(&self) -> StoreResult<MessageStatistics> {
        self.store.message_statistics().await
    }
}
