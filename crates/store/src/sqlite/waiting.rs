//! Who comes into the next flush.

use std::collections::VecDeque;

use super::writer::Job;

/// At most this many jobs share a commit.
const JOBS_PER_FLUSH: usize = 1024;
/// At most this many jobs with new emails do while others wait, too.
const NEW_BESIDE_OTHERS: usize = 64;
/// After a flush of so many jobs more are likely to come at once.
const MANY: usize = 16;
/// So many are enough for a flush.
const ENOUGH: usize = 256;

/// Jobs that wait for their flush.
#[derive(Default)]
pub(super) struct Waiting {
    new: VecDeque<Box<dyn Job>>,
    others: VecDeque<Box<dyn Job>>,
    /// How many were in the last flush.
    taken: usize,
}

impl Waiting {
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn len(&self) -> usize {
        self.new.len() + self.others.len()
    }

    /// Whether a moment is well spent on waiting for more: each flush costs the same sync and writes
    /// the same hot pages once more, however few share it. Where few come at a time nobody waits.
    pub(super) fn is_worth_a_moment(&self) -> bool {
        self.taken >= MANY && self.len() < ENOUGH && self.new.len() < NEW_BESIDE_OTHERS
    }

    pub(super) fn push(&mut self, job: Box<dyn Job>) {
        match job.is_new() {
            true => self.new.push_back(job),
            false => self.others.push_back(job),
        }
    }

    /// The jobs of the next flush. A connection to a mail server stands still while its email waits
    /// for the gate, and a new email takes far longer to write than a gate: of these only so many
    /// come along when there are others.
    pub(super) fn take(&mut self) -> Vec<Box<dyn Job>> {
        let new = match self.others.is_empty() {
            true => JOBS_PER_FLUSH,
            false => NEW_BESIDE_OTHERS,
        };
        let new = new.min(self.new.len());
        let others = self.others.len().min(JOBS_PER_FLUSH - new);
        self.taken = new + others;
        let others = self.others.drain(..others);
        others.chain(self.new.drain(..new)).collect()
    }
}

#[cfg(test)]
mod tests {
    use posthaste_core::port::StoreResult;

    use super::super::writer::Flush;
    use super::*;

    struct Idle(bool);

    impl Job for Idle {
        fn is_new(&self) -> bool {
            self.0
        }
        fn run(&mut self, _: &mut Flush<'_>) {}
        fn answer(self: Box<Self>, _: StoreResult<()>) {}
    }

    fn come(waiting: &mut Waiting, new: usize, others: usize) {
        let jobs = std::iter::repeat_n(true, new).chain(std::iter::repeat_n(false, others));
        jobs.for_each(|is_new| waiting.push(Box::new(Idle(is_new))));
    }

    #[test]
    fn more_are_waited_for_only_after_many_and_only_if_few_are_there() {
        let mut waiting = Waiting::default();
        assert!(!waiting.is_worth_a_moment());
        come(&mut waiting, 1, MANY - 2);
        assert!(!waiting.is_worth_a_moment(), "nobody came before");
        waiting.take();
        assert!(!waiting.is_worth_a_moment(), "few came before");
        come(&mut waiting, MANY, 0);
        waiting.take();
        assert!(waiting.is_worth_a_moment());
        come(&mut waiting, 1, ENOUGH - 2);
        assert!(waiting.is_worth_a_moment());
        come(&mut waiting, 1, 0);
        assert!(!waiting.is_worth_a_moment(), "enough are there");
        waiting.take();
        waiting.take();
        assert!(!waiting.is_worth_a_moment(), "then nobody came");
    }

    #[test]
    fn new_emails_let_others_pass_and_are_not_held_up_for_ever() {
        let taken = |new: usize, others: usize| {
            let mut waiting = Waiting::default();
            come(&mut waiting, new, others);
            let jobs = waiting.take();
            let new = jobs.iter().filter(|job| job.is_new()).count();
            (new, jobs.len() - new)
        };
        assert_eq!(taken(5000, 0), (JOBS_PER_FLUSH, 0));
        assert_eq!(taken(5000, 10), (NEW_BESIDE_OTHERS, 10));
        assert_eq!(taken(3, 10), (3, 10));
        assert_eq!(taken(0, 5000), (0, JOBS_PER_FLUSH));
        let left = JOBS_PER_FLUSH - NEW_BESIDE_OTHERS;
        assert_eq!(taken(5000, 5000), (NEW_BESIDE_OTHERS, left));
    }
}
