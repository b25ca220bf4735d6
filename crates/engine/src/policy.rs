//! What emails can name: retry policies and routes, as they are configured now.

use std::collections::{BTreeMap, BTreeSet};

use posthaste_core::Timestamp;
use posthaste_core::email::PolicyChoice;
use posthaste_core::port::Budgets;
use posthaste_core::retry_policy::RetryPolicy;

use crate::ways::DEFAULT_ROUTE;

/// The name of the policy that emails follow unless they choose another.
pub const DEFAULT: &str = "email";

/// The retry policies by name.
#[derive(Debug, Clone)]
pub struct Policies {
    by_name: BTreeMap<String, RetryPolicy>,
    routes: BTreeSet<String>,
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
        let routes = BTreeSet::from([DEFAULT_ROUTE.to_owned()]);
        Self { by_name, routes }
    }

    /// The same, with routes that emails can name.
    #[must_use]
    pub fn with_routes(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.routes.extend(names);
        self
    }

    /// The routes that emails can name.
    pub fn routes(&self) -> impl Iterator<Item = &str> {
        self.routes.iter().map(String::as_str)
    }

    /// What to say about a name that no route has; `None` if one has it.
    #[must_use]
    pub fn unknown_route(&self, name: &str) -> Option<String> {
        let known = || self.routes().collect::<Vec<_>>().join(", ");
        let is_known = self.routes.contains(name);
        (!is_known).then(|| format!("`{}` is not one of: {}", name.escape_debug(), known()))
    }

    /// The policy of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&RetryPolicy> {
        self.by_name.get(name)
    }

    /// Every policy with its name, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &RetryPolicy)> {
        self.by_name
            .iter()
            .map(|(name, policy)| (name.as_str(), policy))
    }

    /// Every name.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }

    /// What to say about a name that no policy has; `None` if one has it.
    #[must_use]
    pub fn unknown(&self, name: &str) -> Option<String> {
        let known = || self.names().collect::<Vec<_>>().join(", ");
        let is_known = self.by_name.contains_key(name);
        (!is_known).then(|| format!("`{}` is not one of: {}", name.escape_debug(), known()))
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

/// An attempt that a policy will make if all before it fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedAttempt {
    /// 1 for the first.
    pub number: u32,
    /// When it is made at the earliest: without jitter.
    pub earliest: Timestamp,
    /// When it is made at the latest, if senders are free: with all the jitter there may be.
    pub latest: Timestamp,
}

/// The attempts that a policy makes for an email that is accepted at `start` and always fails. A
/// mail server that asks for more time moves them on.
#[must_use]
pub fn timeline(policy: &RetryPolicy, start: Timestamp) -> Vec<PlannedAttempt> {
    let after = |at: Timestamp, by| at.checked_add(by).unwrap_or(Timestamp::MAX);
    let end = policy.expire_after.map(|expiry| after(start, expiry.0));
    let first = PlannedAttempt {
        number: 1,
        earliest: start,
        latest: start,
    };
    let next = |last: &PlannedAttempt| {
        Some(PlannedAttempt {
            number: last.number + 1,
            earliest: after(last.earliest, policy.delay(last.number, 0.0, None)),
            latest: after(last.latest, policy.delay(last.number, 1.0, None)),
        })
    };
    std::iter::successors(Some(first), next)
        .take_while(|attempt| end.is_none_or(|end| attempt.earliest < end))
        .take(policy.max_attempts as usize)
        .collect()
}

/// The attempts that a policy makes after a first one at `start` that it does not count: one that
/// a caller waited for, or one of another service.
#[must_use]
pub fn timeline_after_first(policy: &RetryPolicy, start: Timestamp) -> Vec<PlannedAttempt> {
    let with_the_first = RetryPolicy {
        max_attempts: policy.max_attempts + 1,
        ..policy.clone()
    };
    let counted = |attempt: PlannedAttempt| PlannedAttempt {
        number: attempt.number - 1,
        ..attempt
    };
    let all = timeline(&with_the_first, start).into_iter();
    all.skip(1).map(counted).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use posthaste_core::duration::HumanDuration;

    use super::*;

    fn seconds(policy: &RetryPolicy) -> Vec<(i64, i64)> {
        let start = Timestamp::UNIX_EPOCH;
        let planned = timeline(policy, start).into_iter();
        planned
            .map(|attempt| (attempt.earliest.as_second(), attempt.latest.as_second()))
            .collect()
    }

    #[test]
    fn jitter_adds_up_over_the_attempts() {
        let notification = RetryPolicy::notification();
        assert_eq!(seconds(&notification), [(0, 0), (60, 90), (360, 420)]);
    }

    #[test]
    fn after_a_try_that_is_not_counted_all_attempts_are_left() {
        let planned = timeline_after_first(&RetryPolicy::outbox(), Timestamp::UNIX_EPOCH);
        let planned: Vec<_> = planned
            .iter()
            .map(|attempt| (attempt.number, attempt.earliest.as_second()))
            .collect();
        assert_eq!(planned, [(1, 30), (2, 90), (3, 210), (4, 450), (5, 930)]);
    }

    #[test]
    fn nothing_is_tried_after_the_end() {
        let policy = RetryPolicy {
            expire_after: Some(HumanDuration(Duration::from_secs(360))),
            ..RetryPolicy::email()
        };
        assert_eq!(seconds(&policy), [(0, 0), (60, 60)]);
    }
}
