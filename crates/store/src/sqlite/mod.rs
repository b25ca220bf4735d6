//! SQLite: the embedded default.
//!
//! One writer thread with group commit, a pool of readers, WAL with `synchronous=FULL`. One
//! server per file; the command line may open the file beside it, and the server notices. An
//! application may have tables of its own in it, and several of its processes may share it.

mod accept;
mod act;
mod admin;
mod alert;
mod attempt;
mod attempt_row;
mod email_row;
mod error;
mod event;
mod feedback;
mod history;
mod inbox;
mod kept;
mod key;
mod list;
mod memory;
mod message;
mod migration;
mod operation;
mod parked;
mod prune;
mod reader;
mod recipient_row;
mod rescue;
mod schedule;
mod state_row;
mod statistics;
mod suppressed;
mod suppression;
mod sweep;
mod template;
mod verify;
mod waiting;
mod way;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use posthaste_core::Timestamp;
use posthaste_core::port::{Clock, Store, StoreError, StoreResult, SystemClock};
use rusqlite::{Connection, OpenFlags};
use tokio::sync::Mutex;

use self::error::store_error;
use self::reader::Readers;
use self::writer::Writer;
use crate::sweep::Sweep;
use crate::turn::Turns;

/// What the names of our tables, indexes and triggers begin with: the file may be an application's
/// own, with tables of its own.
const PREFIX: &str = "posthaste_";

/// How a SQLite store is opened.
#[derive(Clone)]
pub struct SqliteOptions {
    /// The database file. Its folder must exist. It may be an application's own: our tables come to
    /// stand beside its own, and it is switched to a write-ahead log.
    pub path: PathBuf,
    /// How many connections may read at the same time, for delivery and for people each.
    pub readers: usize,
    /// How long to wait for another process that writes.
    pub busy_timeout: Duration,
    /// Whether the file is made and brought up to date. If not, one that is not is refused, and
    /// opening writes nothing.
    pub migrates: bool,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
}

impl SqliteOptions {
    /// The defaults for a file.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            readers: 4,
            busy_timeout: Duration::from_secs(10),
            migrates: true,
            clock: Arc::new(SystemClock::start()),
        }
    }
}

/// Emails in a SQLite file.
pub struct SqliteStore {
    writer: Writer,
    /// For what delivery needs.
    readers: Readers,
    /// For what people and programs ask, which may take long and must not hold up delivery.
    desk: Readers,
    clock: Arc<dyn Clock>,
    /// Whose turn it is when a scheduler claims, and when a sender looks for itself.
    schedulers_turns: Turns,
    senders_turns: Turns,
    /// Held by whoever claims for a sender.
    senders_claims: Mutex<()>,
    parked_turns: Turns,
    /// Where the search for attempts and for content that are to go stands.
    attempt_sweep: Sweep,
    content_sweep: Sweep,
}

impl SqliteStore {
    /// Opens the file and, if so wished, creates it if it is not there and brings its schema up to
    /// date.
    pub fn open(options: SqliteOptions) -> StoreResult<Self> {
        // By a connection of its own: a migration may change more than there is room for in memory,
        // and the one that writes puts nothing down before its commit.
        let mut preparing = open_plainly(&options, WRITER_CACHE_KIB).map_err(store_error)?;
        if options.migrates {
            prepare_file(&preparing).map_err(store_error)?;
            migration::migrate(&mut preparing, micros(options.clock.now()))?;
        }
        let connection = open_to_write(&options).map_err(store_error)?;
        migration::check(&connection)?;
        // Not before: the last one to leave the file brings all of the log into it.
        drop(preparing);
        let clock = Arc::clone(&options.clock);
        let writer = Writer::start(connection, Arc::clone(&clock))?;
        let readers = Readers::new(options.clone());
        let desk = Readers::new(options);
        Ok(Self {
            writer,
            readers,
            desk,
            clock,
            schedulers_turns: Turns::default(),
            senders_turns: Turns::default(),
            senders_claims: Mutex::default(),
            parked_turns: Turns::default(),
            attempt_sweep: Sweep::default(),
            content_sweep: Sweep::default(),
        })
    }

    /// The queries that must not become slower as sent emails and republished messages pile up, for
    /// a test that asks SQLite how it would answer them.
    #[doc(hidden)]
    #[must_use]
    pub fn hot_queries() -> Vec<String> {
        let single = [
            schedule::NEXT_DUE,
            rescue::EXPIRED,
            statistics::WAITING,
            operation::DUE,
            operation::NEXT_STEP,
        ];
        let fixed = [
            &single[..],
            &schedule::DUE,
            &attempt::UNTICKETED,
            &[schedule::WAITED_TOO_LONG, parked::WAITING, parked::DUE],
        ]
        .concat();
        let mut queries: Vec<String> = fixed.into_iter().map(str::to_owned).collect();
        queries.push(rescue::undecided_query());
        queries.push(crate::way::waiting_query(PREFIX));
        let of_messages = [
            message::DUE,
            message::NEXT_DUE,
            message::NEXT_UNCLAIMED,
            message::OLDEST_DUE,
        ];
        queries.extend(of_messages.map(str::to_owned));
        queries
    }

    /// The version of SQLite that is linked in.
    #[must_use]
    pub fn linked_version() -> &'static str {
        rusqlite::version()
    }
}

/// How much of the file the writer keeps in memory, at most.
const WRITER_CACHE_KIB: i64 = 8 * 1024;
/// The same for each reader.
const READER_CACHE_KIB: i64 = 2 * 1024;

/// The connection that writes.
fn open_to_write(options: &SqliteOptions) -> rusqlite::Result<Connection> {
    let connection = posthaste_sqlite_log::open(&options.path, flags(options))?;
    set_up(connection, options, WRITER_CACHE_KIB)
}

/// A connection of our own that only reads.
fn open_to_read(options: &SqliteOptions) -> rusqlite::Result<Connection> {
    let connection = open_plainly(options, READER_CACHE_KIB)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

/// A connection as anyone has it.
fn open_plainly(options: &SqliteOptions, cache_kib: i64) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(&options.path, flags(options))?;
    set_up(connection, options, cache_kib)
}

fn flags(options: &SqliteOptions) -> OpenFlags {
    let mut flags = OpenFlags::default();
    flags.set(OpenFlags::SQLITE_OPEN_CREATE, options.migrates);
    flags
}

/// The settings that all of ours share.
fn set_up(
    connection: Connection,
    options: &SqliteOptions,
    cache_kib: i64,
) -> rusqlite::Result<Connection> {
    connection.busy_timeout(options.busy_timeout)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // In KiB. The default of 2 MiB is 125 of our pages: the writer would throw away and read
    // again the pages of its own indexes all the time.
    connection.pragma_update(None, "cache_size", -cache_kib)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

/// Sets what is kept in the file itself. Only once: setting `auto_vacuum` writes to the file
/// even if nothing changes, and every writer would take that for another process's work.
fn prepare_file(connection: &Connection) -> rusqlite::Result<()> {
    let pages: i64 = connection.pragma_query_value(None, "page_count", |row| row.get(0))?;
    if pages == 0 {
        connection.pragma_update(None, "page_size", 16_384)?;
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    }
    connection.pragma_update(None, "journal_mode", "WAL")
}

/// The clock's time in whole microseconds, the precision of the database.
fn now_of(clock: &dyn Clock) -> Timestamp {
    from_micros(micros(clock.now()))
}

fn micros(at: Timestamp) -> i64 {
    at.as_microsecond()
}

fn from_micros(micros: i64) -> Timestamp {
    Timestamp::from_microsecond(micros).unwrap_or(Timestamp::MAX)
}

mod port {
    use super::SqliteStore;

    crate::port::implement_ports!(SqliteStore);
}

#[async_trait]
impl Store for SqliteStore {
    fn now(&self) -> Timestamp {
        now_of(&*self.clock)
    }

    async fn changed(&self) {
        self.writer.changed().await;
    }

    async fn check(&self) -> StoreResult<()> {
        // Through the writer: a store that can be read but not written is not well.
        self.writer
            .run(|flush| flush.query_row("SELECT 1", [], |_| Ok(())))
            .await
    }
}

/// A value that could not be read back as what it was written.
fn corrupt(what: impl std::fmt::Display) -> rusqlite::Error {
    let error = StoreError::Failed(format!("unreadable value: {what}"));
    rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, Box::new(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_connection_waits_for_the_disk() {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteOptions::new(folder.path().join("posthaste.db"));
        for open in [open_to_write, open_to_read] {
            let connection = open(&options).unwrap();
            let synchronous: i64 = connection
                .pragma_query_value(None, "synchronous", |row| row.get(0))
                .unwrap();
            assert_eq!(synchronous, 2, "FULL");
        }
    }
}
