//! A retry policy as callers write it.

use std::fmt;

use posthaste_core::duration::HumanDuration;
use posthaste_core::retry_policy::{OnUnknown, RetryPolicy};
use posthaste_engine::intake::{FieldError, PolicyRequest};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize as DeriveDeserialize, Serialize};
use utoipa::ToSchema;

use crate::json::{List, Object};

/// A policy by name, or one of its own.
#[derive(Debug, Clone)]
pub(crate) enum PolicyBody {
    Named(String),
    Own(Box<RetryPolicyBody>),
}

impl<'de> Deserialize<'de> for PolicyBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PolicyVisitor;
        impl<'de> Visitor<'de> for PolicyVisitor {
            type Value = PolicyBody;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a policy or an object")
            }
            fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
                Ok(PolicyBody::Named(name.to_owned()))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                let own = RetryPolicyBody::deserialize(MapAccessDeserializer::new(map))?;
                Ok(PolicyBody::Own(Box::new(own)))
            }
        }
        deserializer.deserialize_any(PolicyVisitor)
    }
}

/// How often and when a failed email is tried again. Durations are written as `200ms`, `30s`,
/// `1m`, `3h` or `1d`.
#[derive(Debug, Clone, DeriveDeserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = RetryPolicy)]
pub(crate) struct RetryPolicyBody {
    /// How many attempts may fail before the email is dead.
    #[schema(minimum = 1, maximum = 100, example = 5)]
    max_attempts: i64,
    /// The delays between attempts.
    #[schema(value_type = BackoffBody)]
    #[serde(serialize_with = "inner")]
    backoff: Object<BackoffBody>,
    /// A random time up to this is added to each delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "30s")]
    jitter: Option<String>,
    /// What happens after a lost reply: `resend` (default) or `hold`.
    #[serde(skip_serializing_if = "Option::is_none")]
    on_unknown: Option<String>,
    /// How many times an uncertain email is sent again by itself. Default 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_unknown_resends: Option<i64>,
    /// An email that could not be sent for this long after it was accepted is dead.
    #[serde(skip_serializing_if = "Option::is_none")]
    expire_after: Option<String>,
}

/// Either `schedule`, or `base` with `factor` and `cap`.
#[derive(Debug, Clone, DeriveDeserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Backoff)]
pub(crate) struct BackoffBody {
    /// The delays in order; the last one repeats.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "entries")]
    #[schema(value_type = Option<Vec<String>>, example = json!(["1m", "5m", "15m"]))]
    schedule: Option<List<String, 1_000>>,
    /// The first delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    base: Option<String>,
    /// What each further delay is multiplied with. Default 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    factor: Option<f64>,
    /// The longest delay. Default 30 days.
    #[serde(skip_serializing_if = "Option::is_none")]
    cap: Option<String>,
}

fn inner<S: serde::Serializer>(object: &Object<BackoffBody>, to: S) -> Result<S::Ok, S::Error> {
    object.0.serialize(to)
}

#[allow(clippy::ref_option)]
fn entries<S: serde::Serializer>(
    list: &Option<List<String, 1_000>>,
    to: S,
) -> Result<S::Ok, S::Error> {
    list.as_ref().map(|list| &list.0).serialize(to)
}

impl PolicyBody {
    /// The policy that is asked for, or all that is wrong with it.
    pub(super) fn into_request(self) -> Result<PolicyRequest, Vec<FieldError>> {
        match self {
            Self::Named(name) => Ok(PolicyRequest::Named(name)),
            Self::Own(own) => own
                .into_policy()
                .map(|own| PolicyRequest::Own(Box::new(own))),
        }
    }
}

impl RetryPolicyBody {
    fn into_policy(self) -> Result<RetryPolicy, Vec<FieldError>> {
        let errors = self.findings();
        if !errors.is_empty() {
            return Err(errors);
        }
        // Through the core's own reading, which knows the defaults.
        serde_json::to_value(&self)
            .and_then(serde_json::from_value)
            .map_err(|error| vec![finding("", error.to_string())])
    }

    /// Everything that the core's own reading would only call wrong as a whole.
    fn findings(&self) -> Vec<FieldError> {
        let mut found = Vec::new();
        if !(1..=100).contains(&self.max_attempts) {
            found.push(finding("max_attempts", "must be from 1 to 100".into()));
        }
        if self
            .max_unknown_resends
            .is_some_and(|n| !(0..=100).contains(&n))
        {
            found.push(finding(
                "max_unknown_resends",
                "must be from 0 to 100".into(),
            ));
        }
        if let Some(text) = &self.on_unknown
            && let Err(error) = text.parse::<OnUnknown>()
        {
            found.push(finding("on_unknown", error.to_string()));
        }
        let backoff = &self.backoff.0;
        let mut duration = |field: String, text: &str| {
            if let Err(error) = text.parse::<HumanDuration>() {
                found.push(finding(&field, error.to_string()));
            }
        };
        for (field, text) in [
            ("jitter", &self.jitter),
            ("expire_after", &self.expire_after),
            ("backoff.base", &backoff.base),
            ("backoff.cap", &backoff.cap),
        ] {
            if let Some(text) = text {
                duration(field.to_owned(), text);
            }
        }
        for (index, text) in backoff
            .schedule
            .iter()
            .flat_map(|list| list.0.iter().enumerate())
        {
            duration(format!("backoff.schedule[{index}]"), text);
        }
        let exponential =
            backoff.base.is_some() || backoff.factor.is_some() || backoff.cap.is_some();
        match (&backoff.schedule, &backoff.base) {
            (Some(_), _) if exponential => found.push(finding(
                "backoff",
                "has both a schedule and a base; give one of them".into(),
            )),
            (None, None) => found.push(finding(
                "backoff",
                "needs a schedule such as [\"1m\", \"5m\"], or a base such as \"30s\"".into(),
            )),
            _ => {}
        }
        found
    }
}

fn finding(field: &str, message: String) -> FieldError {
    let field = match field {
        "" => "retry_policy".to_owned(),
        field => format!("retry_policy.{field}"),
    };
    FieldError { field, message }
}
