//! Shares one look-up among all who wait for it.
//!
//! Every request asks the store who its key belongs to, so that a revoked key is refused at
//! once. Under load many ask the same at the same time: those who arrived before a look-up
//! began share its answer, and so do those who come within a few milliseconds, which is less than
//! it takes to tell anyone that a key was revoked elsewhere. What this process itself changes
//! counts from the next request on. While requests keep coming, one of them now and then waits for
//! a new answer, and the others for nothing.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{MutexGuard, PoisonError};

use posthaste_core::port::StoreResult;
use tokio::sync::Mutex;
use tokio::time::{Duration, Instant};

/// For how long an answer serves those who come after its look-up began, in look-ups that are made
/// by every request.
pub(super) const SHARED_FOR: Duration = Duration::from_millis(5);

/// Look-ups of values by keys.
pub(super) struct Lookups<K, V> {
    slots: Box<[Slot<K, V>]>,
    shared_for: Duration,
}

struct Slot<K, V> {
    arrivals: AtomicU64,
    /// Held by whoever looks up.
    turn: Mutex<()>,
    last: std::sync::Mutex<Option<Answer<K, V>>>,
}

struct Answer<K, V> {
    key: K,
    /// Who had arrived when the look-up began, when that was, and after how many changes.
    serves_up_to: u64,
    asked_at: Instant,
    changes: u64,
    value: StoreResult<V>,
}

impl<K: PartialEq, V: Clone> Slot<K, V> {
    fn last(&self) -> MutexGuard<'_, Option<Answer<K, V>>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last answer, if it is about this, and how old it is, if it may serve those who come now,
    /// too. That something went wrong does not.
    fn known(&self, key: &K, changes: u64) -> Option<(StoreResult<V>, Duration)> {
        let last = self.last();
        let answer = last.as_ref().filter(|answer| answer.key == *key)?;
        let serves_others = answer.value.is_ok() && answer.changes == changes;
        let age = serves_others.then(|| answer.asked_at.elapsed());
        Some((answer.value.clone(), age.unwrap_or(Duration::MAX)))
    }

    /// The last answer, if it is about this and its look-up began after this one had come.
    fn answer_to(&self, number: u64, key: &K) -> Option<StoreResult<V>> {
        let last = self.last();
        let answer = last.as_ref().filter(|answer| answer.key == *key)?;
        (answer.serves_up_to >= number).then(|| answer.value.clone())
    }
}

impl<K: PartialEq, V: Clone> Lookups<K, V> {
    /// Look-ups of which at most `slots` run at once, and whose answers also serve those who come
    /// within this time.
    pub(super) fn new(slots: usize, shared_for: Duration) -> Self {
        let slot = || Slot {
            arrivals: AtomicU64::new(0),
            turn: Mutex::new(()),
            last: std::sync::Mutex::new(None),
        };
        Self {
            slots: std::iter::repeat_with(slot).take(slots).collect(),
            shared_for,
        }
    }

    /// The value for `key`, as it is now. `spread` puts keys that differ into different slots;
    /// `changes` says how often this process changed anything.
    pub(super) async fn get(
        &self,
        spread: usize,
        key: K,
        changes: impl Fn() -> u64,
        look_up: impl Future<Output = StoreResult<V>>,
    ) -> StoreResult<V> {
        let slot = &self.slots[spread % self.slots.len()];
        let number = slot.arrivals.fetch_add(1, Ordering::SeqCst) + 1;
        let fresh = || {
            slot.known(&key, changes())
                .filter(|(_, age)| *age < self.shared_for)
        };
        let _turn = match fresh() {
            Some((value, age)) if age * 2 < self.shared_for => return value,
            Some((value, _)) => match slot.turn.try_lock() {
                // It is getting old, and nobody else is about to renew it.
                Ok(turn) => turn,
                Err(_) => return value,
            },
            None => {
                let turn = slot.turn.lock().await;
                let answer = slot.answer_to(number, &key);
                if let Some(value) = answer.or_else(|| Some(fresh()?.0)) {
                    return value;
                }
                turn
            }
        };
        // Requests come in bursts: whoever is about to ask as well gets the same answer.
        tokio::task::yield_now().await;
        let serves_up_to = slot.arrivals.load(Ordering::SeqCst);
        let (asked_at, changes) = (Instant::now(), changes());
        let value = look_up.await;
        *slot.last() = Some(Answer {
            key,
            serves_up_to,
            asked_at,
            changes,
            value: value.clone(),
        });
        value
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    use posthaste_core::port::StoreError;
    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn those_who_wait_share_the_next_answer_but_never_one_that_began_before_them() {
        let lookups = Arc::new(Lookups::<u8, usize>::new(1, Duration::ZERO));
        let asked = Arc::new(AtomicUsize::new(0));
        let (began, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let first = {
            let (lookups, asked) = (Arc::clone(&lookups), Arc::clone(&asked));
            let (began, go_on) = (Arc::clone(&began), Arc::clone(&go_on));
            tokio::spawn(async move {
                let look_up = async {
                    began.notify_one();
                    go_on.notified().await;
                    Ok(asked.fetch_add(1, Ordering::SeqCst))
                };
                lookups.get(0, 7, || 0, look_up).await
            })
        };
        began.notified().await;
        let later: Vec<_> = (0..10)
            .map(|_| {
                let (lookups, asked) = (Arc::clone(&lookups), Arc::clone(&asked));
                tokio::spawn(async move {
                    let look_up = async { Ok(asked.fetch_add(1, Ordering::SeqCst)) };
                    lookups.get(0, 7, || 0, look_up).await
                })
            })
            .collect();
        while lookups.slots[0].arrivals.load(Ordering::SeqCst) < 11 {
            tokio::task::yield_now().await;
        }
        go_on.notify_one();
        assert_eq!(first.await.unwrap().unwrap(), 0);
        for task in later {
            let shared = task.await.unwrap().unwrap();
            assert_eq!(shared, 1, "all share the second look-up");
        }
        assert_eq!(asked.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn another_key_is_looked_up_for_itself() {
        let lookups = Lookups::<u8, &str>::new(1, SHARED_FOR);
        let one = lookups.get(0, 1, || 0, async { Ok("one") });
        assert_eq!(one.await.unwrap(), "one");
        let two = lookups.get(0, 2, || 0, async { Ok("two") });
        assert_eq!(two.await.unwrap(), "two");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_serves_others_for_a_moment_unless_something_was_changed() {
        let lookups = Lookups::<u8, u8>::new(1, SHARED_FOR);
        let get = |changes: u64, value| lookups.get(0, 7, move || changes, async move { value });
        assert_eq!(get(0, Ok(1)).await.unwrap(), 1);
        assert_eq!(get(0, Ok(2)).await.unwrap(), 1);
        assert_eq!(get(1, Ok(3)).await.unwrap(), 3);
        tokio::time::advance(SHARED_FOR).await;
        let away = StoreError::Unavailable("away".into());
        assert!(get(1, Err(away)).await.is_err());
        assert_eq!(get(1, Ok(4)).await.unwrap(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_asked_before_a_change_serves_nobody_after_it() {
        let lookups = Lookups::<u8, &str>::new(1, SHARED_FOR);
        let changed = AtomicU64::new(0);
        let changes = || changed.load(Ordering::SeqCst);
        let revoked_meanwhile = async {
            changed.fetch_add(1, Ordering::SeqCst);
            Ok("as it was")
        };
        let first = lookups.get(0, 7, changes, revoked_meanwhile).await;
        assert_eq!(first.unwrap(), "as it was");
        let next = lookups.get(0, 7, changes, async { Ok("revoked") }).await;
        assert_eq!(next.unwrap(), "revoked");
    }

    #[tokio::test(start_paused = true)]
    async fn one_renews_an_answer_that_gets_old_and_nobody_else_waits_for_it() {
        let lookups = Lookups::<u8, u8>::new(1, SHARED_FOR);
        let get = |look_up: StoreResult<u8>| lookups.get(0, 7, || 0, async move { look_up });
        assert_eq!(get(Ok(1)).await.unwrap(), 1);
        tokio::time::advance(SHARED_FOR / 2).await;
        let answered = Notify::new();
        let slow = lookups.get(0, 7, || 0, async {
            answered.notified().await;
            Ok(2)
        });
        let others = async {
            assert_eq!(get(Ok(3)).await.unwrap(), 1);
            answered.notify_one();
        };
        let (renewed, ()) = tokio::join!(biased; slow, others);
        assert_eq!(renewed.unwrap(), 2);
        assert_eq!(get(Ok(4)).await.unwrap(), 2);
        // Whoever comes too late for the old one waits for the new one.
        tokio::time::advance(SHARED_FOR).await;
        let slow = lookups.get(0, 7, || 0, async {
            answered.notified().await;
            Ok(5)
        });
        let other = get(Ok(6));
        let go_on = async { answered.notify_one() };
        let (first, second, ()) = tokio::join!(biased; slow, other, go_on);
        assert_eq!((first.unwrap(), second.unwrap()), (5, 5));
    }
}
