//! Addresses that get nothing any more, as they are written and shown.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use posthaste_core::suppression::Suppression;
use posthaste_engine::operator;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::Time;

/// The longest word about an address, in characters.
pub(crate) const LONGEST_DETAIL: usize = 500;

/// An address that is to get nothing any more.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewSuppression)]
pub(crate) struct NewSuppressionBody {
    /// The address.
    #[schema(required, value_type = String, example = "ann@example.net")]
    pub(crate) address: Option<String>,
    /// Why, for people.
    #[schema(max_length = 500, example = "asked to be left alone")]
    pub(crate) detail: Option<String>,
    /// Whose emails are not sent to it; the key's owner if left out. Another owner only with the
    /// scope `admin`.
    #[schema(min_length = 1, max_length = 100)]
    pub(crate) owner: Option<String>,
}

/// An address that gets nothing any more from an owner.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Suppression)]
pub(crate) struct SuppressionBody {
    /// Whose emails are not sent to it.
    owner: String,
    /// The address, in lower case.
    #[schema(example = "ann@example.net")]
    address: String,
    /// `HardBounce`, `SpamComplaint`, or `Suppressed` by hand.
    #[schema(example = "HardBounce")]
    reason: &'static str,
    /// What was said about it.
    detail: Option<String>,
    /// The email that came back, if one did.
    email_id: Option<Uuid>,
    /// Since when.
    created_at: Time,
    /// Who put it there.
    #[schema(example = "key:1f2e3d4c")]
    created_by: String,
}

impl From<Suppression> for SuppressionBody {
    fn from(entry: Suppression) -> Self {
        Self {
            owner: entry.owner,
            address: entry.address,
            reason: entry.reason.as_str(),
            detail: entry.detail,
            email_id: entry.email_id.map(|id| id.0),
            created_at: Time(entry.created_at),
            created_by: entry.created_by,
        }
    }
}

/// One page of addresses that get nothing any more, by owner and address.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SuppressionPage)]
pub(crate) struct SuppressionPageBody {
    /// The entries.
    data: Vec<SuppressionBody>,
    /// Whether there are more.
    has_more: bool,
    /// What to give as `after` to get them.
    next: Option<String>,
}

impl From<operator::SuppressionPage> for SuppressionPageBody {
    fn from(page: operator::SuppressionPage) -> Self {
        let next = page.next.as_ref().map(place);
        Self {
            has_more: next.is_some(),
            next,
            data: page.entries.into_iter().map(Into::into).collect(),
        }
    }
}

/// Where a page begins, for addresses of pages: the owner and the address that it comes after.
pub(crate) fn place(after: &(String, String)) -> String {
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(after).unwrap_or_default())
}

/// The same, read again.
pub(crate) fn place_of(text: &str) -> Result<(String, String), String> {
    URL_SAFE_NO_PAD
        .decode(text)
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .ok_or_else(|| "must be the `next` of the page before".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_was_written() {
        let place_in_list = ("a,b/c\n".to_owned(), "ä@example.org".to_owned());
        assert_eq!(place_of(&place(&place_in_list)), Ok(place_in_list));
        assert!(place_of("%%%").is_err() && place_of("e30").is_err());
    }
}
