//! Any receiver, by a webhook that is signed as Standard Webhooks says.

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use posthaste_core::alert::Alert;
use posthaste_core::port::AlertChannel;
use reqwest::StatusCode;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::client::{InvalidChannel, Poster, usual_advice};
use crate::text::{Urgency, error_of, link, told_groups, urgency};

/// A receiver of signed webhooks.
pub struct Webhook {
    poster: Poster,
    signer: Hmac<Sha256>,
}

impl Webhook {
    /// Tells this URL, and signs with this secret: `whsec_` and 24 to 64 bytes in base64.
    ///
    /// # Errors
    ///
    /// If the URL or the secret cannot be used.
    pub fn new(url: &str, secret: &str) -> Result<Self, InvalidChannel> {
        let invalid = || InvalidChannel::Secret;
        let encoded = secret.strip_prefix("whsec_").ok_or_else(invalid)?;
        let key = STANDARD.decode(encoded).map_err(|_| invalid())?;
        if !(24..=64).contains(&key.len()) {
            return Err(invalid());
        }
        let signer = Hmac::new_from_slice(&key).map_err(|_| invalid())?;
        Ok(Self {
            poster: Poster::new(url)?,
            signer,
        })
    }

    /// The three headers of a message. The time is that of this try.
    fn headers(&self, alert: &Alert, body: &[u8]) -> Result<HeaderMap, String> {
        let timestamp = alert.at.as_second().to_string();
        let mut signer = self.signer.clone();
        for part in [alert.id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
            signer.update(part);
        }
        let signature = STANDARD.encode(signer.finalize().into_bytes());
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("webhook-id", alert.id.as_str()),
            ("webhook-timestamp", &timestamp),
            ("webhook-signature", &format!("v1,{signature}")),
        ] {
            let value = HeaderValue::from_str(value)
                .map_err(|_| format!("the {name} cannot stand in a header"))?;
            headers.insert(HeaderName::from_static(name), value);
        }
        Ok(headers)
    }
}

impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Webhook").finish_non_exhaustive()
    }
}

#[async_trait]
impl AlertChannel for Webhook {
    fn name(&self) -> &str {
        "webhook"
    }

    async fn tell(&self, alert: &Alert) -> Result<(), String> {
        let body = message(alert).to_string().into_bytes();
        let headers = self.headers(alert, &body)?;
        self.poster.post(headers, body, advice).await
    }
}

fn advice(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            "check that alerts.webhook.secret is the one that the receiver knows"
        }
        other => usual_advice(other),
    }
}

/// What it is about. A receiver that only knows of dead emails is told of all of them as ever.
fn kind_of(alert: &Alert) -> &'static str {
    match urgency(alert) {
        Urgency::Test => "alert.test",
        _ if alert.count() > 0 => "email.dead_lettered",
        Urgency::Stopped => "transport.stopped",
        Urgency::Recovered => "transport.recovered",
        Urgency::Dead => "email.dead_lettered",
    }
}

fn message(alert: &Alert) -> Value {
    let (groups, others) = told_groups(alert);
    let groups: Vec<Value> = groups
        .iter()
        .map(|group| {
            json!({
                "fingerprint": group.fingerprint,
                "reason": group.reason.as_str(),
                "count": group.count,
                "first_at": group.first_at,
                "last_at": group.last_at,
                "error": error_of(group),
                "email_id": group.email_id.to_string(),
            })
        })
        .collect();
    let (other_groups, other_emails) = others.unwrap_or_default();
    json!({
        "type": kind_of(alert),
        "timestamp": alert.at,
        "data": {
            "service": alert.service,
            "headline": alert.headline(),
            "count": alert.count(),
            "dead_letters": alert.dead_letters,
            "groups": groups,
            "other_groups": {"groups": other_groups, "count": other_emails},
            "url": link(alert).map(|(url, _)| url),
        },
    })
}

#[cfg(test)]
mod tests {
    use posthaste_core::Timestamp;

    use super::*;

    /// The example that the libraries of Standard Webhooks test themselves with.
    #[test]
    fn a_signature_is_that_of_the_standard() {
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let webhook = Webhook::new("https://example.org/", secret).unwrap();
        let alert = Alert {
            id: "msg_p5jXN8AQM9LWM0D4loKWxJek".into(),
            service: "posthaste".into(),
            dashboard_url: None,
            is_test: false,
            groups: Vec::new(),
            dead_letters: 0,
            at: Timestamp::from_second(1_614_265_330).unwrap(),
        };
        let headers = webhook.headers(&alert, br#"{"test": 2432232314}"#).unwrap();
        assert_eq!(headers["webhook-id"], alert.id);
        assert_eq!(headers["webhook-timestamp"], "1614265330");
        assert_eq!(
            headers["webhook-signature"],
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
        );
    }
}
