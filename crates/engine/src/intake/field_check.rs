//! Checks that several fields share.

use super::request::FieldError;

/// Collects everything that is wrong, so that the caller can mend it in one go.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    errors: Vec<FieldError>,
}

impl Findings {
    /// Notes what is wrong with a field.
    pub(crate) fn note(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.errors.push(FieldError {
            field: field.into(),
            message: message.into(),
        });
    }

    /// Unwraps a value, or notes its error under the field's name.
    pub(crate) fn check<T, E: std::fmt::Display>(
        &mut self,
        field: impl Into<String>,
        value: Result<T, E>,
    ) -> Option<T> {
        match value {
            Ok(value) => Some(value),
            Err(error) => {
                self.note(field, error.to_string());
                None
            }
        }
    }

    /// Text that goes into one header line.
    pub(crate) fn check_line(&mut self, field: &str, text: &str, most_characters: usize) {
        if text.chars().any(char::is_control) {
            self.note(
                field,
                "contains a control character (CR, LF, NUL or the like); remove it",
            );
        }
        if text.chars().count() > most_characters {
            self.note(
                field,
                format!("is longer than {most_characters} characters"),
            );
        }
        if has_encoded_word(text) {
            self.note(field, "contains an encoded word (`=?…?=`); write the text itself, it is encoded as needed");
        }
    }

    /// Notes what was found elsewhere.
    pub(crate) fn extend(&mut self, errors: Vec<FieldError>) {
        self.errors.extend(errors);
    }

    /// Whether nothing was noted.
    pub(crate) const fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    /// Everything that was noted.
    pub(crate) fn into_errors(self) -> Vec<FieldError> {
        self.errors
    }
}

/// `=?charset?b|q?text?=`: a mail reader would decode it, possibly to CR and LF.
fn has_encoded_word(text: &str) -> bool {
    text.match_indices("=?").any(|(at, _)| {
        let mut parts = text[at + 2..].splitn(3, '?');
        let charset = parts.next().unwrap_or_default();
        let encoding = parts.next().unwrap_or_default();
        let rest = parts.next().unwrap_or_default();
        !charset.is_empty() && matches!(encoding, "b" | "B" | "q" | "Q") && rest.contains("?=")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_real_encoded_words_are_found() {
        assert!(has_encoded_word("x =?utf-8?q?a=0d=0aBcc:_x?= y"));
        assert!(has_encoded_word("=?iso-8859-1?B?DQo=?="));
        assert!(!has_encoded_word("is 1 =? 2 or =?= or a?b?c"));
    }
}
