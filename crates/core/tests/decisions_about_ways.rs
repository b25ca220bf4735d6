//! What an attempt says about more than its email, and what is kept of those who were reached.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use posthaste_core::address::Address;
use posthaste_core::answer::{Answer, Provider};
use posthaste_core::attempt::{Cause, Failure, Stage};
use posthaste_core::classification::{Classifier, Reach};
use posthaste_core::decision::{
    Budget, Conclusion, Decision, Parking, Receipt, RecipientResult, decide,
};
use posthaste_core::email::{Recipient, RecipientStatus};
use posthaste_core::reply::Reply;
use posthaste_core::retry_policy::RetryPolicy;
use posthaste_core::status::{DeadReason, Outcome};

use RecipientStatus::{Accepted, Dead, Waiting};

/// The first attempt of an email under a policy of eight.
const FIRST: Budget = Budget {
    attempt_count: 0,
    is_counted: true,
    inline: false,
    max_attempts: 8,
    unknown_count: 0,
    expires_in: None,
};

fn waiting(count: usize) -> Vec<Recipient> {
    let names = ["ann", "bob", "cleo"];
    let address = |name: &&str| Address::parse(&format!("{name}@example.org")).unwrap();
    names[..count]
        .iter()
        .map(|name| Recipient::waiting(address(name)))
        .collect()
}

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

fn concluded(before: &[Recipient], results: &[RecipientResult], budget: &Budget) -> Decision {
    let policy = RetryPolicy::email();
    decide(
        before,
        results,
        &Classifier::default(),
        &policy,
        budget,
        0.0,
    )
}

fn first_attempt(before: &[Recipient], results: &[RecipientResult]) -> Decision {
    concluded(before, results, &FIRST)
}

fn statuses(decision: &Decision) -> Vec<RecipientStatus> {
    decision.recipients.iter().map(|r| r.status).collect()
}

fn reasons(decision: &Decision) -> Vec<Option<DeadReason>> {
    decision.recipients.iter().map(|r| r.reason).collect()
}

fn parking() -> Parking {
    Parking {
        waiting_for: "primary".into(),
        floor: Duration::from_secs(7),
        waits_until: None,
    }
}

fn refused_connection() -> RecipientResult {
    RecipientResult::Failed(Failure::new(Stage::Connect, Cause::Refused))
}

#[test]
fn a_failure_of_the_way_out_spends_nothing_and_keeps_its_story() {
    let failed = first_attempt(&waiting(1), &[refused_connection()]);
    assert!(failed.is_open() && !failed.is_free);
    let error = failed.error.clone();
    let class = failed.error_class.clone();
    for freed in [
        failed.clone().parked(parking()),
        failed.clone().failed_over(),
    ] {
        assert!(freed.is_free);
        assert_eq!(freed.outcome, Outcome::Transient);
        assert_eq!((&freed.error, &freed.error_class), (&error, &class));
    }
    assert_eq!(
        failed.clone().parked(parking()).conclusion,
        Conclusion::Park(parking())
    );
    assert_eq!(failed.failed_over().conclusion, Conclusion::Elsewhere);
}

#[test]
fn the_failure_that_reaches_furthest_speaks_for_the_way_out() {
    let greylisted = || says("450 4.7.1 Greylisted");
    let closing = || says("421 Closing");
    for (results, reach) in [
        ([greylisted(), closing()], Reach::Domain),
        ([closing(), greylisted()], Reach::Domain),
        ([closing(), refused_connection()], Reach::Transport),
        ([refused_connection(), closing()], Reach::Transport),
    ] {
        let judgement = first_attempt(&waiting(2), &results).judgement.unwrap();
        assert_eq!(judgement.reach, reach, "{results:?}");
    }
}

#[test]
fn a_refused_password_kills_nobody_who_waits_for_the_way_out() {
    let reply = Reply::parse_line("535 5.7.8 Authentication failed").unwrap();
    let refused = RecipientResult::Failed(Failure::new(Stage::Authentication, Cause::Reply(reply)));
    let failed = first_attempt(&waiting(1), &[refused]);
    assert_eq!(failed.outcome, Outcome::Permanent);
    let parked = failed.parked(parking());
    assert_eq!(parked.outcome, Outcome::Transient);
    assert_eq!(parked.conclusion, Conclusion::Park(parking()));
    assert!(statuses(&parked).iter().all(|status| *status == Waiting));
}

#[test]
fn nobody_gets_it_twice_and_nobody_is_forgotten_because_of_a_way_out() {
    let last = Budget {
        attempt_count: 7,
        ..FIRST
    };
    let results = [
        says("250 OK"),
        says("550 5.1.1 No such user"),
        refused_connection(),
    ];
    let failed = concluded(&waiting(3), &results, &last);
    assert_eq!(
        failed.conclusion,
        Conclusion::Dead(DeadReason::MaxAttemptsExceeded)
    );
    assert_eq!(statuses(&failed), [Accepted, Dead, Dead]);
    for freed in [
        failed.clone().parked(parking()),
        failed.clone().failed_over(),
    ] {
        assert_eq!(statuses(&freed), [Accepted, Dead, Waiting]);
        assert_eq!(reasons(&freed), [None, Some(DeadReason::HardBounce), None]);
    }
}

#[test]
fn one_that_may_have_been_sent_is_bound_and_not_open() {
    let lost = first_attempt(&waiting(1), &[reply_lost()]);
    assert!(lost.binds() && !lost.is_open());
    let busy = first_attempt(&waiting(1), &[says("450 Busy")]);
    assert!(!busy.binds() && busy.is_open());
    let refused = first_attempt(&waiting(1), &[says("550 5.1.1 No")]);
    assert!(!refused.binds() && !refused.is_open());
    // Asking again sends no second copy by the same way, but would by another.
    let answer = Cause::AnswerLost("no answer in time".into());
    let answer = RecipientResult::Failed(Failure::new(Stage::Request, answer));
    let asked = first_attempt(&waiting(1), &[answer]);
    assert_eq!(asked.outcome, Outcome::Transient);
    assert!(asked.binds() && !asked.is_open());
}

#[test]
fn what_the_provider_calls_the_message_is_kept_also_beside_a_failure() {
    let taken = || {
        RecipientResult::Accepted(Receipt {
            text: "202 Accepted".into(),
            provider_id: Some("m-1".into()),
        })
    };
    let sent = first_attempt(&waiting(1), &[taken()]);
    assert_eq!(sent.provider_id.as_deref(), Some("m-1"));
    assert_eq!(sent.reply.as_deref(), Some("202 Accepted"));
    let in_part = first_attempt(&waiting(2), &[taken(), says("450 Busy")]);
    assert_eq!(in_part.provider_id.as_deref(), Some("m-1"));
    let plain = first_attempt(&waiting(1), &[says("250 OK")]);
    assert_eq!(plain.provider_id, None);
}

#[test]
fn a_suppressed_recipient_is_dead_for_its_reason_and_spoils_no_other() {
    let suppressed = |reason| {
        let cause = Cause::Suppressed(reason);
        RecipientResult::Failed(Failure::new(Stage::Recipient, cause))
    };
    for reason in [
        DeadReason::HardBounce,
        DeadReason::SpamComplaint,
        DeadReason::Suppressed,
    ] {
        let alone = first_attempt(&waiting(1), &[suppressed(reason)]);
        assert_eq!(alone.conclusion, Conclusion::Dead(reason));
        assert_eq!(alone.outcome, Outcome::Permanent);
    }
    let reason = DeadReason::SpamComplaint;
    let decision = first_attempt(&waiting(2), &[suppressed(reason), says("450 Busy")]);
    assert!(matches!(decision.conclusion, Conclusion::Retry { .. }));
    assert_eq!(statuses(&decision), [Dead, Waiting]);
    assert_eq!(reasons(&decision), [Some(reason), None]);
}

fn gateway_timed_out() -> RecipientResult {
    let answer = Answer::new(Provider::Postmark, 504, None, "Gateway timeout");
    RecipientResult::Failed(Failure::new(Stage::Request, Cause::Answer(answer)))
}

#[test]
fn what_a_gateway_left_open_may_be_sent_twice_and_says_so() {
    let open = first_attempt(&waiting(1), &[gateway_timed_out()]);
    assert_eq!(open.outcome, Outcome::Transient);
    assert!(open.binds() && open.may_double());
    let said = open.reply.as_deref().unwrap_or_default();
    assert!(
        said.contains("504") && said.contains("Gateway timeout"),
        "{said}"
    );
    let marked = |decision: &Decision| {
        matches!(
            decision.conclusion,
            Conclusion::Retry {
                possible_duplicate: true,
                ..
            }
        )
    };
    assert!(marked(&open));
    // A provider that knows our key sends nothing twice.
    let lost = Cause::AnswerLost("no answer in time".into());
    let lost = RecipientResult::Failed(Failure::new(Stage::Request, lost));
    let lost = first_attempt(&waiting(1), &[lost]);
    assert!(!lost.may_double() && !marked(&lost));
    // What was certainly refused hides nothing, whoever comes first.
    for results in [
        [says("450 Busy"), gateway_timed_out()],
        [gateway_timed_out(), says("450 Busy")],
    ] {
        let mixed = first_attempt(&waiting(2), &results);
        assert!(mixed.binds() && mixed.may_double() && marked(&mixed));
    }
}

#[test]
fn who_was_given_up_by_the_fault_of_the_way_waits_again_and_nobody_else() {
    let suppressed = Cause::Suppressed(DeadReason::SpamComplaint);
    let suppressed = RecipientResult::Failed(Failure::new(Stage::Recipient, suppressed));
    let cases = [
        (suppressed, Some(DeadReason::SpamComplaint)),
        (says("550 5.1.1 No such user"), Some(DeadReason::HardBounce)),
    ];
    for (own, reason) in cases {
        let results = [own, says("530 5.7.0 Authentication required")];
        let failed = first_attempt(&waiting(2), &results);
        assert_eq!(statuses(&failed), [Dead, Dead]);
        for freed in [
            failed.clone().parked(parking()),
            failed.clone().failed_over(),
        ] {
            assert_eq!(statuses(&freed), [Dead, Waiting]);
            assert_eq!(reasons(&freed), [reason, None]);
        }
    }
    // Also beside one that is only deferred.
    let results = [says("450 Busy"), says("530 5.7.0 Authentication required")];
    let failed = first_attempt(&waiting(2), &results);
    assert_eq!(statuses(&failed), [Waiting, Dead]);
    assert_eq!(statuses(&failed.failed_over()), [Waiting, Waiting]);
}
