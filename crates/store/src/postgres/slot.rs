//! Where connections count what becomes of emails.
//!
//! Each has a row of its own for every step and minute, so that they do not wait for each other. As
//! long as a transaction anywhere on the server is older than its versions, none of them can be
//! removed, and every use walks over all. So a connection moves on to another row after some uses.

use std::sync::atomic::{AtomicU32, Ordering};

use uuid::Uuid;

/// So many places there are.
const SLOTS: i32 = 1024;
/// The last one that connections begin at. Each has a second place for new emails, because these are
/// counted before the rest, and not in one order with it.
pub(super) const LAST_SLOT: i32 = 2 * SLOTS;
/// So often a row is used: its versions fit on a page or two.
const USES: u32 = 128;
/// After so many rows it may be the first one again: by then it is another minute.
const ROWS: u32 = 10_000;

/// Where a connection counts. Two that share a place only wait for each other now and then.
pub(super) struct Slot {
    base: i32,
    uses: AtomicU32,
}

impl Slot {
    /// Any of them.
    pub(super) fn any() -> Self {
        let random = Uuid::now_v7().as_u128() % SLOTS.unsigned_abs() as u128;
        Self {
            base: 1 + i32::try_from(random).unwrap_or(0),
            uses: AtomicU32::new(0),
        }
    }

    /// For the next transaction.
    pub(super) fn next(&self) -> i32 {
        self.moved_on(self.base)
    }

    /// For the new emails of the next transaction.
    pub(super) fn next_for_new(&self) -> i32 {
        self.moved_on(self.base + SLOTS)
    }

    /// Where one stands that began here. What is above the last place is for applications, whose
    /// rows stay locked for as long as they like; below zero nobody else is.
    fn moved_on(&self, from: i32) -> i32 {
        let uses = self.uses.fetch_add(1, Ordering::Relaxed);
        match i32::try_from(uses / USES % ROWS).unwrap_or(0) {
            0 => from,
            rows => -(from + rows * LAST_SLOT),
        }
    }
}

/// For transactions of which two may be under way.
pub(super) struct TwoSlots {
    both: [Slot; 2],
    uses: AtomicU32,
}

impl TwoSlots {
    /// Any of them.
    pub(super) fn any() -> Self {
        let first = Slot::any();
        let second = Slot {
            base: first.base % SLOTS + 1,
            uses: AtomicU32::new(0),
        };
        Self {
            both: [first, second],
            uses: AtomicU32::new(0),
        }
    }

    /// For the next transaction: the other one than for the last.
    pub(super) fn next(&self) -> i32 {
        let uses = self.uses.fetch_add(1, Ordering::Relaxed);
        self.both[usize::from(uses % 2 == 1)].next()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn a_row_is_used_a_few_times_and_nobody_elses_ever() {
        let slot = Slot::any();
        let mut uses = HashMap::<i32, u32>::new();
        for _ in 0..10 * USES {
            for place in [slot.next(), slot.next_for_new()] {
                assert!(place != 0 && place <= LAST_SLOT, "{place}");
                *uses.entry(place).or_default() += 1;
            }
        }
        assert_eq!(uses.len(), 40);
        assert!(uses.values().all(|n| *n == USES / 2));
    }

    #[test]
    fn two_transactions_count_in_two_places() {
        let slots = TwoSlots::any();
        let places: Vec<i32> = (0..4).map(|_| slots.next()).collect();
        assert_ne!(places[0], places[1]);
        assert_eq!(places[..2], places[2..]);
    }

    #[test]
    fn it_goes_on_for_ever() {
        let slot = Slot {
            base: SLOTS,
            uses: AtomicU32::new(u32::MAX - USES),
        };
        for _ in 0..3 * USES {
            assert!(slot.next_for_new() >= -(LAST_SLOT + 10_000 * LAST_SLOT));
        }
    }
}
