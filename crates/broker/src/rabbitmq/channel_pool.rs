//! Channels for publishing, one for each batch that is under way.
//!
//! lapin hangs a returned message on the next confirm of the channel, whichever that is. With a
//! channel to itself, a batch knows that all returns among its confirms are its own.

use std::sync::{Mutex, MutexGuard, PoisonError};

use lapin::options::ConfirmSelectOptions;
use lapin::{Channel, Connection, Error, ErrorKind};
use tokio::sync::{Semaphore, SemaphorePermit};

/// How many batches may be under way at a time.
const MOST_CHANNELS: usize = 32;

/// Channels in confirm mode.
pub(super) struct ChannelPool {
    idle: Mutex<Vec<Channel>>,
    free: Semaphore,
}

impl ChannelPool {
    pub(super) fn new() -> Self {
        Self {
            idle: Mutex::default(),
            free: Semaphore::new(MOST_CHANNELS),
        }
    }

    /// A channel without anything under way.
    pub(super) async fn take(&self, connection: &Connection) -> Result<ChannelLease<'_>, Error> {
        let closed = |_| Error::from(ErrorKind::ChannelsLimitReached);
        let permit = self.free.acquire().await.map_err(closed)?;
        let idle = self.idle().pop();
        let channel = match idle {
            Some(channel) if channel.status().connected() => channel,
            _ => open(connection).await?,
        };
        Ok(ChannelLease {
            channel,
            pool: self,
            _permit: permit,
        })
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Channel>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn open(connection: &Connection) -> Result<Channel, Error> {
    let channel = connection.create_channel().await?;
    channel
        .confirm_select(ConfirmSelectOptions::default())
        .await?;
    Ok(channel)
}

/// A channel for one batch. Unless all was confirmed the channel is closed, and whatever comes
/// late is forgotten with it.
pub(super) struct ChannelLease<'a> {
    pub(super) channel: Channel,
    pool: &'a ChannelPool,
    _permit: SemaphorePermit<'a>,
}

impl ChannelLease<'_> {
    /// Everything was confirmed: the channel can be used again.
    pub(super) fn all_confirmed(self) {
        self.pool.idle().push(self.channel.clone());
    }
}
