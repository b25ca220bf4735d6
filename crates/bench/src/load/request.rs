//! The request that is sent, formatted once.

use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::json;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// The size of each body in octets.
pub(crate) const BODY: usize = 4096;
const LINE: usize = 76;
const FROM: &str = "a@test.invalid";
const TO: &str = "b@test.invalid";
const SUBJECT: &str = "bench";

/// The octets of a request.
#[derive(Debug, Clone)]
pub(crate) struct Request(Arc<[u8]>);

impl Request {
    /// As we take emails in.
    pub(crate) fn to_us() -> Self {
        let email = json!({"from": FROM, "to": TO, "subject": SUBJECT, "text": body()});
        Self::post(&email.to_string())
    }

    /// As the probe takes emails in.
    pub(crate) fn to_the_probe() -> Self {
        let email = json!({"from": FROM, "to": TO, "subject": SUBJECT, "body": body()});
        Self::post(&email.to_string())
    }

    fn post(json: &str) -> Self {
        let head = "POST /v1/emails HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json";
        let length = json.len();
        let text = format!("{head}\r\nContent-Length: {length}\r\n\r\n{json}");
        Self(text.into_bytes().into())
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Lines of base64 that no compression makes much smaller; always the same.
fn body() -> String {
    let mut dice = StdRng::seed_from_u64(1);
    let mut text = String::with_capacity(BODY);
    while text.len() < BODY {
        let at = text.len() % (LINE + 2);
        text.push(match at {
            LINE => '\r',
            at if at > LINE => '\n',
            _ => char::from(ALPHABET[dice.random_range(0..ALPHABET.len())]),
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_has_its_size_in_lines_of_an_ordinary_length() {
        let text = body();
        assert_eq!(text.len(), BODY);
        assert!(text.lines().all(|line| line.len() <= LINE));
        assert_eq!(text, body());
    }

    #[test]
    fn a_request_says_how_long_its_content_is() {
        for request in [Request::to_us(), Request::to_the_probe()] {
            let text = String::from_utf8(request.bytes().to_vec()).expect("text");
            let (head, content) = text.split_once("\r\n\r\n").expect("a head");
            assert!(head.ends_with(&format!("Content-Length: {}", content.len())));
        }
    }
}
