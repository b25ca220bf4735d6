//! What can be wrong with an event.

use posthaste_core::address::Mailbox;

use crate::FieldError;
use crate::error::listed;

/// What is wrong with an event, field by field. Nothing was made of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the event is not valid: {}", listed(.0))]
pub struct InvalidEvent(Vec<FieldError>);

impl InvalidEvent {
    /// Every field that is wrong, with what would be right.
    #[must_use]
    pub fn errors(&self) -> &[FieldError] {
        &self.0
    }

    pub(crate) fn into_errors(self) -> Vec<FieldError> {
        self.0
    }
}

/// Collects everything that is wrong, so that it can be mended in one go.
#[derive(Default)]
pub(super) struct Findings(Vec<FieldError>);

impl Findings {
    /// Notes what is wrong with a field.
    pub(super) fn note(&mut self, field: &str, message: impl Into<String>) {
        self.0.push(FieldError {
            field: field.to_owned(),
            message: message.into(),
        });
    }

    /// A text in one line.
    pub(super) fn check_line(&mut self, field: &str, text: &str, most_characters: usize) {
        if text.chars().any(char::is_control) {
            self.note(
                field,
                "contains a line break or another control character; remove it",
            );
        }
        self.check_length(field, text, most_characters);
    }

    /// A text in several lines.
    pub(super) fn check_lines(&mut self, field: &str, text: &str, most_characters: usize) {
        let is_wrong = |c: char| c.is_control() && !"\r\n\t".contains(c);
        if text.chars().any(is_wrong) {
            self.note(
                field,
                "contains a control character that is not a line break; remove it",
            );
        }
        self.check_length(field, text, most_characters);
    }

    /// What was checked, if nothing was noted.
    pub(super) fn into_result<T>(self, checked: Option<T>) -> Result<T, InvalidEvent> {
        match checked {
            Some(checked) if self.0.is_empty() => Ok(checked),
            _ => Err(InvalidEvent(self.0)),
        }
    }

    fn check_length(&mut self, field: &str, text: &str, most_characters: usize) {
        if text.chars().count() > most_characters {
            let message = format!("is longer than {most_characters} characters; shorten it");
            self.note(field, message);
        }
    }

    /// An address with or without a name.
    pub(super) fn mailbox(&mut self, field: &str, text: &str) -> Option<Mailbox> {
        match Mailbox::parse(text) {
            Ok(mailbox) => Some(mailbox),
            Err(error) => {
                self.note(field, error.to_string());
                None
            }
        }
    }
}
