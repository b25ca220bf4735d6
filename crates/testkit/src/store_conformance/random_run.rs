//! A long random life: whatever happens in whatever order, the books balance.

use std::time::Duration;

use posthaste_core::decision::{Conclusion, Decision, Parking};
use posthaste_core::email::EmailId;
use posthaste_core::lifecycle::Resolution;
use posthaste_core::port::{Action, Lease, Pick, Retention};
use posthaste_core::status::{DeadReason, Priority};
use posthaste_core::way::{BreakerRules, FaultNote, WayEvent, WayName};

use super::scene::{ALL, HALF, HOUR, LEASE, Scene, WORKER};
use super::{StoreFixture, assert_consistent};
use crate::{
    an_email, budgets, dead, exhausted, parking, sent, transient, unknown_hold, unknown_resend,
};

/// What emails wait for.
const WAYS: &str = "primary,secondary";

/// A small generator (SplitMix64) with a seed of its own, so that every run is the same.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n as u64) as usize
    }

    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        (!from.is_empty()).then(|| from[self.below(from.len())])
    }

    fn decision(&mut self) -> Decision {
        match self.below(9) {
            7 => transient(HALF).parked(parking(WAYS, HALF)),
            8 => transient(HALF).failed_over(),
            0 | 1 => sent(),
            2 | 3 => transient(HALF),
            4 => dead(DeadReason::HardBounce),
            5 => exhausted(),
            _ if self.below(2) == 0 => unknown_hold(),
            _ => unknown_resend(HALF),
        }
    }

    fn action(&mut self) -> Action {
        match self.below(9) {
            8 => Action::RetryExpired,
            0 => Action::Cancel,
            1 | 2 => Action::Retry,
            3 => Action::Resolve(Resolution::Sent),
            4 => Action::Resolve(Resolution::Dead),
            5 => Action::Discard,
            6 => Action::Restore,
            _ => Action::Erase,
        }
    }
}

struct Run<'a, F> {
    scene: Scene<'a, F>,
    random: Random,
    ids: Vec<EmailId>,
    leases: Vec<Lease>,
}

impl<F: StoreFixture> Run<'_, F> {
    async fn step(&mut self, n: usize) {
        let scene = &self.scene;
        match self.random.below(14) {
            0..=2 => {
                let ticketed = self.random.below(2) == 0;
                let priorities = [Priority::High, Priority::Normal, Priority::Low];
                let priority = self.random.pick(&priorities).expect("a priority");
                let mut email = an_email(&format!("{n}")).priority(priority);
                if self.random.below(4) == 0 {
                    email = email.expires_at(scene.now() + 4 * HOUR);
                }
                let email = email.build();
                self.ids.push(email.id);
                let accepted = scene.store.accept(vec![email], ticketed).await;
                accepted.expect("accept");
            }
            3 => {
                let before = scene.now() - HOUR;
                let found = scene.find_unticketed(3, before).await;
                let begun = found.started.iter().map(|begun| begun.lease);
                self.leases.extend(begun);
            }
            12 => {
                let budgets = budgets();
                let found = scene
                    .store
                    .begin_parked(WAYS, Pick::UpTo(2), WORKER, LEASE, &budgets);
                let found = found.await.expect("begin parked");
                let begun = found.started.iter().map(|begun| begun.lease);
                self.leases.extend(begun);
            }
            13 => self.fault().await,
            4 => {
                let Some(id) = self.random.pick(&self.ids) else {
                    return;
                };
                if let posthaste_core::port::Begun::Started(started) = scene.try_begin(id).await {
                    self.leases.push(started.lease);
                }
            }
            5 | 6 => {
                // Also with leases that are long lost.
                let Some(lease) = self.random.pick(&self.leases) else {
                    return;
                };
                let decision = self.random.decision();
                let uncertain = decision.outcome == posthaste_core::status::Outcome::Unknown;
                if !uncertain || scene.pass_gate(lease).await {
                    // A worker reports once; that it does so late is what is tried here.
                    let _ = scene.finish(lease, decision).await;
                    self.leases.retain(|other| *other != lease);
                }
            }
            7 => {
                let Some(lease) = self.random.pick(&self.leases) else {
                    return;
                };
                match self.random.below(5) {
                    3 | 4 => self.park(lease).await,
                    0 => drop(scene.renew(lease).await),
                    1 => drop(scene.pass_gate(lease).await),
                    _ => scene.release(lease).await,
                }
            }
            8 => {
                let due = scene.claim(4).await;
                let alive = due.iter().filter(|due| !due.exhausted && !due.expired);
                let (published, refused): (Vec<_>, Vec<_>) = alive
                    .map(posthaste_core::port::Due::lease)
                    .partition(|_| self.random.below(3) > 0);
                if self.random.below(4) > 0 {
                    scene.mark(published, refused).await;
                }
            }
            9 => {
                let steps = [Duration::from_secs(60), HALF, HOUR + HALF];
                let by = self.random.pick(&steps).expect("a step");
                scene.advance(by).await;
                scene.rescue().await;
                self.settle().await;
            }
            10 => {
                let Some(id) = self.random.pick(&self.ids) else {
                    return;
                };
                scene.act(id, self.random.action()).await;
            }
            _ => {
                let retention = Retention {
                    attempts: None,
                    content: None,
                    sent: 3 * HOUR,
                    dead: 5 * HOUR,
                    captures: HOUR,
                    audit: HOUR,
                };
                scene.store.prune(retention, 3).await.expect("prune");
            }
        }
    }

    async fn park(&mut self, lease: Lease) {
        let parking = Parking {
            waits_until: (self.random.below(3) == 0).then(|| self.scene.now() + HOUR),
            ..parking(WAYS, Duration::ZERO)
        };
        let parked = self.scene.store.park(vec![(lease, parking)]).await;
        // It was no attempt, so its sender has nothing more to say.
        if parked.expect("park") == [true] {
            self.leases.retain(|other| *other != lease);
        }
    }

    /// A way out fails, mostly for what was tried last.
    async fn fault(&mut self) {
        let Some(id) = self.random.pick(&self.ids) else {
            return;
        };
        let Some(record) = self.scene.store.find(id).await.expect("find") else {
            return;
        };
        let note = FaultNote {
            email: id,
            attempt: record.state.attempt_number,
        };
        let fault = WayEvent::Fault {
            note,
            is_ours: false,
            error: "connection refused".into(),
            floor: None,
        };
        let rules = BreakerRules {
            failures: 3,
            window: 9 * HOUR,
            ..BreakerRules::default()
        };
        let way = WayName::transport("primary");
        for event in [fault, WayEvent::Resume] {
            let told = self.scene.store.tell_way(&way, event, &rules, None).await;
            told.expect("tell");
        }
    }

    async fn settle(&mut self) {
        let mut settlements = Vec::new();
        for undecided in self.scene.undecided().await {
            let resend = Conclusion::Retry {
                delay: HALF,
                possible_duplicate: true,
            };
            let hold = self.random.below(2) == 0;
            settlements.push((undecided.id, if hold { Conclusion::Hold } else { resend }));
        }
        self.scene.store.settle(settlements).await.expect("settle");
    }
}

pub async fn the_books_balance_after_a_random_run(fixture: &impl StoreFixture) {
    for seed in [1, 7, 4711] {
        let mut run = Run {
            scene: Scene::new(fixture),
            random: Random(seed),
            ids: Vec::new(),
            leases: Vec::new(),
        };
        for step in 0..300 {
            // Keys of one run are not those of another.
            run.step(step + 1000 * seed as usize).await;
            if step % 25 == 0 {
                assert_consistent(fixture).await;
            }
        }
        let statistics = run.scene.store.statistics().await.expect("statistics");
        assert!(statistics.accepted >= 50, "{statistics:?}");
        // Nobody holds anything any more: all leases run out, and nothing is lost.
        run.scene.advance(3 * HOUR).await;
        run.scene.store.rescue(ALL).await.expect("rescue");
    }
}
