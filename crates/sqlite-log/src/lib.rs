//! SQLite's write-ahead log, written in one piece.
//!
//! For a commit SQLite writes to its log page by page, each behind a header of its own: two calls of
//! the kernel for every page, none of them aligned with anything. Here they are gathered, and written
//! when SQLite asks for them to be on the disk, which it does before it tells anyone of the commit.
//!
//! The log of a connection is all that is changed; everything else (the file itself, locks, shared
//! memory) is what SQLite always does, and connections with and without this use one file together.
//! It must never hold back anything after SQLite has asked for it to be on the disk, nor read past
//! what it holds, nor write when the lock that it was told to write under is gone.
//!
//! SQLite is in C: this crate is the only one with unsafe code, and has nothing else in it.

#![allow(unsafe_code)]

mod gathered;
mod log_file;
mod vfs;

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

/// Opens a file. Every commit waits for the disk (`synchronous` is `FULL` and has to stay it: with less
/// SQLite would tell others of pages that are not in the file yet), and a transaction keeps what it
/// changes in memory until its commit (`cache_spill` is off and has to stay it: SQLite says nothing when
/// pages that it has put down in the log are to be forgotten, and then others write in their place).
///
/// # Errors
///
/// As [`Connection::open_with_flags`] does.
pub fn open(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags_and_vfs(path, flags, vfs::name()?)?;
    if !vfs::commits_end_with_a_sync(&connection) {
        return Connection::open_with_flags(path, flags);
    }
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "cache_spill", false)?;
    Ok(connection)
}

#[cfg(test)]
mod tests;
