//! Where events lead according to the documents.

use posthaste_core::Timestamp;
use posthaste_core::lifecycle::{Feedback, Resolution, State};
use posthaste_core::status::{DeadReason, Phase, Status};

use crate::step::Move;

/// The arrows of DESIGN §4 and §5: where a move may lead from a state. Empty: it is refused.
pub(crate) fn documented(action: Move, from: Status) -> &'static [Status] {
    use Status::{
        Cancelled, Dead, Discarded, Failed, Pending, RetryQueued, Sending, Sent, Unknown,
    };
    match (action, from) {
        (Move::Begin, Pending | RetryQueued) => &[Sending],
        (Move::Prepare(_) | Move::Renew(_) | Move::Gate(_), Sending) => &[Sending],
        (Move::Finish(..), Sending) => &[Sent, Failed, Unknown, Dead],
        // Late proof: delivered to all, or to those who were left.
        (Move::Finish(_, report), Pending | Failed | RetryQueued | Unknown) if report.is_sent() => {
            &[Sent, Dead]
        }
        (Move::Release(_), Sending) => &[Pending, Failed],
        (Move::Park(..), Sending) => &[Failed],
        (Move::Unpark, Failed) => &[RetryQueued],
        (Move::Refund { is_last: true }, Failed) => &[Failed],
        (Move::Feedback(Feedback::Delivered), Unknown | Failed | RetryQueued) => &[Sent],
        (Move::Feedback(Feedback::Refused(_)), Sent | Unknown | Failed | RetryQueued) => &[Dead],
        (Move::Feedback(Feedback::Refused(DeadReason::SpamComplaint)), Dead) => &[Dead],
        (Move::ClaimDue, Pending) => &[RetryQueued],
        // Given up here only when the budget was lowered, which a walk does not do.
        (Move::ClaimDue, Failed) => &[RetryQueued],
        (Move::Queued(_), Pending) => &[Pending],
        (Move::Queued(_), RetryQueued) => &[RetryQueued],
        (Move::Unqueued(_), Pending) => &[Pending],
        (Move::Unqueued(_) | Move::LeaseExpired, RetryQueued) => &[Pending, Failed],
        (Move::LeaseExpired, Sending) => &[Failed, Unknown, Dead],
        (Move::Settle, Unknown) => &[Failed, Unknown],
        (Move::Cancel, Pending | Failed | RetryQueued) => &[Cancelled],
        (Move::Replay, Dead | Unknown | Failed) => &[Pending],
        (Move::Resolve(Resolution::Sent), Unknown) => &[Sent],
        (Move::Resolve(Resolution::Retry), Unknown) => &[Pending],
        (Move::Resolve(Resolution::Dead), Unknown) => &[Dead],
        (Move::Discard, Dead) => &[Discarded],
        (Move::Restore, Discarded) => &[Dead],
        (Move::Expire, Pending | Failed | RetryQueued) => &[Dead],
        _ => &[],
    }
}

/// What else must hold for a move to be allowed.
pub(crate) fn is_timely(action: Move, state: &State, now: Timestamp) -> bool {
    let is_due = state.next_attempt_at.is_some_and(|at| at <= now);
    match action {
        Move::Begin => is_due,
        Move::ClaimDue => is_due && state.waiting_for.is_none(),
        Move::Unpark => is_due && state.waiting_for.is_some(),
        // What may have sent it has its price.
        Move::Refund { .. } => state.phase != Phase::Committing && !state.possible_duplicate,
        // What a provider has although it is to be sent again must have been sent.
        Move::Feedback(_) if matches!(state.status, Status::Failed | Status::RetryQueued) => {
            state.bound_to.is_some()
        }
        Move::Feedback(_) if state.status == Status::Dead => {
            state.dead_reason == Some(DeadReason::HardBounce)
        }
        Move::LeaseExpired => state.locked_until.is_some_and(|until| until <= now),
        Move::Settle => state.next_attempt_at.is_some(),
        Move::Prepare(_) | Move::Park(..) => state.phase != Phase::Committing,
        // One that must be sent alone has to come to its turn first.
        Move::Gate(_) => state.phase != Phase::Idle,
        // A token that came from a replay was never handed to a worker.
        Move::Finish(..) => state.attempt_number > state.budget_from,
        _ => true,
    }
}
