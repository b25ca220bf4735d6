//! The one thread that writes, with group commit.
//!
//! Jobs that arrive while a commit is under way share the next one; nobody is answered before
//! the commit. A failing job spoils no other: the transaction is rolled back and done again with
//! a savepoint around each. (Savepoints for all would be simpler, but SQLite then copies every
//! page that a job touches: measured, that cost half of the throughput.)

use std::collections::BTreeMap;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use posthaste_core::Timestamp;
use posthaste_core::failpoint;
use posthaste_core::port::{Clock, StoreError, StoreResult};
use posthaste_core::status::Status;
use rusqlite::{Connection, ToSql};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};

use super::error::store_error;
use super::kept::{Execute, Kept, Known};
use super::memory::Memory;
use super::waiting::Waiting;
use super::{micros, now_of};

/// At most this many jobs wait, and as many that bring new emails; further callers wait outside, where
/// they can be refused.
const JOBS_WAITING: usize = 8192;
/// So long a flush waits for more to come along, while there is much to write.
const MOMENT: Duration = Duration::from_micros(300);
/// How often an idle writer looks whether another process changed the file.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// A caller's work, and the way back to the caller.
pub(super) trait Job: Send {
    /// Whether it brings new emails.
    fn is_new(&self) -> bool;
    /// Does the work inside the shared transaction. May be called again after a rollback.
    fn run(&mut self, flush: &mut Flush<'_>);
    /// Tells the caller, once the fate of the transaction is known.
    fn answer(self: Box<Self>, committed: StoreResult<()>);
}

struct Work<T, F> {
    work: F,
    is_new: bool,
    result: Option<StoreResult<T>>,
    /// The work goes back with the result: whoever made it lets go of it, not the one writer.
    caller: oneshot::Sender<(StoreResult<T>, F)>,
    _permit: OwnedSemaphorePermit,
}

impl<T, F> Job for Work<T, F>
where
    T: Send,
    F: FnMut(&mut Flush<'_>) -> rusqlite::Result<T> + Send,
{
    fn is_new(&self) -> bool {
        self.is_new
    }

    fn run(&mut self, flush: &mut Flush<'_>) {
        self.result = Some(flush.isolated(&mut self.work));
    }

    fn answer(self: Box<Self>, committed: StoreResult<()>) {
        let not_run = || Err(StoreError::Unavailable("the store is closed".into()));
        let Self {
            work,
            result,
            caller,
            ..
        } = *self;
        let result = committed.and_then(|()| result.unwrap_or_else(not_run));
        // The caller may have gone; the work is done all the same.
        let _ = caller.send((result, work));
    }
}

/// Sends jobs to the writer thread.
pub(super) struct Writer {
    jobs: Sender<Box<dyn Job>>,
    permits: Arc<Semaphore>,
    /// Of new emails any number may come at a time: gates must not stand behind them.
    new_permits: Arc<Semaphore>,
    changed: Arc<Notify>,
}

/// One transaction that several jobs share.
pub(super) struct Flush<'a> {
    connection: &'a Connection,
    kept: &'a mut (dyn Execute + 'a),
    now: Timestamp,
    /// What is known of emails without reading them.
    pub(super) memory: &'a mut Memory,
    /// Transitions of the job that runs now; they count once it succeeds.
    moves: BTreeMap<(Option<Status>, Option<Status>), i64>,
    /// Whether each job has a savepoint of its own.
    careful: bool,
    /// Whether a job failed without one: then the transaction must be done again.
    spoiled: bool,
    /// Why SQLite gave up the whole transaction, as it may when the disk is full. Whatever ran
    /// after that would be committed one by one, uncounted: nothing may run any more.
    lost: Option<StoreError>,
}

impl Flush<'_> {
    /// The time of this transaction.
    pub(super) fn now(&self) -> Timestamp {
        self.now
    }

    /// Counts emails that went from one state to another; `None` is outside the store.
    pub(super) fn count(&mut self, from: Option<Status>, to: Option<Status>, n: i64) {
        if from != to && n != 0 {
            *self.moves.entry((from, to)).or_default() += n;
        }
    }

    /// Does work that is undone as a whole if it fails, and spoils nothing else.
    pub(super) fn isolated<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> rusqlite::Result<T>,
    ) -> StoreResult<T> {
        if let Some(lost) = &self.lost {
            return Err(lost.clone());
        }
        if self.spoiled {
            // SQLite may have rolled back already: nothing may run outside a transaction.
            return Err(StoreError::CannotWrite(
                "it is about to be done again".into(),
            ));
        }
        if !self.careful {
            let result = attempt(self, work);
            self.spoiled |= result.is_err();
            return result;
        }
        execute(self, "SAVEPOINT work")?;
        let before = std::mem::take(&mut self.moves);
        let result = attempt(self, work);
        let moves = std::mem::replace(&mut self.moves, before);
        let undone = match &result {
            Ok(_) => Ok(()),
            Err(_) => {
                self.memory.clear();
                execute(self, "ROLLBACK TO work")
            }
        };
        if let Err(error) = undone.and_then(|()| execute(self, "RELEASE work")) {
            let cause = result.err().unwrap_or(error);
            return Err(self.lost.get_or_insert(cause).clone());
        }
        if result.is_ok() {
            for ((from, to), n) in moves {
                self.count(from, to, n);
            }
        }
        result
    }
}

fn attempt<'a, T>(
    flush: &mut Flush<'a>,
    work: impl FnOnce(&mut Flush<'a>) -> rusqlite::Result<T>,
) -> StoreResult<T> {
    catch_unwind(AssertUnwindSafe(|| work(flush)))
        .unwrap_or_else(|_| Err(super::corrupt("a store operation panicked")))
        .map_err(store_error)
}

impl Deref for Flush<'_> {
    type Target = Connection;
    fn deref(&self) -> &Connection {
        self.connection
    }
}

impl Execute for Flush<'_> {
    fn connection(&self) -> &Connection {
        self.connection
    }

    fn carry_out(&mut self, known: Known, values: &[&dyn ToSql]) -> rusqlite::Result<usize> {
        self.kept.carry_out(known, values)
    }
}

impl Writer {
    /// Starts the thread. It ends when the writer is dropped and all jobs are done.
    pub(super) fn start(connection: Connection, clock: Arc<dyn Clock>) -> StoreResult<Self> {
        let (jobs, receiver) = mpsc::channel();
        let changed = Arc::new(Notify::new());
        let notify = Arc::clone(&changed);
        std::thread::Builder::new()
            .name("sqlite-writer".into())
            .spawn(move || write(&connection, &receiver, &*clock, &notify))
            .map_err(|error| StoreError::Unavailable(error.to_string()))?;
        Ok(Self {
            jobs,
            permits: Arc::new(Semaphore::new(JOBS_WAITING)),
            new_permits: Arc::new(Semaphore::new(JOBS_WAITING)),
            changed,
        })
    }

    /// Runs a job in the next transaction and answers after its commit.
    pub(super) async fn run<T, F>(&self, job: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnMut(&mut Flush<'_>) -> rusqlite::Result<T> + Send + 'static,
    {
        self.run_in_line(job, false).await
    }

    /// The same for a job that brings new emails: it may have to let others pass.
    pub(super) async fn run_new<T, F>(&self, job: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnMut(&mut Flush<'_>) -> rusqlite::Result<T> + Send + 'static,
    {
        self.run_in_line(job, true).await
    }

    async fn run_in_line<T, F>(&self, job: F, is_new: bool) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnMut(&mut Flush<'_>) -> rusqlite::Result<T> + Send + 'static,
    {
        let gone = || StoreError::Unavailable("the store is closed".into());
        let permits = match is_new {
            true => &self.new_permits,
            false => &self.permits,
        };
        let permit = Arc::clone(permits)
            .acquire_owned()
            .await
            .map_err(|_| gone())?;
        let (caller, answered) = oneshot::channel();
        let work = Work {
            work: job,
            is_new,
            result: None,
            caller,
            _permit: permit,
        };
        self.jobs.send(Box::new(work)).map_err(|_| gone())?;
        let (result, _work) = answered.await.map_err(|_| gone())?;
        result
    }

    /// Resolves when another process changed the file.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }
}

fn execute(connection: &Connection, sql: &str) -> StoreResult<()> {
    connection
        .prepare_cached(sql)
        .and_then(|mut statement| statement.execute([]))
        .map(drop)
        .map_err(store_error)
}

fn write(
    connection: &Connection,
    jobs: &Receiver<Box<dyn Job>>,
    clock: &dyn Clock,
    changed: &Notify,
) {
    let mut version = data_version(connection);
    let mut scribe = Scribe {
        connection,
        kept: Kept::new(connection),
        clock,
        memory: Memory::default(),
    };
    let mut waiting = Waiting::default();
    loop {
        if waiting.is_empty() {
            match jobs.recv_timeout(LOOK_INTERVAL) {
                Ok(job) => waiting.push(job),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
        jobs.try_iter().for_each(|job| waiting.push(job));
        if waiting.is_worth_a_moment() {
            std::thread::sleep(MOMENT);
            jobs.try_iter().for_each(|job| waiting.push(job));
        }
        let flush = waiting.take();
        if !flush.is_empty() {
            scribe.flush(flush);
        }
        // This number changes only when another connection writes. Ours do not.
        let present = data_version(connection);
        if present != version {
            version = present;
            changed.notify_waiters();
            changed.notify_one();
        }
    }
}

fn data_version(connection: &Connection) -> Option<i64> {
    connection
        .prepare_cached("PRAGMA data_version")
        .and_then(|mut s| s.query_row([], |row| row.get(0)))
        .ok()
}

/// What the thread that writes has at hand.
struct Scribe<'a> {
    connection: &'a Connection,
    kept: Kept<'a>,
    clock: &'a dyn Clock,
    memory: Memory,
}

enum Committed {
    Yes,
    /// A job failed; everything was rolled back.
    Spoiled,
}

impl Scribe<'_> {
    fn flush(&mut self, mut jobs: Vec<Box<dyn Job>>) {
        let result = match self.commit_together(&mut jobs, false) {
            Ok(Committed::Yes) => Ok(()),
            // One of them fails: find out which, and let the others pass.
            Ok(Committed::Spoiled) => self.commit_together(&mut jobs, true).map(drop),
            Err(error) => Err(error),
        };
        for job in jobs {
            job.answer(result.clone());
        }
    }

    fn commit_together(
        &mut self,
        jobs: &mut [Box<dyn Job>],
        careful: bool,
    ) -> StoreResult<Committed> {
        let result = self.run_together(jobs, careful);
        if !matches!(result, Ok(Committed::Yes)) {
            self.memory.clear();
            if !self.connection.is_autocommit() {
                execute(self.connection, "ROLLBACK")?;
            }
        }
        result
    }

    fn run_together(&mut self, jobs: &mut [Box<dyn Job>], careful: bool) -> StoreResult<Committed> {
        let connection = self.connection;
        execute(connection, "BEGIN IMMEDIATE")?;
        // From here to the end nobody else can write.
        self.memory.follow(data_version(connection));
        let mut flush = Flush {
            connection,
            kept: &mut self.kept,
            // Not before: another process may have kept us waiting.
            now: now_of(self.clock),
            memory: &mut self.memory,
            moves: BTreeMap::new(),
            careful,
            spoiled: false,
            lost: None,
        };
        for job in jobs {
            job.run(&mut flush);
            if flush.spoiled {
                return Ok(Committed::Spoiled);
            }
            if let Some(lost) = flush.lost {
                return Err(lost);
            }
        }
        record_moves(&flush).map_err(store_error)?;
        failpoint::hit("store.before_commit");
        execute(connection, "COMMIT")?;
        failpoint::hit("store.after_commit");
        Ok(Committed::Yes)
    }
}

fn record_moves(flush: &Flush<'_>) -> rusqlite::Result<()> {
    for ((from, to), n) in &flush.moves {
        record_move(flush, flush.now, *from, *to, *n)?;
    }
    Ok(())
}

/// Counts emails that went from one state to another; `None` is outside the store.
pub(super) fn record_move(
    connection: &Connection,
    now: Timestamp,
    from: Option<Status>,
    to: Option<Status>,
    n: i64,
) -> rusqlite::Result<()> {
    let name = |status: Option<Status>| status.map_or("", Status::as_str);
    connection
        .prepare_cached(
            "INSERT INTO posthaste_stat (minute, from_status, to_status, n)
             VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT DO UPDATE SET n = n + excluded.n",
        )?
        .execute((micros(now) / 60_000_000, name(from), name(to), n))
        .map(drop)
}

#[cfg(test)]
mod tests {
    use posthaste_core::port::SystemClock;
    use rusqlite::ffi;

    use super::*;

    fn writer_with(setup: &str) -> (tempfile::TempDir, Writer) {
        let folder = tempfile::tempdir().unwrap();
        let connection = Connection::open(folder.path().join("test.db")).unwrap();
        connection
            .execute_batch(
                "PRAGMA journal_mode = WAL;
                 CREATE TABLE item (value BLOB NOT NULL);
                 CREATE TABLE posthaste_stat (
                     minute INTEGER, from_status TEXT, to_status TEXT, n INTEGER,
                     PRIMARY KEY (minute, from_status, to_status));",
            )
            .unwrap();
        connection.execute_batch(setup).unwrap();
        let writer = Writer::start(connection, Arc::new(SystemClock::start())).unwrap();
        (folder, writer)
    }

    /// Inserts an item and counts it, as accepting an email does.
    fn insert(size: usize) -> impl FnMut(&mut Flush<'_>) -> rusqlite::Result<()> + Send {
        move |flush| {
            flush.execute("INSERT INTO item VALUES (zeroblob(?1))", [size])?;
            flush.count(None, Some(Status::Pending), 1);
            Ok(())
        }
    }

    /// How many items there are, and how many were counted.
    async fn books(writer: &Writer) -> (u64, u64) {
        let sql = "SELECT (SELECT count(*) FROM item),
                          (SELECT coalesce(sum(n), 0) FROM posthaste_stat)";
        writer
            .run(move |flush| flush.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))))
            .await
            .unwrap()
    }

    #[tokio::test]
    async fn a_full_disk_refuses_what_does_not_fit_and_keeps_the_books() {
        let (_folder, writer) = writer_with("PRAGMA max_page_count = 40");
        let sizes = [10, 1_000_000, 20, 2_000_000, 30];
        let jobs = sizes.map(|size| writer.run(insert(size)));
        let [a, b, c, d, e] = jobs;
        let answers = tokio::join!(a, b, c, d, e);
        let answers = [answers.0, answers.1, answers.2, answers.3, answers.4];
        for (size, answer) in sizes.iter().zip(&answers) {
            match answer {
                Err(StoreError::CannotWrite(_)) => {}
                Ok(()) => assert!(*size < 1000, "{size} octets do not fit"),
                other => panic!("{size}: {other:?}"),
            }
        }
        let stored = answers.iter().filter(|answer| answer.is_ok()).count() as u64;
        assert_eq!(books(&writer).await, (stored, stored));
        // There is still room for small ones.
        writer.run(insert(10)).await.unwrap();
        assert_eq!(books(&writer).await, (stored + 1, stored + 1));
    }

    #[tokio::test]
    async fn a_transaction_that_is_lost_half_way_takes_nobody_with_it() {
        let (_folder, writer) = writer_with("");
        // SQLite may roll back the whole transaction at an error; this does the same.
        let lose = |flush: &mut Flush<'_>| -> rusqlite::Result<()> {
            flush.execute_batch("ROLLBACK")?;
            let error = ffi::Error::new(ffi::SQLITE_FULL);
            Err(rusqlite::Error::SqliteFailure(error, None))
        };
        let nested = move |flush: &mut Flush<'_>| {
            let before = flush.isolated(insert(1));
            let lost = flush.isolated(lose);
            let after = flush.isolated(insert(1));
            Ok((before, lost, after))
        };
        let (before, culprit, after) = tokio::join!(
            writer.run(insert(10)),
            writer.run(nested),
            writer.run(insert(10))
        );
        // The one after may have come in time for the same flush, or not.
        let cannot_write = |error: StoreError| matches!(error, StoreError::CannotWrite(_));
        assert!(culprit.is_err_and(cannot_write));
        let mut stored = 0;
        for answer in [before, after] {
            match answer {
                Ok(()) => stored += 1,
                Err(error) => assert!(cannot_write(error)),
            }
        }
        assert_eq!(books(&writer).await, (stored, stored));
    }

    #[tokio::test]
    async fn a_job_that_panics_fails_alone() {
        let (_folder, writer) = writer_with("");
        let (before, panicked, after) = tokio::join!(
            writer.run(insert(10)),
            writer.run(|flush| -> rusqlite::Result<()> {
                insert(10)(flush)?;
                panic!("on purpose, by a test")
            }),
            writer.run(insert(10))
        );
        assert!(before.is_ok() && panicked.is_err() && after.is_ok());
        assert_eq!(books(&writer).await, (2, 2));
    }
}
