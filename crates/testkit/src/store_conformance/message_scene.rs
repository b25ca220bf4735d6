//! Messages on stage: failures to be handed in, and what is done with them.

use bytes::Bytes;
use posthaste_core::Timestamp;
use posthaste_core::duration::HumanDuration;
use posthaste_core::message::{
    Arrival, Failure, MessageAction, MessageId, MessagePolicy, MessageRecord, MessageState,
    MessageStatus, Outcome, Properties, Task,
};
use posthaste_core::port::{MessageActed, Scheduled, Settled, SharedStore};
use posthaste_core::retry_policy::{Backoff, RetryPolicy};
use uuid::Uuid;

use super::StoreFixture;
use super::scene::{ALL, HOUR, LEASE, Scene, operator};

/// More than all payloads have.
pub(super) const ALL_BYTES: usize = 1 << 40;

/// The first retry after an hour, then after twice as long; three in all.
pub(super) fn policy() -> MessagePolicy {
    MessagePolicy {
        retry: RetryPolicy {
            max_attempts: 3,
            backoff: Backoff::Exponential {
                base: HumanDuration(HOUR),
                factor: 2.0,
                cap: HumanDuration(24 * HOUR),
            },
            ..RetryPolicy::message()
        },
        max_publish_failures: 2,
    }
}

/// The id of the message with this name.
pub(super) fn id_of(name: &str) -> MessageId {
    let mut bytes = [0u8; 16];
    for (at, byte) in name.bytes().enumerate() {
        bytes[at % 16] = bytes[at % 16].wrapping_mul(31).wrapping_add(byte);
    }
    MessageId(Uuid::from_bytes(bytes))
}

/// A failure that is about to arrive.
#[derive(Clone)]
#[must_use]
pub(super) struct Failing(Arrival);

/// The message with this name failed for the first time.
pub(super) fn failing(name: &str) -> Failing {
    let failure = Failure {
        message_id: id_of(name),
        payload: Bytes::from(format!("payload of {name}")),
        original_queue: "billing".into(),
        error_reason: "no answer".into(),
        retry_count: 0,
        max_retries: None,
        not_before: None,
        properties: Properties::default(),
    };
    Failing(Arrival {
        failure,
        hash: [1; 32],
        redelivered: false,
        random: 0.0,
    })
}

impl Failing {
    /// So often it was tried again, as its sender counts.
    pub(super) fn count(mut self, retries: u32) -> Self {
        self.0.failure.retry_count = retries;
        self
    }

    pub(super) fn max_retries(mut self, most: u32) -> Self {
        self.0.failure.max_retries = Some(most);
        self
    }

    pub(super) fn not_before(mut self, at: Timestamp) -> Self {
        self.0.failure.not_before = Some(at);
        self
    }

    pub(super) fn payload(mut self, payload: impl Into<Bytes>) -> Self {
        self.0.failure.payload = payload.into();
        self
    }

    pub(super) fn queue(mut self, queue: &str) -> Self {
        self.0.failure.original_queue = queue.into();
        self
    }

    pub(super) fn reason(mut self, reason: &str) -> Self {
        self.0.failure.error_reason = reason.into();
        self
    }

    pub(super) fn properties(mut self, properties: Properties) -> Self {
        self.0.failure.properties = properties;
        self
    }

    /// A delivery with other content.
    pub(super) fn delivery(mut self, content: u8) -> Self {
        self.0.hash = [content; 32];
        self
    }

    /// The broker says that it delivered this before.
    pub(super) fn redelivered(mut self) -> Self {
        self.0.redelivered = true;
        self
    }

    pub(super) fn build(self) -> Arrival {
        self.0
    }
}

/// A store, and what is done with messages in it.
pub(super) struct Messages<'a, F> {
    /// For time, and what is not about messages.
    pub(super) scene: Scene<'a, F>,
    /// The store itself.
    pub(super) store: SharedStore,
}

impl<'a, F: StoreFixture> Messages<'a, F> {
    pub(super) fn new(fixture: &'a F) -> Self {
        Self {
            scene: Scene::new(fixture),
            store: fixture.store(),
        }
    }

    /// Hands in failures and gives the answers.
    pub(super) async fn arrive_all(
        &self,
        failing: impl IntoIterator<Item = Failing>,
    ) -> Vec<Scheduled> {
        let arrivals: Vec<_> = failing.into_iter().map(Failing::build).collect();
        let expected = arrivals.len();
        let answers = self.store.schedule(arrivals, &policy()).await;
        let answers = answers.expect("schedule");
        assert_eq!(answers.len(), expected);
        answers
    }

    /// Hands in a failure that must say something new.
    pub(super) async fn arrive(&self, failing: Failing) -> MessageState {
        match self.arrive_all([failing]).await.remove(0) {
            Scheduled::Scheduled(state) => state,
            Scheduled::Duplicate => panic!("a duplicate"),
        }
    }

    /// Hands in a failure that must say nothing new.
    pub(super) async fn assert_duplicate(&self, failing: Failing) {
        let id = failing.0.failure.message_id;
        let before = self.find(id).await;
        assert_eq!(self.arrive_all([failing]).await, [Scheduled::Duplicate]);
        assert_eq!(self.find(id).await, before);
    }

    pub(super) async fn claim(&self, most: usize) -> Vec<MessageRecord> {
        let claimed = self.store.claim_messages(most, ALL_BYTES, LEASE).await;
        let claimed = claimed.expect("claim").into_iter();
        claimed.map(|claimed| claimed.message).collect()
    }

    /// Claims the only message that is due.
    pub(super) async fn claim_one(&self) -> MessageRecord {
        let mut claimed = self.claim(ALL).await;
        assert_eq!(claimed.len(), 1);
        claimed.remove(0)
    }

    /// Says what came of a claimed message; whether the claim held.
    pub(super) async fn settle(&self, message: &MessageRecord, outcome: &Outcome) -> bool {
        let settled = settled(message, outcome, self.scene.now());
        let answers = self.store.settle_messages(vec![settled]).await;
        answers.expect("settle") == [true]
    }

    /// A message that failed, and was put back at its time.
    pub(super) async fn republished(&self, failing: Failing) -> MessageId {
        let id = failing.0.failure.message_id;
        let state = self.arrive(failing).await;
        self.advance_to(state.next_retry_at).await;
        let message = self.claim_one().await;
        assert_eq!(message.state.task(&policy()), Task::Retry);
        assert!(self.settle(&message, &Outcome::Done).await);
        assert_eq!(self.state(id).await.status, MessageStatus::Retried);
        id
    }

    /// A message that used all its retries and went to people.
    pub(super) async fn exhausted(&self, failing: Failing) -> MessageId {
        let id = failing.0.failure.message_id;
        self.arrive(failing.max_retries(0)).await;
        let message = self.claim_one().await;
        assert!(self.settle(&message, &Outcome::Done).await);
        assert_eq!(self.state(id).await.status, MessageStatus::Failed);
        id
    }

    /// A message that an operator gave up on.
    pub(super) async fn discarded(&self, failing: Failing) -> MessageId {
        let id = failing.0.failure.message_id;
        self.arrive(failing).await;
        let acted = self.act(id, MessageAction::Discard).await;
        assert_eq!(acted, MessageActed::Done(MessageStatus::Discarded));
        id
    }

    pub(super) async fn advance_to(&self, at: Timestamp) {
        let wait = at.duration_since(self.scene.now());
        let wait = std::time::Duration::try_from(wait).unwrap_or_default();
        self.scene.advance(wait).await;
    }

    pub(super) async fn act(&self, id: MessageId, action: MessageAction) -> MessageActed {
        let acted = self
            .store
            .act_on_messages(vec![id], action, &operator())
            .await;
        let mut acted = acted.expect("act");
        assert_eq!(acted.len(), 1);
        acted.remove(0)
    }

    pub(super) async fn find(&self, id: MessageId) -> MessageRecord {
        let found = self.store.find_message(id).await.expect("find");
        found.expect("a message that is there")
    }

    pub(super) async fn state(&self, id: MessageId) -> MessageState {
        self.find(id).await.state
    }

    /// Asserts how many messages the counters see in each state; those not named have none.
    pub(super) async fn assert_counted(&self, expected: &[(MessageStatus, u64)]) {
        let statistics = self.store.message_statistics().await.expect("statistics");
        let counted = statistics.by_status.into_iter().filter(|(_, n)| *n > 0);
        assert_eq!(counted.collect::<Vec<_>>(), expected);
    }
}

/// What came of a claimed message, as the lifecycle has it.
pub(super) fn settled(message: &MessageRecord, outcome: &Outcome, now: Timestamp) -> Settled {
    let task = message.state.task(&policy());
    let state = message.state.settled(&task, outcome, &policy(), now, 0.0);
    Settled {
        number: message.number,
        state,
    }
}
