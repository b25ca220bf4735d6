//! How much memory and how many descriptors processes have.

use std::time::Duration;

use super::fleet::Fleet;
use crate::server::memory_mib;

const LOOK_EVERY: Duration = Duration::from_millis(500);

/// One look at one process, or the most that was ever seen of any.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Vital {
    pub(crate) memory_mib: f64,
    pub(crate) descriptors: f64,
}

impl Vital {
    /// Of this process, if it is there.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count();
        Some(Self {
            memory_mib: memory_mib(pid, "VmRSS").ok()?,
            descriptors: descriptors as f64,
        })
    }

    /// Of all processes together, right now.
    pub(crate) fn sum(fleet: &Fleet) -> Self {
        let ids = fleet.members().iter().filter_map(|member| member.id());
        let each = ids.filter_map(Self::of);
        each.fold(Self::default(), |sum, one| Self {
            memory_mib: sum.memory_mib + one.memory_mib,
            descriptors: sum.descriptors + one.descriptors,
        })
    }

    /// Keeps the most of both.
    fn rise_to(&mut self, other: Self) {
        self.memory_mib = self.memory_mib.max(other.memory_mib);
        self.descriptors = self.descriptors.max(other.descriptors);
    }

    /// Watches each process until dropped.
    pub(crate) async fn watch(&mut self, fleet: &Fleet) {
        loop {
            for member in fleet.members() {
                if let Some(vital) = member.id().and_then(Self::of) {
                    self.rise_to(vital);
                }
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}
