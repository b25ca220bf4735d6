//! What is done to a store, and what `verify` says about it.

use std::time::Duration;

use posthaste_core::email::EmailId;
use posthaste_core::status::DeadReason;

use super::{HOUR, Tamperable, Tampered};
use crate::{an_email, dead, unknown_hold};

pub async fn an_untampered_database_is_clean(fixture: &impl Tamperable) {
    assert_eq!(Tampered::new(fixture).await.verify().await, []);
}

pub async fn a_deleted_state_is_found(fixture: &impl Tamperable) {
    let scene = Tampered::new(fixture).await;
    scene
        .tamper(
            "DELETE FROM {prefix}email_log WHERE id = {id}",
            scene.pending,
        )
        .await;
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

pub async fn a_deleted_content_is_found(fixture: &impl Tamperable) {
    let scene = Tampered::new(fixture).await;
    scene
        .tamper("DELETE FROM {prefix}email WHERE id = {id}", scene.sent)
        .await;
    scene
        .assert_found("I1", scene.sent, "has a state but no content")
        .await;
}

pub async fn an_email_that_vanished_without_a_trace_is_found_by_ledger_and_counters(
    fixture: &impl Tamperable,
) {
    let scene = Tampered::new(fixture).await;
    for sql in [
        "DELETE FROM {prefix}email WHERE id = {id}",
        "DELETE FROM {prefix}email_log WHERE id = {id}",
    ] {
        scene.tamper(sql, scene.pending).await;
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

pub async fn a_wrong_counter_is_found(fixture: &impl Tamperable) {
    let scene = Tampered::new(fixture).await;
    let insert = "INSERT INTO {prefix}stat (minute, from_status, to_status, n) VALUES";
    for (sql, undo) in [
        (
            "UPDATE {prefix}stat SET n = n + 1 WHERE to_status = 'sent'".to_owned(),
            "UPDATE {prefix}stat SET n = n - 1 WHERE to_status = 'sent'",
        ),
        (
            format!("{insert} (1, 'sent', '', 1)"),
            "DELETE FROM {prefix}stat WHERE minute = 1",
        ),
        (
            format!("{insert} (1, 'unknown', 'discarded', 1)"),
            "DELETE FROM {prefix}stat WHERE minute = 1",
        ),
        (
            "UPDATE {prefix}stat SET n = n - 4 WHERE from_status = ''".to_owned(),
            "UPDATE {prefix}stat SET n = n + 4 WHERE from_status = ''",
        ),
    ] {
        assert!(fixture.execute(&sql).await > 0);
        let found = scene.verify().await;
        assert!(!found.is_empty(), "{sql}");
        assert!(
            found.iter().all(|v| v.invariant == "I1"),
            "{sql}: {found:?}"
        );
        fixture.execute(undo).await;
        assert_eq!(scene.verify().await, []);
    }
}

pub async fn a_status_that_was_changed_by_hand_is_found(fixture: &impl Tamperable) {
    let scene = Tampered::new(fixture).await;
    let sql = "UPDATE {prefix}email_log SET status = 'failed' WHERE id = {id}";
    scene.tamper(sql, scene.pending).await;
    let found = scene.verify().await;
    assert_eq!(found.len(), 2, "one too few and one too many: {found:?}");
    assert!(found.iter().all(|v| v.invariant == "I1"));
}

pub async fn a_wrong_attempt_count_is_found(fixture: &impl Tamperable) {
    let scene = Tampered::new(fixture).await;
    for (count, detail) in [(0, "0 counted, 1 recorded"), (2, "2 counted, 1 recorded")] {
        let sql =
            format!("UPDATE {{prefix}}email_log SET attempt_count = {count} WHERE id = {{id}}");
        scene.tamper(&sql, scene.sent).await;
        scene.assert_found("I7", scene.sent, detail).await;
    }
    let sql = "DELETE FROM {prefix}email_attempt WHERE email_id = {id}";
    scene.tamper(sql, scene.sent).await;
    let detail = "2 counted, 0 recorded";
    scene.assert_found("I7", scene.sent, detail).await;
}

pub async fn an_attempt_that_is_free_is_not_counted(fixture: &impl Tamperable) {
    let scene = Tampered::new(fixture).await;
    let sql = "UPDATE {prefix}email_attempt SET is_free = (1 = 1) WHERE email_id = {id}";
    scene.tamper(sql, scene.dead).await;
    let detail = "2 counted, 0 recorded";
    scene.assert_found("I7", scene.dead, detail).await;
    let sql = "UPDATE {prefix}email_log SET attempt_count = 0 WHERE id = {id}";
    scene.tamper(sql, scene.dead).await;
    assert_eq!(scene.verify().await, []);
}

pub async fn one_that_cannot_wait_for_a_way_out_is_found(fixture: &impl Tamperable) {
    let scene = Tampered::new(fixture).await;
    let sql = "UPDATE {prefix}email_log
               SET waits_until = (SELECT max(locked_until) FROM {prefix}email_log)
               WHERE id = {id}";
    scene.tamper(sql, scene.pending).await;
    let detail = "waits for a way out although it does not wait (pending)";
    scene.assert_found("I5", scene.pending, detail).await;
}

pub async fn a_second_way_out_for_what_may_have_been_sent_is_found(fixture: &impl Tamperable) {
    let scene = Tampered::new(fixture).await;
    let id = scene.accept(an_email("uncertain")).await;
    scene.attempt(id, unknown_hold()).await;
    assert_eq!(scene.verify().await, []);
    let sql = "UPDATE {prefix}email_log SET bound_to = NULL WHERE id = {id}";
    scene.tamper(sql, id).await;
    let detail = "may take another way out although one of its attempts may have sent it \
                  (attempt 1 by smtp)";
    scene.assert_found("I3", id, detail).await;
}

pub async fn attempts_that_were_removed_too_early_are_found(fixture: &impl Tamperable) {
    let scene = Tampered::new(fixture).await;
    let gone = "DELETE FROM {prefix}email_attempt WHERE email_id = {id}";
    let marked = "UPDATE {prefix}email_log SET attempts_pruned_to = 2 WHERE id = {id}";
    for id in [scene.sent, scene.dead] {
        scene.tamper(gone, id).await;
        scene.assert_found("I7", id, "0 recorded").await;
        scene.tamper(marked, id).await;
    }
    // That of the sent one is what pruning leaves behind.
    let found = scene.verify().await;
    assert_eq!(found.len(), 1, "{found:?}");
    let detail = "has lost attempts that it still needs (up to attempt 2)";
    scene.assert_found("I7", scene.dead, detail).await;
}

pub async fn an_overdue_lease_is_found(fixture: &impl Tamperable) {
    let scene = Tampered::new(fixture).await;
    fixture.advance(HOUR + Duration::from_secs(4)).await;
    assert_eq!(scene.verify().await, [], "a rescuer may be on its way");
    fixture.advance(Duration::from_secs(60)).await;
    scene
        .assert_found("I5", scene.sending, "overdue (by 5")
        .await;
}

pub async fn a_lock_that_nobody_can_hold_is_found(fixture: &impl Tamperable) {
    let scene = Tampered::new(fixture).await;
    let sql = "UPDATE {prefix}email_log
               SET locked_until = (SELECT max(locked_until) FROM {prefix}email_log)
               WHERE id = {id}";
    scene.tamper(sql, scene.pending).await;
    scene.assert_found("I5", scene.pending, "is locked").await;
}

pub async fn too_many_attempts_are_found(fixture: &impl Tamperable) {
    // More than its own budget.
    let scene = Tampered::new(fixture).await;
    let sql = "UPDATE {prefix}email_log SET max_attempts = 1 WHERE id = {id}";
    scene.tamper(sql, scene.dead).await;
    let detail = "was tried more often than its own budget allows";
    scene.assert_found("I7", scene.dead, detail).await;
    // And more than its policy allowed at the time.
    let sql = "UPDATE {prefix}email_log SET max_attempts = NULL WHERE id = {id}";
    scene.tamper(sql, scene.dead).await;
    assert_eq!(scene.verify().await, []);
    let sql = "UPDATE {prefix}email_attempt SET budget = 1 WHERE email_id = {id}";
    scene.tamper(sql, scene.dead).await;
    let detail = "was tried more often than its policy allowed";
    scene.assert_found("I7", scene.dead, detail).await;
}

pub async fn an_attempt_that_was_too_early_is_found(fixture: &impl Tamperable) {
    let scene = Tampered::new(fixture).await;
    let sql = "UPDATE {prefix}email_attempt
               SET started_at = (SELECT created_at FROM {prefix}email WHERE id = email_id)
               WHERE email_id = {id} AND number = 2";
    scene.tamper(sql, scene.sent).await;
    scene
        .assert_found("I7", scene.sent, "earlier than allowed (attempt 2)")
        .await;
}

pub async fn an_attempt_without_a_lease_is_found(fixture: &impl Tamperable) {
    let scene = Tampered::new(fixture).await;
    let sql = "UPDATE {prefix}email_attempt SET number = 9 WHERE email_id = {id} AND number = 2";
    scene.tamper(sql, scene.sent).await;
    scene.assert_found("I4", scene.sent, "attempt 9").await;
}

pub async fn a_second_copy_without_an_unknown_attempt_is_found(fixture: &impl Tamperable) {
    let scene = Tampered::new(fixture).await;
    let sql = "UPDATE {prefix}email_attempt SET outcome = 'sent' WHERE email_id = {id}";
    scene.tamper(sql, scene.sent).await;
    scene
        .assert_found("I3", scene.sent, "2 sent attempts")
        .await;
}

pub async fn an_id_of_the_ledger_that_is_missing_is_found(fixture: &impl Tamperable) {
    let scene = Tampered::new(fixture).await;
    let missing = EmailId::generate();
    let found = scene.store.verify(&[missing]).await.expect("an answer");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].invariant, "I2");
    assert!(found[0].detail.contains(&missing.to_string()));
}

pub async fn a_flood_of_violations_is_cut_short(fixture: &impl Tamperable) {
    let scene = Tampered::new(fixture).await;
    for n in 0..30 {
        let email = an_email(&format!("{n}")).max_attempts(2);
        let id = scene.accept(email).await;
        scene.attempt(id, dead(DeadReason::HardBounce)).await;
    }
    let sql = "UPDATE {prefix}email_log SET attempt_count = 3 WHERE status = 'dead'";
    assert!(fixture.execute(sql).await > 30);
    let found = scene.verify().await;
    assert!(found.len() < 50, "{} violations", found.len());
    assert!(found.iter().all(|v| v.invariant == "I7"));
    assert!(found.iter().any(|v| v.detail.contains("and more")));
}
