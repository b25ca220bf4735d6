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
mod consistent;
pub mod dead_group;
pub mod expiry;
pub mod feedback;
pub mod feedback_recipient;
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
mod message_cases;
pub mod message_claim;
pub mod message_content;
pub mod message_list;
pub mod message_prune;
pub mod message_random_run;
mod message_scene;
pub mod notice;
pub mod operation;
pub mod operation_filter;
pub mod parked;
pub mod priority;
pub mod prune;
pub mod random_run;
pub mod recipient;
pub mod rescue;
mod scene;
pub mod schedule;
pub mod statistics;
pub mod suppressed;
pub mod suppression;
pub mod template;
pub mod unticketed;
pub mod verify;
pub mod way;
pub mod way_out;

use std::future::Future;
use std::time::Duration;

use posthaste_core::email::EmailId;
use posthaste_core::port::SharedStore;

pub use self::consistent::assert_consistent;

/// A new, empty store for one case, and its clock.
pub trait StoreFixture: Send + Sync {
    /// The store. Every call gives the same one.
    fn store(&self) -> SharedStore;

    /// Another one over the same data: of another process, or after a restart.
    fn another(&self) -> impl Future<Output = SharedStore> + Send;

    /// Moves the store's time on.
    fn advance(&self, by: Duration) -> impl Future<Output = ()> + Send;
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
                what_differs_among_emails_that_come_together_stays_apart,
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
                attempts_that_succeed_together_are_recorded_each_as_it_was,
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
                each_ticket_is_marked_by_its_own_token,
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
                what_was_compacted_is_told_by_the_quarter,
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
            parked {
                one_that_found_no_way_out_waits_and_was_not_tried,
                who_has_waited_longest_tests_a_way_whatever_its_priority,
                it_is_begun_by_exactly_the_ways_it_waits_for,
                parking_again_and_again_never_counts,
                a_lost_lease_parks_nothing,
                what_goes_first_is_begun_first_and_the_oldest_of_it,
                each_is_begun_once_by_many_instances,
                what_waits_too_long_is_dead_for_whoever_looks,
                one_whose_budget_is_spent_dies_instead,
                operators_do_with_it_what_they_do_with_any_other,
                a_first_attempt_that_was_parked_was_not_its_callers,
                an_attempt_that_fails_by_the_ways_fault_is_free_and_waits,
                what_is_parked_is_not_due_but_waits,
                a_late_sent_finds_one_that_waits_for_its_way,
            }
            priority {
                a_scheduler_takes_what_goes_first_first,
                a_sender_takes_what_goes_first_first,
                nobody_starves_while_others_keep_coming,
            }
            way_out {
                a_route_is_kept_and_handed_to_the_sender,
                an_attempt_is_recorded_with_its_way_and_the_providers_name,
                one_that_may_have_been_sent_keeps_to_its_way,
                a_worker_that_is_lost_past_the_gate_leaves_its_way,
                another_way_is_tried_at_once_and_costs_nothing,
                only_what_was_spent_is_given_back_and_only_once,
            }
            expiry {
                what_is_too_late_is_only_sent_again_if_an_operator_insists,
                an_ordinary_retry_takes_that_back,
                what_was_erased_or_sent_is_not_sent_again_either,
            }
            suppressed {
                nobody_is_suppressed_where_the_list_is_empty,
                whoever_is_on_the_owners_list_is_told_by_place,
                whoever_was_taken_off_the_list_gets_mail_again,
            }
            way {
                a_way_of_which_nothing_is_known_is_not_kept,
                faults_in_a_row_stop_a_way_for_all_instances,
                faults_told_at_the_same_time_are_counted_exactly,
                a_way_that_comes_and_goes_ends_as_it_was_told_last,
                what_failed_by_the_fault_of_a_way_spends_nothing,
                a_stop_and_a_recovery_are_told,
                what_is_told_of_a_way_outlives_its_email,
                of_many_who_would_probe_one_does,
                a_way_that_came_back_is_forgotten_in_the_end,
                a_paused_way_stays_so_until_it_is_resumed,
                what_is_told_to_a_way_wakes_other_instances,
                senders_are_counted_while_they_are_there,
                what_emails_wait_for_is_told_and_counted,
                pruning_leaves_ways_and_the_list_alone,
            }
            suppression {
                an_address_is_put_on_the_list_once,
                a_graver_reason_takes_the_place_of_a_lesser_one,
                an_address_is_taken_off_the_list,
                the_list_has_pages_without_gaps_and_repeats,
                addresses_are_found_by_their_beginning_and_by_domain,
                lists_belong_to_their_owners,
                an_address_that_many_put_on_the_list_is_new_once,
            }
            feedback {
                what_comes_back_is_dead_and_its_address_gets_no_more,
                a_complaint_is_graver_than_a_bounce,
                a_delivery_of_what_was_sent_is_no_news,
                only_what_names_a_message_of_ours_is_believed,
                a_word_about_what_is_being_sent_is_to_be_said_again,
                a_delivery_settles_an_unknown_fate,
                what_arrived_after_all_is_not_sent_again,
                words_in_any_order_end_in_the_same_state,
                an_address_goes_on_the_list_whatever_became_of_its_email,
                nothing_that_was_erased_comes_back_with_a_word,
                what_came_back_may_be_sent_again,
                a_batch_of_words_is_answered_in_its_order,
                the_same_word_said_at_once_is_news_once,
            }
            feedback_recipient {
                of_several_recipients_each_has_its_own_fate,
                an_unknown_fate_of_several_is_settled_by_the_last_word,
                one_that_came_back_does_not_hold_up_those_who_wait,
            }
            verify {
                an_id_that_a_client_saw_accepted_is_missed,
                a_lease_that_nobody_released_is_reported,
                the_store_answers_when_it_is_well,
            }
        }
        $crate::message_store_conformance!($factory);
    };
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_case_is_run() {
        crate::case::tests::assert_every_case_is_listed("store_conformance");
    }
}
