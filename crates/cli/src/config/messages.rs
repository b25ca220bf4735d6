//! The options of the message lane.

use posthaste_core::duration::HumanDuration;
use posthaste_core::message::MessagePolicy;
use posthaste_core::port::MessageRetention;
use posthaste_core::retry_policy::{Backoff, OnUnknown, RetryPolicy};
use posthaste_engine::MessageConfig;
use serde::Deserialize;

use super::load::ConfigError;
use super::settings::Settings;

/// The name of the policy that messages follow.
pub(crate) const MESSAGE_POLICY: &str = "message";

#[derive(Debug, Clone, Deserialize)]
#[allow(missing_docs)]
pub(crate) struct Messages {
    pub(crate) queue: String,
    pub(crate) max_retries: u32,
    pub(crate) base_delay: HumanDuration,
    pub(crate) max_delay: HumanDuration,
    pub(crate) jitter: HumanDuration,
    pub(crate) poll_interval: HumanDuration,
    pub(crate) max_publish_failures: u32,
    pub(crate) prefetch: u16,
}

impl Messages {
    /// The delays, if they make sense.
    pub(super) fn checked_policy(&self) -> Result<RetryPolicy, ConfigError> {
        let policy = self.retry_policy();
        policy.validate().map_err(|error| {
            let place = match error.field {
                "max_attempts" => "messages.max_retries (DEFAULT_MAX_RETRIES)",
                "backoff.base" => "messages.base_delay (BASE_DELAY_MS)",
                "backoff.cap" => "messages.max_delay (MAX_DELAY_MS)",
                _ => "messages.jitter",
            };
            ConfigError::new(place, error.message)
        })?;
        Ok(policy)
    }

    /// Whether the queue can have this name, as far as it can be told without the others.
    pub(super) fn check_queue(&self) -> Result<(), ConfigError> {
        if self.queue.is_empty() || self.queue.len() > 255 {
            let message = "must be the name of a queue, of at most 255 bytes";
            return Err(ConfigError::new("messages.queue (RETRY_QUEUE)", message));
        }
        Ok(())
    }

    /// The delays as they are configured here.
    pub(super) fn retry_policy(&self) -> RetryPolicy {
        RetryPolicy {
            max_attempts: self.max_retries,
            backoff: Backoff::Exponential {
                base: self.base_delay,
                factor: 2.0,
                cap: self.max_delay,
            },
            jitter: self.jitter,
            on_unknown: OnUnknown::Resend,
            max_unknown_resends: 0,
            expire_after: None,
        }
    }
}

impl Settings {
    /// How the message lane works.
    pub(crate) fn message_config(&self) -> Result<MessageConfig, ConfigError> {
        let policies = self.policies()?;
        let named = policies.get(MESSAGE_POLICY).cloned();
        // Time enough for RabbitMQ's answer, and for writing it down.
        let answered = self.broker.publish_timeout.0.saturating_mul(2);
        Ok(MessageConfig {
            policy: MessagePolicy {
                retry: named.unwrap_or_else(|| self.messages.retry_policy()),
                max_publish_failures: self.messages.max_publish_failures,
            },
            poll_interval: self.messages.poll_interval.0,
            lease: MessageConfig::default().lease.max(answered),
            retention: MessageRetention {
                retried: self.retention.messages.0,
                failed: self.retention.dead.0,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::super::load::load;
    use crate::config::Overrides;

    #[test]
    fn a_claim_outlasts_the_wait_for_rabbitmq() {
        for (timeout, lease) in [("5s", 30), ("60s", 120)] {
            let variable = "POSTHASTE_BROKER__PUBLISH_TIMEOUT".to_owned();
            let environment = BTreeMap::from([(variable, timeout.to_owned())]);
            let settings = load(&Overrides::default(), &environment).unwrap().settings;
            let config = settings.message_config().unwrap();
            assert_eq!(config.lease, Duration::from_secs(lease), "{timeout}");
        }
    }
}
