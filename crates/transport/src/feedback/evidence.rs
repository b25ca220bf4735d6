//! Whether a callback is to be believed: age, shared secrets, signatures.

use aws_lc_rs::{constant_time, digest, hmac};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use posthaste_core::Timestamp;
use posthaste_core::port::{Callback, CallbackError};

/// How far a signed time may be from ours, in seconds, either way.
pub(super) const TOLERANCE: i64 = 5 * 60;

pub(super) fn not_believed(why: impl Into<String>) -> CallbackError {
    CallbackError::NotBelieved(why.into())
}

/// The value of a header that must be there.
pub(super) fn header<'a>(callback: &'a Callback, name: &str) -> Result<&'a str, CallbackError> {
    let missing = || not_believed(format!("the header `{name}` is missing"));
    callback.header(name).ok_or_else(missing)
}

/// Checks a time in seconds since 1970, as a provider wrote and signed it.
pub(super) fn check_age_of_seconds(
    text: &str,
    at: Timestamp,
    limit: i64,
) -> Result<(), CallbackError> {
    let seconds: i64 = text
        .parse()
        .map_err(|_| not_believed("the signed time is not a number of seconds"))?;
    check_age(seconds, at, limit)
}

/// Checks that a signed time is near enough to the time at which it came.
pub(super) fn check_age(seconds: i64, at: Timestamp, limit: i64) -> Result<(), CallbackError> {
    let age = at.as_second().saturating_sub(seconds);
    if age > limit {
        return Err(not_believed(
            "the signed time is too long ago; if this repeats, check the clock",
        ));
    }
    if age < -limit {
        return Err(not_believed(
            "the signed time is in the future; if this repeats, check the clock",
        ));
    }
    Ok(())
}

/// Whether this is the HMAC-SHA256 of the parts, one after the other. Constant time.
pub(super) fn is_hmac(key: &hmac::Key, parts: &[&[u8]], tag: &[u8]) -> bool {
    let mut context = hmac::Context::with_key(key);
    for part in parts {
        context.update(part);
    }
    constant_time::verify_slices_are_equal(context.sign().as_ref(), tag).is_ok()
}

/// The SHA-256 of something.
pub(super) fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref());
    hash
}

/// Whether two hashes are the same. Constant time.
pub(super) fn same(one: &[u8; 32], other: &[u8; 32]) -> bool {
    constant_time::verify_slices_are_equal(one, other).is_ok()
}

/// Reads base64 with padding.
pub(super) fn base64(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text.trim()).ok()
}

/// Reads lower or upper case hexadecimal of 32 bytes.
pub(super) fn hex32(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    let mut bytes = [0; 32];
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    Some(bytes)
}
