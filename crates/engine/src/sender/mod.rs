//! Takes tickets, begins attempts, talks to the transport, records what came of it.
//!
//! An attempt is a row of steps over one value: begin, send (with the gate before the final
//! dot), decide, finish. A ticket has said what it has to say once its attempt has begun, and is
//! acknowledged then: from there on the lease in the store says who sends. Whatever goes wrong on
//! the way leaves the email in the store, where the rescuer or another sender finds it.

mod attempt;
mod fresh;
pub(crate) mod inline;
mod lease_keeper;
mod parked;
mod short_line;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use posthaste_core::Timestamp;
use posthaste_core::classification::Classifier;
use posthaste_core::port::{
    Begun, Broker, SharedStore, Started, TicketDelivery, Tracer, Unticketed,
};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::lease_keeper::LeaseKeeper;
use self::short_line::ShortLine;
use crate::scheduler::note_dead;
use crate::{Metrics, Policies, Ways};

/// With no ticket for this long, a sender that has room looks into the store itself.
const IDLE: Duration = Duration::from_millis(500);
/// When someone else holds what is due, the next look comes after this time.
const HELD_ELSEWHERE: Duration = Duration::from_millis(20);
/// Attempts under way per connection: while one talks, others wait for their commits, and the more
/// of them there are the more share one.
pub(crate) const ATTEMPTS_PER_CONNECTION: usize = 4;
/// Attempts that callers wait for, per connection: one who would wait for long is better off queued.
const CALLERS_PER_CONNECTION: usize = 2;
/// While there is more to do than there is room for, this part of the room is waited for, …
const SHARE_AT_ONCE: usize = 4;
/// … but no longer than this.
const GATHERS_FOR: Duration = Duration::from_millis(5);

/// For this long tickets are kept while the store is away.
const PATIENCE: Duration = Duration::from_secs(30);
/// After an error of the store, the next try comes after this time, then twice as long.
const FIRST_REST: Duration = Duration::from_millis(50);
const LONGEST_REST: Duration = Duration::from_secs(2);

/// How a sender works.
#[derive(Debug, Clone)]
pub struct SenderConfig {
    /// Its name in leases and records.
    pub worker: String,
    /// How many connections the transport may use.
    pub connections: usize,
    /// How long an email is held without renewal.
    pub lease: Duration,
    /// A ticket that is older than this is taken for lost.
    pub backstop: Duration,
    /// Whether it takes what waits, or only sends what callers wait for.
    pub takes_waiting: bool,
    /// How long a caller waits for the first attempt.
    pub patience: Duration,
    /// Whether emails that were sent are removed at once.
    pub removes_sent: bool,
}

/// Sends emails.
pub struct Sender {
    store: SharedStore,
    broker: Option<Arc<dyn Broker>>,
    ways: Arc<Ways>,
    policies: Arc<Policies>,
    classifier: Classifier,
    metrics: Arc<Metrics>,
    scheduler: Arc<Notify>,
    tracer: Arc<dyn Tracer>,
    config: SenderConfig,
    permits: Arc<Semaphore>,
    /// For emails that waited for a way out: whoever waits for tickets holds all other permits that
    /// are free, and would leave them one at a time.
    parked_permits: Arc<Semaphore>,
    /// For attempts that callers wait for: they do not stand in line behind a backlog. The
    /// connections they share with it.
    inline_permits: Arc<Semaphore>,
    /// For emails that begin as they are accepted; the others are held by whoever waits for tickets.
    fresh_places: ShortLine,
    leases: Arc<LeaseKeeper>,
    tasks: TaskTracker,
    /// Whether it has begun to take what waits.
    runs: AtomicBool,
    /// Ends attempts that have not passed the gate, when draining took too long.
    abort: CancellationToken,
    started_at: Timestamp,
}

/// What a sender works with.
pub struct SenderParts {
    /// The truth.
    pub store: SharedStore,
    /// Where tickets come from. Without one, emails are claimed from the store.
    pub broker: Option<Arc<dyn Broker>>,
    /// The ways out.
    pub ways: Arc<Ways>,
    /// The retry policies.
    pub policies: Arc<Policies>,
    /// What failures mean.
    pub classifier: Classifier,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Wakes the scheduler; without a broker, this sender.
    pub scheduler: Arc<Notify>,
    /// Records attempts.
    pub tracer: Arc<dyn Tracer>,
}

impl Sender {
    /// A sender that has not begun yet.
    #[must_use]
    pub fn new(parts: SenderParts, config: SenderConfig) -> Arc<Self> {
        let SenderParts {
            store,
            broker,
            ways,
            policies,
            classifier,
            metrics,
            scheduler,
            tracer,
        } = parts;
        let leases = Arc::new(LeaseKeeper::new(Arc::clone(&store), config.lease));
        let connections = config.connections.max(1);
        let permits = connections * ATTEMPTS_PER_CONNECTION;
        Arc::new(Self {
            permits: Arc::new(Semaphore::new(permits)),
            parked_permits: Arc::new(Semaphore::new(permits)),
            inline_permits: Arc::new(Semaphore::new(connections * CALLERS_PER_CONNECTION)),
            fresh_places: ShortLine::new(permits),
            started_at: store.now(),
            tasks: TaskTracker::new(),
            runs: AtomicBool::new(false),
            abort: CancellationToken::new(),
            store,
            broker,
            ways,
            policies,
            classifier,
            metrics,
            scheduler,
            tracer,
            config,
            leases,
        })
    }

    /// Sends until shutdown, then drains to the deadline. Leases of what could not be finished
    /// before the gate are released; what passed the gate is waited for.
    pub async fn run(self: Arc<Self>, shutdown: CancellationToken, drain: Duration) {
        let keeper = tokio::spawn(Arc::clone(&self.leases).run());
        let ways = tokio::spawn(Arc::clone(&self).watch_ways(shutdown.clone()));
        self.runs.store(self.config.takes_waiting, Ordering::SeqCst);
        match self.broker.clone() {
            _ if !self.config.takes_waiting => shutdown.cancelled().await,
            Some(broker) => self.take_tickets(&*broker, &shutdown).await,
            None => self.claim_until(&shutdown).await,
        }
        self.runs.store(false, Ordering::SeqCst);
        // Whoever lets emails go begins no more of them once this has ended.
        let _ = ways.await;
        self.tasks.close();
        let grace = (drain / 4).min(Duration::from_secs(2));
        if tokio::time::timeout(drain.saturating_sub(grace), self.tasks.wait())
            .await
            .is_err()
        {
            tracing::warn!(
                left = self.tasks.len(),
                "draining took too long: handing back what was not sent"
            );
            self.abort.cancel();
            // What passed the gate may still be answered; what did not is handed back quickly.
            let _ = tokio::time::timeout(grace, self.tasks.wait()).await;
        }
        keeper.abort();
        self.ways.close().await;
    }

    /// Claims from the store: when woken, when the next email is due, and now and then. While there is
    /// more than there is room for, the next claim does not wait for the one before to be answered.
    async fn claim_until(self: &Arc<Self>, shutdown: &CancellationToken) {
        let mut is_behind = false;
        let mut under_way = VecDeque::new();
        loop {
            let permits = tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                permits = self.free_permits(is_behind) => permits,
            };
            let sender = Arc::clone(self);
            under_way.push_back(self.tasks.spawn(async move {
                let room = permits.len();
                (sender.take_unticketed(permits).await, room)
            }));
            let mut found_any = false;
            while under_way.len() > usize::from(is_behind)
                && let Some(claim) = under_way.pop_front()
            {
                let claimed = tokio::select! {
                    biased;
                    claimed = claim => claimed,
                    // It begins what it has found, and is waited for with all that is under way.
                    () = shutdown.cancelled() => return,
                };
                // Nobody knows what one has found that panicked.
                let (found, room) = claimed.unwrap_or_default();
                found_any |= found > 0;
                is_behind = found > 0 && found == room;
            }
            if found_any || is_behind {
                continue;
            }
            let rest = self.until_next_due().await;
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                () = self.scheduler.notified() => {}
                () = tokio::time::sleep(rest) => {}
            }
        }
    }

    /// How long to rest: until the next email is due, but not for long.
    async fn until_next_due(&self) -> Duration {
        let Ok(Some(due)) = self.store.next_due().await else {
            return IDLE;
        };
        let wait = due.duration_since(self.store.now());
        // A little late is fine, early never is. One that is due and was not found is in
        // someone else's hands.
        let wait = Duration::try_from(wait).unwrap_or(HELD_ELSEWHERE);
        (wait + Duration::from_millis(1)).min(IDLE)
    }

    async fn take_tickets(self: &Arc<Self>, broker: &dyn Broker, shutdown: &CancellationToken) {
        // Emails may wait without a ticket: whatever a process that died before us had queued.
        let mut unticketed = true;
        let mut looked_at = Instant::now();
        let mut tickets_next = false;
        let mut is_behind = false;
        while !shutdown.is_cancelled() {
            let mut permits = tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                permits = self.free_permits(is_behind) => permits,
            };
            // Now and then even when busy.
            unticketed |= looked_at.elapsed() >= self.config.backstop / 2;
            if unticketed && !tickets_next {
                looked_at = Instant::now();
                let room = permits.len();
                let found = self.take_unticketed(permits).await;
                unticketed = found > 0;
                is_behind = found == room;
                // In turns, so that neither kind holds up the other.
                tickets_next = true;
                continue;
            }
            tickets_next = false;
            let patience = if unticketed { Duration::ZERO } else { IDLE };
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                deliveries = broker.receive(permits.len()) => {
                    let sender = Arc::clone(self);
                    is_behind = deliveries.len() == permits.len();
                    permits.truncate(deliveries.len());
                    // Beginning needs a commit; the next tickets need not wait for it.
                    self.tasks.spawn(async move { sender.begin(deliveries, permits).await });
                }
                () = tokio::time::sleep(patience) => unticketed = true,
            }
        }
    }

    /// At least one permit, and as many more as are free right now. Whoever is behind waits for a
    /// good part of them, because one who takes many at a time takes more.
    async fn free_permits(&self, is_behind: bool) -> Vec<OwnedSemaphorePermit> {
        let mut permits = Vec::new();
        if is_behind {
            let room = self.config.connections.max(1) * ATTEMPTS_PER_CONNECTION;
            let share = (room / SHARE_AT_ONCE).max(1);
            let share = u32::try_from(share).unwrap_or(u32::MAX);
            let enough = self.permits.acquire_many(share);
            let _ = tokio::time::timeout(GATHERS_FOR, enough).await;
        }
        if let Ok(first) = Arc::clone(&self.permits).acquire_owned().await {
            permits.push(first);
        }
        while let Ok(more) = Arc::clone(&self.permits).try_acquire_owned() {
            permits.push(more);
        }
        permits
    }

    async fn begin(
        self: Arc<Self>,
        deliveries: Vec<TicketDelivery>,
        permits: Vec<OwnedSemaphorePermit>,
    ) {
        let Some(broker) = &self.broker else { return };
        posthaste_core::failpoint::hit("sender.before_begin");
        let Some((begun, asked)) = self.open(&deliveries).await else {
            broker.give_back(deliveries).await;
            return;
        };
        posthaste_core::failpoint::hit("sender.after_begin");
        for (begun, permit) in begun.into_iter().zip(permits) {
            // Finished, in progress, not due, not there: then there is nothing to do.
            if let Begun::Started(started) = begun {
                self.spawn_attempt(started, asked, permit, false);
            }
        }
        posthaste_core::failpoint::hit("sender.before_acknowledge");
        broker.acknowledge(deliveries).await;
        posthaste_core::failpoint::hit("sender.after_acknowledge");
    }

    /// Begins the attempts of tickets. The store may be away: the tickets are kept for a while, so
    /// that they do not go round in circles. `None`: they are to be handed back.
    async fn open(&self, deliveries: &[TicketDelivery]) -> Option<(Vec<Begun>, Instant)> {
        let ids: Vec<_> = deliveries.iter().map(|d| d.ticket.email_id).collect();
        let since = Instant::now();
        let mut rest = FIRST_REST;
        loop {
            let asked = Instant::now();
            let begun = self
                .store
                .begin(ids.clone(), &self.config.worker, self.config.lease);
            match begun.await {
                Ok(begun) => return Some((begun, asked)),
                Err(error) => {
                    tracing::warn!(%error, "could not begin attempts; will try again");
                }
            }
            tokio::select! {
                biased;
                () = self.abort.cancelled() => return None,
                () = tokio::time::sleep(rest) => {}
            }
            if since.elapsed() > PATIENCE {
                return None;
            }
            rest = (rest * 2).min(LONGEST_REST);
        }
    }

    /// Begins attempts of emails that wait without a ticket, and says of how many.
    async fn take_unticketed(self: &Arc<Self>, permits: Vec<OwnedSemaphorePermit>) -> usize {
        let asked = Instant::now();
        posthaste_core::failpoint::hit("sender.before_begin");
        let begun = self
            .store
            .begin_unticketed(
                permits.len(),
                self.queued_before(),
                &self.config.worker,
                self.config.lease,
                &self.policies.budgets(),
            )
            .await;
        match begun {
            Ok(Unticketed { started, dead }) => {
                dead.iter().for_each(|due| note_dead(&self.metrics, due));
                let found = started.len() + dead.len();
                if !started.is_empty() {
                    posthaste_core::failpoint::hit("sender.after_begin");
                }
                for (started, permit) in started.into_iter().zip(permits) {
                    self.note_retry(&started);
                    self.spawn_attempt(Box::new(started), asked, permit, false);
                }
                found
            }
            Err(error) => {
                tracing::warn!(%error, "could not look for waiting emails; will try again");
                0
            }
        }
    }

    /// A retry that was taken from the store counts as if a scheduler had handed it out.
    fn note_retry(&self, started: &Started) {
        if let (true, Some(due)) = (started.state.has_failed(), started.state.next_attempt_at) {
            let late = started.now.duration_since(due).as_secs_f64();
            self.metrics.retries_requeued.inc();
            self.metrics.retry_lateness.observe(late.max(0.0));
        }
    }

    /// What was queued before this moment has lost its ticket. While the broker is in trouble,
    /// that is nearly everything: waiting for tickets would only make emails late.
    fn queued_before(&self) -> Timestamp {
        let now = self.store.now();
        let Some(broker) = &self.broker else {
            return now;
        };
        let patience = match broker.trouble() {
            None => self.config.backstop,
            Some(_) => IDLE.min(self.config.backstop),
        };
        let before = now.checked_sub(patience).unwrap_or(Timestamp::MIN);
        if broker.is_shared() {
            before
        } else {
            before.max(self.started_at)
        }
    }

    fn spawn_attempt(
        self: &Arc<Self>,
        started: Box<Started>,
        asked: Instant,
        permit: OwnedSemaphorePermit,
        is_parked: bool,
    ) {
        let held = self.leases.hold(started.lease, asked);
        let sender = Arc::clone(self);
        // In a box: a task would move the whole of it several times.
        self.tasks.spawn(Box::pin(async move {
            match sender.its_turn(&started, permit).await {
                Some(_permits) => drop(sender.attempt(started, held, None, is_parked).await),
                None => sender.release(&held, None).await,
            }
        }));
    }

    /// An email over which workers died is sent with nothing beside it, so that it takes nobody
    /// along if it kills this one too. `None`: it does not come to its turn.
    async fn its_turn(
        &self,
        started: &Started,
        permit: OwnedSemaphorePermit,
    ) -> Option<Vec<OwnedSemaphorePermit>> {
        if !started.state.is_sent_alone() {
            return Some(vec![permit]);
        }
        drop(permit);
        let everything = async {
            let mut taken = Vec::new();
            // Everyone takes them in this order, so that two never wait for each other.
            for (permits, per_connection) in [
                (&self.permits, ATTEMPTS_PER_CONNECTION),
                (&self.parked_permits, ATTEMPTS_PER_CONNECTION),
                (&self.inline_permits, CALLERS_PER_CONNECTION),
                (self.fresh_places.permits(), ATTEMPTS_PER_CONNECTION),
            ] {
                let all = self.config.connections.max(1) * per_connection;
                let all = u32::try_from(all).unwrap_or(u32::MAX);
                taken.push(Arc::clone(permits).acquire_many_owned(all).await.ok()?);
            }
            Some(taken)
        };
        let permits = tokio::select! {
            biased;
            permits = everything => permits?,
            () = self.abort.cancelled() => return None,
        };
        let prepared = self.store.prepare(started.lease).await;
        prepared.is_ok_and(|prepared| prepared).then_some(permits)
    }
}
