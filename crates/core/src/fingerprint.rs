//! Groups errors that differ only in their details.
//!
//! `550 5.1.1 <ann@example.org>: no such user (id 4711)` and the same for bob are one problem
//! to an operator. The text is normalised (addresses, numbers, long tokens), then hashed.

/// The stable fingerprint of an error text: 16 hexadecimal digits.
#[must_use]
pub fn fingerprint(error: &str) -> String {
    // FNV-1a: stable over versions and platforms, which the standard hasher does not promise.
    let hash = normalise(error)
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    format!("{hash:016x}")
}

/// The text with what varies from email to email replaced.
#[must_use]
pub fn normalise(error: &str) -> String {
    let mut words = Vec::new();
    for word in error.split_whitespace() {
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
        let replaced = if bare.contains('@') {
            "<address>".to_owned()
        } else if words.len() > 1 && is_identifier(bare) {
            "<id>".to_owned()
        } else if words.len() > 1 {
            numbers_replaced(&word.to_lowercase())
        } else {
            // The first two words hold the reply codes: they are the point.
            word.to_lowercase()
        };
        words.push(replaced);
    }
    words.join(" ")
}

fn is_identifier(word: &str) -> bool {
    word.len() >= 8
        && word.chars().any(|c| c.is_ascii_digit())
        && word
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':'))
}

fn numbers_replaced(word: &str) -> String {
    let mut out = String::with_capacity(word.len());
    for c in word.chars() {
        if !c.is_ascii_digit() {
            out.push(c);
        } else if !out.ends_with('#') {
            out.push('#');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_do_not_split_a_group() {
        let a = "550 5.1.1 <ann@example.org>: no such user (id 4711) in session 0198a7f2-77aa";
        let b = "550 5.1.1 <bob@example.net>: No such user (id 12) in session 0198bbbb-1234";
        assert_eq!(
            normalise(a),
            "550 5.1.1 <address> no such user (id #) in session <id>"
        );
        assert_eq!(fingerprint(a), fingerprint(b));
    }

    #[test]
    fn codes_keep_groups_apart() {
        assert_ne!(
            fingerprint("550 5.1.1 no such user"),
            fingerprint("550 5.1.2 no such user")
        );
        assert_ne!(fingerprint("450 wait"), fingerprint("451 wait"));
    }
}
