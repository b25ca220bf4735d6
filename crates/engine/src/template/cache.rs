//! Keeps templates at hand for those who send by them thousands of times a second.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How many answers are kept.
const MOST: usize = 1_000;

/// Answers of the store by name, for a moment.
pub(super) struct Cache<V> {
    /// How long an answer counts as new.
    lasts: Duration,
    answers: Mutex<HashMap<String, Answer<V>>>,
    /// Held by whoever reads or changes the store, so that an old answer never replaces a newer
    /// one, and many who want the same read it once.
    turn: tokio::sync::Mutex<()>,
}

struct Answer<V> {
    value: Option<Arc<V>>,
    read_at: Instant,
}

/// What is known without asking the store.
pub(super) enum Known<V> {
    /// This is the answer.
    Answer(Option<Arc<V>>),
    /// The store must be asked. This was the answer before.
    Old(Option<Arc<V>>),
}

impl<V> Cache<V> {
    /// Answers that count as new for this long.
    pub(super) fn new(lasts: Duration) -> Self {
        Self {
            lasts,
            answers: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        }
    }

    /// What is known about a name.
    pub(super) fn get(&self, name: &str) -> Known<V> {
        match self.answers().get(name) {
            Some(answer) if self.is_new(answer) => Known::Answer(answer.value.clone()),
            answer => Known::Old(answer.and_then(|answer| answer.value.clone())),
        }
    }

    /// Waits until nobody else reads or changes the store.
    pub(super) async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// Keeps what the store answered.
    pub(super) fn keep(&self, name: &str, value: Option<Arc<V>>) {
        let mut answers = self.answers();
        if answers.len() >= MOST && !answers.contains_key(name) {
            answers.retain(|_, answer| self.is_new(answer));
            if answers.len() >= MOST {
                answers.clear();
            }
        }
        let read_at = Instant::now();
        answers.insert(name.to_owned(), Answer { value, read_at });
    }

    /// Forgets what is known about a name.
    pub(super) fn forget(&self, name: &str) {
        self.answers().remove(name);
    }

    fn is_new(&self, answer: &Answer<V>) -> bool {
        answer.read_at.elapsed() < self.lasts
    }

    fn answers(&self) -> MutexGuard<'_, HashMap<String, Answer<V>>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_counts_until_it_is_old() {
        let cache = Cache::new(Duration::MAX);
        cache.keep("a", Some(Arc::new(7)));
        assert!(matches!(cache.get("a"), Known::Answer(Some(value)) if *value == 7));
        cache.forget("a");
        assert!(matches!(cache.get("a"), Known::Old(None)));
        let cache = Cache::new(Duration::ZERO);
        cache.keep("a", Some(Arc::new(7)));
        assert!(matches!(cache.get("a"), Known::Old(Some(value)) if *value == 7));
    }

    #[test]
    fn names_that_never_end_do_not_fill_the_memory() {
        let cache = Cache::<u32>::new(Duration::MAX);
        for n in 0..MOST * 3 {
            cache.keep(&n.to_string(), None);
        }
        assert!(cache.answers().len() <= MOST);
    }
}
