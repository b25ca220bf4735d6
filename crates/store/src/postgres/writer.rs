//! Group commit: whatever comes in while a transaction is under way shares the next one.
//!
//! A flush locks the rows of its jobs in the order of their ids, lets each job decide in memory, and
//! writes everything back with one statement per table. Two round trips, however many jobs. If it
//! fails because of a value, it is split until only the culprit fails; if others stood in the way, it
//! is done again.
//!
//! What this process is sending it knows (`under_way`): such rows are locked only as they are
//! written, after the others. Nobody else waits for one of them with another in hand: whoever renews
//! leases waits for one at a time, and whoever marks tickets as published for none.
//!
//! There are three lines. A connection to a mail server stands still while its email waits for the
//! gate, so gates share their commits with nothing else; ends of attempts have a line of their own, so
//! that many of them share one.

use std::collections::{HashSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use deadpool_postgres::ClientWrapper;
use futures_util::FutureExt as _;
use posthaste_core::email::EmailId;
use posthaste_core::failpoint;
use posthaste_core::port::{StoreError, StoreResult};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use uuid::Uuid;

use super::accept::{self, NewEntry};
use super::books::{Books, Pipeline, READ_FACTS};
use super::clock::DatabaseClock;
use super::error::{Meaning, Trouble};
use super::listener::Bell;
use super::pool::{CONFLICTS, Pool};
use super::state_row::{STATE_COLUMNS, STATE_WIDTH, get};
use super::suppressed::{self, Asked, SuppressionList};
use super::under_way::UnderWay;

/// At most this many jobs share a commit.
const JOBS_PER_FLUSH: usize = 1024;
/// At most about this many octets of mail do.
const BYTES_PER_FLUSH: usize = 8 * 1024 * 1024;
/// At most this many jobs wait; further callers wait outside, where they can be refused.
const JOBS_WAITING: usize = 8192;

/// Where a job stands in line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Line {
    /// With whatever has no line of its own.
    #[default]
    Any,
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
            new: Some(entry),
            ..Self::default()
        }
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
trait Job: Send {
    fn wants(&self) -> &Wants;
    /// Decides. May be called again after a rollback.
    fn run(&mut self, books: &mut Books);
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
type Jobs = mpsc::UnboundedSender<Box<dyn Job>>;

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

/// How many lines have a lane of their own, beside those for whatever comes.
pub(super) const OWN_LANES: usize = 2;

/// Sends jobs to the lanes.
pub(super) struct Writer {
    any: Jobs,
    gates: Jobs,
    ends: Jobs,
    permits: Arc<Semaphore>,
    deadline: Duration,
}

impl Writer {
    /// Starts `lanes` tasks for whatever comes and [`OWN_LANES`] more, which write at the same time,
    /// each on a connection of `pool`. They end when the writer is dropped and all jobs are done.
    pub(super) fn start(
        pool: Pool,
        lanes: usize,
        clock: Arc<DatabaseClock>,
        bell: Arc<Bell>,
        under_way: Arc<UnderWay>,
        deadline: Duration,
    ) -> Self {
        let shared = Arc::new(Shared {
            pool,
            clock,
            bell,
            under_way,
        });
        Self {
            any: shared.line(lanes.max(1)),
            gates: shared.line(1),
            ends: shared.line(1),
            permits: Arc::new(Semaphore::new(JOBS_WAITING)),
            deadline,
        }
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
            let permit = Arc::clone(&self.permits).acquire_owned().await;
            let (caller, answered) = oneshot::channel();
            let job = Work {
                wants,
                work,
                result: None,
                caller,
                unclaimed,
                _permit: permit.map_err(|_| gone())?,
            };
            let jobs = match job.wants.line {
                Line::Any => &self.any,
                Line::Gates => &self.gates,
                Line::Ends => &self.ends,
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

/// Where a connection counts. Two that share a slot only wait for each other now and then.
pub(super) fn slot() -> i32 {
    let random = Uuid::now_v7().as_u128() % 1024;
    1 + i32::try_from(random).unwrap_or(0)
}

struct Shared {
    pool: Pool,
    clock: Arc<DatabaseClock>,
    bell: Arc<Bell>,
    under_way: Arc<UnderWay>,
}

impl Shared {
    /// A line with so many lanes.
    fn line(self: &Arc<Self>, lanes: usize) -> Jobs {
        let (jobs, queue) = mpsc::unbounded_channel();
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..lanes {
            let lane = Lane {
                shared: Arc::clone(self),
                queue: Arc::clone(&queue),
                slot: slot(),
            };
            tokio::spawn(async move {
                // A job that panics takes its flush with it, but not the lane.
                while AssertUnwindSafe(lane.run()).catch_unwind().await.is_err() {}
            });
        }
        jobs
    }
}

struct Lane {
    shared: Arc<Shared>,
    queue: Arc<Mutex<mpsc::UnboundedReceiver<Box<dyn Job>>>>,
    slot: i32,
}

impl Lane {
    async fn run(&self) {
        // Jobs for emails that another job of the same flush is about.
        let mut held_over = VecDeque::new();
        while let Some(jobs) = self.gather(&mut held_over).await {
            self.settle(jobs).await;
        }
    }

    /// The jobs of the next flush: all that wait, within limits, one for each email. `None` when
    /// there will be no more.
    async fn gather(&self, held_over: &mut VecDeque<Box<dyn Job>>) -> Option<Vec<Box<dyn Job>>> {
        let mut batch = Batch::default();
        for job in std::mem::take(held_over) {
            held_over.extend(batch.take(job));
        }
        if batch.jobs.is_empty() {
            let mut queue = self.queue.lock().await;
            let first = queue.recv().await?;
            held_over.extend(batch.take(first));
            drain(&mut queue, &mut batch, held_over);
        } else if let Some(mut queue) = self.queue.lock().now_or_never() {
            drain(&mut queue, &mut batch, held_over);
        }
        Some(batch.jobs)
    }

    /// Commits jobs together, or, if that fails because of one of them, in smaller groups.
    async fn settle(&self, jobs: Vec<Box<dyn Job>>) {
        let mut groups = vec![jobs];
        while let Some(mut jobs) = groups.pop() {
            jobs.retain(|job| !job.is_abandoned());
            if jobs.is_empty() {
                continue;
            }
            let Err(trouble) = self.commit(&mut jobs).await else {
                jobs.into_iter().for_each(|job| job.answer(Ok(())));
                continue;
            };
            let is_one_of_them = matches!(trouble.meaning(), Meaning::Refused | Meaning::Locked);
            if is_one_of_them && jobs.len() > 1 {
                let others = jobs.split_off(jobs.len() / 2);
                groups.push(others);
                groups.push(jobs);
            } else {
                let error = StoreError::from(trouble);
                for job in jobs {
                    job.answer(Err(error.clone()));
                }
            }
        }
    }

    /// One transaction, done again if others stood in the way or the connection was stale.
    async fn commit(&self, jobs: &mut [Box<dyn Job>]) -> Result<(), Trouble> {
        let mut conflicts = 0;
        let mut was_cut = false;
        loop {
            let committing = AtomicBool::new(false);
            let flushed = self
                .shared
                .pool
                .run(async |client: &ClientWrapper| self.flush(client, jobs, &committing).await)
                .await;
            let trouble = match flushed {
                Ok(()) => return Ok(()),
                Err(trouble) => trouble,
            };
            match trouble.meaning() {
                Meaning::Conflict if conflicts < CONFLICTS => conflicts += 1,
                // Nothing can have been committed: what is left of a server that was restarted.
                Meaning::Away if !was_cut && !committing.load(Ordering::SeqCst) => was_cut = true,
                _ => return Err(trouble),
            }
        }
    }

    async fn flush(
        &self,
        client: &ClientWrapper,
        jobs: &mut [Box<dyn Job>],
        committing: &AtomicBool,
    ) -> Result<(), Trouble> {
        let mut pipeline = Pipeline::new(client);
        let wanted = jobs.iter().map(|job| job.wants()).collect();
        let mut books = self.read(client, wanted, &mut pipeline).await?;
        for job in jobs.iter_mut() {
            job.run(&mut books);
        }
        if books.is_doubtful {
            // A refusal writes nothing that could be fenced: it must not rest on memory.
            self.shared.under_way.forget(&books);
            return Err(Trouble::Doubtful);
        }
        books
            .write_back(&mut pipeline, self.slot, &self.shared.bell)
            .await?;
        committing.store(!books.is_clean(), Ordering::SeqCst);
        pipeline.commit();
        // Until it is known that they are committed, nobody knows what the rows are.
        self.shared.under_way.forget(&books);
        failpoint::hit("store.before_commit");
        pipeline.finish().await?;
        failpoint::hit("store.after_commit");
        if books.concerns_schedulers {
            self.shared.bell.ring();
        }
        self.shared.under_way.remember(books);
        Ok(())
    }

    /// Begins a transaction and takes in what the jobs want of the database: in one round trip, or
    /// in none if all of it is known.
    async fn read<'a>(
        &self,
        client: &'a ClientWrapper,
        wanted: Vec<&Wants>,
        pipeline: &mut Pipeline<'a>,
    ) -> Result<Books, Trouble> {
        let mut unknown = Vec::new();
        let mut known = Vec::new();
        for wants in wanted {
            match self.shared.under_way.known(wants) {
                Some(states) => known.extend(states),
                None => unknown.push(wants),
            }
        }
        let mut books = if unknown.is_empty() && !self.shared.pool.has_moved_time() {
            pipeline.begin();
            Books::new(self.shared.clock.now())
        } else {
            let asked = Instant::now();
            let books = read(client, unknown).await?;
            self.shared.clock.learn(posthaste_now(&books), asked);
            books
        };
        for (id, state) in known {
            books.assume(id, state);
        }
        Ok(books)
    }
}

fn posthaste_now(books: &Books) -> posthaste_core::Timestamp {
    crate::ledger::Ledger::now(books)
}

fn drain(
    queue: &mut mpsc::UnboundedReceiver<Box<dyn Job>>,
    batch: &mut Batch,
    held_over: &mut VecDeque<Box<dyn Job>>,
) {
    while batch.has_room()
        && held_over.len() < JOBS_PER_FLUSH
        && let Ok(job) = queue.try_recv()
    {
        held_over.extend(batch.take(job));
    }
}

#[derive(Default)]
struct Batch {
    jobs: Vec<Box<dyn Job>>,
    ids: HashSet<EmailId>,
    bytes: usize,
}

impl Batch {
    fn has_room(&self) -> bool {
        self.jobs.len() < JOBS_PER_FLUSH && self.bytes < BYTES_PER_FLUSH
    }

    /// Takes a job, or gives it back if another of these is about one of its emails.
    fn take(&mut self, job: Box<dyn Job>) -> Option<Box<dyn Job>> {
        let wants = job.wants();
        if !self.has_room() || wants.ids.iter().any(|id| self.ids.contains(id)) {
            return Some(job);
        }
        self.ids.extend(&wants.ids);
        self.bytes += wants
            .new
            .as_ref()
            .map_or(0, |entry| entry.email.content.len());
        self.jobs.push(job);
        None
    }
}

/// Begins a transaction and reads what the jobs want, in one round trip.
async fn read(client: &ClientWrapper, wanted: Vec<&Wants>) -> Result<Books, Trouble> {
    let all = || wanted.iter().copied();
    let ids: Vec<Uuid> = all().flat_map(|w| &w.ids).map(|id| id.0).collect();
    let with_facts: Vec<Uuid> = all()
        .filter(|wants| wants.facts)
        .flat_map(|wants| &wants.ids)
        .map(|id| id.0)
        .collect();
    let emails: Vec<&NewEntry> = all().filter_map(|wants| wants.new.as_ref()).collect();
    let statements = (
        client.prepare_cached(&lock_states()).await?,
        client.prepare_cached(READ_FACTS).await?,
        client.prepare_cached("SELECT posthaste_now()").await?,
    );
    let insert = accept::Insert::prepare(client, &emails).await?;
    let asked = asked(&emails);
    let list = client.prepare_cached(suppressed::READ).await?;
    // Sent one after the other, answered one after the other.
    let (begun, states, facts, inserted, suppressed, now) = tokio::join!(
        biased;
        client.batch_execute("BEGIN"),
        async {
            match ids.is_empty() {
                true => Ok(Vec::new()),
                false => client.query(&statements.0, &[&ids]).await,
            }
        },
        async {
            match with_facts.is_empty() {
                true => Ok(Vec::new()),
                false => client.query(&statements.1, &[&with_facts]).await,
            }
        },
        insert.run(&**client),
        async {
            match asked.is_empty() {
                true => Ok(Vec::new()),
                false => client.query(&list, &[&asked.owners, &asked.addresses]).await,
            }
        },
        // After the locks: what is decided is decided now, not when we began to wait.
        client.query_one(&statements.2, &[]),
    );
    begun?;
    let (states, facts) = (states?, facts?);
    let (inserted, suppressed) = (inserted?, suppressed?);
    let mut books = Books::new(get(&now?, 0)?);
    books.add_suppressed(SuppressionList::of(&suppressed)?);
    for row in &states {
        books.read_state(row, STATE_WIDTH)?;
    }
    for row in &facts {
        books.read_facts(row)?;
    }
    insert.finish(client, &mut books, inserted).await?;
    Ok(books)
}

/// To whom those emails go whose first attempts begin at once.
fn asked(emails: &[&NewEntry]) -> Asked {
    let mut asked = Asked::default();
    for NewEntry { email, begins, .. } in emails {
        if begins.is_some() {
            asked.add(&email.owner, email.envelope.recipients.iter());
        }
    }
    asked
}

/// Locks emails in the order of their ids, so that two who lock several never wait for each other in
/// a circle, and reads their states.
pub(super) fn lock_states() -> String {
    format!(
        "SELECT {STATE_COLUMNS}, l.id FROM email_log l WHERE l.id = ANY($1) ORDER BY l.id FOR UPDATE"
    )
}
