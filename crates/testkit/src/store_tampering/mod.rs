//! What `verify` of every store must find when rows were changed behind the store's back.
//!
//! A backend that passes the conformance suite also implements [`Tamperable`] and writes
//! `store_tampering!(factory());`. Statements are such that every dialect understands them.

#![allow(missing_docs, reason = "the names of cases are sentences")]

pub mod found;
pub mod message;

use std::future::Future;
use std::time::Duration;

use posthaste_core::decision::Decision;
use posthaste_core::email::EmailId;
use posthaste_core::port::{Begun, Finish, Lease, SharedStore, Violation};

use crate::store_conformance::StoreFixture;
use crate::{EmailBuilder, an_email, budgets, exhausted, sent, transient};

const HOUR: Duration = Duration::from_secs(3600);

/// A store whose rows can be changed by hand.
pub trait Tamperable: StoreFixture {
    /// Executes a statement on a connection beside the store's, and says how many rows it changed.
    /// `{prefix}` stands for what the names of tables begin with in the dialect.
    fn execute(&self, sql: &str) -> impl Future<Output = u64> + Send;

    /// How an id is written in a statement.
    fn literal(&self, id: EmailId) -> String;
}

/// A store with an email in each of several states.
struct Tampered<'a, F> {
    fixture: &'a F,
    store: SharedStore,
    pending: EmailId,
    /// Failed once, then sent.
    sent: EmailId,
    /// Spent its own budget of two.
    dead: EmailId,
    sending: EmailId,
}

impl<'a, F: Tamperable> Tampered<'a, F> {
    async fn new(fixture: &'a F) -> Self {
        let mut scene = Self {
            fixture,
            store: fixture.store(),
            pending: EmailId::generate(),
            sent: EmailId::generate(),
            dead: EmailId::generate(),
            sending: EmailId::generate(),
        };
        scene.sent = scene.accept(an_email("sent")).await;
        scene.dead = scene.accept(an_email("dead").max_attempts(2)).await;
        for id in [scene.sent, scene.dead] {
            scene.attempt(id, transient(HOUR)).await;
        }
        fixture.advance(HOUR).await;
        let due = scene.store.claim_due(10, HOUR, &budgets()).await;
        assert_eq!(due.expect("a claim").len(), 2);
        scene.attempt(scene.sent, sent()).await;
        scene.attempt(scene.dead, exhausted()).await;
        scene.pending = scene.accept(an_email("pending")).await;
        scene.sending = scene.accept(an_email("sending")).await;
        scene.begin(scene.sending).await;
        scene
    }

    async fn accept(&self, email: EmailBuilder) -> EmailId {
        let email = email.build();
        let id = email.id;
        let answers = self.store.accept(vec![email], true).await;
        answers.expect("accept").remove(0).expect("accept");
        id
    }

    async fn begin(&self, id: EmailId) -> Lease {
        let begun = self.store.begin(vec![id], "w", HOUR).await;
        match begun.expect("begin").remove(0) {
            Begun::Started(started) => started.lease,
            other => panic!("{other:?}"),
        }
    }

    async fn attempt(&self, id: EmailId, decision: Decision) {
        let lease = self.begin(id).await;
        let finish = Finish {
            lease,
            decision,
            transport: Some("smtp".into()),
            budget: 8,
            removes_sent: false,
        };
        let finished = self.store.finish(vec![finish]).await;
        finished.expect("finish").remove(0).expect("a good lease");
    }

    /// Does something to the rows of an email.
    async fn tamper(&self, sql: &str, id: EmailId) {
        let sql = sql.replace("{id}", &self.fixture.literal(id));
        let changed = self.fixture.execute(&sql).await;
        assert!(changed > 0, "{sql} changed nothing");
    }

    async fn verify(&self) -> Vec<Violation> {
        let ledger = [self.pending, self.sent, self.dead, self.sending];
        self.store.verify(&ledger).await.expect("verify")
    }

    /// Asserts that there is a violation of `invariant` that says `detail` of `id`.
    async fn assert_found(&self, invariant: &str, id: EmailId, detail: &str) {
        let found = self.verify().await;
        let matches = |v: &Violation| {
            v.invariant == invariant
                && v.detail.contains(&id.to_string())
                && v.detail.contains(detail)
        };
        assert!(found.iter().any(matches), "not among {found:#?}");
    }
}

/// Nothing holds any more after these.
#[doc(hidden)]
pub async fn after(_fixture: &impl Tamperable) {}

/// Writes one test per case. The argument is an expression that makes a fixture when awaited.
#[macro_export]
macro_rules! store_tampering {
    ($factory:expr) => {
        $crate::conformance_tests! { store_tampering, $factory,
            found {
                an_untampered_database_is_clean,
                a_deleted_state_is_found,
                a_deleted_content_is_found,
                an_email_that_vanished_without_a_trace_is_found_by_ledger_and_counters,
                a_wrong_counter_is_found,
                a_status_that_was_changed_by_hand_is_found,
                a_wrong_attempt_count_is_found,
                an_attempt_that_is_free_is_not_counted,
                one_that_cannot_wait_for_a_way_out_is_found,
                a_second_way_out_for_what_may_have_been_sent_is_found,
                attempts_that_were_removed_too_early_are_found,
                an_overdue_lease_is_found,
                a_lock_that_nobody_can_hold_is_found,
                too_many_attempts_are_found,
                an_attempt_that_was_too_early_is_found,
                an_attempt_without_a_lease_is_found,
                a_second_copy_without_an_unknown_attempt_is_found,
                an_id_of_the_ledger_that_is_missing_is_found,
                a_flood_of_violations_is_cut_short,
            }
            message {
                a_message_that_vanished_is_found,
                a_wrong_counter_of_messages_is_found,
                a_message_whose_status_was_changed_by_hand_is_found,
                a_message_without_its_end_is_found,
                a_message_that_ended_unclaimed_is_found,
                a_claim_on_a_message_that_is_over_is_found,
                a_retry_that_was_not_counted_is_found,
                a_flood_of_messages_is_cut_short,
                a_message_that_cannot_be_read_holds_up_no_other,
            }
        }
    };
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_case_is_run() {
        crate::case::tests::assert_every_case_is_listed("store_tampering");
    }
}
