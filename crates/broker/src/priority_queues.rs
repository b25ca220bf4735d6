//! One queue per priority, and whose turn it is.

use std::collections::VecDeque;

use posthaste_core::status::Priority;

/// Among this many, at least one goes to a lower priority that waits.
const FAIRNESS: u64 = 8;

/// Queues from which high priority goes first, without starving the others.
pub(crate) struct PriorityQueues<T> {
    by_priority: [VecDeque<T>; 3],
    taken: u64,
}

impl<T> Default for PriorityQueues<T> {
    fn default() -> Self {
        Self {
            by_priority: [VecDeque::new(), VecDeque::new(), VecDeque::new()],
            taken: 0,
        }
    }
}

const fn index(priority: Priority) -> usize {
    match priority {
        Priority::High => 0,
        Priority::Normal => 1,
        Priority::Low => 2,
    }
}

impl<T> PriorityQueues<T> {
    /// How many wait in the queue of this priority.
    pub(crate) fn waiting(&self, priority: Priority) -> usize {
        self.by_priority[index(priority)].len()
    }

    /// How many wait in all queues.
    pub(crate) fn len(&self) -> usize {
        self.by_priority.iter().map(VecDeque::len).sum()
    }

    /// How many were taken so far.
    pub(crate) const fn taken(&self) -> u64 {
        self.taken
    }

    /// Adds one behind all others of its priority.
    pub(crate) fn push_back(&mut self, priority: Priority, item: T) {
        self.by_priority[index(priority)].push_back(item);
    }

    /// Adds one before all others of its priority.
    pub(crate) fn push_front(&mut self, priority: Priority, item: T) {
        self.by_priority[index(priority)].push_front(item);
    }

    /// Keeps only those for which `keep` says so.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        for queue in &mut self.by_priority {
            queue.retain(&mut keep);
        }
    }

    /// Takes the next one: high before normal before low; now and then low or normal goes first,
    /// by turns, so that steady streams of others never starve it.
    pub(crate) fn take_next(&mut self) -> Option<T> {
        let is_turn_of_others = self.taken % FAIRNESS == FAIRNESS - 1;
        let turn = self.taken / FAIRNESS;
        let order = match (is_turn_of_others, turn % 2) {
            (false, _) => [0, 1, 2],
            (true, 0) => [2, 1, 0],
            (true, _) => [1, 2, 0],
        };
        let next = order
            .into_iter()
            .find_map(|at: usize| self.by_priority[at].pop_front());
        self.taken += u64::from(next.is_some());
        next
    }
}
