//! Group commit: whatever comes in while a transaction is under way shares the next one.
//!
//! There are four lines. New emails have one of their own (`newcomers`), in which one flush follows
//! the other. A connection to a mail server stands still while its email waits for the gate, so gates
//! share their commits with nothing else; ends of attempts have a line, too, so that many of them
//! share one.

use std::sync::Arc;
use std::time::Duration;

use posthaste_core::email::EmailId;
use posthaste_core::port::{StoreError, StoreResult};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::books::Books;
use super::clock::DatabaseClock;
use super::insert::NewEntry;
use super::lane::Shared;
use super::listener::Bell;
use super::newcomers::Turns;
use super::pool::{Connector, Pool};
use super::under_way::UnderWay;

/// At most this many jobs wait, and as many that bring new emails; further callers wait outside, where
/// they can be refused.
const JOBS_WAITING: usize = 8192;

/// Where a job stands in line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Line {
    /// With whatever has no line of its own.
    #[default]
    Any,
    /// With new emails.
    New,
    /// With those that hold up a connection to a mail server.
    Gates,
    /// With the ends of attempts.
    Ends,
}

/// What a job needs of the database before it can decide.
#[derive(Default)]
pub(super) struct Wants {
    /// Where it stands in line.
    pub(super) line: Line,
    /// Emails whose states are read and locked.
    pub(super) ids: Vec<EmailId>,
    /// Whether their facts are read, too.
    pub(super) facts: bool,
    /// Whether all that is done to them is fenced by the token of who holds them: then what this
    /// process left of them need not be read again.
    pub(super) held: bool,
    /// An email to insert, and who makes its first attempt.
    pub(super) new: Option<NewEntry>,
}

impl Wants {
    /// A new email.
    pub(super) fn new_email(entry: NewEntry) -> Self {
        Self {
            line: Line::New,
            new: Some(entry),
            ..Self::default()
        }
    }

    /// Whether all that is wanted is that an email is taken in.
    pub(super) fn is_only_new(&self) -> bool {
        self.new.is_some() && self.ids.is_empty()
    }

    /// The states of these emails.
    pub(super) fn states(ids: Vec<EmailId>) -> Self {
        Self {
            ids,
            ..Self::default()
        }
    }

    /// The states of these emails, whose attempts are under way.
    pub(super) fn held(line: Line, ids: Vec<EmailId>) -> Self {
        Self {
            line,
            held: true,
            ..Self::states(ids)
        }
    }
}

/// A caller's work, and the way back to the caller.
pub(super) trait Job: Send {
    fn wants(&self) -> &Wants;
    /// Decides. May be called again after a rollback.
    fn run(&mut self, books: &mut Books);
    /// Whether it has decided.
    fn has_run(&self) -> bool;
    /// Whether nobody waits for it any more.
    fn is_abandoned(&self) -> bool;
    /// Tells the caller, once the fate of the transaction is known.
    fn answer(self: Box<Self>, committed: StoreResult<()>);
}

struct Work<T, F> {
    wants: Wants,
    work: F,
    result: Option<T>,
    caller: oneshot::Sender<StoreResult<T>>,
    unclaimed: Option<Unclaimed<T>>,
    _permit: OwnedSemaphorePermit,
}

/// The end of a line where jobs come in.
pub(super) type Jobs = mpsc::UnboundedSender<Box<dyn Job>>;

/// What is done with a result that was committed after its caller had gone.
type Unclaimed<T> = Box<dyn FnOnce(T) + Send>;

impl<T, F> Job for Work<T, F>
where
    T: Send,
    F: FnMut(&mut Books) -> T + Send,
{
    fn wants(&self) -> &Wants {
        &self.wants
    }

    fn run(&mut self, books: &mut Books) {
        self.result = Some((self.work)(books));
    }

    fn has_run(&self) -> bool {
        self.result.is_some()
    }

    fn is_abandoned(&self) -> bool {
        self.caller.is_closed()
    }

    fn answer(self: Box<Self>, committed: StoreResult<()>) {
        let Self {
            result,
            caller,
            unclaimed,
            ..
        } = *self;
        let not_run = || StoreError::Unavailable("the store is closed".into());
        // The caller may have gone; the work is done all the same.
        let answer = committed.and_then(|()| result.ok_or_else(not_run));
        if let (Err(Ok(done)), Some(unclaimed)) = (caller.send(answer), unclaimed) {
            unclaimed(done);
        }
    }
}

/// Sends jobs to the lanes.
pub(super) struct Writer {
    any: Jobs,
    new: Jobs,
    gates: Jobs,
    ends: Jobs,
    permits: Arc<Semaphore>,
    /// Of new emails any number may come at a time: gates must not stand behind them.
    new_permits: Arc<Semaphore>,
    deadline: Duration,
}

impl Writer {
    /// Starts the tasks that write: at most `writers` at the same time for new emails, unless some are
    /// held up, as many for whatever else comes, and one each for gates and ends. They end when the
    /// writer is dropped and all jobs are done.
    pub(super) fn start(
        connector: Connector,
        writers: usize,
        clock: Arc<DatabaseClock>,
        bell: Arc<Bell>,
        under_way: Arc<UnderWay>,
        deadline: Duration,
    ) -> StoreResult<Self> {
        let writers = writers.max(1);
        let turns = Turns::new(u32::try_from(writers).unwrap_or(u32::MAX));
        // Each has a connection when it needs one.
        let pool = Pool::new(connector, writers + turns.lanes() + 2)?;
        let shared = Arc::new(Shared {
            pool,
            turns,
            clock,
            bell,
            under_way,
        });
        Ok(Self {
            any: shared.line(writers),
            new: shared.line_of_new(),
            gates: shared.line(1),
            ends: shared.line(1),
            permits: Arc::new(Semaphore::new(JOBS_WAITING)),
            new_permits: Arc::new(Semaphore::new(JOBS_WAITING)),
            deadline,
        })
    }

    /// Runs a job in the next transaction and answers after its commit, or when the deadline
    /// has passed: a job that has not begun by then never does.
    pub(super) async fn run<T, F>(&self, wants: Wants, work: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnMut(&mut Books) -> T + Send + 'static,
    {
        self.run_claimed(wants, work, None).await
    }

    /// The same for a result that someone has to take care of.
    pub(super) async fn run_claimed<T, F>(
        &self,
        wants: Wants,
        work: F,
        unclaimed: Option<Unclaimed<T>>,
    ) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnMut(&mut Books) -> T + Send + 'static,
    {
        let gone = || StoreError::Unavailable("the store is closed".into());
        let done = async {
            let (jobs, permits) = match wants.line {
                Line::Any => (&self.any, &self.permits),
                Line::New => (&self.new, &self.new_permits),
                Line::Gates => (&self.gates, &self.permits),
                Line::Ends => (&self.ends, &self.permits),
            };
            let permit = Arc::clone(permits).acquire_owned().await;
            let (caller, answered) = oneshot::channel();
            let job = Work {
                wants,
                work,
                result: None,
                caller,
                unclaimed,
                _permit: permit.map_err(|_| gone())?,
            };
            jobs.send(Box::new(job)).map_err(|_| gone())?;
            answered.await.map_err(|_| gone())?
        };
        match tokio::time::timeout(self.deadline, done).await {
            Ok(answer) => answer,
            Err(_) => Err(StoreError::Unavailable(format!(
                "the database did not answer within {} ms",
                self.deadline.as_millis()
            ))),
        }
    }
}
