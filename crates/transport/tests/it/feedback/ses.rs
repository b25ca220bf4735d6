//! Amazon SES by way of SNS.

use posthaste_core::feedback::Happening;
use posthaste_core::port::CallbackError;
use serde_json::{Value, json};

use super::sns::{
    AMAZON, CERTIFICATE_URL, STRANGER, TOPIC, Web, confirmation, notification, ses, signed,
    signed_by,
};
use super::{OUR_ID, callback, event, not_believed, not_understood, read, with_body};

const PROVIDER_ID: &str = "EXAMPLE7c191be45-e9aedb9a-02f9-4d12-a87d-dd0099a07f8a-000000";
const CONFIRM: &str = "https://sns.us-east-1.amazonaws.com/?Action=ConfirmSubscription&TopicArn=arn:aws:sns:us-east-1:123456789012:mail-events&Token=2336412f37fb687f5d51e6e2425f";

fn payload(kind: &str, part: &str, content: Value) -> Value {
    json!({
        "eventType": kind,
        part: content,
        "mail": {
            "timestamp": "2026-05-04T11:58:00.012Z",
            "source": "Sender Name <sender@example.com>",
            "sourceArn": "arn:aws:ses:us-east-1:123456789012:identity/sender@example.com",
            "sendingAccountId": "123456789012",
            "messageId": PROVIDER_ID,
            "destination": ["bob@example.org"],
            "headersTruncated": false,
            "tags": {
                "ses:configuration-set": ["ConfigSet"],
                "ses:caller-identity": ["ses_user"],
                "posthaste_id": [OUR_ID],
            },
        },
    })
}

fn delivery() -> Value {
    let content = json!({
        "timestamp": "2026-05-04T11:59:00.000Z",
        "processingTimeMillis": 5391,
        "recipients": ["bob@example.org"],
        "smtpResponse": "250 2.6.0 Message received",
        "reportingMTA": "mta.example.com",
    });
    payload("Delivery", "delivery", content)
}

fn bounce(kind: &str) -> Value {
    let content = json!({
        "bounceType": kind,
        "bounceSubType": "General",
        "bouncedRecipients": [
            {
                "emailAddress": "bob@example.org",
                "action": "failed",
                "status": "5.1.1",
                "diagnosticCode": "smtp; 550 5.1.1 user unknown",
            },
            { "emailAddress": "eve@example.org" },
            { "emailAddress": "not an address" },
        ],
        "timestamp": "2026-05-04T11:59:02.669Z",
        "feedbackId": "01000157c44f053b-61b59c11-9236-11e6-8f96-7be8aexample-000000",
        "reportingMTA": "dsn; mta.example.com",
    });
    payload("Bounce", "bounce", content)
}

fn complaint(kind: &str) -> Value {
    let content = json!({
        "complainedRecipients": [{ "emailAddress": "bob@example.org" }],
        "timestamp": "2026-05-04T11:59:02.669Z",
        "feedbackId": "01000157c44f053b-61b59c11-9236-11e6-8f96-7be8aexample-000000",
        "complaintFeedbackType": kind,
    });
    payload("Complaint", "complaint", content)
}

fn version(mut envelope: Value, version: &str) -> Value {
    envelope["SignatureVersion"] = json!(version);
    envelope
}

#[tokio::test]
async fn delivered_bounced_and_complained_are_read_in_both_versions_of_signatures() {
    let about = |happening, recipient, words| event(happening, PROVIDER_ID, recipient, words);
    let response = "250 2.6.0 Message received";
    let unknown = "smtp; 550 5.1.1 user unknown";
    let cases = [
        (
            delivery(),
            vec![about(Happening::Delivered, "bob@example.org", response)],
        ),
        (
            bounce("Permanent"),
            vec![
                about(Happening::Bounced, "bob@example.org", unknown),
                about(Happening::Bounced, "eve@example.org", "General"),
            ],
        ),
        (
            complaint("abuse"),
            vec![about(Happening::Complained, "bob@example.org", "abuse")],
        ),
    ];
    let web = Web::with_certificate();
    let reader = ses(&web);
    for (body, expected) in cases {
        for signature in ["1", "2"] {
            let envelope = version(notification(&body.to_string()), signature);
            assert_eq!(read(&*reader, &signed(envelope)).await, expected, "{body}");
        }
    }
    assert_eq!(
        web.asked(),
        [CERTIFICATE_URL],
        "one certificate, fetched once"
    );
}

#[tokio::test]
async fn notifications_of_an_identity_have_another_name_and_no_tags() {
    let mut body = bounce("Permanent");
    let fields = body.as_object_mut().unwrap();
    let kind = fields.remove("eventType").unwrap();
    fields.insert("notificationType".to_owned(), kind);
    fields["mail"].as_object_mut().unwrap().remove("tags");
    let events = read(
        &*ses(&Web::with_certificate()),
        &signed(notification(&body.to_string())),
    )
    .await;
    assert_eq!(events.len(), 2);
    assert_eq!(events[0].provider_id, PROVIDER_ID);
    assert_eq!(events[0].email_id, None);
}

#[tokio::test]
async fn what_does_not_decide_is_left_out() {
    let reader = ses(&Web::with_certificate());
    for body in [
        bounce("Transient").to_string(),
        bounce("Undetermined").to_string(),
        complaint("not-spam").to_string(),
        complaint("auth-failure").to_string(),
        payload("Open", "open", json!({})).to_string(),
        payload("DeliveryDelay", "deliveryDelay", json!({})).to_string(),
        payload("InventedTomorrow", "tomorrow", json!({})).to_string(),
        json!({ "hello": "world" }).to_string(),
        "Successfully validated SNS topic for Amazon SES event publishing.".to_owned(),
    ] {
        assert_eq!(
            read(&*reader, &signed(notification(&body))).await,
            [],
            "{body}"
        );
    }
}

#[tokio::test]
async fn a_message_without_a_subject_is_signed_without_one() {
    let mut envelope = notification(&delivery().to_string());
    envelope.as_object_mut().unwrap().remove("Subject");
    let reader = ses(&Web::with_certificate());
    assert_eq!(read(&*reader, &signed(envelope.clone())).await.len(), 1);
    envelope["Subject"] = Value::Null;
    assert_eq!(read(&*reader, &signed(envelope)).await.len(), 1);
}

#[tokio::test]
async fn a_signature_is_good_for_its_own_message_only() {
    let reader = ses(&Web::with_certificate());
    for signature in ["1", "2"] {
        let genuine = signed(version(notification(&delivery().to_string()), signature));
        let envelope: Value = serde_json::from_slice(&genuine.body).unwrap();
        assert_eq!(read(&*reader, &genuine).await.len(), 1);
        for (field, value) in [
            ("Message", bounce("Permanent").to_string()),
            ("MessageId", "another".to_owned()),
            ("Subject", "another".to_owned()),
            ("Timestamp", "2026-05-04T11:59:59.000Z".to_owned()),
            ("Signature", "c2lnbmF0dXJl".to_owned()),
            (
                "SignatureVersion",
                if signature == "1" { "2" } else { "1" }.to_owned(),
            ),
        ] {
            let mut altered = envelope.clone();
            altered[field] = json!(value);
            let altered = with_body(&genuine, &altered.to_string());
            not_believed(&*reader, &altered, "does not fit").await;
        }
        for field in [
            "Signature",
            "SignatureVersion",
            "MessageId",
            "Timestamp",
            "SigningCertURL",
        ] {
            let mut without = envelope.clone();
            without.as_object_mut().unwrap().remove(field);
            not_believed(&*reader, &with_body(&genuine, &without.to_string()), "").await;
        }
        let mut newer = envelope.clone();
        newer["SignatureVersion"] = json!("3");
        not_believed(
            &*reader,
            &with_body(&genuine, &newer.to_string()),
            "version",
        )
        .await;
    }
}

#[tokio::test]
async fn a_notification_does_not_pass_for_a_confirmation() {
    // All that is signed of a notification, under the name of the other type.
    let genuine = signed(notification(&delivery().to_string()));
    let mut envelope: Value = serde_json::from_slice(&genuine.body).unwrap();
    envelope["Type"] = json!("SubscriptionConfirmation");
    envelope["SubscribeURL"] = json!(CONFIRM);
    envelope["Token"] = json!("token");
    let web = Web::with_certificate();
    not_believed(
        &*ses(&web),
        &with_body(&genuine, &envelope.to_string()),
        "does not fit",
    )
    .await;
    assert_eq!(web.asked(), [CERTIFICATE_URL]);
}

#[tokio::test]
async fn another_key_is_not_believed() {
    let reader = ses(&Web::with_certificate());
    for signature in ["1", "2"] {
        let envelope = version(notification(&delivery().to_string()), signature);
        not_believed(&*reader, &signed_by(&STRANGER, envelope), "does not fit").await;
    }
}

#[tokio::test]
async fn another_topic_is_not_believed_and_nothing_is_fetched_for_it() {
    let web = Web::with_certificate();
    for topic in [
        "arn:aws:sns:us-east-1:210987654321:mail-events",
        "arn:aws:sns:us-east-1:123456789012:mail-events2",
        "arn:aws:sns:eu-west-1:123456789012:mail-events",
        "",
    ] {
        let mut envelope = notification(&delivery().to_string());
        envelope["TopicArn"] = json!(topic);
        not_believed(&*ses(&web), &signed(envelope), "check `topic_arn`").await;
    }
    assert_eq!(web.asked(), [""; 0]);
}

#[tokio::test]
async fn an_hour_is_not_too_old_but_more_is() {
    let web = Web::with_certificate();
    let reader = ses(&web);
    let at = |time: &str| {
        let mut envelope = notification(&delivery().to_string());
        envelope["Timestamp"] = json!(time);
        signed(envelope)
    };
    for time in ["2026-05-04T11:00:00.000Z", "2026-05-04T13:00:00.000Z"] {
        assert_eq!(read(&*reader, &at(time)).await.len(), 1, "{time}");
    }
    not_believed(&*reader, &at("2026-05-04T10:59:59.000Z"), "too long ago").await;
    not_believed(&*reader, &at("2026-05-04T13:00:01.000Z"), "in the future").await;
    not_believed(&*reader, &at("yesterday"), "no time").await;
}

#[tokio::test]
async fn certificates_come_from_amazon_only() {
    let host = "https://sns.us-east-1.amazonaws.com";
    let evil = [
        "https://sns.us-east-1.amazonaws.com.evil.example/key.pem".to_owned(),
        "http://sns.us-east-1.amazonaws.com/key.pem".to_owned(),
        "https://sns.us-east-1.amazonaws.com@evil.example/key.pem".to_owned(),
        "https://user@sns.us-east-1.amazonaws.com/key.pem".to_owned(),
        "https://evil.example/sns.us-east-1.amazonaws.com/key.pem".to_owned(),
        "https://evil.example#https://sns.us-east-1.amazonaws.com/key.pem".to_owned(),
        "https://evil.example\\@sns.us-east-1.amazonaws.com/key.pem".to_owned(),
        "https://sns.us-east-1.amazonaws.com\\.evil.example/key.pem".to_owned(),
        "https://sns.eu-west-1.amazonaws.com/key.pem".to_owned(),
        "https://sns.us-east-1.amazonaws.com.cn/key.pem".to_owned(),
        "https://s3.us-east-1.amazonaws.com/bucket/key.pem".to_owned(),
        "https://snsxus-east-1.amazonaws.com/key.pem".to_owned(),
        "https://SNS.us-east-1.amazonaws.com/key.pem".to_owned(),
        "//sns.us-east-1.amazonaws.com/key.pem".to_owned(),
        "file:///etc/key.pem".to_owned(),
        format!("{host}:8443/key.pem"),
        format!("{host}/key.txt"),
        format!("{host}/.pem"),
        format!("{host}/folder/key.pem"),
        format!("{host}/../key.pem"),
        format!("{host}/?Action=GetTopicAttributes&x=key.pem"),
        format!("{host}/key.pem?x"),
        format!("{host}/key.txt#.pem"),
        format!("{host}/%2e%2e/key.pem"),
        format!("{host}/key\n.pem"),
        format!(" {host}/key.pem"),
        String::new(),
    ];
    let web = Web::with_certificate();
    for url in evil {
        // Even if the certificate were there, and everything signed with it.
        web.put(&url, STRANGER.pem.as_bytes());
        let mut envelope = notification(&bounce("Permanent").to_string());
        envelope["SigningCertURL"] = json!(url);
        not_believed(
            &*ses(&web),
            &signed_by(&STRANGER, envelope),
            "`SigningCertURL`",
        )
        .await;
    }
    assert_eq!(web.asked(), [""; 0], "nothing was fetched");
}

#[tokio::test]
async fn a_topic_in_china_has_its_certificates_there() {
    let (topic, url) = (
        "arn:aws-cn:sns:cn-north-1:123456789012:mail-events",
        "https://sns.cn-north-1.amazonaws.com.cn/SimpleNotificationService-1.pem",
    );
    let web = Web::with_certificate();
    web.put(url, AMAZON.pem.as_bytes());
    let config = posthaste_transport::feedback::FeedbackConfig::Ses {
        topic_arn: topic.to_owned(),
    };
    let reader = posthaste_transport::feedback::reader_with(config, web.clone()).unwrap();
    let mut envelope = notification(&delivery().to_string());
    envelope["TopicArn"] = json!(topic);
    envelope["SigningCertURL"] = json!(url);
    assert_eq!(read(&*reader, &signed(envelope)).await.len(), 1);
}

#[tokio::test]
async fn a_certificate_that_cannot_be_had_is_asked_for_again() {
    let web = std::sync::Arc::new(Web::default());
    let reader = ses(&web);
    let callback = signed(notification(&delivery().to_string()));
    let later = |result| match result {
        Err(CallbackError::TryLater(said)) => said,
        other => panic!("{other:?}"),
    };
    assert!(later(reader.read(&callback).await).contains("404"));
    web.put(CERTIFICATE_URL, b"no certificate");
    assert!(later(reader.read(&callback).await).contains("not an RSA certificate"));
    let elliptic =
        rcgen::generate_simple_self_signed(vec!["sns.amazonaws.com".to_owned()]).unwrap();
    web.put(CERTIFICATE_URL, elliptic.cert.pem().as_bytes());
    assert!(later(reader.read(&callback).await).contains("not an RSA certificate"));
    web.put(CERTIFICATE_URL, AMAZON.pem.as_bytes());
    assert_eq!(read(&*reader, &callback).await.len(), 1);
    assert_eq!(read(&*reader, &callback).await.len(), 1);
    assert_eq!(web.asked(), [CERTIFICATE_URL; 4]);
}

#[tokio::test]
async fn many_at_once_fetch_the_certificate_once() {
    let web = Web::with_certificate();
    let reader = ses(&web);
    let callback = signed(notification(&delivery().to_string()));
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            let (reader, callback) = (reader.clone(), callback.clone());
            tokio::spawn(async move { reader.read(&callback).await })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap().unwrap().len(), 1);
    }
    assert_eq!(web.asked(), [CERTIFICATE_URL]);
}

#[tokio::test]
async fn a_subscription_is_confirmed_once_it_is_believed() {
    for signature in ["1", "2"] {
        let web = Web::with_certificate();
        web.put(CONFIRM, b"<ConfirmSubscriptionResponse/>");
        let genuine = signed(version(confirmation(CONFIRM), signature));
        assert_eq!(read(&*ses(&web), &genuine).await, []);
        assert_eq!(web.asked(), [CERTIFICATE_URL, CONFIRM]);
    }
}

#[tokio::test]
async fn a_strangers_subscription_is_never_confirmed() {
    let web = Web::with_certificate();
    web.put(CONFIRM, b"<ConfirmSubscriptionResponse/>");
    let forged = signed_by(&STRANGER, confirmation(CONFIRM));
    not_believed(&*ses(&web), &forged, "does not fit").await;
    let mut of_another = confirmation(CONFIRM);
    of_another["TopicArn"] = json!("arn:aws:sns:us-east-1:210987654321:mail-events");
    not_believed(&*ses(&web), &signed(of_another), "check `topic_arn`").await;
    assert_eq!(web.asked(), [CERTIFICATE_URL]);
}

#[tokio::test]
async fn a_confirmation_goes_to_amazon_only() {
    let web = Web::with_certificate();
    let reader = ses(&web);
    for url in [
        "https://sns.us-east-1.amazonaws.com.evil.example/?Action=ConfirmSubscription&Token=1",
        "http://sns.us-east-1.amazonaws.com/?Action=ConfirmSubscription&Token=1",
        "https://sns.us-east-1.amazonaws.com@evil.example/?Action=ConfirmSubscription&Token=1",
        "https://sns.us-east-1.amazonaws.com/?Action=DeleteTopic&Token=1",
        "https://sns.us-east-1.amazonaws.com/other?Action=ConfirmSubscription&Token=1",
        "https://sns.us-east-1.amazonaws.com/?Action=ConfirmSubscription&Token=1\r\nX: y",
    ] {
        web.put(url, b"yes");
        let genuine = signed(confirmation(url));
        not_believed(&*reader, &genuine, "`SubscribeURL`").await;
    }
    assert_eq!(web.asked(), [CERTIFICATE_URL]);
}

#[tokio::test]
async fn a_confirmation_that_fails_is_tried_later() {
    let web = Web::with_certificate();
    let result = ses(&web).read(&signed(confirmation(CONFIRM))).await;
    let Err(CallbackError::TryLater(said)) = result else {
        panic!("{result:?}");
    };
    assert!(said.contains("404"), "{said}");
    assert!(
        !said.contains("2336412f37fb"),
        "the token is a secret: {said}"
    );
}

#[tokio::test]
async fn the_end_of_a_subscription_is_not_undone() {
    let mut envelope = confirmation(CONFIRM);
    envelope["Type"] = json!("UnsubscribeConfirmation");
    let web = Web::with_certificate();
    assert_eq!(read(&*ses(&web), &signed(envelope)).await, []);
    assert_eq!(web.asked(), [CERTIFICATE_URL]);
}

#[tokio::test]
async fn nonsense_is_not_understood() {
    let reader = ses(&Web::with_certificate());
    not_understood(&*reader, &callback(&[], "{\"Type\":"), "not JSON").await;
    not_believed(&*reader, &callback(&[], "[]"), "check `topic_arn`").await;
    let unsigned = json!({ "TopicArn": TOPIC, "Timestamp": "2026-05-04T11:59:58Z" });
    not_believed(&*reader, &callback(&[], &unsigned.to_string()), "version").await;
    let mut nameless = delivery();
    nameless["mail"]
        .as_object_mut()
        .unwrap()
        .remove("messageId");
    let nameless = signed(notification(&nameless.to_string()));
    not_understood(&*reader, &nameless, "/mail/messageId").await;
}
