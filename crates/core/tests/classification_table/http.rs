//! Answers of providers' APIs: CLASSIFICATION.md's section on them, and every rule of the table.

use std::collections::BTreeSet;
use std::time::Duration;

use posthaste_core::answer::{Answer, Provider};
use posthaste_core::attempt::{Cause, Failure, Stage};
use posthaste_core::classification::{
    Certainty, Classifier, Fault, HTTP_RULES, Reach, RuleOverride, Verdict,
};
use posthaste_core::status::{DeadReason, Outcome};

use super::{check_sense, rule_override};

use DeadReason::{AuthenticationFailed, HardBounce, InvalidRecipient, MessageRejected};
use Fault::{Message, OurConfig, Recipient};
use Provider::Http;

/// What becomes of an email after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// The way out is in trouble.
    Transient,
    /// It is dead, for this reason.
    Permanent(Fault, DeadReason),
    /// Nobody knows.
    Unknown,
}

use Expected::{Permanent, Transient, Unknown};

const REJECTED: Expected = Permanent(Message, MessageRejected);
const INVALID: Expected = Permanent(Recipient, InvalidRecipient);
const BOUNCED: Expected = Permanent(Recipient, HardBounce);
const CONFIG: Expected = Permanent(OurConfig, AuthenticationFailed);

/// One answer, the rule that decides, and what it concludes.
struct Case {
    failure: Failure,
    rule: &'static str,
    expected: Expected,
}

/// Errors by the providers' own names and words, as they document them: whose, the status, the
/// name, the rule, what it concludes, the words. The status alone would often say something else.
const NAMED: &str = "
resend   429 daily_quota_exceeded               provider_paused       transient
resend   429 monthly_quota_exceeded             provider_paused       transient
resend   429 rate_limit_exceeded                rate_limited          transient
resend   409 concurrent_idempotent_requests     request_in_progress   transient
resend   401 missing_api_key                    authentication_failed config
resend   401 restricted_api_key                 authentication_failed config
resend   403 invalid_api_key                    authentication_failed config
resend   422 invalid_from_address               sender_refused        config
resend   422 invalid_access                     authentication_failed config
resend   404 not_found                          authentication_failed config
resend   405 method_not_allowed                 authentication_failed config
resend   409 invalid_idempotent_request         key_already_used      unknown
resend   400 invalid_idempotency_key            rejected              rejected
resend   422 invalid_attachment                 rejected              rejected
resend   451 security_error                     rejected              rejected
resend   422 validation_error                   invalid_recipient     invalid   Invalid `to` field.
resend   422 validation_error                   invalid_recipient     invalid   Invalid `cc` field.
resend   422 validation_error                   invalid_recipient     invalid   Invalid `bcc` field.
resend   422 validation_error                   rejected              rejected  Invalid `headers` field.
resend   403 validation_error                   sender_refused        config    The example.org domain is not verified.
resend   422 missing_required_field             rejected              rejected
resend   500 application_error                  provider_error        transient
sendgrid 401 -                                  provider_paused       transient Maximum credits exceeded
sendgrid 403 -                                  provider_paused       transient Your account is temporarily suspended
sendgrid 400 -                                  rejected              rejected  from.email: The from email does not contain a valid address.
sendgrid 400 -                                  rejected              rejected  reply_to.email: The reply_to email does not contain a valid address.
sendgrid 400 -                                  invalid_recipient     invalid   personalizations.0.to.0.email: Does not contain a valid address.
sendgrid 403 -                                  sender_refused        config    from: The from address does not match a verified Sender Identity.
sendgrid 401 -                                  authentication_failed config    The provided authorization grant is invalid
postmark 503 100                                provider_paused       transient
postmark 422 405                                provider_paused       transient
postmark 422 412                                provider_paused       transient
postmark 422 413                                provider_paused       transient
postmark 429 429                                rate_limited          transient
postmark 422 10                                 authentication_failed config
postmark 422 400                                sender_refused        config
postmark 422 401                                sender_refused        config
postmark 422 1235                               authentication_failed config
postmark 422 1236                               authentication_failed config
postmark 422 406                                recipient_inactive    bounced
postmark 422 300                                invalid_recipient     invalid   Error parsing 'To': Illegal email address 'x'.
postmark 422 300                                invalid_recipient     invalid   Invalid 'Bcc' address: 'x'.
postmark 422 300                                rejected              rejected  Invalid 'From' address: 'x'.
postmark 422 402                                rejected              rejected
postmark 422 403                                rejected              rejected
postmark 422 409                                rejected              rejected
postmark 422 411                                rejected              rejected
mailgun  403 -                                  provider_paused       transient Domain example.org is not allowed to send: recipient limit exceeded
mailgun  403 -                                  provider_paused       transient Account is temporarily disabled
mailgun  400 -                                  invalid_recipient     invalid   'to' parameter is not a valid address. please check documentation
mailgun  400 -                                  recipient_inactive    bounced   The address is on the suppression list
mailgun  401 -                                  authentication_failed config    Forbidden
ses      400 AccountSuspendedException          provider_paused       transient
ses      400 SendingPausedException             provider_paused       transient
ses      400 LimitExceededException             provider_paused       transient
ses      429 TooManyRequestsException           rate_limited          transient
ses      400 ThrottlingException                rate_limited          transient
ses      400 RequestExpired                     request_expired       transient
ses      403 InvalidSignatureException          request_expired       transient Signature expired: 1 is now earlier than 2
ses      403 InvalidSignatureException          request_expired       transient Signature not yet current: 2
ses      403 InvalidSignatureException          authentication_failed config    The request signature we calculated does not match
ses      400 MailFromDomainNotVerifiedException sender_refused        config
ses      403 UnrecognizedClientException        authentication_failed config
ses      404 NotFoundException                  authentication_failed config
ses      400 IncompleteSignature                authentication_failed config
ses      400 MessageRejected                    sender_refused        config    Email address is not verified.
ses      400 BadRequestException                invalid_recipient     invalid   Missing final '@domain'
ses      400 MessageRejected                    rejected              rejected
ses      400 BadRequestException                rejected              rejected
";

/// What a status means where no name says more.
const STATUSES: &[(&[u16], &str, Expected)] = &[
    (&[429], "rate_limited", Transient),
    (&[408, 504], "provider_timeout", Transient),
    (&[409, 423, 425], "request_in_progress", Transient),
    (
        &[401, 402, 403, 404, 405, 407],
        "authentication_failed",
        CONFIG,
    ),
    (&[413], "message_too_large", REJECTED),
    (&[400, 406, 410, 415, 422, 451, 499], "rejected", REJECTED),
    (&[500, 501, 502, 503, 507, 599], "provider_error", Transient),
    (
        &[0, 100, 200, 204, 301, 304, 307, 600, 999],
        "out_of_order",
        Unknown,
    ),
];

/// The table's lines.
fn named() -> Vec<Case> {
    let case = |line: &'static str| {
        let mut words = line.split_whitespace();
        let mut word = || words.next().unwrap();
        let (provider, status, name, rule, expected) = (word(), word(), word(), word(), word());
        let text: Vec<&str> = words.collect();
        let provider = provider.parse().unwrap();
        let name = Some(name).filter(|name| *name != "-");
        Case {
            failure: failure(provider, status.parse().unwrap(), name, &text.join(" ")),
            rule,
            expected: match expected {
                "transient" => Transient,
                "unknown" => Unknown,
                "config" => CONFIG,
                "invalid" => INVALID,
                "bounced" => BOUNCED,
                "rejected" => REJECTED,
                other => panic!("{other}"),
            },
        }
    };
    NAMED.trim().lines().map(case).collect()
}

fn failure(provider: Provider, status: u16, name: Option<&str>, text: &str) -> Failure {
    let answer = Answer::new(provider, status, name, text);
    Failure::new(Stage::Request, Cause::Answer(answer))
}

fn check(failure: &Failure, rule: &str, expected: Expected) -> Verdict {
    let verdict = Classifier::default().classify(failure);
    let context = format!("{failure:?} gave {verdict:?}");
    let found = match (verdict.outcome, verdict.dead_reason) {
        (Outcome::Transient, None) => {
            assert_eq!(verdict.fault, Fault::Provider, "{context}");
            Transient
        }
        (Outcome::Permanent, Some(reason)) => Permanent(verdict.fault, reason),
        (Outcome::Unknown, None) => Unknown,
        other => panic!("{other:?}: {context}"),
    };
    assert_eq!(
        (verdict.rule.as_str(), found),
        (rule, expected),
        "{context}"
    );
    check_sense(failure, &verdict);
    verdict
}

#[test]
fn every_documented_answer_has_its_verdict() {
    for case in named() {
        check(&case.failure, case.rule, case.expected);
    }
    for (statuses, rule, expected) in STATUSES {
        for provider in Provider::ALL {
            for status in *statuses {
                check(&failure(*provider, *status, None, "what"), rule, *expected);
            }
        }
    }
}

#[test]
fn no_rule_for_answers_is_dead() {
    let named = named().into_iter().map(|case| case.failure);
    let statuses = STATUSES.iter().flat_map(|(statuses, ..)| *statuses);
    let by_status = statuses.map(|status| failure(Http, *status, None, ""));
    // An answer that came before anything was asked is out of order too, and certain.
    let early = Failure {
        stage: Stage::Connect,
        ..failure(Http, 200, None, "")
    };
    let failures = named.chain(by_status).chain([early]);
    let hit: BTreeSet<usize> = failures
        .map(|failure| {
            let rule = |rule: &posthaste_core::classification::Rule| rule.matches(&failure);
            HTTP_RULES.iter().position(rule).unwrap()
        })
        .collect();
    for (index, rule) in HTTP_RULES.iter().enumerate() {
        assert!(hit.contains(&index), "rule {index}, {}", rule.name);
    }
}

#[test]
fn every_status_of_every_provider_has_a_verdict() {
    let classifier = Classifier::default();
    for provider in Provider::ALL {
        for status in 0..=1000 {
            let failure = failure(*provider, status, None, "what");
            let verdict = classifier.classify(&failure);
            check_sense(&failure, &verdict);
            let is_no = (400..=599).contains(&status) && !matches!(status, 408 | 504);
            assert_eq!(verdict.certainty == Certainty::NotSent, is_no, "{status}");
        }
    }
}

#[test]
fn one_provider_s_names_and_words_mean_nothing_in_another_s_answer() {
    for case in named() {
        let answer = case.failure.answer().unwrap();
        // Words that two of them use.
        let is_shared = ["not contain a valid", "temporarily"]
            .iter()
            .any(|words| answer.text.contains(words));
        let others = Provider::ALL
            .iter()
            .filter(|other| **other != answer.provider && !is_shared);
        for other in others {
            let other = failure(*other, 418, answer.name.as_deref(), &answer.text);
            check(&other, "rejected", REJECTED);
        }
    }
}

#[test]
fn the_time_a_provider_asks_for_is_a_floor_of_at_most_a_day() {
    let cases = [
        (429, 90, Some(90)),
        (503, 90, Some(90)),
        (503, 1_000_000, Some(24 * 3600)),
        (400, 90, None),
        (307, 90, None),
    ];
    for (status, asked, floor) in cases {
        let answer = Answer::new(Http, status, None, "").after(Some(Duration::from_secs(asked)));
        let failure = Failure::new(Stage::Request, Cause::Answer(answer));
        let verdict = Classifier::default().classify(&failure);
        assert_eq!(verdict.floor, floor.map(Duration::from_secs), "{status}");
        assert_eq!(verdict.asks_for_less, status == 429);
    }
}

#[test]
fn a_provider_s_trouble_and_a_wrong_key_reach_every_email_of_the_transport() {
    for Case {
        failure,
        rule,
        expected,
    } in named()
    {
        let reach = Classifier::default().classify(&failure).reach();
        // A sender address that is refused is one application's, not everyone's.
        let reaches_all = matches!(expected, Transient | Unknown)
            || expected == CONFIG && rule != "sender_refused";
        assert_eq!(reach == Reach::Transport, reaches_all, "{failure:?}");
        assert_eq!(reach == Reach::Email, !reaches_all, "{failure:?}");
    }
}

#[test]
fn an_override_can_name_a_provider_s_error() {
    let classifier = Classifier::new(vec![RuleOverride {
        error: Some("over_quota".into()),
        code: Some(402),
        ..rule_override("quota", true)
    }]);
    let rule = |status, name| classifier.classify(&failure(Http, status, name, "")).rule;
    assert_eq!(rule(402, Some("over_quota")), "quota");
    assert_eq!(rule(402, Some("other")), "authentication_failed");
    assert_eq!(rule(402, None), "authentication_failed");
    assert_eq!(rule(400, Some("over_quota")), "rejected");
    // Neither yes nor no stays uncertain.
    assert_eq!(rule(302, Some("over_quota")), "out_of_order");
}
