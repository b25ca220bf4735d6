//! What a provider's HTTP API answered.

use std::time::Duration;

use crate::reply::printable;
use crate::status::named;

named! {
    /// Whose HTTP API it is.
    Provider {
        /// Resend.
        Resend = "resend",
        /// SendGrid, v3.
        SendGrid = "sendgrid",
        /// Postmark.
        Postmark = "postmark",
        /// Mailgun.
        Mailgun = "mailgun",
        /// Amazon SES, v2.
        Ses = "ses",
        /// Any other that takes JSON.
        Http = "http",
    }
}

impl Provider {
    /// Whether it sends nothing twice that carries the same key of ours.
    #[must_use]
    pub const fn honours_keys(self) -> bool {
        matches!(self, Self::Resend)
    }
}

/// An answer that is no yes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Who answered.
    pub provider: Provider,
    /// The HTTP status.
    pub status: u16,
    /// The provider's name (or number) of the error, if it gave one.
    pub name: Option<String>,
    /// What it said, control characters replaced, bounded in length.
    pub text: String,
    /// How long it wants to be left alone.
    pub retry_after: Option<Duration>,
}

impl Answer {
    /// An answer with this status; the text is made printable.
    #[must_use]
    pub fn new(provider: Provider, status: u16, name: Option<&str>, text: &str) -> Self {
        Self {
            provider,
            status,
            name: name.map(printable).filter(|name| !name.is_empty()),
            text: printable(text),
            retry_after: None,
        }
    }

    /// The same, with a time before which nothing is to be tried.
    #[must_use]
    pub fn after(mut self, retry_after: Option<Duration>) -> Self {
        self.retry_after = retry_after;
        self
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HTTP {}", self.status)?;
        if let Some(name) = &self.name {
            write!(f, " {name}")?;
        }
        if self.text.is_empty() {
            Ok(())
        } else {
            write!(f, ": {}", self.text)
        }
    }
}
