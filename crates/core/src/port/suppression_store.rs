//! Addresses that get nothing any more, and what providers say later that puts them there.

use async_trait::async_trait;

use super::{Actor, StoreResult};
use crate::feedback::{ProviderEvent, Recorded};
use crate::suppression::Suppression;

/// Which suppressions to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SuppressionFilter {
    /// Only this owner's.
    pub owner: Option<String>,
    /// Only addresses that begin with this, folded; `@` and a domain for all of that domain.
    pub q: Option<String>,
    /// At most this many.
    pub limit: usize,
    /// Only those after this owner and address.
    pub after: Option<(String, String)>,
}

/// The list of addresses that get nothing any more.
#[async_trait]
pub trait SuppressionStore: Send + Sync {
    /// Puts addresses on the list, with an audit entry each; since when they are there is the
    /// store's to say. One that is there stays as it is, except that a complaint is graver than a
    /// bounce, and both than an entry by hand. Says of each whether it is new.
    async fn suppress(
        &self,
        suppressions: Vec<Suppression>,
        actor: &Actor,
    ) -> StoreResult<Vec<bool>>;

    /// Takes an address off the list of an owner; `false` if it was not there.
    async fn unsuppress(&self, owner: &str, address: &str, actor: &Actor) -> StoreResult<bool>;

    /// The list, by owner and address.
    async fn suppressions(&self, filter: &SuppressionFilter) -> StoreResult<Vec<Suppression>>;

    /// Records what a provider said later of emails that went by this transport. Only what names a
    /// message that we know by its name there (and by our own id, where it gives one) is believed;
    /// our own id alone if the answer to an attempt was lost, and the name with it.
    /// What was given back or complained about puts the address on the list of the email's owner.
    async fn record_feedback(
        &self,
        transport: &str,
        events: Vec<ProviderEvent>,
    ) -> StoreResult<Vec<Recorded>>;
}
