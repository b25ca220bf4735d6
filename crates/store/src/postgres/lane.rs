//! A task that commits jobs, on a connection of its own.
//!
//! A flush locks the rows of its jobs in the order of their ids, lets each job decide in memory, and
//! writes everything back with a few statements. Two round trips, however many jobs. If it
//! fails because of a value, it is split until only the culprit fails; if others stood in the way, it
//! is done again.
//!
//! What this process is sending it knows (`under_way`): such rows are locked only as they are
//! written, after the others. Nobody else waits for one of them with another in hand: whoever renews
//! leases waits for one at a time, and whoever marks tickets as published for none.
//!
//! A flush of nothing but new emails is one statement, and one round trip. Those whose keys turn out
//! not to be new come again, as if with others.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use deadpool_postgres::ClientWrapper;
use futures_util::FutureExt as _;
use posthaste_core::failpoint;
use posthaste_core::port::StoreError;
use tokio::sync::{Mutex, mpsc};
use uuid::Uuid;

use super::accept::answer_replays;
use super::batch::{Batch, JOBS_PER_FLUSH, Queue};
use super::books::{Books, Pipeline, READ_FACTS};
use super::clock::DatabaseClock;
use super::error::{Meaning, Trouble};
use super::insert::{Insert, NewEntry};
use super::listener::Bell;
use super::newcomers::Turns;
use super::pool::{CONFLICTS, Pool};
use super::slot::Slot;
use super::state_row::{STATE_WIDTH, get, lock_states};
use super::suppressed::{self, Asked, SuppressionList};
use super::under_way::UnderWay;
use super::writer::{Job, Jobs, Wants};
use crate::ledger::Ledger as _;

/// What all lanes share.
pub(super) struct Shared {
    pub(super) pool: Pool,
    pub(super) turns: Turns,
    pub(super) clock: Arc<DatabaseClock>,
    pub(super) bell: Arc<Bell>,
    pub(super) under_way: Arc<UnderWay>,
}

impl Shared {
    /// A line with so many lanes.
    pub(super) fn line(self: &Arc<Self>, lanes: usize) -> Jobs {
        self.lanes(lanes, |lane| async move {
            // Jobs for emails that another job of the same flush is about.
            let mut held_over = VecDeque::new();
            while let Some(jobs) = lane.gather(&mut held_over).await {
                lane.settle(jobs).await;
            }
        })
    }

    /// A line with so many lanes that run like this.
    pub(super) fn lanes<R, F>(self: &Arc<Self>, lanes: usize, run: R) -> Jobs
    where
        R: Fn(Arc<Lane>) -> F + Copy + Send + 'static,
        F: Future<Output = ()> + Send,
    {
        let (jobs, queue) = mpsc::unbounded_channel();
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..lanes {
            let lane = Arc::new(Lane {
                shared: Arc::clone(self),
                queue: Arc::clone(&queue),
                slot: Slot::any(),
            });
            tokio::spawn(async move {
                // A job that panics takes its flush with it, but not the lane.
                while AssertUnwindSafe(run(Arc::clone(&lane)))
                    .catch_unwind()
                    .await
                    .is_err()
                {}
            });
        }
        jobs
    }
}

/// One of those who commit the jobs of a line.
pub(super) struct Lane {
    pub(super) shared: Arc<Shared>,
    pub(super) queue: Arc<Mutex<Queue>>,
    slot: Slot,
}

/// Jobs of one transaction.
struct Group {
    jobs: Vec<Box<dyn Job>>,
    /// Whether all are new emails, as far as anyone knows.
    are_new: bool,
    /// Whether they are part of a flush that waited in vain for what somebody holds: then it is known
    /// that it is held, and the others have waited long enough.
    is_hurried: bool,
}

impl Lane {
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
    pub(super) async fn settle(&self, jobs: Vec<Box<dyn Job>>) {
        // One who has to ring within his transaction has more than one statement.
        let are_new =
            self.shared.bell.inside().is_none() && jobs.iter().all(|job| job.wants().is_only_new());
        let mut groups = vec![Group {
            jobs,
            are_new,
            is_hurried: false,
        }];
        while let Some(mut group) = groups.pop() {
            group.jobs.retain(|job| !job.is_abandoned());
            if group.jobs.is_empty() {
                continue;
            }
            let committed = self.commit(&mut group).await;
            let Group {
                mut jobs,
                are_new,
                is_hurried,
            } = group;
            let Err(trouble) = committed else {
                let (done, replayed) = jobs.into_iter().partition(|job| job.has_run());
                let done: Vec<_> = done;
                done.into_iter().for_each(|job| job.answer(Ok(())));
                groups.push(Group {
                    jobs: replayed,
                    are_new: false,
                    is_hurried,
                });
                continue;
            };
            let is_one_of_them = matches!(trouble.meaning(), Meaning::Refused | Meaning::Locked);
            if is_one_of_them && jobs.len() > 1 {
                let others = jobs.split_off(jobs.len() / 2);
                let is_hurried = is_hurried || trouble.meaning() == Meaning::Locked;
                groups.extend([others, jobs].map(|jobs| Group {
                    jobs,
                    are_new,
                    is_hurried,
                }));
            } else {
                let error = StoreError::from(trouble);
                for job in jobs {
                    job.answer(Err(error.clone()));
                }
            }
        }
    }

    /// One transaction, done again if others stood in the way or the connection was stale.
    async fn commit(&self, group: &mut Group) -> Result<(), Trouble> {
        let Group {
            jobs,
            are_new,
            is_hurried,
        } = group;
        let mut conflicts = 0;
        let mut was_cut = false;
        loop {
            let committing = AtomicBool::new(false);
            let flush = async |client: &ClientWrapper| match are_new {
                true => self.take_in(client, jobs, &committing).await,
                false => self.flush(client, jobs, &committing).await,
            };
            let done = match is_hurried {
                true => self.shared.pool.run_hurried(flush).await,
                false => self.shared.pool.run(flush).await,
            };
            let trouble = match done {
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
            .write_back(&mut pipeline, self.slot.next(), &self.shared.bell)
            .await?;
        committing.store(!books.is_clean(), Ordering::SeqCst);
        pipeline.commit();
        // Until it is known that they are committed, nobody knows what the rows are.
        self.shared.under_way.forget(&books);
        failpoint::hit("store.before_commit");
        pipeline.finish().await?;
        failpoint::hit("store.after_commit");
        self.conclude(books);
        Ok(())
    }

    /// Takes new emails in, and runs the jobs of those whose keys are new.
    async fn take_in(
        &self,
        client: &ClientWrapper,
        jobs: &mut [Box<dyn Job>],
        committing: &AtomicBool,
    ) -> Result<(), Trouble> {
        let emails = new_of(jobs.iter().map(|job| job.wants()));
        let wanted = suppressed::Wanted::prepare(client, asked(&emails)).await?;
        let insert = Insert::prepare(client, emails, self.slot.next_for_new()).await?;
        if client.is_closed() {
            // Nothing was sent: it can be done again.
            return Err(StoreError::Unavailable("the connection was cut".into()).into());
        }
        let asked_at = Instant::now();
        committing.store(true, Ordering::SeqCst);
        failpoint::hit("store.before_commit");
        // Sent one after the other, answered one after the other.
        let (suppressed, inserted) =
            tokio::join!(biased; wanted.read(client), insert.run(&**client));
        let inserted = inserted?;
        failpoint::hit("store.after_commit");
        // They are there. Whatever is wrong now, doing it again would not find them new.
        let mut books = Books::new(self.shared.clock.now());
        let entered = suppressed.map_err(Trouble::from).and_then(|rows| {
            books.add_suppressed(SuppressionList::of(&rows)?);
            insert.enter(&inserted, &mut books)?;
            Ok(inserted.first().map(|row| get(row, 1)).transpose()?)
        });
        let came_at = entered.map_err(|trouble: Trouble| {
            StoreError::Unavailable(StoreError::from(trouble).to_string())
        })?;
        if let Some(now) = came_at {
            self.shared.clock.learn(now, asked_at);
        }
        for job in jobs.iter_mut() {
            let is_new = |entry: &NewEntry| books.accepted.contains_key(&entry.email.id);
            if job.wants().new.as_ref().is_some_and(is_new) {
                job.run(&mut books);
            }
        }
        self.conclude(books);
        Ok(())
    }

    /// What a commit means for others.
    fn conclude(&self, books: Books) {
        if books.concerns_schedulers {
            self.shared.bell.ring();
        }
        self.shared.under_way.remember(books);
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
            let books = read(client, unknown, self.slot.next_for_new()).await?;
            self.shared.clock.learn(books.now(), asked);
            books
        };
        for (id, state) in known {
            books.assume(id, state);
        }
        Ok(books)
    }
}

fn drain(queue: &mut Queue, batch: &mut Batch, held_over: &mut VecDeque<Box<dyn Job>>) {
    while batch.has_room()
        && held_over.len() < JOBS_PER_FLUSH
        && let Ok(job) = queue.try_recv()
    {
        held_over.extend(batch.take(job));
    }
}

/// Begins a transaction and reads what the jobs want, in one round trip. New emails are counted in
/// `slot`.
async fn read(client: &ClientWrapper, wanted: Vec<&Wants>, slot: i32) -> Result<Books, Trouble> {
    let all = || wanted.iter().copied();
    let ids: Vec<Uuid> = all().flat_map(|w| &w.ids).map(|id| id.0).collect();
    let with_facts: Vec<Uuid> = all()
        .filter(|wants| wants.facts)
        .flat_map(|wants| &wants.ids)
        .map(|id| id.0)
        .collect();
    let emails = new_of(all());
    let statements = (
        client.prepare_cached(&lock_states()).await?,
        client.prepare_cached(READ_FACTS).await?,
        client.prepare_cached("SELECT posthaste_now()").await?,
    );
    let list = suppressed::Wanted::prepare(client, asked(&emails)).await?;
    let insert = match emails.is_empty() {
        true => None,
        false => Some(Insert::prepare(client, emails, slot).await?),
    };
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
        async {
            match &insert {
                None => Ok(Vec::new()),
                Some(insert) => insert.run(&**client).await,
            }
        },
        list.read(client),
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
    if let Some(insert) = &insert {
        let replayed = insert.enter(&inserted, &mut books)?;
        answer_replays(client, &replayed, &mut books).await?;
    }
    Ok(books)
}

/// The new emails among what is wanted.
fn new_of<'a>(wanted: impl Iterator<Item = &'a Wants>) -> Vec<&'a NewEntry> {
    wanted.filter_map(|wants| wants.new.as_ref()).collect()
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
