//! Finding the Message-ID of a received message.

use crate::wire::find_newline;

const NAME: &[u8] = b"message-id:";

/// The Message-ID without its angle brackets, or none if the header has no such field
/// or an empty one. Looks no further than the end of the header.
pub(crate) fn message_id(message: &[u8]) -> Option<String> {
    let mut rest = message;
    loop {
        let line_end = find_newline(rest).map_or(rest.len(), |newline| newline + 1);
        let line = &rest[..line_end];
        if line.trim_ascii().is_empty() {
            return None;
        }
        if line.len() >= NAME.len() && line[..NAME.len()].eq_ignore_ascii_case(NAME) {
            let value = field_value(&rest[NAME.len()..]);
            let value = String::from_utf8_lossy(value);
            let id = without_brackets(value.trim());
            return (!id.is_empty()).then(|| id.to_owned());
        }
        rest = &rest[line_end..];
    }
}

/// `<id>` and `id` name the same message.
pub(crate) fn without_brackets(id: &str) -> &str {
    id.strip_prefix('<')
        .and_then(|id| id.strip_suffix('>'))
        .unwrap_or(id)
}

/// A field's value with its continuation lines, which begin with a blank.
fn field_value(after_name: &[u8]) -> &[u8] {
    let mut end = 0;
    loop {
        end += match find_newline(&after_name[end..]) {
            Some(newline) => newline + 1,
            None => return after_name,
        };
        if !matches!(after_name.get(end), Some(b' ' | b'\t')) {
            return &after_name[..end];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_id_is_found_in_the_header_only() {
        let cases: &[(&str, Option<&str>)] = &[
            ("Message-ID: <a@b>\r\n\r\nx", Some("a@b")),
            ("Subject: x\r\nMESSAGE-id:<a@b>\r\n\r\n", Some("a@b")),
            ("Message-ID:\r\n <a@b>\r\nTo: x\r\n\r\n", Some("a@b")),
            ("Message-ID: a@b\r\n\r\n", Some("a@b")),
            ("Message-ID: <a@b>", Some("a@b")),
            ("Subject: x\r\n Message-ID: <a@b>\r\n\r\n", None),
            ("X-Message-ID: <a@b>\r\n\r\n", None),
            ("Subject: x\r\n\r\nMessage-ID: <a@b>\r\n", None),
            ("Message-ID:\r\n\r\n", None),
            ("", None),
        ];
        for (message, expected) in cases {
            assert_eq!(
                message_id(message.as_bytes()).as_deref(),
                *expected,
                "{message:?}"
            );
        }
    }
}
