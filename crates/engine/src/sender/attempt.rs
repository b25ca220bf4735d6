//! One attempt, from the begun row to the recorded end.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures_util::FutureExt as _;
use posthaste_core::attempt::{Cause, Failure, Stage};
use posthaste_core::decision::{Budget, Conclusion, Decision, RecipientResult, decide};
use posthaste_core::email::RecipientStatus;
use posthaste_core::lifecycle::{Refusal, State};
use posthaste_core::port::{Finish, Gate, Lease, Outgoing, SharedStore, Span, SpanKind, Started};
use posthaste_core::status::{DeadReason, Outcome, Status};

use super::lease_keeper::Held;
use super::{FIRST_REST, LONGEST_REST, Sender};
use crate::Metrics;

/// The gate of one attempt: commits `committing`, and looks at the clock once more.
struct LeaseGate<'a> {
    store: &'a SharedStore,
    held: &'a Held,
    metrics: &'a Metrics,
    passed: AtomicBool,
}

#[async_trait]
impl Gate for LeaseGate<'_> {
    async fn pass(&self) -> bool {
        let committed = match self.store.pass_gate(vec![self.held.lease]).await {
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
        let open = committed && self.held.has_time_left();
        self.passed.store(open, Ordering::SeqCst);
        open
    }
}

/// How the talk with the transport ended.
enum Ended {
    /// Each recipient has a result.
    Answered(Vec<RecipientResult>),
    /// It is not to be tried any more.
    NotTried(DeadReason),
    /// The gate stayed shut, or shutdown came before it: hand the email back.
    NothingSent,
}

impl Sender {
    /// Sends, decides, records. What is not past the gate after `patience` has failed. The state is
    /// what it is then; `None` if it was handed back, or someone else had taken over.
    pub(super) async fn attempt(
        &self,
        started: Started,
        held: Held,
        patience: Option<Duration>,
    ) -> Option<State> {
        let begun = Instant::now();
        let mut span = self.trace(&started);
        let decision = match self.send(&started, &held, patience).await {
            Ended::Answered(results) => self.decide(&started, &results),
            Ended::NotTried(reason) => not_tried(reason),
            Ended::NothingSent => {
                span.fail("nothing was sent");
                self.release(&held).await;
                return None;
            }
        };
        note(&mut *span, &decision);
        posthaste_core::failpoint::hit("sender.before_finish");
        self.finish(&started, held.lease, decision, begun.elapsed())
            .await
    }

    /// Begins this attempt in the email's trace.
    fn trace(&self, started: &Started) -> Box<dyn Span> {
        let parent = started.traceparent.as_deref();
        let mut span = self.tracer.begin("email attempt", SpanKind::Client, parent);
        span.set("posthaste.email_id", started.lease.id.to_string().into());
        span.set("posthaste.attempt", started.state.attempt_number.into());
        span.set("posthaste.transport", self.transport.name().into());
        span
    }

    /// Talks to the transport.
    async fn send(&self, started: &Started, held: &Held, patience: Option<Duration>) -> Ended {
        if started.expires_at.is_some_and(|at| at <= self.store.now()) {
            return Ended::NotTried(DeadReason::Expired);
        }
        // The budget may have been lowered while its ticket was on the way.
        if started.state.attempt_count >= self.budget(started) {
            return Ended::NotTried(DeadReason::MaxAttemptsExceeded);
        }
        let waiting = started
            .recipients
            .iter()
            .filter(|r| r.status == RecipientStatus::Waiting);
        let outgoing = Outgoing {
            email_id: started.lease.id,
            attempt_number: started.state.attempt_number,
            from: started.from.clone(),
            recipients: waiting.map(|recipient| recipient.address.clone()).collect(),
            content: started.content.clone(),
        };
        let gate = LeaseGate {
            store: &self.store,
            held,
            metrics: &self.metrics,
            passed: AtomicBool::new(false),
        };
        let sending = AssertUnwindSafe(self.transport.send(&outgoing, &gate)).catch_unwind();
        tokio::pin!(sending);
        let all_failed = |stage, cause: String| {
            let failed = RecipientResult::Failed(Failure::new(stage, Cause::Io(cause)));
            vec![failed; outgoing.recipients.len()]
        };
        let is_past_gate = || gate.passed.load(Ordering::SeqCst);
        let sent = tokio::select! {
            sent = &mut sending => sent,
            () = self.abort.cancelled() => {
                if !is_past_gate() {
                    return Ended::NothingSent;
                }
                sending.await
            }
            () = over(patience) => {
                if !is_past_gate() {
                    let cause = "it was not handed over in time, and the caller does not wait longer";
                    return Ended::Answered(all_failed(Stage::Body, cause.into()));
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
            all_failed(stage, "the transport panicked".into())
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
        let expires_in = started
            .expires_at
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
        duration: Duration,
    ) -> Option<State> {
        let transport = self.transport.name();
        let finish = Finish {
            lease,
            decision,
            transport: transport.to_owned(),
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
    pub(super) async fn release(&self, held: &Held) {
        let mut rest = FIRST_REST;
        while let Err(error) = self.store.release(vec![held.lease]).await {
            tracing::warn!(email_id = %held.lease.id, %error, "the email could not be handed back; will try again");
            tokio::time::sleep(rest).await;
            rest = (rest * 2).min(LONGEST_REST);
        }
        self.metrics
            .attempt_ended(self.transport.name(), Outcome::Cancelled);
        self.scheduler.notify_one();
    }
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
        conclusion: Conclusion::Dead(reason),
        outcome: Outcome::Cancelled,
        error_class: None,
        fingerprint: None,
        error: Some(format!("not tried any more: {reason}")),
        stage: None,
        reply: None,
        recipients: Vec::new(),
    }
}
