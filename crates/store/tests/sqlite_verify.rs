//! `verify` finds what was done to a database behind the store's back.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use posthaste_core::decision::Decision;
use posthaste_core::email::EmailId;
use posthaste_core::port::{Begun, DeskStore, EmailStore, Finish, Violation};
use posthaste_core::status::DeadReason;
use posthaste_store::{SqliteOptions, SqliteStore};
use posthaste_testkit::{
    EmailBuilder, ManualClock, an_email, budgets, dead, exhausted, sent, transient,
};
use rusqlite::Connection;
use tempfile::TempDir;

const HOUR: Duration = Duration::from_secs(3600);

/// A store with an email in each of several states, and a second connection to its file.
struct Tampered {
    store: SqliteStore,
    clock: Arc<ManualClock>,
    file: Connection,
    pending: EmailId,
    /// Failed once, then sent.
    sent: EmailId,
    /// Spent its own budget of two.
    dead: EmailId,
    sending: EmailId,
    _folder: TempDir,
}

impl Tampered {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("posthaste.db");
        let clock = Arc::new(ManualClock::new());
        let mut options = SqliteOptions::new(&path);
        options.clock = clock.clone();
        let store = SqliteStore::open(options).unwrap();
        let mut scene = Self {
            store,
            clock,
            file: Connection::open(path).unwrap(),
            pending: EmailId::generate(),
            sent: EmailId::generate(),
            dead: EmailId::generate(),
            sending: EmailId::generate(),
            _folder: folder,
        };
        scene.sent = scene.accept(an_email("sent")).await;
        scene.dead = scene.accept(an_email("dead").max_attempts(2)).await;
        for id in [scene.sent, scene.dead] {
            scene.attempt(id, transient(HOUR)).await;
        }
        scene.clock.advance(HOUR);
        let due = scene.store.claim_due(10, HOUR, &budgets()).await.unwrap();
        assert_eq!(due.len(), 2);
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
        self.store.accept(vec![email], true).await.unwrap();
        id
    }

    async fn begin(&self, id: EmailId) -> posthaste_core::port::Lease {
        let mut begun = self.store.begin(vec![id], "w", HOUR).await.unwrap();
        match begun.remove(0) {
            Begun::Started(started) => started.lease,
            other => panic!("{other:?}"),
        }
    }

    async fn attempt(&self, id: EmailId, decision: Decision) {
        let lease = self.begin(id).await;
        let finish = Finish {
            lease,
            decision,
            transport: "smtp".into(),
            budget: 8,
        };
        self.store.finish(vec![finish]).await.unwrap()[0]
            .as_ref()
            .unwrap();
    }

    /// Does something to the rows of an email.
    fn tamper(&self, sql: &str, id: EmailId) {
        let changed = self.file.execute(sql, [id.0]).unwrap();
        assert!(changed > 0, "{sql} changed nothing");
    }

    async fn verify(&self) -> Vec<Violation> {
        let ledger = [self.pending, self.sent, self.dead, self.sending];
        self.store.verify(&ledger).await.unwrap()
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

#[tokio::test]
async fn an_untampered_database_is_clean() {
    assert_eq!(Tampered::new().await.verify().await, []);
}

#[tokio::test]
async fn a_deleted_state_is_found() {
    let scene = Tampered::new().await;
    scene.tamper("DELETE FROM email_log WHERE id = ?1", scene.pending);
    scene
        .assert_found("I1", scene.pending, "has content but no state")
        .await;
    scene
        .assert_found("I2", scene.pending, "according to the ledger")
        .await;
    let found = scene.verify().await;
    let counters = "the counters say that 1 emails are pending, the rows say 0";
    assert!(
        found
            .iter()
            .any(|v| v.invariant == "I1" && v.detail == counters)
    );
}

#[tokio::test]
async fn a_deleted_content_is_found() {
    let scene = Tampered::new().await;
    scene.tamper("DELETE FROM email WHERE id = ?1", scene.sent);
    scene
        .assert_found("I1", scene.sent, "has a state but no content")
        .await;
}

#[tokio::test]
async fn an_email_that_vanished_without_a_trace_is_found_by_ledger_and_counters() {
    let scene = Tampered::new().await;
    for sql in [
        "DELETE FROM email WHERE id = ?1",
        "DELETE FROM email_log WHERE id = ?1",
    ] {
        scene.tamper(sql, scene.pending);
    }
    scene
        .assert_found("I2", scene.pending, "is not there")
        .await;
    let found = scene.verify().await;
    let accepted = "4 emails were accepted, but 3 are there and 0 were pruned";
    assert!(
        found
            .iter()
            .any(|v| v.invariant == "I1" && v.detail == accepted)
    );
}

#[tokio::test]
async fn a_wrong_counter_is_found() {
    for sql in [
        "UPDATE stat SET n = n + 1 WHERE to_status = 'sent'",
        "DELETE FROM stat WHERE from_status = ''",
        "INSERT INTO stat VALUES (1, 'sent', '', 1)",
        "INSERT INTO stat VALUES (1, 'unknown', 'discarded', 1)",
    ] {
        let scene = Tampered::new().await;
        assert!(scene.file.execute(sql, []).unwrap() > 0);
        let found = scene.verify().await;
        assert!(!found.is_empty(), "{sql}");
        assert!(
            found.iter().all(|v| v.invariant == "I1"),
            "{sql}: {found:?}"
        );
    }
}

#[tokio::test]
async fn a_status_that_was_changed_by_hand_is_found() {
    let scene = Tampered::new().await;
    let sql = "UPDATE email_log SET status = 'failed' WHERE id = ?1";
    scene.tamper(sql, scene.pending);
    let found = scene.verify().await;
    assert_eq!(found.len(), 2, "one too few and one too many: {found:?}");
    assert!(found.iter().all(|v| v.invariant == "I1"));
}

#[tokio::test]
async fn a_wrong_attempt_count_is_found() {
    for (sql, detail) in [
        (
            "UPDATE email_log SET attempt_count = 0 WHERE id = ?1",
            "0 counted, 1 recorded",
        ),
        (
            "UPDATE email_log SET attempt_count = 2 WHERE id = ?1",
            "2 counted, 1 recorded",
        ),
        (
            "DELETE FROM email_attempt WHERE email_id = ?1",
            "1 counted, 0 recorded",
        ),
    ] {
        let scene = Tampered::new().await;
        scene.tamper(sql, scene.sent);
        scene.assert_found("I7", scene.sent, detail).await;
    }
}

#[tokio::test]
async fn an_overdue_lease_is_found() {
    let scene = Tampered::new().await;
    scene.clock.advance(HOUR + Duration::from_secs(5));
    assert_eq!(scene.verify().await, [], "a rescuer may be on its way");
    scene.clock.advance(Duration::from_secs(60));
    scene
        .assert_found("I5", scene.sending, "overdue (by 60 s more than allowed)")
        .await;
}

#[tokio::test]
async fn a_lock_that_nobody_can_hold_is_found() {
    let scene = Tampered::new().await;
    let sql = "UPDATE email_log SET locked_until = 9e15 WHERE id = ?1";
    scene.tamper(sql, scene.pending);
    scene.assert_found("I5", scene.pending, "is locked").await;
}

#[tokio::test]
async fn too_many_attempts_are_found() {
    // More than its own budget.
    let scene = Tampered::new().await;
    let sql = "UPDATE email_log SET max_attempts = 1 WHERE id = ?1";
    scene.tamper(sql, scene.dead);
    let detail = "was tried more often than its own budget allows";
    scene.assert_found("I7", scene.dead, detail).await;
    // And more than its policy allowed at the time.
    let sql = "UPDATE email_log SET max_attempts = NULL WHERE id = ?1";
    scene.tamper(sql, scene.dead);
    assert_eq!(scene.verify().await, []);
    let sql = "UPDATE email_attempt SET budget = 1 WHERE email_id = ?1";
    scene.tamper(sql, scene.dead);
    let detail = "was tried more often than its policy allowed";
    scene.assert_found("I7", scene.dead, detail).await;
}

#[tokio::test]
async fn an_attempt_that_was_too_early_is_found() {
    let scene = Tampered::new().await;
    let sql = "UPDATE email_attempt SET started_at = started_at - 1
               WHERE email_id = ?1 AND number = 2";
    scene.tamper(sql, scene.sent);
    scene
        .assert_found("I7", scene.sent, "earlier than allowed (attempt 2)")
        .await;
}

#[tokio::test]
async fn an_attempt_without_a_lease_is_found() {
    let scene = Tampered::new().await;
    let sql = "UPDATE email_attempt SET number = 9 WHERE email_id = ?1 AND number = 2";
    scene.tamper(sql, scene.sent);
    scene.assert_found("I4", scene.sent, "attempt 9").await;
}

#[tokio::test]
async fn a_second_copy_without_an_unknown_attempt_is_found() {
    let scene = Tampered::new().await;
    let sql = "UPDATE email_attempt SET outcome = 'sent' WHERE email_id = ?1";
    scene.tamper(sql, scene.sent);
    scene
        .assert_found("I3", scene.sent, "2 sent attempts")
        .await;
}

#[tokio::test]
async fn an_id_of_the_ledger_that_is_missing_is_found() {
    let scene = Tampered::new().await;
    let missing = EmailId::generate();
    let found = scene.store.verify(&[missing]).await.unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].invariant, "I2");
    assert!(found[0].detail.contains(&missing.to_string()));
}

#[tokio::test]
async fn a_flood_of_violations_is_cut_short() {
    let scene = Tampered::new().await;
    for n in 0..30 {
        let email = an_email(&format!("{n}")).max_attempts(2);
        let id = scene.accept(email).await;
        scene.attempt(id, dead(DeadReason::HardBounce)).await;
    }
    let sql = "UPDATE email_log SET attempt_count = 3 WHERE status = 'dead'";
    assert!(scene.file.execute(sql, []).unwrap() > 30);
    let found = scene.verify().await;
    assert!(found.len() < 50, "{} violations", found.len());
    assert!(found.iter().all(|v| v.invariant == "I7"));
    assert!(found.iter().any(|v| v.detail.contains("and more")));
}
