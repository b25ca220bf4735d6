//! The jobs of one flush.

use std::collections::HashSet;

use posthaste_core::email::EmailId;
use tokio::sync::mpsc;

use super::writer::Job;

/// At most this many jobs share a commit.
pub(super) const JOBS_PER_FLUSH: usize = 1024;
/// At most about this many octets of mail do.
const BYTES_PER_FLUSH: usize = 8 * 1024 * 1024;

/// Where jobs wait for their flush.
pub(super) type Queue = mpsc::UnboundedReceiver<Box<dyn Job>>;

/// Jobs that share a commit: at most one for each email.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) jobs: Vec<Box<dyn Job>>,
    ids: HashSet<EmailId>,
    bytes: usize,
}

impl Batch {
    pub(super) fn has_room(&self) -> bool {
        self.jobs.len() < JOBS_PER_FLUSH && self.bytes < BYTES_PER_FLUSH
    }

    /// Takes a job, or gives it back if there is no room or another of these is about one of its
    /// emails.
    pub(super) fn take(&mut self, job: Box<dyn Job>) -> Option<Box<dyn Job>> {
        let wants = job.wants();
        if !self.has_room() || wants.ids.iter().any(|id| self.ids.contains(id)) {
            return Some(job);
        }
        self.ids.extend(&wants.ids);
        self.bytes += wants
            .new
            .as_ref()
            .map_or(0, |entry| entry.email.content.len());
        self.jobs.push(job);
        None
    }
}
