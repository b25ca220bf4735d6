//! Faults of processes that are not killed.

use std::time::Duration;

use super::Stage;

/// Longer than a lease and the look of a rescuer.
const FROZEN: Duration = Duration::from_secs(4);

impl Stage<'_> {
    /// Stops one in the middle of whatever it does; others take over what it holds.
    pub(super) async fn freeze(&self, choice: usize) {
        let members = self.fleet.members();
        let member = &members[choice % members.len()];
        if let Some(pid) = member.freeze() {
            // What it was asked just before, it answers too late.
            self.outages.lasts(FROZEN);
            tokio::time::sleep(FROZEN).await;
            member.thaw(pid);
        }
    }

    /// Asks one to end. It drains what is under way, and must end well.
    pub(super) fn terminate(&self, choice: usize) {
        let members = self.fleet.members();
        members[choice % members.len()].terminate();
    }
}
