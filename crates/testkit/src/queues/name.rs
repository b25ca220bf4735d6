//! What the queues of a test are called.

use super::Queues;

impl Queues {
    /// Tickets.
    #[must_use]
    pub fn send(&self) -> String {
        format!("{}.send", self.prefix)
    }

    /// Tickets of high priority.
    #[must_use]
    pub fn high(&self) -> String {
        format!("{}.high", self.send())
    }

    /// Tickets of low priority.
    #[must_use]
    pub fn low(&self) -> String {
        format!("{}.low", self.send())
    }

    /// Tickets of retries, if they have a route of their own.
    #[must_use]
    pub fn retry(&self) -> String {
        format!("{}.retry", self.prefix)
    }

    /// Notices of dead emails.
    #[must_use]
    pub fn dead(&self) -> String {
        format!("{}.dead", self.prefix)
    }

    /// Failed messages of other services.
    #[must_use]
    pub fn messages(&self) -> String {
        format!("{}.messages", self.prefix)
    }

    /// A queue of another service. It is for the test to make.
    #[must_use]
    pub fn of_service(&self, name: &str) -> String {
        format!("{}.service.{name}", self.prefix)
    }

    /// What could not be read.
    #[must_use]
    pub fn review(&self) -> String {
        format!("{}.review", self.prefix)
    }

    /// Every queue that a process or this may have made.
    pub(super) fn all(&self) -> Vec<String> {
        let mut queues = self.made().clone();
        queues.extend([
            self.high(),
            self.low(),
            self.send(),
            self.retry(),
            self.dead(),
            self.messages(),
            self.review(),
        ]);
        queues.into_iter().collect()
    }
}
