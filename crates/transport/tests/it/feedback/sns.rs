//! A topic of Amazon's: a certificate made here, the envelope signed with either version, and
//! the web that has both the certificate and the confirmation.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use async_trait::async_trait;
use aws_lc_rs::digest;
use num_bigint::BigUint;
use posthaste_core::port::{Callback, FeedbackReader};
use posthaste_transport::feedback::{CertificateSource, FeedbackConfig, reader_with};
use rcgen::{CertificateParams, KeyPair, RsaKeySize, SigningKey};
use serde_json::{Value, json};

use super::{base64, callback};

pub(super) const TOPIC: &str = "arn:aws:sns:us-east-1:123456789012:mail-events";
pub(super) const CERTIFICATE_URL: &str = "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-9c6465fa7f48f5cacd23014631ec1136.pem";

/// A key and its certificate.
pub(super) struct Signer {
    key: KeyPair,
    pub(super) pem: String,
}

/// Amazon, and someone else with a certificate as good as Amazon's.
pub(super) static AMAZON: LazyLock<Signer> = LazyLock::new(Signer::new);
pub(super) static STRANGER: LazyLock<Signer> = LazyLock::new(Signer::new);

impl Signer {
    fn new() -> Self {
        let key = KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_2048).unwrap();
        let params = CertificateParams::new(vec!["sns.amazonaws.com".to_owned()]).unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { key, pem }
    }

    /// Version 1 is SHA-1, with which no library here signs any more: RSA by hand.
    fn sign(&self, version: &str, message: &str) -> Vec<u8> {
        if version != "1" {
            return self.key.sign(message.as_bytes()).unwrap();
        }
        let der = self.key.serialize_der();
        let info = elements(content(&der));
        let numbers = elements(content(info[2]));
        let (modulus, exponent) = (numbers[1], numbers[3]);
        let hash = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, message.as_bytes());
        let mut padded = vec![0x00, 0x01];
        padded.extend([0xff; 256 - 3 - 15 - 20]);
        padded.push(0x00);
        // The DER that says "SHA-1, and these 20 bytes".
        padded.extend([
            0x30, 0x21, 0x30, 0x09, 0x06, 0x05, 0x2b, 0x0e, 0x03, 0x02, 0x1a, 0x05, 0x00, 0x04,
            0x14,
        ]);
        padded.extend(hash.as_ref());
        let number = BigUint::from_bytes_be;
        let signed = number(&padded).modpow(&number(exponent), &number(modulus));
        let bytes = signed.to_bytes_be();
        let mut signature = vec![0; 256 - bytes.len()];
        signature.extend(bytes);
        signature
    }
}

/// The content of a DER element.
fn content(der: &[u8]) -> &[u8] {
    let (start, length) = measure(der);
    &der[start..start + length]
}

/// The contents of the elements in a sequence's content.
fn elements(mut der: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    while !der.is_empty() {
        let (start, length) = measure(der);
        found.push(&der[start..start + length]);
        der = &der[start + length..];
    }
    found
}

/// Where a DER element's content starts, and its length.
fn measure(der: &[u8]) -> (usize, usize) {
    let first = usize::from(der[1]);
    if first < 128 {
        return (2, first);
    }
    let count = first - 128;
    let length = der[2..2 + count]
        .iter()
        .fold(0, |all, byte| all * 256 + usize::from(*byte));
    (2 + count, length)
}

/// A web with these pages, which remembers what was asked of it.
#[derive(Default)]
pub(super) struct Web {
    pages: Mutex<HashMap<String, Vec<u8>>>,
    asked: Mutex<Vec<String>>,
}

impl Web {
    pub(super) fn with_certificate() -> Arc<Self> {
        let web = Self::default();
        web.put(CERTIFICATE_URL, AMAZON.pem.as_bytes());
        Arc::new(web)
    }

    pub(super) fn put(&self, url: &str, page: &[u8]) {
        self.pages
            .lock()
            .unwrap()
            .insert(url.to_owned(), page.to_vec());
    }

    pub(super) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

#[async_trait]
impl CertificateSource for Web {
    async fn get(&self, url: &str) -> Result<Vec<u8>, String> {
        self.asked.lock().unwrap().push(url.to_owned());
        // Others may come before this one has its answer.
        tokio::task::yield_now().await;
        let page = self.pages.lock().unwrap().get(url).cloned();
        page.ok_or_else(|| "the answer was 404 Not Found".to_owned())
    }
}

pub(super) fn ses(web: &Arc<Web>) -> Arc<dyn FeedbackReader> {
    let topic_arn = TOPIC.to_owned();
    reader_with(FeedbackConfig::Ses { topic_arn }, web.clone()).unwrap()
}

pub(super) fn notification(message: &str) -> Value {
    json!({
        "Type": "Notification",
        "MessageId": "22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324",
        "TopicArn": TOPIC,
        "Subject": "Amazon SES Email Event Notification",
        "Message": message,
        "Timestamp": "2026-05-04T11:59:58.655Z",
        "SignatureVersion": "1",
        "SigningCertURL": CERTIFICATE_URL,
        "UnsubscribeURL": "https://sns.us-east-1.amazonaws.com/?Action=Unsubscribe&SubscriptionArn=x",
    })
}

pub(super) fn confirmation(url: &str) -> Value {
    json!({
        "Type": "SubscriptionConfirmation",
        "MessageId": "165545c9-2a5c-472c-8df2-7ff2be2b3b1b",
        "Token": "2336412f37fb687f5d51e6e2425f",
        "TopicArn": TOPIC,
        "Message": "You have chosen to subscribe to the topic.",
        "SubscribeURL": url,
        "Timestamp": "2026-05-04T11:59:58.655Z",
        "SignatureVersion": "1",
        "SigningCertURL": CERTIFICATE_URL,
    })
}

/// Signs an envelope as it stands: names and values of the signed fields, sorted by name.
pub(super) fn signed_by(signer: &Signer, mut envelope: Value) -> Callback {
    let is_signed = |name: &str| {
        let names = [
            "Message",
            "MessageId",
            "Subject",
            "SubscribeURL",
            "Timestamp",
            "Token",
            "TopicArn",
            "Type",
        ];
        names.contains(&name)
    };
    let mut fields: Vec<(&String, &Value)> = envelope.as_object().unwrap().iter().collect();
    fields.sort_by_key(|(name, _)| (*name).clone());
    let mut text = String::new();
    for (name, value) in fields {
        if is_signed(name) && value.is_string() {
            text += &format!("{name}\n{}\n", value.as_str().unwrap());
        }
    }
    let version = envelope["SignatureVersion"].as_str().unwrap();
    let signature = base64(&signer.sign(version, &text));
    envelope["Signature"] = json!(signature);
    callback(
        &[
            ("content-type", "text/plain; charset=UTF-8"),
            ("x-amz-sns-topic-arn", TOPIC),
        ],
        &envelope.to_string(),
    )
}

pub(super) fn signed(envelope: Value) -> Callback {
    signed_by(&AMAZON, envelope)
}
