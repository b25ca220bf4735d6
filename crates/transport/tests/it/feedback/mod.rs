//! What providers post: the payloads of their documentation, signed here by other code than the
//! code that checks them, and everything a stranger might try.

mod config;
mod mailgun;
mod postmark;
mod resend;
mod sendgrid;
mod ses;
mod sns;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use posthaste_core::Timestamp;
use posthaste_core::feedback::{Happening, ProviderEvent};
use posthaste_core::port::{Callback, CallbackError, FeedbackReader};
use sha2::Sha256;

/// Our own id in the payloads.
const OUR_ID: &str = "0197c1de-0000-7000-8000-00000000abcd";

/// When everything in these tests happens.
fn now() -> Timestamp {
    "2026-05-04T12:00:00Z".parse().unwrap()
}

/// The same in seconds, and so much later.
fn seconds(later: i64) -> String {
    (now().as_second() + later).to_string()
}

fn callback(headers: &[(&str, &str)], body: &str) -> Callback {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Callback {
        headers: headers.iter().map(owned).collect(),
        body: Bytes::copy_from_slice(body.as_bytes()),
        at: now(),
    }
}

/// With another body, and everything else as it is.
fn with_body(callback: &Callback, body: &str) -> Callback {
    Callback {
        body: Bytes::copy_from_slice(body.as_bytes()),
        ..callback.clone()
    }
}

fn hmac_sha256(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(message);
    mac.finalize().into_bytes().to_vec()
}

fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

fn event(happening: Happening, provider_id: &str, recipient: &str, detail: &str) -> ProviderEvent {
    ProviderEvent {
        happening,
        provider_id: provider_id.to_owned(),
        email_id: Some(OUR_ID.parse().unwrap()),
        recipient: Some(posthaste_core::address::Address::parse(recipient).unwrap()),
        detail: (!detail.is_empty()).then(|| detail.to_owned()),
    }
}

/// Reads a callback that is genuine.
async fn read(reader: &dyn FeedbackReader, callback: &Callback) -> Vec<ProviderEvent> {
    reader.read(callback).await.unwrap()
}

/// Asserts that a callback is not believed, and for this reason.
async fn not_believed(reader: &dyn FeedbackReader, callback: &Callback, why: &str) {
    match reader.read(callback).await {
        Err(CallbackError::NotBelieved(said)) => assert!(said.contains(why), "{why}: {said}"),
        other => panic!("{why}: {other:?}"),
    }
}

/// Asserts that a callback is believed and cannot be read.
async fn not_understood(reader: &dyn FeedbackReader, callback: &Callback, why: &str) {
    match reader.read(callback).await {
        Err(CallbackError::NotUnderstood(said)) => assert!(said.contains(why), "{why}: {said}"),
        other => panic!("{why}: {other:?}"),
    }
}
