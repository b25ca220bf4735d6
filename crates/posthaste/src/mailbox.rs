//! Addresses that people typed in.

use std::fmt;

use posthaste_core::address::{Address, InvalidAddress, Mailbox as CoreMailbox};

use crate::Error;

/// An address with the name of its reader, both checked.
///
/// It is for what people typed in: that may have commas and quotes in it, and it may be wrong.
/// Wherever an [`Email`](crate::Email) takes an address as text, it takes this, too.
///
/// ```
/// use posthaste::{Email, Mailbox};
///
/// let ada = Mailbox::new("Lovelace, Ada", "ada@example.org")?;
/// assert_eq!(ada.to_string(), "\"Lovelace, Ada\" <ada@example.org>");
/// let email = Email::new("shop@example.org", ada);
/// assert!(Mailbox::new("Ada", "ada at example.org").is_err());
/// # Ok::<(), posthaste::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mailbox(CoreMailbox);

impl Mailbox {
    /// The mailbox of someone. The name may be empty.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`], with the field `address` or `name`.
    pub fn new(name: &str, address: &str) -> Result<Self, Error> {
        let wrong = |field: &str, error: &InvalidAddress| Error::invalid(field, &error.to_string());
        let address = Address::parse(address).map_err(|error| wrong("address", &error))?;
        let mailbox = CoreMailbox::new(name, address);
        Ok(Self(mailbox.map_err(|error| wrong("name", &error))?))
    }

    /// The address alone.
    #[must_use]
    pub fn address(&self) -> &str {
        self.0.address.as_str()
    }

    /// The name, if there is one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.0.name.as_deref()
    }
}

impl fmt::Display for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<Mailbox> for String {
    fn from(mailbox: Mailbox) -> Self {
        mailbox.to_string()
    }
}
