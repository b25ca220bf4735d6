//! Every failure has the verdict that CLASSIFICATION.md gives it, and a verdict that makes sense
//! where the document is silent: through SMTP here, through providers' APIs in `http`.

#![allow(clippy::unwrap_used)]

mod document;
mod http;

use std::collections::BTreeSet;
use std::time::Duration;

use posthaste_core::answer::{Answer, Provider};
use posthaste_core::attempt::{Cause, Failure, Stage};
use posthaste_core::classification::{
    Certainty, Classifier, Fault, RULES, Reach, RuleOverride, Verdict,
};
use posthaste_core::reply::{Enhanced, Reply};
use posthaste_core::status::{DeadReason, Outcome};

use DeadReason::{AuthenticationFailed, HardBounce, MessageRejected};
use Stage::{Banner, Data, FinalDot, MailFrom};
use document::{Blame, Expected, Row, document, silent_causes};

fn failures_of(rows: &[Row]) -> impl Iterator<Item = (&Row, Failure)> {
    rows.iter().flat_map(|row| {
        row.stages.iter().flat_map(move |stage| {
            let failure = move |cause: &Cause| (row, Failure::new(*stage, cause.clone()));
            row.failures.iter().map(failure)
        })
    })
}

fn speaks_about_this_email(fault: Fault) -> bool {
    matches!(
        fault,
        Fault::Recipient | Fault::Message | Fault::Destination
    )
}

/// What holds for every verdict, whatever the rule.
fn check_sense(failure: &Failure, verdict: &Verdict) {
    let context = format!("{failure:?} gave {verdict:?}");
    let is_permanent = verdict.outcome == Outcome::Permanent;
    let is_unknown = verdict.outcome == Outcome::Unknown;
    assert!(
        is_permanent || is_unknown || verdict.outcome == Outcome::Transient,
        "{context}"
    );
    assert_eq!(verdict.dead_reason.is_some(), is_permanent, "{context}");
    // A lost answer is safe to ask for again, but nobody knows it yet; of one that someone on the way
    // did not wait for, nobody knows either.
    let is_lost = match &failure.cause {
        Cause::AnswerLost(_) => true,
        Cause::Answer(answer) => matches!(answer.status, 408 | 504),
        _ => false,
    };
    let certainty = if is_unknown || is_lost {
        Certainty::Unknown
    } else {
        Certainty::NotSent
    };
    assert_eq!(verdict.certainty, certainty, "{context}");
    assert!(
        verdict.floor.is_none() || verdict.outcome == Outcome::Transient,
        "{context}"
    );
    assert!(
        !is_permanent || verdict.fault != Fault::Provider,
        "the way out kills no email: {context}"
    );
    assert_eq!(
        verdict.fault == Fault::OurConfig,
        verdict.dead_reason == Some(AuthenticationFailed),
        "{context}"
    );
    assert!(
        !is_unknown || failure.stage.is_past_gate(),
        "only what is past the gate is uncertain: {context}"
    );
}

#[test]
fn every_row_of_the_document_has_its_verdict() {
    let classifier = Classifier::default();
    let rows = document();
    for (row, failure) in failures_of(&rows) {
        let verdict = classifier.classify(&failure);
        let context = format!("{}: {failure:?} gave {verdict:?}", row.document);
        let (outcome, blame, reason) = match row.expected {
            Expected::Transient(blame) => (Outcome::Transient, blame, None),
            Expected::Permanent(blame, reason) => (Outcome::Permanent, blame, Some(reason)),
            Expected::Unknown => (Outcome::Unknown, Blame::Open, None),
        };
        assert_eq!(verdict.outcome, outcome, "{context}");
        assert_eq!(verdict.dead_reason, reason, "{context}");
        match blame {
            Blame::Only(fault) => assert_eq!(verdict.fault, fault, "{context}"),
            Blame::ThisEmail => assert!(speaks_about_this_email(verdict.fault), "{context}"),
            Blame::Open => {}
        }
        check_sense(&failure, &verdict);
    }
}

#[test]
fn no_rule_is_dead() {
    let rows = document();
    let deciding = |(_, failure): (&Row, Failure)| {
        RULES
            .iter()
            .position(|rule| rule.matches(&failure))
            .unwrap()
    };
    let hit: BTreeSet<usize> = failures_of(&rows).map(deciding).collect();
    for (index, rule) in RULES.iter().enumerate() {
        assert!(hit.contains(&index), "rule {index}, {}", rule.name);
    }
}

#[test]
fn a_failure_without_a_reply_is_uncertain_past_the_gate_and_certain_before_it() {
    let classifier = Classifier::default();
    for stage in Stage::ALL {
        for cause in silent_causes() {
            let failure = Failure::new(*stage, cause);
            let verdict = classifier.classify(&failure);
            check_sense(&failure, &verdict);
            let is_unknown = verdict.outcome == Outcome::Unknown;
            assert_eq!(is_unknown, stage.is_past_gate(), "{failure:?}");
        }
    }
}

#[test]
fn every_code_at_every_stage_has_a_verdict_by_its_first_digit() {
    let classifier = Classifier::default();
    for stage in Stage::ALL {
        for code in 0..=1000 {
            let failure = Failure::new(*stage, Cause::Reply(Reply::new(code, "no")));
            let verdict = classifier.classify(&failure);
            check_sense(&failure, &verdict);
            let is_about_us = matches!(code, 530 | 534 | 535 | 538);
            let expected = match code / 100 {
                4 => Outcome::Transient,
                5 if is_about_us => Outcome::Permanent,
                5 if stage.is_before_recipient() => Outcome::Transient,
                5 if code == 552 && *stage == Stage::Recipient => Outcome::Transient,
                5 => Outcome::Permanent,
                _ if stage.is_past_gate() => Outcome::Unknown,
                _ => Outcome::Transient,
            };
            assert_eq!(verdict.outcome, expected, "{failure:?} gave {verdict:?}");
        }
    }
}

#[test]
fn an_enhanced_code_that_contradicts_the_basic_code_changes_nothing() {
    let classifier = Classifier::default();
    let codes = [
        421, 450, 451, 452, 454, 500, 501, 535, 550, 551, 552, 553, 554,
    ];
    for stage in Stage::ALL {
        for code in codes {
            let plain = Reply::new(code, "no");
            let expected = classifier.classify(&Failure::new(*stage, Cause::Reply(plain.clone())));
            for class in [2, 4, 5] {
                if u16::from(class) == code / 100 {
                    continue;
                }
                for (subject, detail) in (0..=7).flat_map(|s| (0..=30).map(move |d| (s, d))) {
                    let contradicting = Reply {
                        enhanced: Some(Enhanced {
                            class,
                            subject,
                            detail,
                        }),
                        ..plain.clone()
                    };
                    let failure = Failure::new(*stage, Cause::Reply(contradicting));
                    assert_eq!(classifier.classify(&failure), expected, "{failure:?}");
                }
            }
        }
    }
}

#[test]
fn the_time_a_server_asks_for_is_a_floor_only_where_another_attempt_follows() {
    let classifier = Classifier::default();
    let cases = [
        (
            Stage::Recipient,
            "450 4.7.1 Greylisted, try again in 300 seconds",
            Some(300),
        ),
        (FinalDot, "451 Try again in 5 minutes", Some(300)),
        (
            Banner,
            "421 Too many connections, try again in 90 seconds",
            Some(90),
        ),
        (
            MailFrom,
            "550 Quota reached, try again in 1 hour",
            Some(3600),
        ),
        (
            Stage::Recipient,
            "552 5.2.2 Full, try again after 2 hours",
            Some(7200),
        ),
        (
            Stage::Recipient,
            "450 4.7.1 Greylisted, try again later",
            None,
        ),
        (
            Stage::Recipient,
            "550 5.1.1 Gone, try again in 300 seconds",
            None,
        ),
        (FinalDot, "250 Queued, look again in 300 seconds", None),
    ];
    for (stage, line, seconds) in cases {
        let reply = Reply::parse_line(line).unwrap();
        let verdict = classifier.classify(&Failure::new(stage, Cause::Reply(reply)));
        assert_eq!(verdict.floor, seconds.map(Duration::from_secs), "{line}");
    }
}

#[test]
fn only_a_server_that_is_down_stops_the_rest_of_its_domain() {
    let cases = [
        ("421 Service not available", Reach::Domain),
        ("451 4.4.1 No answer from host", Reach::Domain),
        ("451 4.3.0 Busy", Reach::Email),
        ("450 4.7.1 Greylisted", Reach::Email),
        ("452 4.2.2 Mailbox full", Reach::Email),
        ("550 5.1.1 No such user", Reach::Email),
    ];
    for (line, reach) in cases {
        let reply = Reply::parse_line(line).unwrap();
        let failure = Failure::new(Stage::Recipient, Cause::Reply(reply));
        let verdict = Classifier::default().classify(&failure);
        assert_eq!(verdict.reach(), reach, "{line}");
    }
}

fn rule_override(name: &str, retry: bool) -> RuleOverride {
    RuleOverride {
        name: name.into(),
        code: None,
        enhanced: None,
        error: None,
        text: None,
        stage: None,
        retry,
        dead_reason: None,
    }
}

fn verdict_on(classifier: &Classifier, stage: Stage, line: &str) -> Verdict {
    let reply = Reply::parse_line(line).unwrap();
    classifier.classify(&Failure::new(stage, Cause::Reply(reply)))
}

#[test]
fn a_full_mailbox_is_permanent_where_the_configuration_says_so() {
    let line = "552 5.2.2 Full";
    let built_in = verdict_on(&Classifier::default(), Stage::Recipient, line);
    assert_eq!(
        (built_in.rule.as_str(), built_in.outcome),
        ("mailbox_full", Outcome::Transient)
    );

    let configured = Classifier::new(vec![
        RuleOverride {
            enhanced: Some("5.2.2".into()),
            dead_reason: Some(HardBounce),
            ..rule_override("full_is_final", false)
        },
        rule_override("never_asked", true),
    ]);
    let verdict = verdict_on(&configured, Stage::Recipient, line);
    assert_eq!(verdict.rule, "full_is_final");
    assert_eq!(verdict.outcome, Outcome::Permanent);
    assert_eq!(verdict.dead_reason, Some(HardBounce));
    assert!(speaks_about_this_email(verdict.fault));
}

#[test]
fn an_override_applies_only_where_everything_it_names_is_so() {
    let classifier = Classifier::new(vec![RuleOverride {
        code: Some(550),
        enhanced: Some("5.7.1".into()),
        text: Some("rate LIMIT".into()),
        stage: Some(Stage::Recipient),
        ..rule_override("rate_limited", true)
    }]);
    let cases = [
        (
            Stage::Recipient,
            "550 5.7.1 Rate limit, try again in 60 seconds",
            true,
        ),
        (Data, "550 5.7.1 Rate limit", false),
        (Stage::Recipient, "554 5.7.1 Rate limit", false),
        (Stage::Recipient, "550 5.7.2 Rate limit", false),
        (Stage::Recipient, "550 5.7.1 Blocked", false),
    ];
    for (stage, line, applies) in cases {
        let verdict = verdict_on(&classifier, stage, line);
        assert_eq!(verdict.rule == "rate_limited", applies, "{stage} {line}");
        assert_eq!(
            verdict.outcome == Outcome::Transient,
            applies,
            "{stage} {line}"
        );
        assert_eq!(verdict.floor.is_some(), applies, "{stage} {line}");
    }
    let given_up = Classifier::new(vec![rule_override("all", false)]);
    let verdict = verdict_on(&given_up, Data, "451 Busy");
    assert_eq!(verdict.dead_reason, Some(MessageRejected));
}

#[test]
fn no_override_makes_a_lost_reply_certain() {
    for retry in [true, false] {
        let classifier = Classifier::new(vec![
            RuleOverride {
                stage: Some(FinalDot),
                ..rule_override("at_the_dot", retry)
            },
            rule_override("everything", retry),
        ]);
        let codes = [0, 99, 220, 250, 354, 600, 999];
        let replies = codes.map(|code| Cause::Reply(Reply::new(code, "what")));
        let answers = codes.map(|code| Cause::Answer(Answer::new(Provider::Http, code, None, "")));
        let causes = silent_causes().into_iter().chain(replies).chain(answers);
        let stages = [FinalDot, Stage::Request];
        for (cause, stage) in causes.flat_map(|cause| stages.map(|stage| (cause.clone(), stage))) {
            let failure = Failure::new(stage, cause);
            let verdict = classifier.classify(&failure);
            assert_eq!(verdict.outcome, Outcome::Unknown, "{failure:?}");
            assert_eq!(verdict.certainty, Certainty::Unknown, "{failure:?}");
        }
        // The server's own word is another matter.
        let verdict = verdict_on(&classifier, FinalDot, "554 No");
        assert_eq!(verdict.rule, "at_the_dot");
        assert_eq!(verdict.certainty, Certainty::NotSent);
    }
}
