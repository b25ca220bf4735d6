//! Messages of other services, on connections of their own.

mod act;
mod claim;
mod count;
mod list;
mod prune;
mod row;
mod schedule;
mod settle;
pub(super) mod verify;

pub(super) use self::claim::{CLAIM, NEXT_DUE};
pub(super) use self::count::OLDEST_DUE;
pub(super) use self::settle::SETTLE;

use std::sync::atomic::{AtomicBool, Ordering};

use deadpool_postgres::ClientWrapper;
use posthaste_core::port::StoreResult;
use tokio_postgres::Row;

use super::PostgresStore;
use super::error::{Meaning, Trouble, meaning};
use super::pool::Values;

impl PostgresStore {
    /// Executes one statement that is a transaction of its own and may be done twice.
    async fn ask(&self, sql: &str, values: Values<'_>) -> StoreResult<Vec<Row>> {
        let mut patience = Patience::default();
        loop {
            let answer = self.messages.run(async |client: &ClientWrapper| {
                let statement = client.prepare_cached(sql).await?;
                Ok::<_, Trouble>(client.query(&statement, values).await?)
            });
            let answer = answer.await;
            if let Some(rows) = patience.judge(answer)? {
                return Ok(rows);
            }
        }
    }
}

/// How often work is done again when others stood in the way.
const CONFLICTS: u32 = 10;

/// Has work done again if others stood in the way, or the connection was stale.
#[derive(Default)]
struct Patience {
    conflicts: u32,
    was_cut: bool,
    committing: AtomicBool,
}

impl Patience {
    /// From here on it may have been done: it is not done again if the connection breaks. For
    /// work that must not be done twice.
    fn commits(&self) {
        self.committing.store(true, Ordering::SeqCst);
    }

    /// What was done, or `None` if it is to be done again.
    fn judge<T>(&mut self, done: Result<T, Trouble>) -> StoreResult<Option<T>> {
        let trouble = match done {
            Ok(done) => return Ok(Some(done)),
            Err(trouble) => trouble,
        };
        let may_be_done = std::mem::take(self.committing.get_mut());
        // Whoever waited in vain for a connection or an answer does not begin to wait again.
        let Trouble::Database(error) = &trouble else {
            return Err(trouble.into());
        };
        match meaning(error) {
            Meaning::Conflict if self.conflicts < CONFLICTS => self.conflicts += 1,
            Meaning::Away if !self.was_cut && !may_be_done => self.was_cut = true,
            _ => return Err(trouble.into()),
        }
        Ok(None)
    }
}
