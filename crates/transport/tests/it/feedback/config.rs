//! What a reader is made from: errors name the field, and secrets stay secret.

use posthaste_transport::feedback::{CertificateSource, FeedbackConfig, WebSource, reader};

use crate::feedback::base64;

fn error(config: FeedbackConfig) -> String {
    let shown = format!("{config:?}");
    assert!(!shown.contains("hush"), "{shown}");
    match reader(config) {
        Ok(_) => panic!("{shown} was accepted"),
        Err(error) => {
            let said = format!("{error} {error:?}");
            assert!(!said.contains("hush"), "{said}");
            error.to_string()
        }
    }
}

fn resend(secret: &str) -> FeedbackConfig {
    FeedbackConfig::Resend {
        secret: secret.into(),
    }
}

fn sendgrid(public_key: &str) -> FeedbackConfig {
    FeedbackConfig::SendGrid {
        public_key: public_key.to_owned(),
    }
}

fn postmark(username: &str, password: &str) -> FeedbackConfig {
    FeedbackConfig::Postmark {
        username: username.to_owned(),
        password: password.into(),
        server_id: Some(23),
    }
}

fn mailgun(signing_key: &str, domain: &str) -> FeedbackConfig {
    FeedbackConfig::Mailgun {
        signing_key: signing_key.into(),
        domain: Some(domain.to_owned()),
    }
}

fn ses(topic_arn: &str) -> FeedbackConfig {
    FeedbackConfig::Ses {
        topic_arn: topic_arn.to_owned(),
    }
}

#[test]
fn what_cannot_work_is_refused_by_the_name_of_its_field() {
    let short = format!("whsec_{}", base64(b"short"));
    let not_a_key = base64(b"three words are no key");
    let cases = [
        (resend(""), "`secret` is empty"),
        (resend("whsec_hush!"), "`secret` is not"),
        (resend(&short), "`secret` is not"),
        (sendgrid(" "), "`public_key` is empty"),
        (sendgrid("no base64!"), "`public_key` is not"),
        (sendgrid(&not_a_key), "`public_key` is not"),
        (postmark("", "hush"), "`username` is empty"),
        (postmark("ann:bob", "hush"), "`username` contains a colon"),
        (postmark("ann", ""), "`password` is empty"),
        (mailgun("", "example.org"), "`signing_key` is empty"),
        (mailgun("hush", " "), "`domain` is empty"),
        (ses(""), "`topic_arn` is empty"),
        (
            ses("arn:aws:sqs:eu-west-1:123456789012:mail"),
            "`topic_arn` is not",
        ),
    ];
    for (config, expected) in cases {
        let error = error(config);
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

#[test]
fn secrets_are_not_shown_by_debug() {
    let secret = format!("whsec_{}", base64(b"hush hush hush hush hush"));
    for config in [
        resend(&secret),
        postmark("ann", "hush-hush"),
        mailgun("hush-key", "example.org"),
    ] {
        let shown = format!("{config:?} {config:#?}");
        assert!(!shown.contains("hush"), "{shown}");
        assert!(
            !shown.contains(&base64(b"hush hush hush hush hush")),
            "{shown}"
        );
        assert!(reader(config).is_ok());
    }
}

#[test]
fn a_topic_and_a_key_in_surrounding_blanks_are_taken() {
    assert!(reader(ses(" arn:aws:sns:eu-west-1:123456789012:mail\n")).is_ok());
    let secret = format!(" whsec_{}\n", base64(&[7; 24]));
    assert!(reader(resend(&secret)).is_ok());
}

#[tokio::test]
async fn certificates_are_never_fetched_in_clear() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let source = WebSource::new().unwrap();
    let url = format!("http://127.0.0.1:{port}/key.pem?Token=hush");
    tokio::select! {
        answer = source.get(&url) => {
            let error = answer.unwrap_err();
            assert!(!error.contains("hush"), "{error}");
        }
        _ = listener.accept() => panic!("a connection was made"),
    }
}
