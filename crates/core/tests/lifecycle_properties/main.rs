//! Random events walk over the lifecycle; beside them walks a model written from the documents.
//!
//! The model says which events are allowed where and where they lead; what must hold at every
//! moment (I1, I3, I4 and I7 of FAULTS.md) is checked after each step.

#![allow(clippy::unwrap_used)]

mod arrow;
mod step;
mod walk;

use std::collections::BTreeSet;

use posthaste_core::Timestamp;
use posthaste_core::lifecycle::{Feedback, Resolution, State};
use posthaste_core::status::{DeadReason, Status};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use arrow::documented;
use step::{Move, Report, Step, Token, settings, steps};
use walk::walk;

/// What senders, schedulers and rescuers do next when nothing goes wrong any more, and when.
/// A lease that is left over from before (`is_orphan`) runs out.
fn healthy_move(state: &State, is_orphan: bool) -> Option<(Timestamp, Move)> {
    let due = state.next_attempt_at?;
    match state.status {
        Status::Pending | Status::RetryQueued => Some((due, Move::Begin)),
        Status::Failed if state.waiting_for.is_some() => Some((due, Move::Unpark)),
        Status::Failed => Some((due, Move::ClaimDue)),
        Status::Sending if is_orphan => Some((state.locked_until?, Move::LeaseExpired)),
        Status::Sending => Some((due, Move::Finish(Token::Current, Report::Accepted))),
        Status::Unknown => Some((due, Move::Settle)),
        _ => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn no_sequence_of_events_breaks_a_promise(setting in settings(), steps in steps()) {
        walk(&setting, &steps)?;
    }

    #[test]
    fn everything_drains_once_the_faults_are_over(setting in settings(), steps in steps()) {
        let mut walk = walk(&setting, &steps)?;
        let orphaned = walk.state.lease_token;
        for _ in 0..8 {
            let is_orphan = walk.state.lease_token == orphaned;
            let Some((moment, action)) = healthy_move(&walk.state, is_orphan) else {
                break;
            };
            let wait = moment.duration_since(walk.now).try_into().unwrap_or_default();
            walk.take(&Step { wait, random: 0.0, action })?;
        }
        let held = walk.state.status == Status::Unknown && walk.state.next_attempt_at.is_none();
        prop_assert!(walk.state.status.is_terminal() || held, "{:?}", walk.state);
    }
}

#[test]
fn the_random_walk_goes_along_every_arrow_of_the_documents() {
    let mut runner = TestRunner::deterministic();
    let mut walked = BTreeSet::new();
    for _ in 0..3000 {
        let (setting, steps) = (settings(), steps())
            .new_tree(&mut runner)
            .unwrap()
            .current();
        walked.append(&mut walk(&setting, &steps).unwrap().edges);
    }
    let tokens = [Token::Current];
    let mut moves = vec![
        Move::Begin,
        Move::ClaimDue,
        Move::LeaseExpired,
        Move::Settle,
        Move::Cancel,
        Move::Replay,
        Move::Discard,
        Move::Restore,
        Move::Expire,
        Move::Unpark,
        Move::Refund { is_last: true },
        Move::Feedback(Feedback::Delivered),
        Move::Feedback(Feedback::Refused(DeadReason::HardBounce)),
        Move::Feedback(Feedback::Refused(DeadReason::SpamComplaint)),
    ];
    moves.extend(Resolution::ALL.iter().map(|r| Move::Resolve(*r)));
    moves.extend(tokens.map(Move::Queued));
    moves.extend(tokens.map(Move::Unqueued));
    moves.extend(tokens.map(Move::Prepare));
    moves.extend(tokens.map(Move::Renew));
    moves.extend(tokens.map(Move::Gate));
    moves.extend(tokens.map(Move::Release));
    moves.extend(tokens.map(|token| Move::Park(token, 0)));
    moves.extend(tokens.map(|token| Move::Finish(token, Report::Accepted)));
    for action in moves {
        for from in Status::ALL {
            for to in documented(action, *from) {
                // Proof cannot reach an email that rests in `pending`: it comes after a replay
                // (a new token) or a release (nothing was sent).
                if (action.name().as_str(), *from) == ("Finish", Status::Pending) {
                    continue;
                }
                let edge = (action.name(), *from, *to);
                assert!(walked.contains(&edge), "never walked: {edge:?}");
            }
        }
    }
}
