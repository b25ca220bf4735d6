//! What happens after an attempt.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use posthaste_core::Timestamp;
use posthaste_core::address::Address;
use posthaste_core::attempt::{Cause, Failure, Stage};
use posthaste_core::classification::Classifier;
use posthaste_core::decision::{
    Budget, Conclusion, Decision, RecipientResult, decide, settle_unknown,
};
use posthaste_core::email::{Recipient, RecipientStatus};
use posthaste_core::fingerprint::fingerprint;
use posthaste_core::lifecycle::State;
use posthaste_core::reply::Reply;
use posthaste_core::retry_policy::{OnUnknown, RetryPolicy};
use posthaste_core::status::{DeadReason, Outcome};

use RecipientStatus::{Accepted, Dead, Waiting};

/// The first attempt of an email under a policy of eight: 1m, 5m, 15m …
const FIRST: Budget = Budget {
    attempt_count: 0,
    is_counted: true,
    inline: false,
    max_attempts: 8,
    unknown_count: 0,
    expires_in: None,
};

fn minutes(n: u64) -> Duration {
    Duration::from_secs(60 * n)
}

fn retry_in(delay: Duration) -> Conclusion {
    Conclusion::Retry {
        delay,
        possible_duplicate: false,
    }
}

fn resend_in(delay: Duration) -> Conclusion {
    Conclusion::Retry {
        delay,
        possible_duplicate: true,
    }
}

fn waiting(count: usize) -> Vec<Recipient> {
    let names = ["ann", "bob", "cleo", "dan"];
    let address = |name: &&str| Address::parse(&format!("{name}@example.org")).unwrap();
    names[..count]
        .iter()
        .map(|name| Recipient::waiting(address(name)))
        .collect()
}

/// The server's word on one recipient: a positive reply, or a failure at RCPT.
fn says(line: &str) -> RecipientResult {
    let reply = Reply::parse_line(line).unwrap();
    if reply.is_positive() {
        RecipientResult::Accepted(reply.into())
    } else {
        RecipientResult::Failed(Failure::new(Stage::Recipient, Cause::Reply(reply)))
    }
}

fn reply_lost() -> RecipientResult {
    RecipientResult::Failed(Failure::new(Stage::FinalDot, Cause::Timeout))
}

fn concluded(
    before: &[Recipient],
    results: &[RecipientResult],
    policy: &RetryPolicy,
    budget: &Budget,
) -> Decision {
    decide(before, results, &Classifier::default(), policy, budget, 0.0)
}

fn first_attempt(before: &[Recipient], results: &[RecipientResult]) -> Decision {
    concluded(before, results, &RetryPolicy::email(), &FIRST)
}

fn statuses(decision: &Decision) -> Vec<RecipientStatus> {
    decision.recipients.iter().map(|r| r.status).collect()
}

fn reasons(decision: &Decision) -> Vec<Option<DeadReason>> {
    decision.recipients.iter().map(|r| r.reason).collect()
}

#[test]
fn an_email_is_sent_when_every_recipient_was_accepted() {
    let decision = first_attempt(
        &waiting(2),
        &[says("250 2.1.5 OK"), says("250 2.0.0 Queued")],
    );
    assert_eq!(decision.conclusion, Conclusion::Sent);
    assert_eq!(decision.outcome, Outcome::Sent);
    assert_eq!(decision.reply.as_deref(), Some("250 2.0.0 Queued"));
    assert_eq!((decision.error, decision.fingerprint), (None, None));
    assert_eq!(decision.recipients, [], "they do not differ");
}

#[test]
fn only_the_deferred_recipients_are_tried_again() {
    let decision = first_attempt(
        &waiting(3),
        &[
            says("250 OK"),
            says("450 4.2.0 Busy"),
            says("550 5.1.1 No such user"),
        ],
    );
    assert_eq!(decision.conclusion, retry_in(minutes(1)));
    assert_eq!(decision.outcome, Outcome::Transient);
    assert_eq!(decision.error_class.as_deref(), Some("mailbox_busy"));
    assert_eq!(decision.error.as_deref(), Some("450 4.2.0 Busy"));
    assert_eq!(decision.fingerprint, Some(fingerprint("450 4.2.0 Busy")));
    assert_eq!(statuses(&decision), [Accepted, Waiting, Dead]);
    assert_eq!(
        reasons(&decision),
        [None, None, Some(DeadReason::HardBounce)]
    );

    // The next attempt's only result belongs to the one that waited.
    let second = Budget {
        attempt_count: 1,
        ..FIRST
    };
    let policy = RetryPolicy::email();
    let before = &decision.recipients;
    let later = concluded(before, &[says("450 4.2.0 Busy")], &policy, &second);
    assert_eq!(later.conclusion, retry_in(minutes(5)));
    assert_eq!(statuses(&later), [Accepted, Waiting, Dead]);

    // Accepted at last: all are settled, but one never got it.
    let settled = concluded(before, &[says("250 OK")], &policy, &second);
    assert_eq!(settled.conclusion, Conclusion::Dead(DeadReason::HardBounce));
    assert_eq!(settled.outcome, Outcome::Sent);
    assert_eq!(statuses(&settled), [Accepted, Accepted, Dead]);
    assert_eq!(before[2], settled.recipients[2], "untouched since it died");
}

#[test]
fn a_recipient_that_died_keeps_its_reason_when_the_others_run_out_of_attempts() {
    let policy = RetryPolicy::notification();
    let before = first_attempt(
        &waiting(3),
        &[
            says("250 OK"),
            says("550 5.1.2 No such host"),
            says("450 Busy"),
        ],
    );
    let last = Budget {
        attempt_count: 2,
        max_attempts: 3,
        ..FIRST
    };
    let decision = concluded(&before.recipients, &[says("450 Busy")], &policy, &last);
    assert_eq!(
        decision.conclusion,
        Conclusion::Dead(DeadReason::MaxAttemptsExceeded)
    );
    assert_eq!(statuses(&decision), [Accepted, Dead, Dead]);
    assert_eq!(
        reasons(&decision),
        [
            None,
            Some(DeadReason::DomainNotFound),
            Some(DeadReason::MaxAttemptsExceeded)
        ]
    );
}

#[test]
fn accepted_by_some_and_refused_by_the_rest_is_dead_at_once() {
    let decision = first_attempt(&waiting(2), &[says("250 OK"), says("554 5.7.1 Blocked")]);
    assert_eq!(
        decision.conclusion,
        Conclusion::Dead(DeadReason::PolicyBlocked)
    );
    assert_eq!(decision.outcome, Outcome::Permanent);
    assert_eq!(statuses(&decision), [Accepted, Dead]);
}

#[test]
fn a_permanent_failure_is_dead_at_once() {
    let decision = first_attempt(&waiting(1), &[says("550 5.1.1 No such user")]);
    assert_eq!(
        decision.conclusion,
        Conclusion::Dead(DeadReason::HardBounce)
    );
    assert_eq!(decision.outcome, Outcome::Permanent);
    assert_eq!(decision.error_class.as_deref(), Some("mailbox_not_found"));
    assert_eq!(decision.reply.as_deref(), Some("550 5.1.1 No such user"));
    assert_eq!(decision.recipients, [], "one recipient differs from nobody");
}

#[test]
fn recipients_that_died_of_different_things_are_told_apart() {
    let decision = first_attempt(
        &waiting(2),
        &[says("550 5.1.1 No such user"), says("554 5.7.1 Blocked")],
    );
    assert_eq!(
        decision.conclusion,
        Conclusion::Dead(DeadReason::HardBounce)
    );
    assert_eq!(
        reasons(&decision),
        [
            Some(DeadReason::HardBounce),
            Some(DeadReason::PolicyBlocked)
        ]
    );
}

#[test]
fn recipients_that_were_told_apart_once_are_told_apart_for_ever() {
    // One died before the other; then a replay set both to wait again.
    let mut before =
        first_attempt(&waiting(2), &[says("550 5.1.1 No"), says("450 Busy")]).recipients;
    for recipient in &mut before {
        recipient.status = Waiting;
        recipient.reason = None;
    }
    let decision = first_attempt(&before, &[says("250 OK"), says("250 OK")]);
    assert_eq!(decision.conclusion, Conclusion::Sent);
    assert_eq!(statuses(&decision), [Accepted, Accepted]);
}

#[test]
fn the_last_attempt_of_the_budget_is_the_last() {
    for max_attempts in 1..=5 {
        for attempt_count in 0..6 {
            let budget = Budget {
                attempt_count,
                max_attempts,
                ..FIRST
            };
            let policy = RetryPolicy::email();
            let decision = concluded(&waiting(1), &[says("450 Busy")], &policy, &budget);
            let expected = if attempt_count + 1 >= max_attempts {
                Conclusion::Dead(DeadReason::MaxAttemptsExceeded)
            } else {
                retry_in(policy.backoff(attempt_count + 1))
            };
            assert_eq!(decision.conclusion, expected, "{budget:?}");
            assert_eq!(decision.outcome, Outcome::Transient);
        }
    }
}

#[test]
fn the_last_attempt_is_made_while_it_is_of_use_and_then_the_email_is_expired() {
    let policy = RetryPolicy::email();
    let seconds = Duration::from_secs;
    let cases = [
        (minutes(1) + Duration::from_millis(1), retry_in(minutes(1))),
        (minutes(1), retry_in(seconds(55))),
        (seconds(30), retry_in(seconds(25))),
        (seconds(10), retry_in(seconds(5))),
        // That one was the last.
        (seconds(9), Conclusion::Dead(DeadReason::Expired)),
        (seconds(5), Conclusion::Dead(DeadReason::Expired)),
        (Duration::ZERO, Conclusion::Dead(DeadReason::Expired)),
    ];
    for (left, expected) in cases {
        let budget = Budget {
            expires_in: Some(left),
            ..FIRST
        };
        let decision = concluded(&waiting(1), &[says("450 Busy")], &policy, &budget);
        assert_eq!(decision.conclusion, expected, "{left:?} left");
    }
    // The server's floor counts too.
    let budget = Budget {
        expires_in: Some(minutes(30)),
        ..FIRST
    };
    let floor = [says("450 Try again in 40 minutes")];
    let decision = concluded(&waiting(1), &floor, &policy, &budget);
    assert_eq!(decision.conclusion, Conclusion::Dead(DeadReason::Expired));
    // One that leaves room for an attempt is kept, however late the policy would try.
    let second = Budget {
        attempt_count: 3,
        expires_in: Some(minutes(30)),
        ..FIRST
    };
    let floor = [says("450 Try again in 20 minutes")];
    let decision = concluded(&waiting(1), &floor, &policy, &second);
    assert_eq!(decision.conclusion, retry_in(minutes(30) - seconds(5)));
}

#[test]
fn the_servers_floor_beats_the_backoff_and_the_highest_floor_the_others() {
    let cases: [(&[&str], u64); 4] = [
        (&["450 Try again in 10 minutes"], 10),
        (&["450 Try again in 10 seconds"], 1),
        (
            &[
                "450 Try again in 3 minutes",
                "450 Try again in 20 minutes",
                "450 Busy",
            ],
            20,
        ),
        // A floor in a final refusal means nothing.
        (&["550 Try again in 30 minutes", "450 Busy"], 1),
    ];
    for (lines, expected) in cases {
        let results: Vec<_> = lines.iter().map(|line| says(line)).collect();
        let decision = first_attempt(&waiting(lines.len()), &results);
        assert_eq!(
            decision.conclusion,
            retry_in(minutes(expected)),
            "{lines:?}"
        );
    }
}

#[test]
fn jitter_is_added_to_the_backoff() {
    let policy = RetryPolicy::notification();
    let classifier = Classifier::default();
    let decision = decide(
        &waiting(1),
        &[says("450 Busy")],
        &classifier,
        &policy,
        &FIRST,
        0.5,
    );
    assert_eq!(decision.conclusion, retry_in(Duration::from_secs(75)));
}

#[test]
fn an_uncertain_email_is_resent_as_often_as_its_policy_allows_and_then_held() {
    let resend = |max_unknown_resends| RetryPolicy {
        max_unknown_resends,
        ..RetryPolicy::email()
    };
    let hold = RetryPolicy {
        on_unknown: OnUnknown::Hold,
        ..RetryPolicy::email()
    };
    let second = Budget {
        attempt_count: 1,
        unknown_count: 1,
        ..FIRST
    };
    let exhausted = Budget {
        attempt_count: 7,
        ..FIRST
    };
    let expiring = Budget {
        expires_in: Some(minutes(1)),
        ..FIRST
    };
    let cases = [
        ("the default", resend(1), FIRST, resend_in(minutes(1))),
        ("the second time", resend(1), second, Conclusion::Hold),
        ("two resends", resend(2), second, resend_in(minutes(5))),
        ("no resend", resend(0), FIRST, Conclusion::Hold),
        ("hold", hold, FIRST, Conclusion::Hold),
        ("the last attempt", resend(1), exhausted, Conclusion::Hold),
        ("too late", resend(1), expiring, Conclusion::Hold),
    ];
    for (case, policy, budget, expected) in cases {
        assert_eq!(settle_unknown(&budget, &policy, 0.0), expected, "{case}");
        let decision = concluded(&waiting(1), &[reply_lost()], &policy, &budget);
        assert_eq!(decision.conclusion, expected, "{case}");
        assert_eq!(decision.outcome, Outcome::Unknown, "{case}");
        assert_eq!(decision.error_class.as_deref(), Some("reply_lost"));
        assert_eq!(
            decision.error.as_deref(),
            Some("no answer in time (at dot)")
        );
    }
}

#[test]
fn one_uncertain_recipient_makes_the_attempt_uncertain_but_spoils_no_other_verdict() {
    let results = [
        says("550 5.1.1 No such user"),
        says("450 Busy"),
        reply_lost(),
    ];
    let decision = first_attempt(&waiting(3), &results);
    assert_eq!(decision.conclusion, resend_in(minutes(1)));
    assert_eq!(decision.outcome, Outcome::Unknown);
    assert_eq!(statuses(&decision), [Dead, Waiting, Waiting]);
}

#[test]
fn a_resend_of_an_uncertain_email_is_not_earlier_than_the_floor_of_a_deferred_recipient() {
    let results = [says("450 Try again in 20 minutes"), reply_lost()];
    let decision = first_attempt(&waiting(2), &results);
    assert_eq!(decision.conclusion, resend_in(minutes(20)));

    let expiring = Budget {
        expires_in: Some(minutes(10)),
        ..FIRST
    };
    let decision = concluded(&waiting(2), &results, &RetryPolicy::email(), &expiring);
    assert_eq!(decision.conclusion, Conclusion::Hold);
}

#[test]
fn a_recipient_of_whom_the_transport_says_nothing_is_not_taken_for_accepted() {
    for results in [vec![], vec![says("250 OK")]] {
        let decision = first_attempt(&waiting(2), &results);
        assert_eq!(decision.outcome, Outcome::Unknown, "{results:?}");
        assert_eq!(decision.conclusion, resend_in(minutes(1)), "{results:?}");
    }
}

#[test]
fn a_refused_password_kills_the_email_for_the_right_reason() {
    let reply = Reply::new(535, "5.7.8 No");
    let failure = Failure::new(Stage::Authentication, Cause::Reply(reply));
    let results = vec![RecipientResult::Failed(failure); 2];
    let decision = first_attempt(&waiting(2), &results);
    assert_eq!(
        decision.conclusion,
        Conclusion::Dead(DeadReason::AuthenticationFailed)
    );
    assert_eq!(decision.recipients, [], "all died of the same");
}

#[test]
fn the_attempt_that_a_caller_waits_for_is_not_counted_and_then_delays_double() {
    let policy = RetryPolicy::outbox();
    let busy = says("450 4.2.0 Busy");
    let mut state = State::accepted_inline(Timestamp::UNIX_EPOCH, None);
    let mut delays = Vec::new();
    loop {
        state.attempt_number += 1;
        let budget = Budget::of(&state, policy.max_attempts, None);
        let decision = concluded(&waiting(1), std::slice::from_ref(&busy), &policy, &budget);
        state.attempt_count += u32::from(state.counts_attempt());
        match decision.conclusion {
            Conclusion::Retry { delay, .. } => delays.push(delay.as_secs()),
            end => {
                assert_eq!(end, Conclusion::Dead(DeadReason::MaxAttemptsExceeded));
                break;
            }
        }
    }
    // Seed 004: tries at T + 30, 90, 210, 450 and 930 seconds.
    assert_eq!(delays, [30, 60, 120, 240, 480]);
    assert_eq!(state.attempt_count, 5);
}

#[test]
fn an_uncertain_attempt_that_a_caller_waited_for_is_sent_again_once_and_not_counted() {
    let policy = RetryPolicy::outbox();
    let mut state = State::accepted_inline(Timestamp::UNIX_EPOCH, None);
    state.attempt_number = 1;
    state.unknown_count = 1;
    let budget = Budget::before_unknown(&state, policy.max_attempts, None);
    let thirty = Duration::from_secs(30);
    assert_eq!(settle_unknown(&budget, &policy, 0.0), resend_in(thirty));
}

#[test]
fn an_uncertain_attempt_is_sent_again_after_the_delay_of_its_own_place() {
    let policy = RetryPolicy::email();
    let mut state = State::accepted(Timestamp::UNIX_EPOCH, None);
    state.attempt_count = 3;
    state.attempt_number = 3;
    state.unknown_count = 1;
    let budget = Budget::before_unknown(&state, policy.max_attempts, None);
    assert_eq!(
        settle_unknown(&budget, &policy, 0.0),
        resend_in(minutes(15))
    );
}

#[test]
fn a_failed_attempt_says_what_failed_and_where() {
    let decision = first_attempt(&waiting(1), &[says("450 4.2.1 Busy")]);
    let error = decision.error.unwrap();
    assert_eq!(decision.stage, Some(Stage::Recipient));
    assert_eq!(decision.error_class.as_deref(), Some("mailbox_busy"));
    assert_eq!(decision.reply.as_deref(), Some("450 4.2.1 Busy"));
    assert!(error.contains("450 4.2.1 Busy"), "{error}");
    assert_eq!(decision.fingerprint, Some(fingerprint(&error)));
}
