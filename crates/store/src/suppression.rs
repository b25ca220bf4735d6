//! What every store says of addresses that get nothing any more, written once for all dialects.

use posthaste_core::port::{Actor, SuppressionFilter};
use posthaste_core::status::DeadReason;
use posthaste_core::suppression::Suppression;

/// What the audit log calls putting an address on the list.
pub(crate) const SUPPRESSED: &str = "suppress";
/// What it calls taking one off.
pub(crate) const UNSUPPRESSED: &str = "unsuppress";

/// What became of an address that was to be put on the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Put {
    /// It is new.
    New,
    /// It was there for a lesser reason.
    Graver,
    /// It was there.
    Known,
}

impl Put {
    /// Whether the list is another one now.
    pub(crate) fn is_change(self) -> bool {
        self != Self::Known
    }
}

/// How grave the reason in the column `reason` is, in SQL: a complaint is graver than a bounce, and
/// both are than an entry by hand.
pub(crate) fn gravity(reason: &str) -> String {
    format!(
        "CASE {reason} WHEN '{}' THEN 2 WHEN '{}' THEN 1 ELSE 0 END",
        DeadReason::SpamComplaint,
        DeadReason::HardBounce
    )
}

/// Whether an actor may touch the list of this owner.
pub(crate) fn may_touch(actor: &Actor, owner: &str) -> bool {
    actor.owner.as_deref().is_none_or(|only| only == owner)
}

/// What the audit log says about an address that was put on the list.
pub(crate) fn audited(put: Put, suppression: &Suppression) -> String {
    let owner = &suppression.owner;
    match put {
        Put::Known => format!("unchanged for {owner}"),
        Put::New | Put::Graver => format!("{} for {owner}", suppression.reason),
    }
}

/// The same about one that was taken off.
pub(crate) fn removal_audited(owner: &str) -> String {
    format!("removed for {owner}")
}

/// Which addresses are looked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Those from here on …
    pub(crate) from: Option<String>,
    /// … and before this.
    pub(crate) before: Option<String>,
    /// Those that end with this.
    pub(crate) end: Option<String>,
}

impl Wanted {
    pub(crate) fn of(filter: &SuppressionFilter) -> Self {
        let wanted = filter.q.as_deref().map(|q| q.trim().to_lowercase());
        match wanted.filter(|wanted| !wanted.is_empty()) {
            None => Self::default(),
            Some(domain) if domain.starts_with('@') => Self {
                end: Some(domain),
                ..Self::default()
            },
            Some(beginning) => Self {
                // No address has a character after that one.
                before: Some(format!("{beginning}{}", char::MAX)),
                from: Some(beginning),
                ..Self::default()
            },
        }
    }
}
