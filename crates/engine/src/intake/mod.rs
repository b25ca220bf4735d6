//! Takes emails in: checks them, builds the MIME message once, makes them durable, and only
//! then says yes. It never talks to a mail server itself; where a caller wants to wait for the
//! first attempt, a sender makes it.

mod aside;
mod calendar;
mod digest;
pub(crate) mod field_check;
mod finish;
mod inline;
mod mime;
mod postbox;
#[cfg(test)]
mod properties;
mod rejected;
mod request;
mod templated;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use posthaste_core::Timestamp;
use posthaste_core::email::{EmailId, NewEmail};
use posthaste_core::port::{
    Accepted, Broker, NoTracer, Opened, Opener, SharedStore, Span, SpanKind, StoreError,
    StoreResult, Ticket, Tracer,
};
use posthaste_core::status::Status;
use tokio::sync::Notify;
use tokio::time::Instant;

use self::aside::Aside;
use self::finish::finish;
pub use self::inline::{Delivered, FirstAttempt, Reserved};
use self::postbox::Postbox;
use self::rejected::Rejected;
pub use self::request::{
    AttachmentRequest, CalendarRequest, EmailRequest, FieldError, PolicyRequest,
};
use self::templated::Wanted;
use crate::metrics::{Metrics, Source};
use crate::sender::Sender;
use crate::sender::inline::Room;
use crate::{Policies, Templates};

/// The largest MIME message that is accepted, by default.
pub const LARGEST_MESSAGE_BYTES: usize = 25 * 1024 * 1024;

/// Whose emails are taken in, and what they may do.
#[derive(Debug, Clone)]
pub struct Submitter {
    /// The owner of what is accepted.
    pub owner: String,
    /// From addresses that may be used; empty for all.
    pub from_addresses: Vec<String>,
}

/// What became of one email.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taken {
    /// It is new and durable.
    Accepted {
        /// Its id.
        id: EmailId,
        /// Its key.
        message_key: String,
    },
    /// The same was accepted before.
    Replayed {
        /// Its id.
        id: EmailId,
        /// Its key.
        message_key: String,
        /// Where it is in its life.
        status: Status,
    },
}

/// Why an email was not taken.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Refused {
    /// Something about it is wrong.
    #[error("the email is not valid")]
    Invalid(Vec<FieldError>),
    /// It is larger than allowed.
    #[error("the email has {size} octets, at most {limit} are allowed")]
    TooLarge {
        /// Its size.
        size: usize,
        /// What is allowed.
        limit: usize,
    },
    /// Its key was used before for something else.
    #[error("the message_key was used before, for an email with other content ({0})")]
    KeyConflict(EmailId),
    /// The store could not keep it. Nothing was accepted.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Takes emails in.
pub struct Intake {
    store: SharedStore,
    postbox: Option<Postbox>,
    policies: Arc<Policies>,
    templates: Arc<Templates>,
    aside: Aside,
    metrics: Option<Arc<Metrics>>,
    scheduler: Arc<Notify>,
    source: Source,
    tracer: Arc<dyn Tracer>,
    /// Makes the attempts that callers wait for.
    sender: Option<Arc<Sender>>,
    largest_message_bytes: usize,
}

impl Intake {
    /// An intake that publishes tickets through `broker`. Without one, the running server's
    /// scheduler finds what was taken in.
    #[must_use]
    pub fn new(
        store: SharedStore,
        broker: Option<Arc<dyn Broker>>,
        policies: Arc<Policies>,
        metrics: Option<Arc<Metrics>>,
        scheduler: Arc<Notify>,
        source: Source,
    ) -> Self {
        let largest_message_bytes = LARGEST_MESSAGE_BYTES;
        let postbox = broker.map(|broker| Postbox::new(Arc::clone(&store), broker));
        let templates = Templates::new(Arc::clone(&store), Arc::clone(&policies));
        Self {
            store,
            postbox,
            policies,
            templates: Arc::new(templates),
            aside: Aside::new(),
            metrics,
            scheduler,
            source,
            tracer: Arc::new(NoTracer),
            sender: None,
            largest_message_bytes,
        }
    }

    /// Records the step of taking emails in.
    #[must_use]
    pub fn traced_by(mut self, tracer: Arc<dyn Tracer>) -> Self {
        self.tracer = tracer;
        self
    }

    /// The templates that emails are made from.
    #[must_use]
    pub const fn templates(&self) -> &Arc<Templates> {
        &self.templates
    }

    /// Takes emails in; the answers are in their order. One that is refused spoils no other.
    pub async fn take(
        self: &Arc<Self>,
        submitter: &Submitter,
        requests: Vec<EmailRequest>,
    ) -> Vec<Result<Taken, Refused>> {
        let now = self.store.now();
        let mut answers: Vec<Option<Result<Taken, Refused>>> = Vec::with_capacity(requests.len());
        let mut emails = Vec::with_capacity(requests.len());
        for checked in self.check(submitter, requests, now).await {
            match checked {
                Ok(email) => {
                    answers.push(None);
                    emails.push(email);
                }
                Err(rejected) => {
                    let answer = rejected.answer(&submitter.owner, &self.store).await;
                    answers.push(Some(answer));
                }
            }
        }
        // A caller that hangs up must not keep the rest from being done.
        let (intake, count) = (Arc::clone(self), emails.len());
        let keeping = async move { intake.keep_or_send(emails, now).await };
        let kept = finish(AssertUnwindSafe(keeping).catch_unwind()).await;
        let kept = kept.unwrap_or_else(|_| {
            let error = StoreError::Unavailable("taking emails in has panicked".into());
            vec![Err(Refused::Store(error)); count]
        });
        let mut kept = kept.into_iter();
        answers
            .into_iter()
            .filter_map(|answer| answer.or_else(|| kept.next()))
            .collect()
    }

    /// Checks requests and builds their messages. Templates are rendered aside, all in one go.
    async fn check(
        self: &Arc<Self>,
        submitter: &Submitter,
        requests: Vec<EmailRequest>,
        now: Timestamp,
    ) -> Vec<Result<NewEmail, Rejected>> {
        let mut wanted = Vec::with_capacity(requests.len());
        for request in &requests {
            wanted.push(match &request.template {
                Some(name) => Some(self.template(name).await),
                None => None,
            });
        }
        let count = requests.len();
        let renders = wanted.iter().any(Option::is_some);
        let (intake, submitter) = (Arc::clone(self), submitter.clone());
        let check = move || -> Vec<_> {
            let all = requests.into_iter().zip(wanted);
            all.map(|(request, template)| intake.prepare(&submitter, request, template, now))
                .collect()
        };
        if !renders {
            return check();
        }
        match self.aside.run(check).await {
            Ok(checked) => checked,
            Err(error) => (0..count).map(|_| Err(error.clone().into())).collect(),
        }
    }

    fn prepare(
        &self,
        submitter: &Submitter,
        request: EmailRequest,
        template: Option<StoreResult<Wanted>>,
        now: Timestamp,
    ) -> Result<NewEmail, Rejected> {
        let template = template.transpose()?;
        let email = request.check(submitter, &self.policies, template, now)?;
        let (size, limit) = (email.content.len(), self.largest_message_bytes);
        if size > limit {
            let (key, hash) = (email.message_key, email.payload_hash);
            return Err(Rejected::too_large(key, hash, size, limit));
        }
        Ok(email)
    }

    /// Checks an email and builds its message, for one who keeps it in a transaction of their own.
    /// Templates cannot be used here.
    ///
    /// # Errors
    ///
    /// If it is not valid.
    pub fn check_one(
        &self,
        submitter: &Submitter,
        request: EmailRequest,
    ) -> Result<NewEmail, Refused> {
        self.prepare(submitter, request, None, self.store.now())
            .map_err(Rejected::into_refused)
    }

    /// The template of this name, or what to say about it.
    async fn template(&self, name: &str) -> StoreResult<Wanted> {
        Ok(match self.templates.ready(name).await? {
            Some(ready) => Ok(ready),
            None => Err(self.templates.advice(name).await?),
        })
    }

    /// Begins the step of taking it in, which later steps follow from.
    fn trace(&self, email: &mut NewEmail) -> Box<dyn Span> {
        let parent = email.traceparent.as_deref();
        let mut span = self.tracer.begin("email accept", SpanKind::Server, parent);
        span.set("posthaste.email_id", email.id.0.into());
        email.traceparent = span.traceparent();
        span
    }

    /// Keeps emails. One that comes alone to a sender with room begins at once, in the same commit:
    /// it needs no ticket, and nobody has to read it again.
    async fn keep_or_send(
        &self,
        mut emails: Vec<NewEmail>,
        now: Timestamp,
    ) -> Vec<Result<Taken, Refused>> {
        if let [email] = &emails[..]
            && email.send_at.is_none()
            && let Some(sender) = &self.sender
            && let Some(room) = sender.room_for_fresh(email.priority).await
            && let Some(email) = emails.pop().map(Box::new)
        {
            return vec![self.begin_fresh(sender, room, email).await];
        }
        self.keep(emails, now).await
    }

    async fn begin_fresh(
        &self,
        sender: &Arc<Sender>,
        room: Room,
        email: Box<NewEmail>,
    ) -> Result<Taken, Refused> {
        let (id, message_key) = (email.id, email.message_key.clone());
        let (ticket, _) = ticket_of(&email, self.store.now());
        let asked = Instant::now();
        Ok(match self.open_by(sender, Opener::Sender, email).await? {
            Opened::Started(started) => {
                sender.send_fresh(started, asked, room);
                Taken::Accepted { id, message_key }
            }
            Opened::Replayed(email_id, status) => {
                // The first answer may have been lost together with the ticket.
                if let (Status::Pending, Some(postbox)) = (status, &self.postbox) {
                    postbox.post(vec![Ticket { email_id, ..ticket }]).await;
                }
                Taken::Replayed {
                    id: email_id,
                    message_key,
                    status,
                }
            }
            Opened::KeyConflict(id) => return Err(Refused::KeyConflict(id)),
        })
    }

    /// Accepts an email whose first attempt begins in the same commit.
    async fn open_by(
        &self,
        sender: &Sender,
        opener: Opener,
        mut email: Box<NewEmail>,
    ) -> Result<Opened, Refused> {
        let mut span = self.trace(&mut email);
        posthaste_core::failpoint::hit("intake.before_commit");
        let opened = self
            .store
            .accept_begun(vec![*email], opener, sender.worker(), sender.lease())
            .await
            .and_then(|mut opened| opened.pop().unwrap_or_else(|| Err(inline::closed())));
        let opened = opened.inspect_err(|error| span.fail(&error.to_string()))?;
        if let Opened::Started(_) = &opened {
            posthaste_core::failpoint::hit("intake.after_commit");
            if let Some(metrics) = &self.metrics {
                metrics.accepted_from(self.source, 1);
            }
        }
        Ok(opened)
    }

    async fn keep(&self, mut emails: Vec<NewEmail>, now: Timestamp) -> Vec<Result<Taken, Refused>> {
        if emails.is_empty() {
            return Vec::new();
        }
        let mut spans: Vec<_> = emails.iter_mut().map(|email| self.trace(email)).collect();
        let scheduled = emails.iter().any(|email| email.send_at.is_some());
        let tickets: Vec<(Ticket, Option<Timestamp>)> =
            emails.iter().map(|email| ticket_of(email, now)).collect();
        posthaste_core::failpoint::hit("intake.before_commit");
        let results = match self.store.accept(emails, self.postbox.is_some()).await {
            Ok(results) => results,
            Err(error) => {
                let refused = |span: &mut Box<dyn Span>| {
                    span.fail(&error.to_string());
                    Err(Refused::Store(error.clone()))
                };
                return spans.iter_mut().map(refused).collect();
            }
        };
        posthaste_core::failpoint::hit("intake.after_commit");
        let mut created = 0;
        let mut ready = Vec::new();
        let mut taken = Vec::with_capacity(tickets.len());
        // By now some may have become due that were for later: their ticket is ours to publish.
        let now = self.store.now();
        for ((result, (ticket, send_at)), mut span) in results.into_iter().zip(tickets).zip(spans) {
            if let Err(error) = &result {
                span.fail(&error.to_string());
            }
            let is_due = send_at.is_none_or(|at| at <= now);
            let (id, message_key) = (ticket.email_id, ticket.message_key.clone());
            taken.push(match result {
                Ok(Accepted::Created) => {
                    created += 1;
                    ready.extend(is_due.then_some(ticket));
                    Ok(Taken::Accepted { id, message_key })
                }
                Ok(Accepted::Replayed(id, status)) => {
                    // The first answer may have been lost together with the ticket.
                    let email_id = id;
                    let waits = is_due && status == Status::Pending;
                    ready.extend(waits.then_some(Ticket { email_id, ..ticket }));
                    Ok(Taken::Replayed {
                        id,
                        message_key,
                        status,
                    })
                }
                Ok(Accepted::KeyConflict(id)) => Err(Refused::KeyConflict(id)),
                Err(error) => Err(Refused::Store(error)),
            });
        }
        if let Some(metrics) = &self.metrics {
            metrics.accepted_from(self.source, created);
        }
        if let Some(postbox) = &self.postbox {
            postbox.post(ready).await;
        }
        if scheduled || self.postbox.is_none() {
            self.scheduler.notify_one();
        }
        taken
    }

    /// Waits until every ticket was published that is on its way.
    pub async fn drain(&self) {
        if let Some(postbox) = &self.postbox {
            postbox.emptied().await;
        }
    }
}

/// The email's ticket, and when it is due, if not right away.
fn ticket_of(email: &NewEmail, now: Timestamp) -> (Ticket, Option<Timestamp>) {
    let ticket = Ticket {
        email_id: email.id,
        message_key: email.message_key.clone(),
        priority: email.priority,
        queued_at: now,
        traceparent: email.traceparent.clone(),
    };
    (ticket, email.send_at)
}
