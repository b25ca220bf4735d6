//! What every store must do, in cases that each backend passes.
//!
//! A backend implements [`StoreFixture`] and writes `store_conformance!(factory());` in a test
//! file: one test per case. Cases step through time in half hours and compare times with the
//! store's own clock, so they also hold where that clock cannot be stopped. After every case the
//! books are audited: the counters match the rows, and `verify` finds nothing.

#![allow(missing_docs, reason = "the names of cases are sentences")]

pub mod accept;
pub mod act;
pub mod admin;
pub mod alert;
pub mod begin;
pub mod dead_group;
pub mod finish;
pub mod history;
pub mod inbox;
pub mod inline;
pub mod key;
pub mod late;
pub mod lease;
pub mod list;
pub mod message_act;
pub mod message_arrival;
pub mod message_claim;
pub mod message_content;
pub mod message_list;
pub mod message_prune;
pub mod message_random_run;
mod message_scene;
pub mod notice;
pub mod operation;
pub mod operation_filter;
pub mod prune;
pub mod random_run;
pub mod recipient;
pub mod rescue;
mod scene;
pub mod schedule;
pub mod statistics;
pub mod template;
pub mod unticketed;
pub mod verify;

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use posthaste_core::email::EmailId;
use posthaste_core::message::MessageStatus;
use posthaste_core::port::{EmailFilter, MessageFilter, SharedStore};
use posthaste_core::status::Status;

/// A new, empty store for one case, and its clock.
pub trait StoreFixture: Send + Sync {
    /// The store. Every call gives the same one.
    fn store(&self) -> SharedStore;

    /// Another one over the same data: of another process, or after a restart.
    fn another(&self) -> impl Future<Output = SharedStore> + Send;

    /// Moves the store's time on.
    fn advance(&self, by: Duration) -> impl Future<Output = ()> + Send;
}

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

/// What follows every case.
#[doc(hidden)]
pub async fn after(fixture: &impl StoreFixture) {
    assert_consistent(fixture).await;
}

/// Asserts that both have the same ids, in any order, each once.
#[track_caller]
fn same_ids(found: impl IntoIterator<Item = EmailId>, expected: impl IntoIterator<Item = EmailId>) {
    let mut found: Vec<_> = found.into_iter().collect();
    let mut expected: Vec<_> = expected.into_iter().collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

/// Writes one test per case. The argument is an expression that makes a fixture when awaited.
#[macro_export]
macro_rules! store_conformance {
    ($factory:expr) => {
        $crate::conformance_tests! { store_conformance, $factory,
            accept {
                an_accepted_email_is_pending_and_due,
                an_email_without_a_ticket_was_never_queued,
                a_scheduled_email_waits_for_its_time,
                the_same_key_and_content_replay_the_first_answer,
                the_same_key_with_other_content_conflicts,
                keys_belong_to_their_owners,
                what_was_accepted_before_is_known_by_its_key,
                one_bad_entry_of_a_batch_spoils_no_other,
                an_empty_batch_is_accepted_as_such,
                thirty_two_tasks_with_one_key_create_one_email,
                a_time_to_send_that_has_passed_means_now,
            }
            inline {
                an_email_is_accepted_and_begun_in_one_step,
                the_same_again_is_told_of_the_first,
                of_many_callers_with_one_key_one_sends,
                the_first_attempt_is_not_counted_and_later_ones_are,
                one_that_is_refused_for_good_is_dead_without_a_count,
                a_caller_lost_after_the_gate_leaves_it_uncertain_and_uncounted,
                a_caller_lost_before_the_gate_leaves_it_to_others,
                one_that_is_handed_back_waits_as_any_other,
                one_that_was_sent_is_removed_at_once_if_so_wished,
            }
            begin {
                beginning_gives_the_content_and_a_lease,
                each_attempt_raises_the_token_and_the_number,
                an_email_that_is_being_sent_is_in_progress,
                a_finished_email_is_already_finished,
                an_email_is_not_begun_before_its_time,
                an_email_of_unknown_fate_is_not_begun,
                an_unknown_id_is_not_found,
                a_batch_is_answered_in_its_order,
                one_of_many_doubled_tickets_is_begun,
            }
            unticketed {
                one_that_was_never_queued_is_begun_at_once,
                one_that_was_queued_long_ago_is_begun,
                one_whose_retry_was_queued_long_ago_is_begun,
                one_that_a_scheduler_is_publishing_is_left_alone,
                one_that_failed_is_begun_when_no_scheduler_came,
                one_that_is_not_due_is_left_alone,
                no_more_are_begun_than_asked_for,
                each_is_begun_once_by_many_senders,
                one_whose_budget_is_spent_dies_instead,
                one_that_came_too_late_dies_instead,
                a_backlog_of_new_emails_does_not_hold_up_a_retry,
            }
            lease {
                renewing_extends_a_lease,
                a_lost_lease_is_not_renewed,
                the_gate_opens_only_for_the_present_lease,
                a_batch_at_the_gate_is_answered_in_its_order,
                releasing_spends_nothing,
                releasing_a_retry_keeps_its_count,
                a_lost_lease_releases_nothing,
            }
            finish {
                an_accepted_email_is_sent,
                a_transient_failure_waits_for_its_delay,
                a_permanent_failure_is_dead,
                the_last_transient_failure_is_dead,
                an_error_is_forgotten_once_it_is_sent,
                a_lost_reply_may_be_followed_by_another_attempt,
                a_lost_reply_may_be_left_to_an_operator,
                a_due_time_is_never_rounded_down,
                a_finish_with_another_token_changes_nothing,
                an_attempt_is_finished_once,
                a_finish_after_a_cancel_changes_nothing,
                a_finish_after_a_replay_changes_nothing,
                a_batch_of_finishes_is_answered_in_its_order,
            }
            late {
                a_late_sent_settles_an_unknown_fate,
                a_late_sent_stops_the_resending,
                a_late_sent_wins_until_the_next_attempt_begins,
                a_late_sent_of_a_lost_worker_is_believed,
                a_late_failure_proves_nothing,
                a_late_sent_after_a_replay_is_stale,
            }
            schedule {
                only_what_is_due_is_claimed,
                a_scheduled_email_is_claimed_at_its_time,
                no_more_are_claimed_than_asked_for_and_the_oldest_first,
                a_spent_budget_is_the_end,
                a_lowered_budget_acts_on_waiting_emails,
                what_has_become_too_late_is_the_end,
                two_schedulers_never_claim_the_same,
                a_published_ticket_unlocks_its_email,
                a_refused_ticket_leaves_its_email_due,
                a_new_email_whose_ticket_was_refused_is_claimed,
                a_ticket_taken_before_it_was_marked_is_harmless,
                a_late_word_about_a_ticket_changes_nothing,
                the_next_due_time_is_the_earliest,
                a_claim_never_takes_what_is_cancelled,
            }
            rescue {
                a_lease_that_holds_is_left_alone,
                a_loss_before_the_gate_is_retried_freely,
                the_third_loss_is_poison,
                a_loss_while_it_waits_to_be_alone_is_not_counted,
                a_loss_after_the_gate_is_of_unknown_fate,
                a_policy_may_decide_to_send_again,
                a_policy_may_decide_to_hold,
                emails_of_a_lost_scheduler_go_back,
                no_more_are_rescued_than_asked_for,
                many_rescuers_rescue_each_email_once,
            }
            act {
                an_email_that_waits_can_be_cancelled,
                what_is_sending_or_over_cannot_be_cancelled,
                a_retry_gives_a_fresh_budget_and_goes_on_counting,
                a_retry_done_twice_is_done_once,
                an_unknown_fate_is_resolved_by_an_operator,
                only_an_unknown_fate_is_resolved,
                a_dead_letter_is_discarded_and_restored,
                only_dead_letters_are_discarded,
                erasing_removes_body_and_addresses,
                what_can_still_be_sent_is_not_erased,
                another_owners_email_is_not_there,
                a_batch_of_actions_is_answered_in_its_order,
                every_action_leaves_an_audit_entry,
            }
            recipient {
                recipients_that_fare_alike_follow_the_email,
                a_retry_knows_who_still_waits,
                an_email_is_sent_once_all_have_accepted,
                a_replay_goes_to_the_dead_ones_only,
                a_replay_of_all_dead_ones_starts_anew,
                an_email_resolved_as_sent_reached_those_who_waited,
                an_email_resolved_as_sent_does_not_hide_whom_it_did_not_reach,
                those_who_wait_are_given_up_with_the_email,
                poison_gives_up_those_who_wait,
                a_stale_finish_changes_no_recipient,
                an_erased_email_that_was_sent_in_parts_stays_consistent,
            }
            list {
                the_newest_come_first_and_without_attempts,
                what_very_many_emails_share_is_found_like_what_few_do,
                the_attempts_of_many_come_by_email_and_in_order,
                pages_have_no_gaps_and_no_repeats,
                emails_are_found_by_status,
                emails_are_found_by_owner_template_and_age,
                emails_are_found_by_any_recipient,
                a_search_finds_ids_keys_and_subjects,
                dead_letters_are_found_by_fingerprint,
                an_email_that_is_not_there_is_not_found,
                filters_narrow_each_other,
            }
            dead_group {
                dead_letters_are_grouped_by_fingerprint,
                dead_letters_without_an_error_go_by_their_reason,
            }
            operation_filter {
                filters_choose_the_same_for_counting_and_for_acting,
            }
            operation {
                an_operation_treats_what_was_dead_when_it_was_made,
                dead_letters_are_discarded_by_the_many,
                what_dies_again_is_not_retried_again,
                what_is_not_dead_any_more_is_skipped,
                a_pace_is_kept_and_not_caught_up_with,
                a_pause_holds_until_it_is_resumed,
                a_cancelled_operation_leaves_the_rest_dead,
                several_instances_treat_each_email_once,
                a_pause_amid_steps_is_the_last_word,
                an_operation_is_audited_when_it_is_made_and_when_it_is_over,
                owners_see_and_touch_their_own,
                the_newest_operations_come_first,
            }
            history {
                an_empty_history_has_all_its_steps,
                what_happened_is_told_when_it_happened,
                what_was_compacted_is_told_by_the_hour,
            }
            statistics {
                an_empty_store_has_zeros_for_everything,
                what_was_sent_and_died_is_counted_by_age,
                what_waits_is_counted_from_when_it_was_due,
            }
            random_run {
                the_books_balance_after_a_random_run,
            }
            prune {
                only_what_is_over_for_long_enough_is_removed,
                age_is_counted_from_the_end,
                no_more_are_removed_than_asked_for,
                a_removed_email_frees_its_key_and_its_attempts,
                captures_and_audit_entries_have_their_own_age,
                compacted_statistics_add_up_to_the_same,
                dead_letters_that_are_removed_leave_one_audit_entry,
                attempts_have_their_own_age,
                content_has_its_own_age,
                what_took_long_to_end_loses_its_attempts_later,
                what_can_still_be_sent_keeps_everything,
                operations_go_with_the_audit_log,
                what_a_channel_that_is_gone_had_to_tell_is_removed,
            }
            key {
                a_key_is_found_by_the_hash_of_its_secret,
                a_revoked_key_opens_nothing,
                a_secret_or_an_id_is_used_once,
            }
            admin {
                an_admin_is_found_by_name,
                a_name_is_given_once,
                admins_are_listed_by_name,
                a_login_lasts_for_its_time,
                a_login_needs_the_password_that_is_in_force,
                logging_out_ends_one_session,
                another_password_ends_all_sessions,
                another_role_counts_for_sessions_at_once,
                a_removed_admin_is_logged_out,
                the_last_operator_stays,
                of_operators_who_leave_at_once_one_stays,
                sessions_that_ran_out_are_removed,
            }
            inbox {
                captured_mail_is_listed_newest_first,
                the_newest_capture_of_an_email_is_found,
                erasing_an_email_erases_its_captures,
            }
            notice {
                a_death_is_told_with_its_reason,
                what_was_told_is_forgotten,
                what_could_not_be_told_is_told_later,
                a_lost_teller_is_replaced,
                a_death_that_was_taken_back_was_told_once,
                many_tellers_take_each_notice_once,
                erasing_an_email_leaves_no_error_to_tell,
            }
            template {
                a_template_is_kept_as_it_was_saved,
                every_version_is_kept,
                the_newest_of_each_are_listed_by_name,
                what_is_unchanged_makes_no_version,
                an_edit_of_an_older_version_conflicts,
                a_deleted_template_is_not_there_and_goes_on_counting,
                of_two_who_edit_the_same_version_one_wins,
                those_who_save_whatever_is_there_get_different_versions,
                every_change_of_a_template_leaves_an_audit_entry,
                text_that_cannot_be_kept_is_an_error_and_spoils_nothing,
            }
            alert {
                deaths_are_counted_by_what_they_died_of,
                an_error_without_words_goes_by_its_reason,
                every_channel_is_told_by_itself,
                without_channels_deaths_are_forgotten,
                what_died_waits_to_be_gathered,
                a_digest_is_told_by_one,
                a_channel_rests_between_alerts,
                alerts_in_a_row_are_counted_until_it_is_quiet,
                what_died_while_it_was_told_stays,
                what_a_channel_failed_to_tell_stays_as_it_is,
                nothing_is_lost_when_nobody_says_how_it_went,
                a_letter_that_is_restored_does_not_die_again,
                many_gatherers_count_each_death_once,
                counts_are_exact_while_gathering_and_telling_overlap,
                erasing_an_email_leaves_no_sample,
                erasing_does_not_stand_in_the_way_of_counting,
            }
            message_arrival {
                a_failure_waits_for_its_time,
                later_failures_wait_longer,
                an_exhausted_message_is_due_at_once,
                the_wished_moment_is_a_floor,
                a_wished_moment_is_never_rounded_down,
                the_same_failure_while_it_waits_is_a_duplicate,
                a_higher_count_while_it_waits_replaces_it,
                a_failure_after_a_republish_counts_on,
                a_message_that_was_given_up_is_taken_up_again,
                a_delivery_that_was_taken_in_is_known_when_it_comes_again,
                a_failure_of_a_claimed_message_is_the_one_after,
                a_known_delivery_of_a_claimed_message_changes_nothing,
                a_sender_that_never_counts_comes_to_an_end,
                failures_of_one_message_in_a_batch_come_one_after_the_other,
                a_batch_of_failures_is_answered_in_its_order,
                many_tasks_with_the_same_failures_keep_each_once,
            }
            message_content {
                payloads_are_kept_byte_for_byte,
                properties_are_kept_as_they_are,
                a_strange_reason_is_no_reason_to_lose_a_message,
            }
            message_claim {
                only_what_is_due_is_claimed,
                the_most_overdue_are_claimed_first,
                no_further_one_is_claimed_once_there_are_bytes_enough,
                a_claim_that_ran_out_is_taken_again_and_counted,
                each_is_claimed_once_by_many,
                the_next_due_time_is_the_earliest,
                a_republished_message_is_over,
                a_message_that_went_to_people_is_over,
                a_refused_message_is_tried_again_and_then_shown_to_people,
                a_message_stays_due_while_the_broker_is_away,
                a_batch_of_claims_is_settled_in_its_order,
                a_claim_is_settled_once_in_a_batch,
            }
            message_act {
                a_message_in_review_gets_a_fresh_budget,
                a_message_that_waits_is_tried_now,
                a_discarded_message_can_be_taken_up_again,
                what_was_put_back_is_left_to_its_queue,
                what_is_being_put_back_is_left_alone,
                a_batch_of_actions_on_messages_is_answered_in_its_order,
                every_action_on_a_message_leaves_an_audit_entry,
            }
            message_list {
                the_newest_come_first_and_without_payloads,
                pages_of_messages_have_no_gaps_and_no_repeats,
                messages_are_found_by_status_and_queue,
                a_message_that_is_not_there_is_not_found,
                messages_are_counted_where_they_are,
            }
            message_prune {
                only_messages_that_are_over_for_long_enough_are_removed,
                a_message_that_fails_again_is_kept,
                no_more_messages_are_removed_than_asked_for,
            }
            message_random_run {
                the_books_of_messages_balance_after_a_random_run,
            }
            verify {
                an_id_that_a_client_saw_accepted_is_missed,
                a_lease_that_nobody_released_is_reported,
                the_store_answers_when_it_is_well,
            }
        }
    };
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_case_is_run() {
        crate::case::tests::assert_every_case_is_listed("store_conformance");
    }
}
