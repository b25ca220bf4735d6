//! The outbox.

use std::sync::Arc;

use posthaste_core::Timestamp;
use posthaste_core::email::{EmailId, EmailRecord, NewEmail};
use posthaste_core::port::{Acted, Action, Actor, EmailFilter, StoreError};
use posthaste_core::status::Status;
use posthaste_engine::access::DEFAULT_OWNER;
use posthaste_engine::intake::{EmailRequest, FirstAttempt, Submitter, Taken};
use posthaste_engine::{Engine, Roles};
use prometheus_client::registry::Registry;
use tokio::sync::Notify;

use crate::database::Backend;
use crate::transaction::Deed;
use crate::{
    Counts, Delivery, Email, Entry, Error, OutboxBuilder, Resolution, Sending, Transaction, Worker,
};

/// Emails of an application, kept safe in its own database until they are sent.
///
/// It is cheap to clone; clones share everything. See the [crate's documentation](crate) for how
/// the parts play together.
#[derive(Clone)]
pub struct Outbox {
    inner: Arc<Inner>,
}

type Start = Box<dyn Fn(Roles) -> Engine + Send + Sync>;

struct Inner {
    backend: Backend,
    /// Takes emails in, and sends those that callers wait for.
    engine: Engine,
    start: Start,
    submitter: Submitter,
    wake: Arc<Notify>,
    #[cfg_attr(not(feature = "desk"), expect(dead_code))]
    registry: Arc<Registry>,
}

impl std::fmt::Debug for Outbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outbox").finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.engine.begin_stop();
    }
}

impl Outbox {
    /// An outbox in this SQLite file, which may be the one of the application. Its tables have
    /// names that begin with `posthaste_`. The file is switched to WAL, if it is not yet.
    #[cfg(feature = "sqlite")]
    pub fn sqlite(path: impl Into<std::path::PathBuf>) -> OutboxBuilder {
        OutboxBuilder::new(crate::database::Database::Sqlite(path.into()))
    }

    /// An outbox in this PostgreSQL database (14 or newer), which may be the one of the
    /// application: `postgresql://user:password@host:port/database`. Its tables are in a schema of
    /// their own.
    #[cfg(feature = "postgres")]
    pub fn postgres(url: impl Into<String>) -> OutboxBuilder {
        OutboxBuilder::new(crate::database::Database::Postgres {
            url: url.into(),
            schema: "posthaste".to_owned(),
        })
    }

    pub(crate) fn new(
        backend: Backend,
        registry: Registry,
        wake: Arc<Notify>,
        start: Start,
    ) -> Self {
        let callers = Roles {
            api: true,
            sender: false,
            scheduler: false,
            messages: false,
        };
        let submitter = Submitter {
            owner: DEFAULT_OWNER.to_owned(),
            from_addresses: Vec::new(),
        };
        let engine = start(callers);
        Self {
            inner: Arc::new(Inner {
                backend,
                engine,
                start,
                submitter,
                wake,
                registry: Arc::new(registry),
            }),
        }
    }

    #[cfg(feature = "desk")]
    pub(crate) fn engine(&self) -> &Engine {
        &self.inner.engine
    }

    #[cfg(feature = "desk")]
    pub(crate) fn registry(&self) -> Arc<Registry> {
        Arc::clone(&self.inner.registry)
    }

    pub(crate) fn backend(&self) -> &Backend {
        &self.inner.backend
    }

    /// Starts to work in the background. Without a worker, here or in another process, what could
    /// not be sent at once waits.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime. What works in the background ends with that runtime.
    pub fn start(&self) -> Worker {
        let roles = Roles {
            api: false,
            sender: true,
            scheduler: true,
            messages: false,
        };
        Worker::new((self.inner.start)(roles), Arc::clone(&self.inner.wake))
    }

    /// Sends an email at once and says what became of it. If it cannot be sent, for whatever reason,
    /// it is tried again by the [`Worker`]. If as many are being sent at once as there may be (two
    /// for each connection), it is left to the worker right away.
    ///
    /// Before anything is sent, the email is in the database with its first attempt already begun.
    /// So a process that dies in the middle loses nothing, and sends nothing twice in silence: what
    /// the server may have taken already is on record as such. That attempt
    /// is given up after the [`inline_timeout`](OutboxBuilder::inline_timeout), unless the server has
    /// it all and only its answer is missing, and is not counted.
    ///
    /// Dropping the future does not stop it.
    ///
    /// # Errors
    ///
    /// If the email is not valid, or the database cannot keep it. A mail server that is down is no
    /// error.
    pub async fn send_or_enqueue(&self, email: Email) -> Result<Delivery, Error> {
        let inner = &self.inner;
        let delivered = inner
            .engine
            .intake
            .deliver(&inner.submitter, email.into_request())
            .await?;
        Ok(Delivery::of(delivered))
    }

    /// The same for a caller who does not wait for the mail server: as soon as the email is safe in
    /// the database, this answers, and it is sent in the background.
    ///
    /// # Errors
    ///
    /// If the email is not valid, or the database cannot keep it.
    pub async fn send_or_enqueue_detached(&self, email: Email) -> Result<EmailId, Error> {
        let inner = &self.inner;
        let id = inner
            .engine
            .intake
            .deliver_detached(&inner.submitter, email.into_request());
        Ok(id.await?)
    }

    /// Keeps an email for the [`Worker`], which sends it right away or at its
    /// [time](Email::send_at). This first attempt is counted like any other.
    ///
    /// # Errors
    ///
    /// If the email is not valid, or the database cannot keep it.
    pub async fn enqueue(&self, email: Email) -> Result<EmailId, Error> {
        let inner = &self.inner;
        let taken = inner
            .engine
            .intake
            .take(&inner.submitter, vec![email.into_request()])
            .await
            .pop();
        let closed = || Error::from(StoreError::Unavailable("the outbox is closed".to_owned()));
        Ok(match taken.ok_or_else(closed)?? {
            Taken::Accepted { id, .. } | Taken::Replayed { id, .. } => id,
        })
    }

    /// Keeps an email within a transaction of your own on the same database: it exists exactly if
    /// that one commits. The [`Worker`] finds it then; [`Worker::wake`] or [`Outbox::wake`] tells
    /// it at once.
    ///
    /// The email is as safe as your transaction. With SQLite, a connection of yours that has set
    /// `synchronous` to less than `FULL` may lose its last commits when the power fails.
    ///
    /// # Errors
    ///
    /// If the email is not valid, or the database cannot keep it. The transaction is then as it was
    /// before.
    pub fn enqueue_in<'a, T: Transaction>(
        &self,
        transaction: &'a mut T,
        email: Email,
    ) -> T::Answer<'a, EmailId> {
        transaction.put(self, Deed::enqueue(self.check(email.into_request())))
    }

    /// Keeps an email within a transaction of your own with its first attempt already begun, to be
    /// made right after the commit: [`enqueue_in`](Self::enqueue_in) and
    /// [`send_or_enqueue`](Self::send_or_enqueue) in one. That attempt is not counted.
    ///
    /// If the process dies between the commit and the attempt, the [`Worker`] makes it once the
    /// [lease](OutboxBuilder::lease) is over. If the transaction does not commit, nothing is sent.
    ///
    /// # Errors
    ///
    /// As of [`enqueue_in`](Self::enqueue_in).
    pub fn send_in<'a, T: Transaction>(
        &self,
        transaction: &'a mut T,
        email: Email,
    ) -> T::Answer<'a, Sending> {
        let email = self.check(email.into_request()).and_then(|email| {
            if email.send_at.is_some() {
                return Err(Error::invalid(
                    "send_at",
                    "cannot be in the future if the email is to be sent at once; leave it out, or \
                     use enqueue_in",
                ));
            }
            Ok(email)
        });
        let room = self.inner.engine.intake.reserve();
        transaction.put(self, Deed::send(self, email, room))
    }

    fn check(&self, request: EmailRequest) -> Result<Box<NewEmail>, Error> {
        let inner = &self.inner;
        let checked = inner.engine.intake.check_one(&inner.submitter, request);
        Ok(Box::new(checked?))
    }

    /// What became of an attempt; `None` if there is no such email.
    pub(crate) async fn wait_for(&self, attempt: FirstAttempt) -> Result<Option<Delivery>, Error> {
        let delivered = self.inner.engine.intake.wait_for(attempt).await?;
        Ok(delivered.map(Delivery::of))
    }

    /// Where an email stands; `None` if there is no such email.
    pub(crate) async fn standing(&self, id: EmailId) -> Result<Option<Delivery>, Error> {
        let entry = self.find(id).await?;
        Ok(entry.map(|entry| Delivery::standing(&entry)))
    }

    /// Lets the worker of this process look for work at once, as [`Worker::wake`] does.
    pub fn wake(&self) {
        self.inner.wake.notify_one();
    }

    /// An email, if it is still there.
    ///
    /// # Errors
    ///
    /// If the database does not answer.
    pub async fn find(&self, id: EmailId) -> Result<Option<Entry>, Error> {
        let found = self.inner.engine.operator.find(id, None).await?;
        Ok(found.map(|email| self.entry(email)))
    }

    fn entry(&self, email: EmailRecord) -> Entry {
        let max_attempts = self.inner.engine.operator.max_attempts(&email);
        Entry::of(email, max_attempts)
    }

    /// Emails that are not delivered, newest first, at most 500: those that wait, and those that
    /// were given up.
    ///
    /// # Errors
    ///
    /// If the database does not answer.
    pub async fn undelivered(&self) -> Result<Vec<Entry>, Error> {
        let filter = EmailFilter {
            statuses: Status::UNDELIVERED.to_vec(),
            limit: posthaste_engine::operator::LONGEST_LIST,
            ..EmailFilter::default()
        };
        let page = self.inner.engine.operator.list(filter).await?;
        let emails = page.emails.into_iter();
        Ok(emails.map(|email| self.entry(email)).collect())
    }

    /// How many emails are not delivered.
    ///
    /// # Errors
    ///
    /// If the database does not answer.
    pub async fn counts(&self) -> Result<Counts, Error> {
        let statistics = self.inner.engine.operator.statistics().await?;
        let count = |status: &Status| statistics.by_status.get(status).copied().unwrap_or(0);
        let all: u64 = Status::UNDELIVERED.iter().map(count).sum();
        let (uncertain, dead) = (count(&Status::Unknown), count(&Status::Dead));
        Ok(Counts {
            pending: all - uncertain - dead,
            uncertain,
            dead,
        })
    }

    /// Starts over with an email that was given up, failed or is uncertain: with all attempts before
    /// it, now. Doing it twice does it once.
    ///
    /// # Errors
    ///
    /// If there is no such email, or its state does not allow it.
    pub async fn retry(&self, id: EmailId) -> Result<(), Error> {
        self.act(id, Action::Retry).await
    }

    /// Removes an email that was given up from the outbox.
    ///
    /// # Errors
    ///
    /// If there is no such email, or it was not given up.
    pub async fn dismiss(&self, id: EmailId) -> Result<(), Error> {
        self.act(id, Action::Discard).await
    }

    /// Settles an email of which nobody knows whether it was sent ([`Status::Unknown`]): you found
    /// out, or you decide.
    ///
    /// [`Status::Unknown`]: crate::Status::Unknown
    ///
    /// # Errors
    ///
    /// If there is no such email, or it is not uncertain.
    pub async fn resolve(&self, id: EmailId, resolution: Resolution) -> Result<(), Error> {
        self.act(id, Action::Resolve(resolution.into())).await
    }

    /// Withdraws an email that has not been sent.
    ///
    /// # Errors
    ///
    /// If there is no such email, or it is being sent or over.
    pub async fn cancel(&self, id: EmailId) -> Result<(), Error> {
        self.act(id, Action::Cancel).await
    }

    async fn act(&self, id: EmailId, action: Action) -> Result<(), Error> {
        let actor = Actor {
            name: "library".to_owned(),
            owner: None,
        };
        match self.inner.engine.operator.act(id, action, &actor).await? {
            Acted::Done(_) | Acted::Unchanged(_) => Ok(()),
            Acted::Refused(refusal, _) => Err(Error::NotPossible(refusal.to_string())),
            Acted::Erased => Err(Error::NotPossible("its content was erased".to_owned())),
            Acted::Expired => Err(Error::NotPossible("it is too late for it".to_owned())),
            Acted::NotFound => Err(Error::NotFound(id)),
        }
    }

    /// The outbox's time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.inner.engine.operator.now()
    }

    /// Says whether the mail server can be reached, without sending anything.
    ///
    /// # Errors
    ///
    /// [`Error::NotPossible`], with what is in the way.
    pub async fn check_transport(&self) -> Result<(), Error> {
        for transport in self.inner.engine.ways.transports() {
            transport.check().await.map_err(Error::NotPossible)?;
        }
        Ok(())
    }

    /// Waits for what is being sent while its callers wait, and lets go of the connections. Stop the
    /// [`Worker`] first. What is handed in after this is kept and not sent here.
    pub async fn close(&self) {
        self.inner.engine.stop().await;
    }
}
