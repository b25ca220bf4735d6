//! Addresses that get nothing any more.

use crate::Timestamp;
use crate::address::Address;
use crate::email::EmailId;
use crate::status::DeadReason;

/// An address that gets nothing any more from an owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suppression {
    /// Whose emails are not sent to it.
    pub owner: String,
    /// The address, folded.
    pub address: String,
    /// Why: `HardBounce`, `SpamComplaint`, or `Suppressed` by hand.
    pub reason: DeadReason,
    /// What was said about it.
    pub detail: Option<String>,
    /// The email that came back, if one did.
    pub email_id: Option<EmailId>,
    /// Since when.
    pub created_at: Timestamp,
    /// Who put it there.
    pub created_by: String,
}

/// An address as it is compared: in lower case as a whole. Mailboxes that differ only in case are
/// the same one wherever mail is delivered today, and not to write to one too many does less harm
/// than to write to one that complained.
#[must_use]
pub fn folded(address: &Address) -> String {
    address.to_string().to_lowercase()
}
