//! Emails whose first attempt begins as they are accepted, because there is room for one more, or is
//! in a moment.
//!
//! They need no ticket and are not read again. They share the connections with what waits, and have
//! as much room of their own, so that neither keeps the other from its turn for long.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use posthaste_core::port::Started;
use posthaste_core::status::Priority;
use tokio::time::Instant;

use super::Sender;
use super::inline::Room;

impl Sender {
    /// Room for an email that begins as it is accepted, if there is any soon. What is not urgent
    /// stands in line.
    pub(crate) async fn room_for_fresh(&self, priority: Priority) -> Option<Room> {
        let runs = || self.runs.load(Ordering::SeqCst);
        if priority == Priority::Low || !runs() {
            return None;
        }
        let token = self.time_for_one()?;
        let place = self.fresh_places.place().await?;
        // It may have begun to drain meanwhile: then the email is better off in the queue.
        runs().then(|| Room::new(place, token))
    }

    /// Sends an email that began in the store when it was asked at `asked`.
    pub(crate) fn send_fresh(self: &Arc<Self>, started: Box<Started>, asked: Instant, room: Room) {
        posthaste_core::failpoint::hit("sender.after_begin");
        let held = self.leases.hold(started.lease, asked);
        let sender = Arc::clone(self);
        // In a box: a task would move the whole of it several times.
        self.tasks.spawn(Box::pin(async move {
            drop(sender.attempt(started, held, None, false).await);
            drop(room);
        }));
    }
}
