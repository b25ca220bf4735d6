//! The retry policies by name, as they are configured now.

use std::collections::BTreeMap;

use posthaste_core::email::PolicyChoice;
use posthaste_core::port::Budgets;
use posthaste_core::retry_policy::RetryPolicy;

/// The name of the policy that emails follow unless they choose another.
pub const DEFAULT: &str = "email";

/// The retry policies by name.
#[derive(Debug, Clone)]
pub struct Policies {
    by_name: BTreeMap<String, RetryPolicy>,
}

impl Default for Policies {
    fn default() -> Self {
        Self::new(BTreeMap::new())
    }
}

impl Policies {
    /// The built-in policies, with these added or put in their place.
    #[must_use]
    pub fn new(overrides: BTreeMap<String, RetryPolicy>) -> Self {
        let mut by_name: BTreeMap<String, RetryPolicy> = RetryPolicy::built_in()
            .into_iter()
            .map(|(name, policy)| (name.to_owned(), policy))
            .collect();
        by_name.extend(overrides);
        Self { by_name }
    }

    /// The policy of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&RetryPolicy> {
        self.by_name.get(name)
    }

    /// Every name.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }

    /// The policy that a choice means now. A name that is gone means the default.
    #[must_use]
    pub fn of<'a>(&'a self, choice: &'a PolicyChoice) -> &'a RetryPolicy {
        match choice {
            PolicyChoice::Own(policy) => policy,
            PolicyChoice::Named(name) => {
                // The built-in default is always there: overrides replace, they never remove.
                self.by_name
                    .get(name)
                    .unwrap_or_else(|| &self.by_name[DEFAULT])
            }
        }
    }

    /// How many attempts may fail, by name.
    #[must_use]
    pub fn budgets(&self) -> Budgets {
        Budgets {
            by_name: self
                .by_name
                .iter()
                .map(|(name, policy)| (name.clone(), policy.max_attempts))
                .collect(),
            fallback: self.by_name[DEFAULT].max_attempts,
        }
    }
}
