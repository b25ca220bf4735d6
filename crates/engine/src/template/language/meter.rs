//! Counts what rendering costs, in time as in memory.

use super::Fault;

/// What rendering one part may cost: enough for tables of thousands of rows, and over in a moment.
const BUDGET: usize = 32 * 1024 * 1024;
/// What one step costs: about as much as handling so many octets.
const STEP: usize = 32;

/// What may still be spent on one rendering.
///
/// Whatever is made, read through or compared is paid for by its size before it is made, so that
/// neither the time nor the memory that a rendering takes can exceed the budget by much.
pub(super) struct Meter {
    left: usize,
}

impl Meter {
    pub(super) const fn new() -> Self {
        Self { left: BUDGET }
    }

    /// Pays for a step.
    pub(super) fn step(&mut self) -> Result<(), Fault> {
        self.octets(STEP)
    }

    /// Pays for so many values of a list.
    pub(super) fn values(&mut self, count: usize) -> Result<(), Fault> {
        self.octets(count.saturating_mul(STEP))
    }

    /// Pays for so many octets.
    pub(super) fn octets(&mut self, count: usize) -> Result<(), Fault> {
        self.left = self.left.checked_sub(count).ok_or(Fault::TooMuch)?;
        Ok(())
    }
}
