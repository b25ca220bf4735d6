//! What providers say later of emails that they took.

use crate::address::Address;
use crate::email::EmailId;
use crate::lifecycle::Feedback;
use crate::status::{DeadReason, named};

named! {
    /// What happened to an email at the provider.
    Happening {
        /// The recipient's server took it.
        Delivered = "delivered",
        /// The recipient's server gave it back for good.
        Bounced = "bounced",
        /// The recipient called it spam.
        Complained = "complained",
    }
}

impl Happening {
    /// What it makes of a recipient's email.
    #[must_use]
    pub const fn feedback(self) -> Feedback {
        match self {
            Self::Delivered => Feedback::Delivered,
            Self::Bounced => Feedback::Refused(DeadReason::HardBounce),
            Self::Complained => Feedback::Refused(DeadReason::SpamComplaint),
        }
    }
}

/// One word of a provider about one recipient of one email, its signature checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderEvent {
    /// What happened.
    pub happening: Happening,
    /// What the provider calls the message.
    pub provider_id: String,
    /// Our own id, where the provider repeats what we gave it.
    pub email_id: Option<EmailId>,
    /// Which recipient it is about; `None` for all.
    pub recipient: Option<Address>,
    /// What was said, for people.
    pub detail: Option<String>,
}

/// What became of a provider's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recorded {
    /// It changed something.
    Done,
    /// It was known, or something graver was.
    Unchanged,
    /// The email is being sent at this moment: say it again later.
    TryLater,
    /// No email of ours was sent by this transport under this name.
    NotOurs,
}
