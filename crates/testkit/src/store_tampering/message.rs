//! What is done to messages in a store, and what `verify` says about it, or what becomes of the
//! others.

use bytes::Bytes;
use posthaste_core::email::EmailId;
use posthaste_core::message::{Arrival, Failure, MessageId, MessagePolicy, Outcome, Properties};
use posthaste_core::port::{ClaimedMessage, Settled, SharedStore, Violation};
use posthaste_core::retry_policy::RetryPolicy;
use uuid::Uuid;

use super::{HOUR, Tamperable};

/// A store with a message in each of several states.
struct Tampered<'a, F> {
    fixture: &'a F,
    store: SharedStore,
    pending: MessageId,
    retried: MessageId,
    failed: MessageId,
}

fn policy() -> MessagePolicy {
    MessagePolicy {
        retry: RetryPolicy::message(),
        max_publish_failures: 3,
    }
}

fn failure(max_retries: u32) -> Arrival {
    Arrival {
        failure: Failure {
            message_id: MessageId(Uuid::now_v7()),
            payload: Bytes::from_static(b"hi"),
            original_queue: "billing".into(),
            error_reason: "no answer".into(),
            retry_count: 0,
            max_retries: Some(max_retries),
            not_before: None,
            properties: Properties::default(),
        },
        hash: [0; 32],
        redelivered: false,
        random: 0.5,
    }
}

impl<'a, F: Tamperable> Tampered<'a, F> {
    async fn new(fixture: &'a F) -> Self {
        let store = fixture.store();
        let (retried, failed, pending) = (failure(3), failure(0), failure(3));
        let scene = Self {
            fixture,
            store,
            pending: pending.failure.message_id,
            retried: retried.failure.message_id,
            failed: failed.failure.message_id,
        };
        scene.put_back(vec![retried, failed]).await;
        scene.arrive(vec![pending]).await;
        assert_eq!(scene.verify().await, []);
        scene
    }

    async fn arrive(&self, arrivals: Vec<Arrival>) {
        let scheduled = self.store.schedule(arrivals, &policy()).await;
        scheduled.expect("schedule");
    }

    /// Hands in messages and does with them what is to be done, successfully.
    async fn put_back(&self, arrivals: Vec<Arrival>) {
        self.arrive(arrivals).await;
        self.fixture.advance(HOUR).await;
        let claimed = self.store.claim_messages(100, 10_000, HOUR).await;
        let settle = |ClaimedMessage { message, .. }: &ClaimedMessage| {
            let (state, now) = (&message.state, self.store.now());
            let task = state.task(&policy());
            Settled {
                number: message.number,
                state: state.settled(&task, &Outcome::Done, &policy(), now, 0.5),
            }
        };
        let settled = claimed.expect("claim").iter().map(settle).collect();
        let answers = self.store.settle_messages(settled).await;
        assert!(answers.expect("settle").iter().all(|applied| *applied));
    }

    /// Does something to the row of a message.
    async fn tamper(&self, sql: &str, id: MessageId) {
        let sql = sql.replace("{id}", &self.fixture.literal(EmailId(id.0)));
        let changed = self.fixture.execute(&sql).await;
        assert!(changed > 0, "{sql} changed nothing");
    }

    async fn verify(&self) -> Vec<Violation> {
        self.store.verify(&[]).await.expect("verify")
    }

    /// Asserts that there is nothing but a violation of `invariant` that says `detail` of `id`.
    async fn assert_found(&self, invariant: &str, id: MessageId, detail: &str) {
        let found = self.verify().await;
        assert_eq!(found.len(), 1, "{found:#?}");
        assert_eq!(found[0].invariant, invariant);
        let starts = format!("message {id} ");
        assert!(found[0].detail.starts_with(&starts), "{found:?}");
        assert!(found[0].detail.contains(detail), "{found:?}");
    }

    /// Asserts that the counters are all that is wrong.
    async fn assert_miscounted(&self, expected: &[&str]) {
        let found = self.verify().await;
        assert!(found.iter().all(|v| v.invariant == "I1"), "{found:?}");
        let details: Vec<_> = found.iter().map(|v| &v.detail[..]).collect();
        assert_eq!(details, expected);
    }
}

pub async fn a_message_that_vanished_is_found(fixture: &impl Tamperable) {
    let scene = Tampered::new(fixture).await;
    let sql = "DELETE FROM {prefix}retry_queue WHERE message_id = {id}";
    scene.tamper(sql, scene.pending).await;
    let counters = "the counters say that 1 messages are pending, the rows say 0";
    scene.assert_miscounted(&[counters]).await;
}

pub async fn a_wrong_counter_of_messages_is_found(fixture: &impl Tamperable) {
    let scene = Tampered::new(fixture).await;
    let sql = "UPDATE {prefix}message_count SET n = n + 1 WHERE status = 'retried'";
    assert!(fixture.execute(sql).await > 0);
    let counters = "the counters say that 2 messages are retried, the rows say 1";
    scene.assert_miscounted(&[counters]).await;
}

pub async fn a_message_whose_status_was_changed_by_hand_is_found(fixture: &impl Tamperable) {
    let scene = Tampered::new(fixture).await;
    let sql = "UPDATE {prefix}retry_queue SET status = 'discarded' WHERE message_id = {id}";
    scene.tamper(sql, scene.failed).await;
    scene
        .assert_miscounted(&[
            "the counters say that 1 messages are failed, the rows say 0",
            "the counters say that 0 messages are discarded, the rows say 1",
        ])
        .await;
}

pub async fn a_message_without_its_end_is_found(fixture: &impl Tamperable) {
    let scene = Tampered::new(fixture).await;
    let sql = "UPDATE {prefix}retry_queue SET finished_at = created_at WHERE message_id = {id}";
    scene.tamper(sql, scene.pending).await;
    scene.assert_found("I1", scene.pending, "(pending)").await;
    let sql = "UPDATE {prefix}retry_queue SET finished_at = NULL WHERE message_id = {id}";
    scene.tamper(sql, scene.pending).await;
    assert_eq!(scene.verify().await, []);
    scene.tamper(sql, scene.failed).await;
    scene.assert_found("I1", scene.failed, "(failed)").await;
}

pub async fn a_message_that_ended_unclaimed_is_found(fixture: &impl Tamperable) {
    let scene = Tampered::new(fixture).await;
    let sql = "UPDATE {prefix}retry_queue SET token = 0 WHERE message_id = {id}";
    scene.tamper(sql, scene.failed).await;
    let detail = "nobody ever claimed it (failed)";
    scene.assert_found("I4", scene.failed, detail).await;
}

pub async fn a_claim_on_a_message_that_is_over_is_found(fixture: &impl Tamperable) {
    let scene = Tampered::new(fixture).await;
    let sql = "UPDATE {prefix}retry_queue SET locked_until = next_retry_at WHERE message_id = {id}";
    scene.tamper(sql, scene.pending).await;
    assert_eq!(scene.verify().await, [], "that one may be claimed");
    scene.tamper(sql, scene.retried).await;
    let detail = "is claimed although it does not wait (retried)";
    scene.assert_found("I5", scene.retried, detail).await;
}

pub async fn a_retry_that_was_not_counted_is_found(fixture: &impl Tamperable) {
    let scene = Tampered::new(fixture).await;
    let sql = "UPDATE {prefix}retry_queue SET retry_count = 0 WHERE message_id = {id}";
    scene.tamper(sql, scene.retried).await;
    scene.assert_found("I7", scene.retried, "0 retries").await;
}

pub async fn a_flood_of_messages_is_cut_short(fixture: &impl Tamperable) {
    let scene = Tampered::new(fixture).await;
    scene.put_back((0..30).map(|_| failure(3)).collect()).await;
    let sql = "UPDATE {prefix}retry_queue SET retry_count = 0 WHERE status = 'retried'";
    assert!(fixture.execute(sql).await > 30);
    let found = scene.verify().await;
    assert!(found.len() < 30, "{} violations", found.len());
    let more = "and more messages of which each was put back";
    assert!(found.iter().any(|v| v.detail.contains(more)));
}

pub async fn a_message_that_cannot_be_read_holds_up_no_other(fixture: &impl Tamperable) {
    let scene = Tampered::new(fixture).await;
    let (bad, good) = (failure(3), failure(3));
    let (bad_id, good_id) = (bad.failure.message_id, good.failure.message_id);
    scene.arrive(vec![bad, good]).await;
    let sql = "UPDATE {prefix}retry_queue SET properties = 'nonsense' WHERE message_id = {id}";
    scene.tamper(sql, bad_id).await;
    fixture.advance(HOUR).await;
    let claim = async || {
        let claimed = scene.store.claim_messages(100, 10_000, HOUR).await;
        let claimed = claimed.expect("claim");
        claimed
            .iter()
            .map(|claimed| claimed.message.id)
            .collect::<Vec<_>>()
    };
    let claimed = claim().await;
    assert_eq!(claimed.len(), 2);
    assert!(claimed.contains(&good_id) && claimed.contains(&scene.pending));
    // It is claimed, too, and comes again when its claim runs out.
    assert!(claim().await.is_empty());
    let sql = "UPDATE {prefix}retry_queue SET properties = '{}' WHERE message_id = {id}";
    scene.tamper(sql, bad_id).await;
    fixture.advance(2 * HOUR).await;
    assert!(claim().await.contains(&bad_id));
}
