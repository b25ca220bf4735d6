//! The digest by which a request is recognised when it comes again. It is kept with the email, so
//! it must never change for the same request.

use std::io::{self, BufWriter, Write};

use serde::Serialize;
use sha2::{Digest as _, Sha256};

/// How much is gathered before it is hashed: JSON is written in small pieces.
const AT_ONCE: usize = 1024;

/// SHA-256 of a request as JSON, maps in the order of their keys. The text itself, which may be
/// large, is never put together.
pub(super) fn of(request: &impl Serialize) -> [u8; 32] {
    let mut writer = BufWriter::with_capacity(AT_ONCE, Hasher::default());
    let written = serde_json::to_writer(&mut writer, request).ok();
    let hasher = written.and_then(|()| writer.into_inner().ok());
    hasher.unwrap_or_default().0.finalize().into()
}

/// Hashes what is written to it.
#[derive(Default)]
struct Hasher(Sha256);

impl Write for Hasher {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intake::EmailRequest;

    #[test]
    fn the_digest_is_that_of_the_whole_text() {
        for size in [0, 10, AT_ONCE - 1, AT_ONCE, 10 * AT_ONCE] {
            let request = EmailRequest {
                from: "ann@example.org".into(),
                to: vec!["bob@example.org".into()],
                text: Some("a \"quoted\" line\r\n".repeat(size / 17)),
                html: Some("x".repeat(size)),
                ..EmailRequest::default()
            };
            let whole = serde_json::to_vec(&request).unwrap();
            assert_eq!(of(&request), <[u8; 32]>::from(Sha256::digest(whole)));
        }
    }
}
