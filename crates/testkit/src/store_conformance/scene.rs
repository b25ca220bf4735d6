//! A store on stage: the steps that cases are made of. Whatever fails that is not the point of a
//! case panics.

use std::future::Future;
use std::time::Duration;

use posthaste_core::Timestamp;
use posthaste_core::decision::Decision;
use posthaste_core::email::{EmailId, EmailRecord};
use posthaste_core::lifecycle::{Refusal, State};
use posthaste_core::port::{
    Accepted, Acted, Action, Actor, Begun, Due, EmailFilter, Finish, Lease, Rescued, SharedStore,
    Started, Undecided, Unticketed,
};
use posthaste_core::status::{Outcome, Status};
use tokio::task::JoinSet;

use super::StoreFixture;
use crate::{EmailBuilder, budgets};

/// An hour. Steps of time are so long that it does not matter how long a test takes where the
/// clock cannot be held still.
pub(super) const HOUR: Duration = Duration::from_secs(3600);
/// Half of it: the time after which something is not yet so.
pub(super) const HALF: Duration = Duration::from_secs(1800);
/// How long a lease lasts.
pub(super) const LEASE: Duration = HOUR;
/// The name of the worker.
pub(super) const WORKER: &str = "worker-1";
/// The name of the way out.
pub(super) const TRANSPORT: &str = "smtp";
/// How many attempts may fail, where a case does not care.
pub(super) const BUDGET: u32 = 8;
/// More than there ever are.
pub(super) const ALL: usize = 1000;

/// The time around something that happened, by the store's clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    from: Timestamp,
    to: Timestamp,
}

impl Moment {
    /// Asserts that `at` is this moment.
    #[track_caller]
    pub(super) fn is(self, at: Option<Timestamp>) {
        self.is_followed_by(at, Duration::ZERO);
    }

    /// Asserts that `at` is `delay` after this moment.
    #[track_caller]
    pub(super) fn is_followed_by(self, at: Option<Timestamp>, delay: Duration) {
        let at = at.expect("a time");
        assert!(
            self.from + delay <= at && at <= self.to + delay,
            "{at} is not {delay:?} after {} … {}",
            self.from,
            self.to
        );
    }
}

/// A store, and what is done with it.
pub(super) struct Scene<'a, F> {
    fixture: &'a F,
    /// The store itself.
    pub(super) store: SharedStore,
}

impl<'a, F: StoreFixture> Scene<'a, F> {
    pub(super) fn new(fixture: &'a F) -> Self {
        Self {
            fixture,
            store: fixture.store(),
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.store.now()
    }

    pub(super) async fn advance(&self, by: Duration) {
        self.fixture.advance(by).await;
    }

    /// Does something and says when it happened.
    pub(super) async fn timed<T>(&self, work: impl Future<Output = T>) -> (T, Moment) {
        let from = self.now();
        let done = work.await;
        // A store that knows its time only from the answers it gets may be behind a little.
        self.store.check().await.expect("an answer");
        let to = self.now();
        (done, Moment { from, to })
    }

    /// Hands in one email and gives the answer.
    pub(super) async fn hand_in(&self, email: EmailBuilder, ticketed: bool) -> Accepted {
        let answers = self.store.accept(vec![email.build()], ticketed).await;
        let mut answers = answers.expect("accept");
        assert_eq!(answers.len(), 1);
        answers.remove(0).expect("accept")
    }

    /// Accepts a new email whose ticket is published.
    pub(super) async fn accept(&self, email: EmailBuilder) -> EmailId {
        let id = email.clone().build().id;
        assert_eq!(self.hand_in(email, true).await, Accepted::Created);
        id
    }

    /// Accepts a new email for which nobody publishes a ticket.
    pub(super) async fn accept_unticketed(&self, email: EmailBuilder) -> EmailId {
        let id = email.clone().build().id;
        assert_eq!(self.hand_in(email, false).await, Accepted::Created);
        id
    }

    /// Takes a ticket.
    pub(super) async fn try_begin(&self, id: EmailId) -> Begun {
        let begun = self.store.begin(vec![id], WORKER, LEASE).await;
        let mut begun = begun.expect("begin");
        assert_eq!(begun.len(), 1);
        begun.remove(0)
    }

    /// Takes a ticket that must be good.
    pub(super) async fn begin(&self, id: EmailId) -> Started {
        match self.try_begin(id).await {
            Begun::Started(started) => *started,
            other => panic!("{id} did not begin: {other:?}"),
        }
    }

    /// Takes a ticket that must not be good.
    pub(super) async fn refusal(&self, id: EmailId) -> Refusal {
        match self.try_begin(id).await {
            Begun::Refused(refusal) => refusal,
            other => panic!("{id} was not refused: {other:?}"),
        }
    }

    pub(super) async fn renew(&self, lease: Lease) -> bool {
        self.store.renew(vec![lease], LEASE).await.expect("renew")[0]
    }

    pub(super) async fn pass_gate(&self, lease: Lease) -> bool {
        let passages = vec![(lease, TRANSPORT.into())];
        self.store.pass_gate(passages).await.expect("gate")[0]
    }

    pub(super) async fn release(&self, lease: Lease) {
        self.store.release(vec![lease]).await.expect("release");
    }

    pub(super) async fn finish(&self, lease: Lease, decision: Decision) -> Result<State, Refusal> {
        let finish = Finish {
            lease,
            decision,
            transport: Some(TRANSPORT.into()),
            budget: BUDGET,
            removes_sent: false,
        };
        let mut answers = self.store.finish(vec![finish]).await.expect("finish");
        assert_eq!(answers.len(), 1);
        answers.remove(0)
    }

    /// One whole attempt on a good ticket.
    pub(super) async fn attempt(&self, id: EmailId, decision: Decision) -> State {
        let started = self.begin(id).await;
        assert!(self.pass_gate(started.lease).await);
        let finished = self.finish(started.lease, decision).await;
        finished.expect("a lease that holds")
    }

    /// A new email that came to this end at once.
    pub(super) async fn ended(&self, email: EmailBuilder, decision: Decision) -> EmailId {
        let id = self.accept(email).await;
        self.attempt(id, decision).await;
        id
    }

    /// A new email whose sender vanished after the gate: its fate is unknown and undecided.
    pub(super) async fn uncertain(&self, email: EmailBuilder) -> Started {
        let id = self.accept(email).await;
        let started = self.begin(id).await;
        assert!(self.pass_gate(started.lease).await);
        self.advance(LEASE + HALF).await;
        let rescued = self.rescue().await;
        assert!(rescued.iter().any(|rescued| rescued.id == id));
        assert_eq!(self.status(id).await, Status::Unknown);
        started
    }

    pub(super) async fn claim(&self, most: usize) -> Vec<Due> {
        let due = self.store.claim_due(most, LEASE, &budgets()).await;
        due.expect("claim")
    }

    /// A whole round of the scheduler: claims, publishes, marks. Says what was published.
    pub(super) async fn schedule(&self) -> Vec<EmailId> {
        let due = self.claim(ALL).await;
        let alive = due.iter().filter(|due| !due.exhausted && !due.expired);
        let published: Vec<_> = alive.map(|due| due.id).collect();
        self.mark_queued(&published, &[]).await;
        published
    }

    /// Marks tickets of emails that nothing has happened to since they were claimed.
    pub(super) async fn mark_queued(&self, published: &[EmailId], refused: &[EmailId]) {
        let (mut held, mut lost) = (Vec::new(), Vec::new());
        for id in published {
            held.push(self.present_lease(*id).await);
        }
        for id in refused {
            lost.push(self.present_lease(*id).await);
        }
        self.mark(held, lost).await;
    }

    async fn present_lease(&self, id: EmailId) -> Lease {
        let token = self.state(id).await.lease_token;
        Lease { id, token }
    }

    pub(super) async fn mark(&self, published: Vec<Lease>, refused: Vec<Lease>) {
        let marked = self.store.mark_queued(published, refused);
        marked.await.expect("mark queued");
    }

    /// What is found without a ticket, all of which must be alive.
    pub(super) async fn begin_unticketed(
        &self,
        most: usize,
        queued_before: Timestamp,
    ) -> Vec<Started> {
        let found = self.find_unticketed(most, queued_before).await;
        assert!(found.dead.is_empty(), "{:?}", found.dead);
        found.started
    }

    pub(super) async fn find_unticketed(
        &self,
        most: usize,
        queued_before: Timestamp,
    ) -> Unticketed {
        let (store, budgets) = (&self.store, budgets());
        let found = store.begin_unticketed(most, queued_before, WORKER, LEASE, &budgets);
        found.await.expect("begin unticketed")
    }

    pub(super) async fn rescue(&self) -> Vec<Rescued> {
        self.store.rescue(ALL).await.expect("rescue")
    }

    pub(super) async fn undecided(&self) -> Vec<Undecided> {
        self.store.undecided(ALL).await.expect("undecided")
    }

    pub(super) async fn act(&self, id: EmailId, action: Action) -> Acted {
        self.act_as(&operator(), id, action).await
    }

    pub(super) async fn act_as(&self, actor: &Actor, id: EmailId, action: Action) -> Acted {
        let mut acted = self.store.act(vec![id], action, actor).await.expect("act");
        assert_eq!(acted.len(), 1);
        acted.remove(0)
    }

    pub(super) async fn find(&self, id: EmailId) -> EmailRecord {
        let found = self.store.find(id).await.expect("find");
        found.expect("an email that is there")
    }

    pub(super) async fn state(&self, id: EmailId) -> State {
        self.find(id).await.state
    }

    pub(super) async fn status(&self, id: EmailId) -> Status {
        self.state(id).await.status
    }

    /// How each attempt of an email ended, by number.
    pub(super) async fn outcomes(&self, id: EmailId) -> Vec<(u32, Outcome)> {
        let attempts = self.find(id).await.attempts;
        attempts.iter().map(|a| (a.number, a.outcome)).collect()
    }

    pub(super) async fn list(&self, filter: EmailFilter) -> Vec<EmailId> {
        let filter = EmailFilter {
            limit: if filter.limit == 0 { ALL } else { filter.limit },
            ..filter
        };
        let found = self.store.list(&filter).await.expect("list");
        found.iter().map(|record| record.id).collect()
    }

    /// Asserts how many emails the counters see in each state; those not named have none.
    pub(super) async fn assert_counted(&self, expected: &[(Status, u64)]) {
        let statistics = self.store.statistics().await.expect("statistics");
        let counted = statistics.by_status.into_iter().filter(|(_, n)| *n > 0);
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        assert_eq!(counted.collect::<Vec<_>>(), expected);
    }
}

/// Someone who may do everything.
pub(super) fn operator() -> Actor {
    Actor {
        name: "cli:root".into(),
        owner: None,
    }
}

/// Does the same in many tasks at once and gives all answers.
pub(super) async fn together<T, W>(tasks: usize, work: impl Fn(usize) -> W) -> Vec<T>
where
    T: Send + 'static,
    W: Future<Output = T> + Send + 'static,
{
    let mut set = JoinSet::new();
    for task in 0..tasks {
        set.spawn(work(task));
    }
    set.join_all().await
}
