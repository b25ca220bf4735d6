//! Who comes into the next flush.

use std::collections::VecDeque;

use super::writer::Job;

/// At most this many jobs share a commit.
const JOBS_PER_FLUSH: usize = 1024;
/// At most this many jobs with new emails do while others wait, too.
const NEW_BESIDE_OTHERS: usize = 64;

/// Jobs that wait for their flush.
#[derive(Default)]
pub(super) struct Waiting {
    new: VecDeque<Box<dyn Job>>,
    others: VecDeque<Box<dyn Job>>,
}

impl Waiting {
    pub(super) fn is_empty(&self) -> bool {
        self.new.is_empty() && self.others.is_empty()
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
        let others = self.others.drain(..others);
        others.chain(self.new.drain(..new)).collect()
    }
}

#[cfg(test)]
mod tests {
    use posthaste_core::port::StoreResult;

    use super::super::writer::Flush;
    use super::*;

    #[test]
    fn new_emails_let_others_pass_and_are_not_held_up_for_ever() {
        struct Idle(bool);
        impl Job for Idle {
            fn is_new(&self) -> bool {
                self.0
            }
            fn run(&mut self, _: &mut Flush<'_>) {}
            fn answer(self: Box<Self>, _: StoreResult<()>) {}
        }
        let taken = |new: usize, others: usize| {
            let mut waiting = Waiting::default();
            let jobs = std::iter::repeat_n(true, new).chain(std::iter::repeat_n(false, others));
            jobs.for_each(|is_new| waiting.push(Box::new(Idle(is_new))));
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
