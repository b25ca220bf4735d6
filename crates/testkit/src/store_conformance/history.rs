//! What happened to emails over time.

use std::time::Duration;

use posthaste_core::port::{Action, HistoryStep, Retention};
use posthaste_core::status::DeadReason;

use super::StoreFixture;
use super::scene::{HOUR, Scene};
use crate::{an_email, dead, sent, transient};

const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
const KEEP_ALL: Retention = Retention {
    sent: YEAR,
    dead: YEAR,
    attempts: None,
    content: None,
    captures: YEAR,
    audit: YEAR,
};

impl<F: StoreFixture> Scene<'_, F> {
    async fn history(&self, step_minutes: u32, steps: u32) -> Vec<HistoryStep> {
        let history = self.store.history(step_minutes, steps).await;
        history.expect("history")
    }
}

/// Accepted, sent, failed and dead of all steps together.
fn sums(steps: &[HistoryStep]) -> [u64; 4] {
    let sum = |of: fn(&HistoryStep) -> u64| steps.iter().map(of).sum();
    [
        sum(|step| step.accepted),
        sum(|step| step.sent),
        sum(|step| step.failed),
        sum(|step| step.dead),
    ]
}

pub async fn an_empty_history_has_all_its_steps(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let steps = scene.history(60, 24).await;
    assert_eq!((steps.len(), sums(&steps)), (24, [0; 4]));
    for pair in steps.windows(2) {
        assert_eq!(pair[0].from + HOUR, pair[1].from);
    }
    let present = steps[23].from;
    assert!(present <= scene.now() && scene.now() < present + 2 * HOUR);
}

pub async fn what_happened_is_told_when_it_happened(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    scene.ended(an_email("a"), sent()).await;
    scene.ended(an_email("b"), transient(9 * HOUR)).await;
    scene.advance(3 * HOUR).await;
    let gone = scene
        .ended(an_email("c"), dead(DeadReason::HardBounce))
        .await;
    // Taking a discard back is no second death.
    scene.act(gone, Action::Discard).await;
    scene.act(gone, Action::Restore).await;
    let steps = scene.history(60, 24).await;
    assert_eq!(sums(&steps), [3, 1, 1, 1]);
    // An hour may have begun while this ran.
    assert_eq!(sums(&steps[22..]), [1, 0, 0, 1]);
    assert_eq!(sums(&steps[..22]), [2, 1, 1, 0]);
    assert_eq!(sums(&scene.history(1, 30).await), [1, 0, 0, 1]);
}

pub async fn what_was_compacted_is_told_by_the_quarter(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    scene.ended(an_email("a"), sent()).await;
    scene.advance(22 * HOUR).await;
    scene.ended(an_email("b"), sent()).await;
    let before = scene.history(15, 96).await;
    assert_eq!(sums(&before), [2, 2, 0, 0]);
    scene.store.prune(KEEP_ALL, 1000).await.expect("prune");
    let after = scene.history(15, 96).await;
    let told = |steps: &[HistoryStep]| -> Vec<HistoryStep> {
        let something = |step: &&HistoryStep| step.accepted + step.sent > 0;
        steps.iter().filter(something).copied().collect()
    };
    assert_eq!(told(&after), told(&before));
}
