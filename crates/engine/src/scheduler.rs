//! Brings emails that are due back to the senders, at their time, not at a poll's.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use posthaste_core::Timestamp;
use posthaste_core::port::{Broker, Due, Published, Route, SharedStore, StoreError, Ticket};
use posthaste_core::status::DeadReason;
use tokio::time::Instant;

use crate::service::{Report, Service};
use crate::{Metrics, Policies};

/// How many emails are claimed at a time.
const BATCH: usize = 500;
/// When the broker has no room, the next try comes after this time.
const NO_ROOM: Duration = Duration::from_secs(1);
/// When someone else holds what is due, the next look comes after this time.
const HELD_ELSEWHERE: Duration = Duration::from_millis(20);

/// Claims due emails and publishes their tickets.
pub struct Scheduler {
    store: SharedStore,
    broker: Arc<dyn Broker>,
    policies: Arc<Policies>,
    metrics: Arc<Metrics>,
    lease: Duration,
    interval: Duration,
    /// Until when the broker need not be asked again, whoever wakes us.
    no_room_until: Mutex<Option<Instant>>,
}

impl Scheduler {
    /// A scheduler whose claims last for `lease`; `interval` is the backstop.
    #[must_use]
    pub fn new(
        store: SharedStore,
        broker: Arc<dyn Broker>,
        policies: Arc<Policies>,
        metrics: Arc<Metrics>,
        lease: Duration,
        interval: Duration,
    ) -> Self {
        Self {
            store,
            broker,
            policies,
            metrics,
            lease,
            interval,
            no_room_until: Mutex::new(None),
        }
    }

    fn no_room_until(&self) -> MutexGuard<'_, Option<Instant>> {
        self.no_room_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims emails that are due.
    async fn claim(&self) -> Result<Claimed, StoreError> {
        let wait = match self.store.next_due().await? {
            None => return Ok(Claimed::default()),
            Some(due) => due.duration_since(self.store.now()),
        };
        // A little late is fine, early never is.
        if let Ok(wait) = Duration::try_from(wait)
            && !wait.is_zero()
        {
            return Ok(Claimed::nothing_for(wait + Duration::from_millis(1)));
        }
        Ok(match self.claim_now().await? {
            // Someone else holds what is due.
            nothing if nothing.count == 0 => Claimed::nothing_for(HELD_ELSEWHERE),
            claimed => claimed,
        })
    }

    /// The same without asking first whether there are any.
    async fn claim_now(&self) -> Result<Claimed, StoreError> {
        posthaste_core::failpoint::hit("scheduler.before_claim");
        let claimed = self
            .store
            .claim_due(BATCH, self.lease, &self.policies.budgets())
            .await?;
        posthaste_core::failpoint::hit("scheduler.after_claim");
        let count = claimed.len();
        let (dead, due): (Vec<_>, Vec<_>) = claimed
            .into_iter()
            .partition(|due| due.exhausted || due.expired);
        dead.iter().for_each(|due| note_dead(&self.metrics, due));
        Ok(Claimed {
            due,
            count,
            again_in: None,
        })
    }

    /// The same while others are being published, of which there were so many. A broker in trouble is
    /// not given more.
    async fn claim_ahead(&self, last: usize) -> Result<Claimed, StoreError> {
        match self.broker.trouble() {
            None if last == BATCH => self.claim_now().await,
            None => self.claim().await,
            Some(_) => Ok(Claimed::default()),
        }
    }

    /// Lets go of emails that were claimed and are not published: they stay due. If that is lost,
    /// their leases run out.
    async fn hand_back(&self, due: Vec<Due>) {
        if due.is_empty() {
            return;
        }
        let leases = due.iter().map(Due::lease).collect();
        if let Err(error) = self.store.mark_queued(Vec::new(), leases).await {
            tracing::warn!(%error, "could not hand back what was claimed; it waits for its lease to run out");
        }
    }

    /// Publishes tickets; how many were refused.
    async fn publish(&self, due: Vec<Due>) -> Result<usize, StoreError> {
        if due.is_empty() {
            return Ok(0);
        }
        let now = self.store.now();
        let tickets = due.iter().map(|due| ticket_of(due, now)).collect();
        posthaste_core::failpoint::hit("scheduler.before_publish");
        let answers = self.broker.publish(Route::Retry, tickets).await;
        posthaste_core::failpoint::hit("scheduler.after_publish");
        let (mut published, mut refused) = (Vec::new(), Vec::new());
        for (due, answer) in due.iter().zip(answers) {
            let confirmed = answer == Published::Confirmed;
            if confirmed {
                published.push(due.lease());
                self.metrics.retries_requeued.inc();
                self.metrics
                    .retry_lateness
                    .observe(now.duration_since(due.due_at).as_secs_f64().max(0.0));
            } else {
                refused.push(due.lease());
            }
            tracing::info!(
                email_id = %due.id,
                attempt_count = due.attempt_count,
                next_attempt_at = %due.due_at,
                published = confirmed,
                skipped = if confirmed { "" } else { "the broker did not confirm it; it stays due" },
                "scheduled"
            );
        }
        let refusals = refused.len();
        posthaste_core::failpoint::hit("scheduler.before_mark");
        self.store.mark_queued(published, refused).await?;
        posthaste_core::failpoint::hit("scheduler.after_mark");
        Ok(refusals)
    }
}

/// What a look for emails that are due came to.
#[derive(Default)]
struct Claimed {
    /// Those whose tickets are to be published.
    due: Vec<Due>,
    /// How many were found, with those that turned out to be dead.
    count: usize,
    /// If none were, when to look again.
    again_in: Option<Duration>,
}

impl Claimed {
    fn nothing_for(rest: Duration) -> Self {
        Self {
            again_in: Some(rest),
            ..Self::default()
        }
    }
}

/// Says that a due email is dead instead of being tried again.
pub(crate) fn note_dead(metrics: &Metrics, due: &Due) {
    let reason = if due.expired {
        DeadReason::Expired
    } else {
        DeadReason::MaxAttemptsExceeded
    };
    metrics.died(reason);
    tracing::info!(
        email_id = %due.id,
        attempt_count = due.attempt_count,
        next_attempt_at = %due.due_at,
        published = false,
        skipped = %reason,
        "scheduled"
    );
}

fn ticket_of(due: &Due, now: Timestamp) -> Ticket {
    Ticket {
        email_id: due.id,
        message_key: due.message_key.clone(),
        priority: due.priority,
        queued_at: now,
        traceparent: due.traceparent.clone(),
    }
}

#[async_trait]
impl Service for Scheduler {
    fn name(&self) -> &'static str {
        "scheduler"
    }

    fn interval(&self) -> Duration {
        self.interval
    }

    async fn run_once(&self) -> Result<Report, StoreError> {
        let mut done = 0;
        let until = *self.no_room_until();
        let rests_for = until.map(|until| until.saturating_duration_since(Instant::now()));
        let mut claimed = match rests_for {
            Some(left) if !left.is_zero() => Claimed::nothing_for(left),
            _ => self.claim().await?,
        };
        loop {
            if claimed.count == 0 {
                return Ok(Report {
                    done,
                    again_in: claimed.again_in,
                });
            }
            done += claimed.count;
            // While these are published, the next are claimed.
            let ahead = self.claim_ahead(claimed.count);
            let (refused, next) = tokio::join!(self.publish(claimed.due), ahead);
            if !matches!(refused, Ok(0)) {
                if let Ok(next) = next {
                    self.hand_back(next.due).await;
                }
                refused?;
                *self.no_room_until() = Some(Instant::now() + NO_ROOM);
                return Ok(Report {
                    done,
                    again_in: Some(NO_ROOM),
                });
            }
            claimed = match next? {
                // That may have been a while ago.
                nothing if nothing.count == 0 => self.claim().await?,
                next => next,
            };
        }
    }
}
