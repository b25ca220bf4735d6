//! `[transport.<name>]`: one way out.

use std::collections::BTreeMap;
use std::sync::Arc;

use posthaste_core::duration::HumanDuration;
use posthaste_core::port::{FeedbackReader, Transport};
use posthaste_transport::feedback::{self, FeedbackConfig};
use posthaste_transport::{HttpConfig, HttpTransport, ProviderConfig, SmtpConfig};
use secrecy::SecretString;
use serde::Deserialize;
use toml::{Table, Value};

use super::load::ConfigError;
use super::ways::LimitSettings;

/// Every key of a transport, with its kind. Environment variables and the check for unknown keys
/// go by it.
const KEYS: &str = r#"
kind = ""
url = ""
api_key = ""
base_url = ""
server_token = ""
message_stream = ""
domain = ""
access_key_id = ""
secret_access_key = ""
session_token = ""
region = ""
configuration_set = ""
method = ""
body = ""
id_pointer = ""
error_pointer = ""
idempotency_header = ""
honours_key = false
webhook_secret = ""
webhook_public_key = ""
webhook_username = ""
webhook_password = ""
webhook_server_id = 0
topic_arn = ""
rate = 0.0
concurrency = 0
connect_timeout = ""
request_timeout = ""
[headers]
"#;

/// What is never shown.
const SECRETS: [&str; 6] = [
    "api_key",
    "server_token",
    "secret_access_key",
    "session_token",
    "webhook_secret",
    "webhook_password",
];

/// The keys of a transport.
pub(super) fn keys() -> Table {
    KEYS.parse().unwrap_or_default()
}

/// Takes what is secret out of the sections, for showing them.
pub(super) fn hide_secrets(table: &mut Table) {
    let Some(Value::Table(transports)) = table.get_mut("transport") else {
        return;
    };
    for (_, transport) in transports {
        let Value::Table(transport) = transport else {
            continue;
        };
        for key in SECRETS {
            if let Some(value) = transport.get_mut(key) {
                *value = Value::String("***".to_owned());
            }
        }
        // An API's address and body may hold a token. (The password of a mail server is taken out
        // of its URL as it is of all others.)
        let is_http = transport.get("kind").and_then(Value::as_str) == Some("http");
        if let (true, Some(Value::String(url))) = (is_http, transport.get_mut("url")) {
            let end = url.find("://").map_or(0, |at| at + 3);
            let host = url[end..]
                .find(['/', '?', '#'])
                .map_or(url.len(), |at| end + at);
            url.truncate(host);
            url.push_str("/***");
        }
        if let (true, Some(body)) = (is_http, transport.get_mut("body")) {
            *body = Value::String("***".to_owned());
        }
        if let Some(Value::Table(headers)) = transport.get_mut("headers") {
            for (_, value) in headers {
                *value = Value::String("***".to_owned());
            }
        }
    }
}

/// Whose API or server it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// A mail server.
    Smtp,
    /// Resend.
    Resend,
    /// SendGrid.
    Sendgrid,
    /// Postmark.
    Postmark,
    /// Mailgun.
    Mailgun,
    /// Amazon SES.
    Ses,
    /// Any other API that takes JSON.
    Http,
}

/// One way out.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub(crate) struct TransportSettings {
    kind: Kind,
    #[serde(default)]
    url: String,
    #[serde(default)]
    api_key: String,
    #[serde(default)]
    base_url: String,
    #[serde(default)]
    server_token: String,
    #[serde(default)]
    message_stream: String,
    #[serde(default)]
    domain: String,
    #[serde(default)]
    access_key_id: String,
    #[serde(default)]
    secret_access_key: String,
    #[serde(default)]
    session_token: String,
    #[serde(default)]
    region: String,
    #[serde(default)]
    configuration_set: String,
    #[serde(default)]
    method: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    body: String,
    #[serde(default)]
    id_pointer: String,
    #[serde(default)]
    error_pointer: String,
    #[serde(default)]
    idempotency_header: String,
    #[serde(default)]
    honours_key: bool,
    #[serde(default)]
    webhook_secret: String,
    #[serde(default)]
    webhook_public_key: String,
    #[serde(default)]
    webhook_username: String,
    #[serde(default)]
    webhook_password: String,
    #[serde(default)]
    webhook_server_id: u64,
    #[serde(default)]
    topic_arn: String,
    #[serde(default)]
    rate: f64,
    #[serde(default)]
    concurrency: usize,
    connect_timeout: Option<HumanDuration>,
    request_timeout: Option<HumanDuration>,
}

impl std::fmt::Debug for TransportSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TransportSettings")
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

fn given(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| !text.is_empty())
}

fn secret(text: &str) -> SecretString {
    SecretString::from(text.to_owned())
}

impl TransportSettings {
    /// How much may go by it.
    pub(crate) const fn limits(&self) -> LimitSettings {
        LimitSettings::new(self.rate, self.concurrency)
    }

    /// The mail server, if it is one.
    pub(crate) fn smtp(&self, name: &str) -> Option<Result<SmtpConfig, ConfigError>> {
        (self.kind == Kind::Smtp).then(|| {
            let place = format!("transport.{name}.url");
            let mut config = SmtpConfig::from_url(&self.url)
                .map_err(|error| ConfigError::new(place, error.to_string()))?;
            name.clone_into(&mut config.name);
            Ok(config)
        })
    }

    fn provider(&self) -> Option<ProviderConfig> {
        let base_url = given(&self.base_url);
        Some(match self.kind {
            Kind::Smtp => return None,
            Kind::Resend => ProviderConfig::Resend {
                api_key: secret(&self.api_key),
                base_url,
            },
            Kind::Sendgrid => ProviderConfig::SendGrid {
                api_key: secret(&self.api_key),
                base_url,
            },
            Kind::Postmark => ProviderConfig::Postmark {
                server_token: secret(&self.server_token),
                message_stream: given(&self.message_stream),
                base_url,
            },
            Kind::Mailgun => ProviderConfig::Mailgun {
                api_key: secret(&self.api_key),
                domain: self.domain.clone(),
                base_url,
            },
            Kind::Ses => ProviderConfig::Ses {
                access_key_id: self.access_key_id.clone(),
                secret_access_key: secret(&self.secret_access_key),
                session_token: given(&self.session_token).map(|token| secret(&token)),
                region: self.region.clone(),
                configuration_set: given(&self.configuration_set),
                endpoint: base_url,
            },
            Kind::Http => ProviderConfig::Http {
                url: self.url.clone(),
                method: given(&self.method),
                headers: self
                    .headers
                    .iter()
                    .map(|(name, value)| (name.clone(), secret(value)))
                    .collect(),
                body_template: self.body.clone(),
                id_pointer: given(&self.id_pointer),
                error_pointer: given(&self.error_pointer),
                idempotency_header: given(&self.idempotency_header),
                honours_key: self.honours_key,
            },
        })
    }

    /// The provider's API, if it is one.
    pub(crate) fn http(
        &self,
        name: &str,
        connections: usize,
    ) -> Result<Option<Arc<dyn Transport>>, ConfigError> {
        let Some(provider) = self.provider() else {
            return Ok(None);
        };
        let mut config = HttpConfig::new(name, provider);
        config.connections = connections;
        if let Some(timeout) = self.connect_timeout {
            config.connect_timeout = timeout.0;
        }
        if let Some(timeout) = self.request_timeout {
            config.request_timeout = timeout.0;
        }
        let transport = HttpTransport::new(config)
            .map_err(|error| ConfigError::new(format!("transport.{name}"), error.to_string()))?;
        Ok(Some(Arc::new(transport)))
    }

    /// Who reads what the provider says later, if it is to be heard.
    pub(crate) fn feedback(
        &self,
        name: &str,
    ) -> Result<Option<Arc<dyn FeedbackReader>>, ConfigError> {
        let config = match self.kind {
            Kind::Resend if !self.webhook_secret.is_empty() => FeedbackConfig::Resend {
                secret: secret(&self.webhook_secret),
            },
            Kind::Sendgrid if !self.webhook_public_key.is_empty() => FeedbackConfig::SendGrid {
                public_key: self.webhook_public_key.clone(),
            },
            Kind::Postmark if !self.webhook_password.is_empty() => FeedbackConfig::Postmark {
                username: self.webhook_username.clone(),
                password: secret(&self.webhook_password),
                server_id: Some(self.webhook_server_id).filter(|id| *id > 0),
            },
            Kind::Mailgun if !self.webhook_secret.is_empty() => FeedbackConfig::Mailgun {
                signing_key: secret(&self.webhook_secret),
                domain: given(&self.domain),
            },
            Kind::Ses if !self.topic_arn.is_empty() => FeedbackConfig::Ses {
                topic_arn: self.topic_arn.clone(),
            },
            _ => return Ok(None),
        };
        feedback::reader(config)
            .map(Some)
            .map_err(|error| ConfigError::new(format!("transport.{name}"), error.to_string()))
    }

    /// Refuses what cannot work.
    pub(super) fn check(&self, place: &str) -> Result<(), ConfigError> {
        self.limits().check(place)?;
        let name = place.strip_prefix("transport.").unwrap_or(place);
        if let Some(smtp) = self.smtp(name) {
            smtp?;
        }
        self.http(name, 1)?;
        self.feedback(name)?;
        Ok(())
    }
}
