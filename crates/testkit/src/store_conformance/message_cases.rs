//! The cases about messages of other services, in a list of their own.

/// Writes one test per case. The argument is an expression that makes a fixture when awaited.
#[doc(hidden)]
#[macro_export]
macro_rules! message_store_conformance {
    ($factory:expr) => {
        $crate::conformance_tests! { store_conformance, $factory,
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
        }
    };
}
