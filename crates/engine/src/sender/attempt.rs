//! One attempt, from the begun row to the recorded end.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use posthaste_core::address::Address;
use posthaste_core::attempt::{Cause, Failure, Stage};
use posthaste_core::decision::{Budget, Conclusion, Decision, Parking, RecipientResult, decide};
use posthaste_core::email::{Recipient, RecipientStatus};
use posthaste_core::lifecycle::{Refusal, State};
use posthaste_core::port::{
    DomainVerdict, Finish, Gate, Lease, Outgoing, SharedStore, Span, SpanKind, Started,
};
use posthaste_core::status::{DeadReason, Outcome, Status};
use tokio::time::Instant;

use super::lease_keeper::Held;
use super::{FIRST_REST, LONGEST_REST, Sender};
use crate::Metrics;
use crate::metrics::NO_TRANSPORT;
use crate::ways::{A_MOMENT, Admission, Borne, Pass, Patience, Ways};

/// A gate that took longer than this kept others waiting, who had a connection or stood in line for
/// one: what they wait for then is our store, and not whom they are sent to.
const LONG_AT_THE_GATE: Duration = Duration::from_millis(500);

/// The gate of one attempt: commits `committing`, and looks at the clock once more.
struct LeaseGate<'a> {
    store: &'a SharedStore,
    ways: &'a Ways,
    pass: &'a Pass,
    held: &'a Held,
    metrics: &'a Metrics,
    /// Whether it is still to be sent: it may have waited long for a connection.
    is_wanted: &'a (dyn Fn() -> bool + Send + Sync),
    passed: AtomicBool,
}

#[async_trait]
impl Gate for LeaseGate<'_> {
    fn talks(&self) {
        self.pass.talks();
    }

    async fn pass(&self) -> bool {
        if !(self.is_wanted)() {
            return false;
        }
        let passage = (self.held.lease, Arc::clone(&self.pass.name));
        let asked = Instant::now();
        let committed = match self.store.pass_gate(vec![passage]).await {
            Ok(passed) if passed == [true] => true,
            Ok(_) => {
                self.metrics.stale_writes_rejected.inc();
                false
            }
            Err(error) => {
                tracing::warn!(email_id = %self.held.lease.id, %error, "the gate could not be committed; not sending");
                false
            }
        };
        if asked.elapsed() > LONG_AT_THE_GATE {
            self.ways.were_held_up();
        }
        let open = committed && self.held.has_time_left();
        self.passed.store(open, Ordering::SeqCst);
        open
    }
}

/// How the talk with the transport ended.
enum Ended {
    /// Each recipient that was tried has a result.
    Answered(Vec<RecipientResult>),
    /// The gate stayed shut, or shutdown came before it: hand the email back.
    NothingSent,
}

/// What comes of an attempt.
enum Came {
    /// This is to be recorded, of this way out if one was tried. The failure may turn out not to be
    /// the email's.
    Decided(Box<Decision>, Option<Arc<str>>, Option<Borne>),
    /// No way out is free.
    Parked(Parking),
    /// It is to be handed back.
    NothingSent(Option<Arc<str>>),
}

impl Sender {
    /// Sends, decides, records. What is not past the gate after `patience` has failed. `is_parked`:
    /// it waited for a way out before. The state is what it is then; `None` if it was handed back or
    /// parked, or someone else had taken over.
    pub(super) async fn attempt(
        &self,
        started: Box<Started>,
        held: Held,
        patience: Option<Duration>,
        is_parked: bool,
    ) -> Option<State> {
        let begun = Instant::now();
        let mut span = self.trace(&started);
        let came = self.come(&started, &held, patience, is_parked).await;
        let (decision, transport, borne) = match came {
            Came::Decided(decision, transport, borne) => (*decision, transport, borne),
            Came::Parked(parking) => {
                span.fail("no way out is free");
                self.park(&held, parking).await;
                return None;
            }
            Came::NothingSent(transport) => {
                span.fail("nothing was sent");
                self.release(&held, transport.as_deref()).await;
                return None;
            }
        };
        let name = transport.as_deref().unwrap_or(NO_TRANSPORT);
        span.set("posthaste.transport", name.into());
        note(&mut *span, &decision);
        posthaste_core::failpoint::hit("sender.before_finish");
        let recorded = self
            .finish(&started, held.lease, decision, transport, begun.elapsed())
            .await;
        posthaste_core::failpoint::hit("sender.after_finish");
        if let Some(borne) = borne {
            self.ways.landed(&self.store, borne).await;
        }
        recorded
    }

    /// Begins this attempt in the email's trace.
    fn trace(&self, started: &Started) -> Box<dyn Span> {
        let parent = started.traceparent.as_deref();
        let mut span = self.tracer.begin("email attempt", SpanKind::Client, parent);
        span.set("posthaste.email_id", started.lease.id.0.into());
        span.set("posthaste.attempt", started.state.attempt_number.into());
        span
    }

    /// Finds a way out and sends by it.
    async fn come(
        &self,
        started: &Started,
        held: &Held,
        patience: Option<Duration>,
        is_parked: bool,
    ) -> Came {
        if let Some(reason) = self.is_over(started) {
            return Came::Decided(Box::new(not_tried(reason)), None, None);
        }
        let refused = self.refused(started).await;
        let open: Vec<Address> = waiting(started)
            .zip(&refused)
            .filter(|(_, refused)| refused.is_none())
            .map(|(recipient, _)| recipient.address.clone())
            .collect();
        if open.is_empty() {
            let results: Vec<_> = refused.into_iter().flatten().collect();
            return Came::Decided(Box::new(self.decide(started, &results)), None, None);
        }
        let domain = shared_domain(&open);
        let asked = Instant::now();
        let admission = self.ways.admit(
            &self.store,
            started,
            domain.as_deref(),
            self.config.lease,
            (!is_parked).then(|| patience.map_or(A_MOMENT, Patience::of)),
        );
        let pass = match admission.await {
            Admission::Go(pass) => pass,
            Admission::Wait(parking) => return Came::Parked(parking),
        };
        let name = Arc::clone(&pass.name);
        let patience = patience.map(|patience| patience.saturating_sub(asked.elapsed()));
        match self.send(started, held, open, &pass, patience).await {
            Ended::NothingSent => {
                self.ways.abandon(&self.store, started, &pass).await;
                Came::NothingSent(Some(name))
            }
            Ended::Answered(sent) => {
                let mut sent = sent.into_iter();
                let merged = refused
                    .into_iter()
                    .map_while(|refused| refused.or_else(|| sent.next()));
                let decision = self.decide(started, &merged.collect::<Vec<_>>());
                let settled = self.ways.settle(&self.store, started, &pass, decision);
                let (decision, borne) = settled.await;
                Came::Decided(Box::new(decision), Some(name), borne)
            }
        }
    }

    /// Why it is not to be tried any more, if it is not.
    fn is_over(&self, started: &Started) -> Option<DeadReason> {
        let expires_at = started.expires_at.filter(|_| !started.state.ignores_expiry);
        if expires_at.is_some_and(|at| at <= self.store.now()) {
            return Some(DeadReason::Expired);
        }
        // The budget may have been lowered while its ticket was on the way.
        (started.state.attempt_count >= self.budget(started))
            .then_some(DeadReason::MaxAttemptsExceeded)
    }

    /// What is known of each waiting recipient without asking a server: nothing is sent to it any
    /// more, or its domain takes no mail.
    async fn refused(&self, started: &Started) -> Vec<Option<RecipientResult>> {
        let places = started.recipients.iter().enumerate();
        let asked = places
            .filter(|(_, recipient)| recipient.status == RecipientStatus::Waiting)
            .map(async |(place, recipient)| {
                let suppressed = started.suppressed.iter().find(|(at, _)| *at == place);
                let cause = match suppressed {
                    Some((_, reason)) => Some(Cause::Suppressed(*reason)),
                    None => self.takes_no_mail(recipient.address.domain()).await,
                };
                cause.map(|cause| RecipientResult::Failed(Failure::new(Stage::Resolve, cause)))
            });
        // All at once: the time that a name server takes is waited for once.
        futures_util::future::join_all(asked).await
    }

    async fn takes_no_mail(&self, domain: &str) -> Option<Cause> {
        let verdict = self.ways.domains()?.look_up(domain).await;
        (verdict == DomainVerdict::TakesNone).then(|| Cause::DomainNotFound(domain.to_owned()))
    }

    /// Talks to the transport.
    async fn send(
        &self,
        started: &Started,
        held: &Held,
        recipients: Vec<Address>,
        pass: &Pass,
        patience: Option<Duration>,
    ) -> Ended {
        let outgoing = Outgoing {
            email_id: started.lease.id,
            attempt_number: started.state.attempt_number,
            from: started.from.clone(),
            recipients,
            content: started.content.clone(),
        };
        let is_wanted = || self.is_over(started).is_none() && !self.ways.is_paused(pass);
        let gate = LeaseGate {
            store: &self.store,
            ways: &self.ways,
            pass,
            held,
            metrics: &self.metrics,
            is_wanted: &is_wanted,
            passed: AtomicBool::new(false),
        };
        let sending = AssertUnwindSafe(pass.transport.send(&outgoing, &gate)).catch_unwind();
        tokio::pin!(sending);
        let all_failed = |stage, cause| {
            let failed = RecipientResult::Failed(Failure::new(stage, cause));
            vec![failed; outgoing.recipients.len()]
        };
        let is_past_gate = || gate.passed.load(Ordering::SeqCst);
        let sent = tokio::select! {
            biased;
            sent = &mut sending => sent,
            () = self.abort.cancelled() => {
                if !is_past_gate() {
                    return Ended::NothingSent;
                }
                sending.await
            }
            () = over(patience) => {
                if !is_past_gate() {
                    return Ended::Answered(all_failed(Stage::Body, Cause::NotInTime));
                }
                sending.await
            }
        };
        let results = sent.unwrap_or_else(|_| {
            let stage = if is_past_gate() {
                Stage::FinalDot
            } else {
                Stage::Body
            };
            all_failed(stage, Cause::Io("the transport panicked".into()))
        });
        // The gate stayed shut: we know that nothing was sent, and it is nobody's failure.
        let lease_lost = |result: &RecipientResult| matches!(result, RecipientResult::Failed(failure) if failure.cause == Cause::LeaseLost);
        if results.iter().any(lease_lost) {
            Ended::NothingSent
        } else {
            Ended::Answered(results)
        }
    }

    fn decide(&self, started: &Started, results: &[RecipientResult]) -> Decision {
        let policy = self.policies.of(&started.policy);
        let now = self.store.now();
        let expires_at = started.expires_at.filter(|_| !started.state.ignores_expiry);
        let expires_in = expires_at
            .map(|at| Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO));
        let budget = Budget::of(&started.state, self.budget(started), expires_in);
        decide(
            &started.recipients,
            results,
            &self.classifier,
            policy,
            &budget,
            rand::random(),
        )
    }

    /// How many attempts may fail, as things stand.
    fn budget(&self, started: &Started) -> u32 {
        let policy = self.policies.of(&started.policy);
        started.state.max_attempts.unwrap_or(policy.max_attempts)
    }

    /// Records the end. The store may be away: the lease is kept meanwhile, so that nobody else
    /// begins, and the result is not given up while this process lives.
    async fn finish(
        &self,
        started: &Started,
        lease: Lease,
        decision: Decision,
        transport: Option<Arc<str>>,
        duration: Duration,
    ) -> Option<State> {
        let finish = Finish {
            lease,
            decision,
            transport: transport.as_deref().map(str::to_owned),
            budget: self.budget(started),
            removes_sent: self.config.removes_sent,
        };
        let mut rest = FIRST_REST;
        let recorded = loop {
            match self.store.finish(vec![finish.clone()]).await {
                Ok(mut recorded) => break recorded.pop(),
                Err(error) => {
                    tracing::warn!(email_id = %lease.id, %error, "the result could not be recorded; will try again");
                    tokio::time::sleep(rest).await;
                    rest = (rest * 2).min(LONGEST_REST);
                }
            }
        };
        let decision = &finish.decision;
        let transport = transport.as_deref().unwrap_or(NO_TRANSPORT);
        self.metrics.attempt_ended(transport, decision.outcome);
        self.metrics
            .attempt_duration
            .observe(duration.as_secs_f64());
        tracing::info!(
            email_id = %lease.id,
            attempt = started.state.attempt_number,
            outcome = %decision.outcome,
            error_class = decision.error_class.as_deref().unwrap_or(""),
            duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
            transport,
            "attempt"
        );
        match &recorded {
            Some(Ok(state)) => match state.status {
                Status::Sent => {
                    if state.possible_duplicate {
                        tracing::warn!(email_id = %lease.id, "sent again: an earlier attempt may have arrived, too");
                    }
                    let took = self.store.now().duration_since(started.created_at);
                    self.metrics
                        .time_to_delivery
                        .observe(took.as_secs_f64().max(0.0));
                }
                Status::Dead => {
                    if let Some(reason) = state.dead_reason {
                        self.metrics.died(reason);
                        tracing::warn!(email_id = %lease.id, %reason, "moved to the dead letters");
                    }
                }
                _ => self.scheduler.notify_one(),
            },
            Some(Err(Refusal::StaleToken)) | None => {
                self.metrics.stale_writes_rejected.inc();
                tracing::warn!(email_id = %lease.id, "the result came too late: another attempt holds the lease");
            }
            Some(Err(refusal)) => {
                tracing::warn!(email_id = %lease.id, %refusal, "the result was refused")
            }
        }
        recorded.and_then(Result::ok)
    }

    /// Hands an email back. The store may be away: the lease is kept meanwhile, so that nobody
    /// takes this worker for lost.
    pub(super) async fn release(&self, held: &Held, transport: Option<&str>) {
        let mut rest = FIRST_REST;
        while let Err(error) = self.store.release(vec![held.lease]).await {
            tracing::warn!(email_id = %held.lease.id, %error, "the email could not be handed back; will try again");
            tokio::time::sleep(rest).await;
            rest = (rest * 2).min(LONGEST_REST);
        }
        self.metrics
            .attempt_ended(transport.unwrap_or(NO_TRANSPORT), Outcome::Cancelled);
        self.scheduler.notify_one();
    }

    /// Lets an email wait for a way out. The store may be away, as above.
    async fn park(&self, held: &Held, parking: Parking) {
        tracing::debug!(email_id = %held.lease.id, waiting_for = parking.waiting_for, "parked");
        let mut rest = FIRST_REST;
        loop {
            match self.store.park(vec![(held.lease, parking.clone())]).await {
                Ok(_) => break,
                Err(error) => {
                    tracing::warn!(email_id = %held.lease.id, %error, "the email could not be parked; will try again");
                    tokio::time::sleep(rest).await;
                    rest = (rest * 2).min(LONGEST_REST);
                }
            }
        }
        self.metrics.parked.inc();
    }
}

/// The recipients that still wait.
fn waiting(started: &Started) -> impl Iterator<Item = &Recipient> {
    let recipients = started.recipients.iter();
    recipients.filter(|recipient| recipient.status == RecipientStatus::Waiting)
}

/// The domain of all of these, if they share one.
fn shared_domain(recipients: &[Address]) -> Option<String> {
    let mut domains = recipients
        .iter()
        .map(|address| address.domain().to_ascii_lowercase());
    let first = domains.next()?;
    domains.all(|domain| domain == first).then_some(first)
}

/// Ends when someone's patience does; never, if nobody waits.
async fn over(patience: Option<Duration>) {
    match patience {
        Some(patience) => tokio::time::sleep(patience).await,
        None => std::future::pending().await,
    }
}

/// Says in the trace how the attempt ended.
fn note(span: &mut dyn Span, decision: &Decision) {
    span.set("posthaste.outcome", decision.outcome.as_str().into());
    if let Some(class) = &decision.error_class {
        span.set("posthaste.error_class", class.as_str().into());
    }
    if decision.outcome != Outcome::Sent {
        span.fail(decision.error.as_deref().unwrap_or("not sent"));
    }
}

/// Given up without a try: nothing is counted, and the last error stays what it was.
fn not_tried(reason: DeadReason) -> Decision {
    Decision {
        error: Some(format!("not tried any more: {reason}")),
        ..Decision::new(Conclusion::Dead(reason), Outcome::Cancelled)
    }
}
