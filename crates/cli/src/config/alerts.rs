//! Who is told when emails die, and how often.

use std::sync::Arc;
use std::time::Duration;

use posthaste_alert::{InvalidChannel, PagerDuty, Slack, Webhook};
use posthaste_core::duration::HumanDuration;
use posthaste_core::port::AlertChannel;
use posthaste_engine::AlertConfig;
use serde::Deserialize;
use toml::{Table, Value};

use super::load::ConfigError;
use super::settings::Settings;

/// A value that is never shown.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub(crate) struct Secret(String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_empty() { "\"\"" } else { "***" })
    }
}

#[derive(Debug, Clone, Deserialize)]
#[allow(missing_docs)]
pub(crate) struct Alerts {
    gather: HumanDuration,
    every: HumanDuration,
    longest: HumanDuration,
    dashboard_url: String,
    slack: SlackSettings,
    pagerduty: PagerDutySettings,
    webhook: WebhookSettings,
}

#[derive(Debug, Clone, Deserialize)]
struct SlackSettings {
    url: Secret,
}

#[derive(Debug, Clone, Deserialize)]
struct PagerDutySettings {
    routing_key: Secret,
    url: String,
}

#[derive(Debug, Clone, Deserialize)]
struct WebhookSettings {
    url: Secret,
    secret: Secret,
}

impl Settings {
    /// When alerts are told.
    pub(crate) fn alert_config(&self) -> AlertConfig {
        let alerts = &self.alerts;
        AlertConfig {
            gather: alerts.gather.0,
            every: alerts.every.0,
            longest: alerts.longest.0,
            service: self.service.name.clone(),
            dashboard_url: Some(alerts.dashboard_url.clone()).filter(|url| !url.is_empty()),
            ..AlertConfig::default()
        }
    }

    /// Who is told.
    pub(crate) fn alert_channels(&self) -> Result<Vec<Arc<dyn AlertChannel>>, ConfigError> {
        let Alerts {
            slack,
            pagerduty,
            webhook,
            ..
        } = &self.alerts;
        let mut channels: Vec<Arc<dyn AlertChannel>> = Vec::new();
        if !slack.url.0.is_empty() {
            let made = Slack::new(&slack.url.0).map_err(invalid("alerts.slack"))?;
            channels.push(Arc::new(made));
        }
        if !pagerduty.routing_key.0.is_empty() {
            let made = PagerDuty::new(&pagerduty.url, &pagerduty.routing_key.0)
                .map_err(invalid("alerts.pagerduty"))?;
            channels.push(Arc::new(made));
        }
        if !(webhook.url.0.is_empty() && webhook.secret.0.is_empty()) {
            let made = Webhook::new(&webhook.url.0, &webhook.secret.0)
                .map_err(invalid("alerts.webhook"))?;
            channels.push(Arc::new(made));
        }
        Ok(channels)
    }
}

/// Names the option that is to be mended.
fn invalid(section: &str) -> impl FnOnce(InvalidChannel) -> ConfigError {
    move |error| {
        let place = match &error {
            InvalidChannel::Url => format!("{section}.url"),
            InvalidChannel::RoutingKey => format!("{section}.routing_key"),
            InvalidChannel::Secret => format!("{section}.secret"),
            InvalidChannel::Client(_) => section.to_owned(),
        };
        ConfigError::new(place, error.to_string())
    }
}

impl Alerts {
    /// Refuses what cannot work. That of each channel is checked when it is made.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        if self.every.0 < Duration::from_secs(1) {
            return Err(ConfigError::new("alerts.every", "must be at least 1s"));
        }
        if self.longest < self.every {
            let message = format!("must be at least as long as alerts.every, {}", self.every);
            return Err(ConfigError::new("alerts.longest", message));
        }
        let url = self.dashboard_url.as_str();
        if !(url.is_empty() || url.starts_with("https://") || url.starts_with("http://")) {
            let message =
                "must be the address of the dashboard for people, such as https://mail.example.org";
            return Err(ConfigError::new("alerts.dashboard_url", message));
        }
        Ok(())
    }
}

/// Takes what is secret out of the section, for showing it.
pub(super) fn hide_secrets(table: &mut Table) {
    let Some(Value::Table(alerts)) = table.get_mut("alerts") else {
        return;
    };
    for (channel, option) in [
        ("slack", "url"),
        ("pagerduty", "routing_key"),
        ("webhook", "url"),
        ("webhook", "secret"),
    ] {
        let value = alerts
            .get_mut(channel)
            .and_then(|section| section.get_mut(option));
        if let Some(Value::String(text)) = value
            && !text.is_empty()
        {
            // Of a URL, the host says which channel is meant.
            let host = text
                .split_once("://")
                .and_then(|(scheme, rest)| Some((scheme, rest.split(['/', '?']).next()?)))
                .filter(|(_, host)| !host.contains('@'));
            *text = match host {
                Some((scheme, host)) => format!("{scheme}://{host}/***"),
                None => "***".to_owned(),
            };
        }
    }
}
