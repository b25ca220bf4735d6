//! Which deliveries of a channel are still open.

use std::collections::BTreeSet;

/// One acknowledgement as RabbitMQ wants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ack {
    pub(super) delivery_tag: u64,
    /// Whether it stands for everything before it, too.
    pub(super) multiple: bool,
}

/// The deliveries of one channel that are neither acknowledged nor given back. RabbitMQ closes a
/// channel that settles a delivery twice, so nothing leaves this list twice.
#[derive(Default)]
pub(super) struct Ledger {
    open: BTreeSet<u64>,
}

impl Ledger {
    /// A delivery came.
    pub(super) fn open(&mut self, delivery_tag: u64) {
        self.open.insert(delivery_tag);
    }

    /// Settles deliveries, with one acknowledgement for all up to the first that is still open.
    pub(super) fn acknowledge(&mut self, delivery_tags: &[u64]) -> Vec<Ack> {
        let done = self.take(delivery_tags);
        let first_open = self.open.first().copied().unwrap_or(u64::MAX);
        let prefix = done.range(..first_open).next_back().copied();
        let single = done.range(first_open..).copied();
        let ack = |multiple| {
            move |delivery_tag| Ack {
                delivery_tag,
                multiple,
            }
        };
        let prefix = prefix.into_iter().map(ack(true));
        prefix.chain(single.map(ack(false))).collect()
    }

    /// Settles deliveries that go back, one by one.
    pub(super) fn give_back(&mut self, delivery_tags: &[u64]) -> Vec<u64> {
        self.take(delivery_tags).into_iter().collect()
    }

    fn take(&mut self, delivery_tags: &[u64]) -> BTreeSet<u64> {
        let is_open = |tag: &u64| self.open.remove(tag);
        delivery_tags.iter().copied().filter(is_open).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(open: &[u64]) -> Ledger {
        Ledger {
            open: open.iter().copied().collect(),
        }
    }

    fn acks(acks: &[Ack]) -> Vec<(u64, bool)> {
        acks.iter()
            .map(|ack| (ack.delivery_tag, ack.multiple))
            .collect()
    }

    #[test]
    fn the_finished_prefix_takes_one_acknowledgement() {
        let mut ledger = with(&[1, 2, 3, 4]);
        assert_eq!(acks(&ledger.acknowledge(&[2, 1, 3])), [(3, true)]);
        assert_eq!(acks(&ledger.acknowledge(&[4])), [(4, true)]);
    }

    #[test]
    fn what_is_behind_an_open_one_is_acknowledged_alone() {
        let mut ledger = with(&[1, 2, 3, 4, 5]);
        assert_eq!(
            acks(&ledger.acknowledge(&[1, 4, 3])),
            [(1, true), (3, false), (4, false)]
        );
        assert_eq!(acks(&ledger.acknowledge(&[5, 2])), [(5, true)]);
    }

    #[test]
    fn what_was_given_back_is_no_gap() {
        let mut ledger = with(&[1, 2, 3]);
        assert_eq!(ledger.give_back(&[2]), [2]);
        assert_eq!(acks(&ledger.acknowledge(&[3, 1])), [(3, true)]);
    }

    #[test]
    fn nothing_is_settled_twice() {
        let mut ledger = with(&[1, 2]);
        ledger.acknowledge(&[1]);
        assert_eq!(acks(&ledger.acknowledge(&[1, 7])), []);
        assert_eq!(ledger.give_back(&[1]), [] as [u64; 0]);
        assert_eq!(acks(&ledger.acknowledge(&[2, 2])), [(2, true)]);
    }
}
