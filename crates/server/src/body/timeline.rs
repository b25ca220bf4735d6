//! Retry policies, and when they try.

use posthaste_core::Timestamp;
use posthaste_core::email::PolicyChoice;
use posthaste_core::retry_policy::RetryPolicy;
use posthaste_engine::Policies;
use posthaste_engine::intake::FieldError;
use posthaste_engine::policy::{PlannedAttempt, timeline};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::retry_policy::{PolicyBody, RetryPolicyBody};
use super::template::choice;
use super::{Time, new_email};

/// A retry policy and its name.
#[derive(Serialize, ToSchema)]
pub(crate) struct NamedPolicy {
    /// What emails and templates call it.
    #[schema(example = "email")]
    name: String,
    /// What it says.
    #[schema(value_type = RetryPolicyBody)]
    policy: RetryPolicy,
}

/// The retry policies.
#[derive(Serialize, ToSchema)]
pub(crate) struct PolicyList {
    /// Each with its name, by name.
    data: Vec<NamedPolicy>,
}

impl PolicyList {
    pub(crate) fn of(policies: &Policies) -> Self {
        let named = |(name, policy): (&str, &RetryPolicy)| NamedPolicy {
            name: name.to_owned(),
            policy: policy.clone(),
        };
        Self {
            data: policies.iter().map(named).collect(),
        }
    }
}

/// Which policy is to be shown, and from when on.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TimelineRequest {
    /// The name of a retry policy, or a policy of its own.
    #[schema(required, value_type = new_email::PolicyChoice)]
    policy: Option<PolicyBody>,
    /// When the email is accepted (RFC 3339); now if left out.
    #[schema(format = DateTime)]
    start: Option<String>,
}

/// An attempt that is made if all before it fail.
#[derive(Serialize, ToSchema)]
pub(crate) struct PlannedAttemptBody {
    /// 1 for the first.
    number: u32,
    /// When it is made at the earliest: without jitter.
    earliest: Time,
    /// When it is made at the latest: with all the jitter there may be.
    latest: Time,
}

/// When a policy tries.
#[derive(Serialize, ToSchema)]
pub(crate) struct Timeline {
    /// What the policy says.
    #[schema(value_type = RetryPolicyBody)]
    policy: RetryPolicy,
    /// The attempts, if all of them fail. A mail server that asks for more time moves them on.
    attempts: Vec<PlannedAttemptBody>,
}

impl TimelineRequest {
    /// The answer, or all that is wrong.
    pub(crate) fn answer(
        self,
        policies: &Policies,
        now: Timestamp,
    ) -> Result<Timeline, Vec<FieldError>> {
        let error = |field: &str, message: String| FieldError {
            field: field.to_owned(),
            message,
        };
        let mut errors = Vec::new();
        let start = match self.start.as_deref().map(str::parse) {
            None => now,
            Some(Ok(start)) => start,
            Some(Err(_)) => {
                let message = "is not a time as of RFC 3339; write it as in 2026-11-15T18:30:00Z";
                errors.push(error("start", message.into()));
                now
            }
        };
        let policy = match self.policy.map(PolicyBody::into_request) {
            Some(Ok(policy)) => check(choice(policy), policies),
            Some(Err(found)) => Err(found),
            None => {
                let message = "is missing; give the name of a policy, or one of your own";
                Err(vec![error("policy", message.into())])
            }
        };
        match policy {
            Ok(policy) if errors.is_empty() => Ok(Timeline {
                attempts: timeline(&policy, start).into_iter().map(body).collect(),
                policy,
            }),
            Ok(_) => Err(errors),
            Err(found) => {
                // Here it is called `policy`.
                errors.extend(found.into_iter().map(|found| FieldError {
                    field: found.field.replacen("retry_policy", "policy", 1),
                    ..found
                }));
                Err(errors)
            }
        }
    }
}

/// The policy that a choice means, if it makes sense.
fn check(choice: PolicyChoice, policies: &Policies) -> Result<RetryPolicy, Vec<FieldError>> {
    let error = |field: String, message| vec![FieldError { field, message }];
    match choice {
        PolicyChoice::Named(name) => match policies.get(&name) {
            Some(policy) => Ok(policy.clone()),
            None => {
                let message = policies.unknown(&name).unwrap_or_default();
                Err(error("policy".into(), message))
            }
        },
        PolicyChoice::Own(own) => match own.validate() {
            Ok(()) => Ok(*own),
            Err(wrong) => Err(error(format!("policy.{}", wrong.field), wrong.message)),
        },
    }
}

fn body(attempt: PlannedAttempt) -> PlannedAttemptBody {
    PlannedAttemptBody {
        number: attempt.number,
        earliest: attempt.earliest.into(),
        latest: attempt.latest.into(),
    }
}
