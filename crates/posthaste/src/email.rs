//! An email, as an application writes it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use posthaste_core::Timestamp;
use posthaste_engine::EmailRequest;
use posthaste_engine::intake::{AttachmentRequest, CalendarRequest, PolicyRequest};

use crate::RetryPolicy;

/// An email, as an application writes it.
///
/// It is checked as a whole when it is handed to the [`Outbox`](crate::Outbox); what is wrong is
/// then said of all fields at once ([`Error::Invalid`](crate::Error::Invalid)).
///
/// ```
/// use posthaste::Email;
///
/// let email = Email::new("Studio <studio@example.org>", "Ada <ada@example.org>")
///     .subject("Your booking")
///     .text("See you on Friday.")
///     .html("<p>See you on <b>Friday</b>.</p>")
///     .message_key("booking-4711-confirmation");
/// ```
#[derive(Debug, Clone)]
#[must_use = "an email does nothing until it is handed to the outbox"]
pub struct Email {
    request: EmailRequest,
}

/// An iCalendar object that goes along with an email.
///
/// The module `calendar` makes it from fields; one that was made elsewhere is put together from its
/// two. It is checked when the email is taken in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calendar {
    /// The object: one VCALENDAR, with a METHOD of its own.
    pub content: String,
    /// The same METHOD: `REQUEST`, `CANCEL` and so on.
    pub method: String,
}

/// Which emails go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Priority {
    /// Before everything else.
    High,
    /// The default.
    Normal,
    /// When there is room.
    Low,
}

impl Email {
    /// An email from one address to another, each as `address` or `Name <address>`. It needs a
    /// [`text`](Self::text), an [`html`](Self::html) body or both.
    pub fn new(from: impl Into<String>, to: impl Into<String>) -> Self {
        Self {
            request: EmailRequest {
                from: from.into(),
                to: vec![to.into()],
                ..EmailRequest::default()
            },
        }
    }

    /// A further recipient.
    pub fn to(mut self, to: impl Into<String>) -> Self {
        self.request.to.push(to.into());
        self
    }

    /// A recipient of a copy.
    pub fn cc(mut self, cc: impl Into<String>) -> Self {
        self.request.cc.push(cc.into());
        self
    }

    /// A recipient of a copy whom the others do not see.
    pub fn bcc(mut self, bcc: impl Into<String>) -> Self {
        self.request.bcc.push(bcc.into());
        self
    }

    /// Where answers go, if not to the sender.
    pub fn reply_to(mut self, reply_to: impl Into<String>) -> Self {
        self.request.reply_to.push(reply_to.into());
        self
    }

    /// The subject.
    pub fn subject(mut self, subject: impl Into<String>) -> Self {
        self.request.subject = subject.into();
        self
    }

    /// The text body.
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.request.text = Some(text.into());
        self
    }

    /// The HTML body. Give a text, too: some readers show nothing else.
    pub fn html(mut self, html: impl Into<String>) -> Self {
        self.request.html = Some(html.into());
        self
    }

    /// A further header.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.request.headers.insert(name.into(), value.into());
        self
    }

    /// A file that goes along. `content_type` is its media type, such as `application/pdf`.
    pub fn attach(
        self,
        filename: impl Into<String>,
        content_type: impl Into<String>,
        content: impl AsRef<[u8]>,
    ) -> Self {
        self.file(filename.into(), content_type.into(), content.as_ref(), None)
    }

    /// A picture that the HTML body shows as `<img src="cid:…">`.
    pub fn picture(
        self,
        content_id: impl Into<String>,
        filename: impl Into<String>,
        content_type: impl Into<String>,
        content: impl AsRef<[u8]>,
    ) -> Self {
        let id = Some(content_id.into());
        self.file(filename.into(), content_type.into(), content.as_ref(), id)
    }

    fn file(
        mut self,
        filename: String,
        content_type: String,
        content: &[u8],
        content_id: Option<String>,
    ) -> Self {
        self.request.attachments.push(AttachmentRequest {
            filename,
            content_type: Some(content_type),
            content: BASE64.encode(content),
            content_id,
        });
        self
    }

    /// An invitation, a change of it or a cancellation. Mail readers show it with Accept and
    /// Decline; it also goes along as a file.
    pub fn calendar(mut self, calendar: impl Into<Calendar>) -> Self {
        let Calendar { content, method } = calendar.into();
        self.request.calendar = Some(CalendarRequest { content, method });
        self
    }

    /// Makes it safe to hand the same email in again: one key, one email, for as long as the
    /// outbox remembers it.
    pub fn message_key(mut self, key: impl Into<String>) -> Self {
        self.request.message_key = Some(key.into());
        self
    }

    /// Not to be sent before.
    pub fn send_at(mut self, at: Timestamp) -> Self {
        self.request.send_at = Some(at.to_string());
        self
    }

    /// Of no use after this moment: what could not be sent by then is given up.
    pub fn expires_at(mut self, at: Timestamp) -> Self {
        self.request.expires_at = Some(at.to_string());
        self
    }

    /// Which emails go first.
    pub fn priority(mut self, priority: Priority) -> Self {
        let name = match priority {
            Priority::High => "high",
            Priority::Normal => "normal",
            Priority::Low => "low",
        };
        self.request.priority = Some(name.to_owned());
        self
    }

    /// A retry policy for this email alone.
    pub fn retry_policy(mut self, policy: RetryPolicy) -> Self {
        self.request.retry_policy = Some(PolicyRequest::Own(Box::new(policy.0)));
        self
    }

    /// Data of your own that is kept with it.
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.request.metadata.insert(key.into(), value.into());
        self
    }

    /// What the engine is asked for. Emails follow the outbox's policy unless they have their own.
    pub(crate) fn into_request(mut self) -> EmailRequest {
        self.request
            .retry_policy
            .get_or_insert_with(|| PolicyRequest::Named(crate::policy::NAME.to_owned()));
        self.request
    }
}
