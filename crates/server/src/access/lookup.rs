//! Shares one look-up among all who wait for it.
//!
//! Every request asks the store who its key belongs to, so that a revoked key is refused at
//! once. Under load many ask the same at the same time: those who arrived before a look-up
//! began share its answer. An answer never serves a request that arrived after its look-up
//! began, so this is not a cache, and there is nothing to grow stale.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Mutex;

/// Look-ups of values by keys.
pub(super) struct Lookups<K, V> {
    slots: Box<[Slot<K, V>]>,
}

struct Slot<K, V> {
    arrivals: AtomicU64,
    last: Mutex<Option<Answer<K, V>>>,
}

struct Answer<K, V> {
    key: K,
    /// Who had arrived when the look-up began.
    serves_up_to: u64,
    value: V,
}

impl<K: PartialEq, V: Clone> Lookups<K, V> {
    /// Look-ups of which at most `slots` run at once.
    pub(super) fn new(slots: usize) -> Self {
        let slot = || Slot {
            arrivals: AtomicU64::new(0),
            last: Mutex::new(None),
        };
        Self {
            slots: std::iter::repeat_with(slot).take(slots).collect(),
        }
    }

    /// The value for `key`, as it is now. `spread` puts keys that differ into different slots.
    pub(super) async fn get(&self, spread: usize, key: K, look_up: impl Future<Output = V>) -> V {
        let slot = &self.slots[spread % self.slots.len()];
        let number = slot.arrivals.fetch_add(1, Ordering::SeqCst) + 1;
        let mut last = slot.last.lock().await;
        if let Some(answer) = &*last
            && answer.serves_up_to >= number
            && answer.key == key
        {
            return answer.value.clone();
        }
        // Requests come in bursts: whoever is about to ask as well gets the same answer.
        tokio::task::yield_now().await;
        let serves_up_to = slot.arrivals.load(Ordering::SeqCst);
        let value = look_up.await;
        *last = Some(Answer {
            key,
            serves_up_to,
            value: value.clone(),
        });
        value
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn those_who_wait_share_the_next_answer_but_never_one_that_began_before_them() {
        let lookups = Arc::new(Lookups::<u8, usize>::new(1));
        let asked = Arc::new(AtomicUsize::new(0));
        let (began, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let first = {
            let (lookups, asked) = (Arc::clone(&lookups), Arc::clone(&asked));
            let (began, go_on) = (Arc::clone(&began), Arc::clone(&go_on));
            tokio::spawn(async move {
                let look_up = async {
                    began.notify_one();
                    go_on.notified().await;
                    asked.fetch_add(1, Ordering::SeqCst)
                };
                lookups.get(0, 7, look_up).await
            })
        };
        began.notified().await;
        let later: Vec<_> = (0..10)
            .map(|_| {
                let (lookups, asked) = (Arc::clone(&lookups), Arc::clone(&asked));
                tokio::spawn(async move {
                    let look_up = async { asked.fetch_add(1, Ordering::SeqCst) };
                    lookups.get(0, 7, look_up).await
                })
            })
            .collect();
        while lookups.slots[0].arrivals.load(Ordering::SeqCst) < 11 {
            tokio::task::yield_now().await;
        }
        go_on.notify_one();
        assert_eq!(first.await.unwrap(), 0);
        for task in later {
            assert_eq!(task.await.unwrap(), 1, "all share the second look-up");
        }
        assert_eq!(asked.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn another_key_is_looked_up_for_itself() {
        let lookups = Lookups::<u8, &str>::new(1);
        assert_eq!(lookups.get(0, 1, async { "one" }).await, "one");
        assert_eq!(lookups.get(0, 2, async { "two" }).await, "two");
    }
}
