//! How long what is over is kept.

use std::time::Duration;

use posthaste_core::duration::HumanDuration;
use posthaste_core::port::Retention;
use serde::{Deserialize, Deserializer};

use super::load::ConfigError;
use super::settings::Settings;

/// What only people can bring to an end is kept at least this long.
const SHORTEST: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, Deserialize)]
#[allow(missing_docs)]
pub(crate) struct RetentionSettings {
    pub(crate) sent: HumanDuration,
    pub(crate) dead: HumanDuration,
    pub(crate) captures: HumanDuration,
    pub(crate) audit: HumanDuration,
    #[serde(deserialize_with = "duration_or_empty")]
    pub(crate) attempts: Option<HumanDuration>,
    #[serde(deserialize_with = "duration_or_empty")]
    pub(crate) content: Option<HumanDuration>,
    pub(crate) messages: HumanDuration,
}

/// A duration; an empty text is none.
fn duration_or_empty<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<HumanDuration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(serde::de::Error::custom)
}

impl RetentionSettings {
    /// Refuses to remove what nobody could have seen.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let kept = [
            (
                "retention.dead",
                self.dead,
                "dead letters would be removed as they die, before anyone can retry them",
            ),
            (
                "retention.audit",
                self.audit,
                "nobody could find out who did what",
            ),
        ];
        for (place, kept, otherwise) in kept {
            if kept.0 < SHORTEST {
                let least = HumanDuration(SHORTEST);
                let message = format!("must be at least {least}: with {kept}, {otherwise}");
                return Err(ConfigError::new(place, message));
            }
        }
        Ok(())
    }
}

impl Settings {
    /// How long to keep what is over.
    #[must_use]
    pub(crate) fn retention(&self) -> Retention {
        let RetentionSettings {
            sent,
            dead,
            captures,
            audit,
            attempts,
            content,
            ..
        } = self.retention;
        Retention {
            sent: sent.0,
            dead: dead.0,
            attempts: attempts.map(|kept| kept.0),
            content: content.map(|kept| kept.0),
            captures: captures.0,
            audit: audit.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::load::load;
    use crate::config::Overrides;

    #[test]
    fn what_nobody_could_have_seen_is_not_removed() {
        for (option, kept, is_valid) in [
            ("DEAD", "0s", false),
            ("DEAD", "999ms", false),
            ("DEAD", "1s", true),
            ("AUDIT", "0s", false),
            ("SENT", "0s", true),
        ] {
            let variable = format!("POSTHASTE_RETENTION__{option}");
            let environment = BTreeMap::from([(variable, kept.to_owned())]);
            match load(&Overrides::default(), &environment) {
                Ok(_) => assert!(is_valid, "{option} = {kept}"),
                Err(error) => {
                    let error = error.to_string();
                    let place = format!("retention.{}", option.to_lowercase());
                    assert!(!is_valid && error.contains(&place), "{error}");
                    assert!(error.contains("must be at least 1s: with"), "{error}");
                }
            }
        }
    }
}
