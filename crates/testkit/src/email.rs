//! Emails to be accepted, where a test says only what matters to it.

use bytes::Bytes;
use posthaste_core::Timestamp;
use posthaste_core::address::Address;
use posthaste_core::email::{EmailId, Envelope, NewEmail, PolicyChoice, Summary};
use posthaste_core::retry_policy::RetryPolicy;
use posthaste_core::status::Priority;

/// An email that is about to be accepted.
#[derive(Debug, Clone)]
#[must_use]
pub struct EmailBuilder {
    email: NewEmail,
}

/// An email with this key: from Ann to Bob, due at once, under the policy `email`.
pub fn an_email(key: &str) -> EmailBuilder {
    EmailBuilder {
        email: NewEmail {
            id: EmailId::generate(),
            owner: "default".into(),
            message_key: key.into(),
            payload_hash: hash(key),
            template: None,
            priority: Priority::Normal,
            envelope: Envelope {
                from: address("ann@example.com"),
                recipients: vec![address("bob@example.org")],
            },
            summary: Summary {
                from: "Ann <ann@example.com>".into(),
                to: vec!["bob@example.org".into()],
                subject: format!("Subject of {key}"),
            },
            content: Bytes::from(format!("Subject: Subject of {key}\r\n\r\nHello\r\n")),
            metadata: Default::default(),
            policy: PolicyChoice::default(),
            max_attempts: None,
            route: None,
            send_at: None,
            expires_at: None,
            traceparent: None,
        },
    }
}

pub(crate) fn address(text: &str) -> Address {
    Address::parse(text).unwrap_or_else(|error| panic!("`{text}` {error}"))
}

/// Different payloads have different hashes; that is all that is asked of it here.
fn hash(payload: &str) -> [u8; 32] {
    let mut hash = [0u8; 32];
    for (at, byte) in payload.bytes().enumerate() {
        hash[at % 32] = hash[at % 32].rotate_left(3) ^ byte;
    }
    hash
}

impl EmailBuilder {
    /// Under this id.
    pub fn id(mut self, id: EmailId) -> Self {
        self.email.id = id;
        self
    }

    /// Of this owner.
    pub fn owner(mut self, owner: &str) -> Self {
        self.email.owner = owner.into();
        self
    }

    /// To these addresses.
    pub fn to<'a>(mut self, to: impl IntoIterator<Item = &'a str>) -> Self {
        self.email.envelope.recipients = to.into_iter().map(address).collect();
        let recipients = self.email.envelope.recipients.iter();
        self.email.summary.to = recipients.map(|to| to.as_str().to_owned()).collect();
        self
    }

    /// With this subject.
    pub fn subject(mut self, subject: &str) -> Self {
        self.email.summary.subject = subject.into();
        self
    }

    /// With this MIME message.
    pub fn content(mut self, content: impl Into<Bytes>) -> Self {
        self.email.content = content.into();
        self
    }

    /// As if the caller had given this: what decides whether a key is used for the same again.
    pub fn payload(mut self, payload: &str) -> Self {
        self.email.payload_hash = hash(payload);
        self
    }

    /// Rendered from this template.
    pub fn template(mut self, template: &str) -> Self {
        self.email.template = Some(template.into());
        self
    }

    /// With this priority.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.email.priority = priority;
        self
    }

    /// With this entry of the caller's own data.
    pub fn metadata(mut self, key: &str, value: &str) -> Self {
        self.email.metadata.insert(key.into(), value.into());
        self
    }

    /// Under the policy of this name.
    pub fn policy(mut self, name: &str) -> Self {
        self.email.policy = PolicyChoice::Named(name.into());
        self
    }

    /// Under a policy of its own.
    pub fn own_policy(mut self, policy: RetryPolicy) -> Self {
        self.email.policy = PolicyChoice::Own(Box::new(policy));
        self
    }

    /// With a budget of its own.
    pub fn max_attempts(mut self, max_attempts: u32) -> Self {
        self.email.max_attempts = Some(max_attempts);
        self
    }

    /// By this route.
    pub fn route(mut self, route: &str) -> Self {
        self.email.route = Some(route.into());
        self
    }

    /// Not to be sent before.
    pub fn send_at(mut self, at: Timestamp) -> Self {
        self.email.send_at = Some(at);
        self
    }

    /// Not to be sent after.
    pub fn expires_at(mut self, at: Timestamp) -> Self {
        self.email.expires_at = Some(at);
        self
    }

    /// The email.
    pub fn build(self) -> NewEmail {
        self.email
    }
}

impl From<EmailBuilder> for NewEmail {
    fn from(builder: EmailBuilder) -> Self {
        builder.build()
    }
}
