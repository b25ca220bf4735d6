//! The digest by which a request is recognised when it comes again. It is kept with the email, so
//! it must never change for the same request.

use std::io::BufWriter;

use blake3::Hasher;
use serde::{Serialize, Serializer};

/// How much is gathered before it is hashed: JSON is written in small pieces.
const AT_ONCE: usize = 1024;

/// BLAKE3 of a request as JSON, maps in the order of their keys and digests in place of bodies. That
/// text, which may be large, is never put together. (SHA-256 took more than twice as long.)
pub(super) fn of(request: &impl Serialize) -> [u8; 32] {
    let mut writer = BufWriter::with_capacity(AT_ONCE, Hasher::new());
    let written = serde_json::to_writer(&mut writer, request).ok();
    let hasher = written.and_then(|()| writer.into_inner().ok());
    hasher.unwrap_or_default().finalize().into()
}

/// Writes the digest of a body in its place: what is large is hashed as it is. Escaping it for JSON
/// took longer than hashing it.
pub(super) fn of_body<S: Serializer>(body: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&blake3::hash(body.as_bytes()).to_hex())
}

/// The same, of a body that may be missing.
pub(super) fn of_body_if_any<S: Serializer>(
    body: &Option<String>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match body {
        Some(body) => of_body(body, serializer),
        None => serializer.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::intake::{AttachmentRequest, EmailRequest, PolicyRequest};

    #[test]
    fn the_digest_is_that_of_the_whole_text() {
        for size in [0, 10, AT_ONCE - 1, AT_ONCE, 10 * AT_ONCE] {
            let request = EmailRequest {
                from: "ann@example.org".into(),
                to: vec!["bob@example.org".into()],
                subject: "a \"quoted\" line\r\n".repeat(size / 17),
                ..EmailRequest::default()
            };
            let whole = serde_json::to_vec(&request).unwrap();
            assert_eq!(of(&request), <[u8; 32]>::from(blake3::hash(&whole)));
        }
    }

    #[test]
    fn requests_that_differ_in_a_body_have_other_digests() {
        let attached = |content: &str| AttachmentRequest {
            content: content.into(),
            ..AttachmentRequest::default()
        };
        let request = |text: Option<&str>, html: Option<&str>, file: &str| {
            of(&EmailRequest {
                text: text.map(Into::into),
                html: html.map(Into::into),
                attachments: vec![attached(file)],
                ..EmailRequest::default()
            })
        };
        let digests = [
            request(None, None, ""),
            request(Some(""), None, ""),
            request(Some("a"), None, ""),
            request(Some("b"), None, ""),
            request(None, Some("a"), ""),
            request(Some("a"), Some("b"), ""),
            request(Some("b"), Some("a"), ""),
            request(None, None, "a"),
            request(None, None, "b"),
        ];
        let different: HashSet<_> = digests.iter().collect();
        assert_eq!(different.len(), digests.len());
        assert_eq!(digests[2], request(Some("a"), None, ""));
    }

    /// Emails that were accepted long ago are recognised by it.
    #[test]
    fn the_digest_of_a_request_stays_what_it_is() {
        let hex = |request: &EmailRequest| -> String {
            let digest = of(request);
            digest.iter().map(|octet| format!("{octet:02x}")).collect()
        };
        let plain = EmailRequest {
            from: "ann@example.org".into(),
            to: vec!["bob@example.org".into()],
            subject: "Hi".into(),
            text: Some("Hello".into()),
            ..EmailRequest::default()
        };
        let then = "cbb2a723e1694cfac8f26a488f2decc9f47ab799792355e85f2e5bf9622e8812";
        assert_eq!(hex(&plain), then);
        let whole = EmailRequest {
            cc: vec!["c@example.org".into()],
            bcc: vec!["d@example.org".into()],
            reply_to: vec!["e@example.org".into()],
            subject: "Hi \"x\"".into(),
            html: Some("<p>Hello".into()),
            template: Some("welcome".into()),
            variables: [("name".into(), "Bob".into()), ("n".into(), 1.into())].into(),
            headers: [("X-A".into(), "b".into())].into(),
            attachments: vec![AttachmentRequest {
                filename: "a.txt".into(),
                content_type: Some("text/plain".into()),
                content: "aGk=".into(),
                content_id: None,
            }],
            send_at: Some("2026-11-17T00:00:00Z".into()),
            expires_at: Some("2026-11-18T00:00:00Z".into()),
            expire_after: Some("10m".into()),
            retry_policy: Some(PolicyRequest::Named("email".into())),
            route: Some("bulk".into()),
            priority: Some("high".into()),
            metadata: [("k".into(), "v".into())].into(),
            ..plain
        };
        let then = "63a18cdd7c211a2ecb394fd319b9fea51dd2a22d0ba023db9579bd6d81ef827a";
        assert_eq!(hex(&whole), then);
    }
}
