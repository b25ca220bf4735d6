use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::open;
use super::vfs::commits_end_with_a_sync;

/// Less room than a transaction needs that changes more than a few rows.
const FEW_PAGES: &str = "PRAGMA cache_size = 8";

fn opened(path: &Path) -> Connection {
    let connection = open(path, OpenFlags::default()).unwrap();
    let setup = "PRAGMA journal_mode = WAL;
                 CREATE TABLE IF NOT EXISTS item (id INTEGER PRIMARY KEY, value BLOB);";
    connection.execute_batch(setup).unwrap();
    connection
}

fn log_of(path: &Path) -> PathBuf {
    path.with_extension("db-wal")
}

fn insert(connection: &Connection, count: usize) {
    let sql = "INSERT INTO item (value) VALUES (randomblob(3000))";
    for _ in 0..count {
        connection.prepare_cached(sql).unwrap().execute([]).unwrap();
    }
}

fn count(connection: &Connection) -> usize {
    let sql = "SELECT count(*) FROM item WHERE length(value) = 3000";
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

fn is_sound(connection: &Connection) -> bool {
    let said: String = connection
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    said == "ok"
}

#[test]
fn others_see_a_commit_at_once_and_commit_themselves() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let ours = opened(&path);
    let other = Connection::open(&path).unwrap();
    let mut total = 0;
    for round in 1..=40 {
        ours.execute_batch("BEGIN").unwrap();
        insert(&ours, round);
        assert_eq!(count(&other), total, "before its commit");
        ours.execute_batch("COMMIT").unwrap();
        insert(&other, 1);
        total += round + 1;
        assert_eq!((count(&ours), count(&other)), (total, total));
    }
    assert!(is_sound(&ours) && is_sound(&other));
}

#[test]
fn what_is_committed_is_in_the_files_whatever_happens_next() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let ours = opened(&path);
    for round in 1..=20 {
        ours.execute_batch("BEGIN").unwrap();
        insert(&ours, 30);
        ours.execute_batch("COMMIT").unwrap();
        let copy = as_after_a_crash(&path, &format!("{round}.db"));
        assert_eq!(count(&copy), 30 * round);
        assert!(is_sound(&copy));
    }
}

/// What a process finds after this one died here: the files, and never the shared memory.
fn as_after_a_crash(path: &Path, name: &str) -> Connection {
    let copy = path.with_file_name(name);
    std::fs::copy(path, &copy).unwrap();
    std::fs::copy(log_of(path), log_of(&copy)).unwrap();
    Connection::open(copy).unwrap()
}

#[test]
fn nothing_reaches_the_log_before_the_commit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let ours = opened(&path);
    ours.execute_batch(FEW_PAGES).unwrap();
    let length = || std::fs::metadata(log_of(&path)).unwrap().len();
    let before = length();
    ours.execute_batch("BEGIN").unwrap();
    // Far more than there is room for, and than is gathered at most.
    insert(&ours, 500);
    assert_eq!(count(&ours), 500);
    assert_eq!(length(), before);
    ours.execute_batch("COMMIT").unwrap();
    assert!(length() > before + 500 * 3000);
    assert_eq!(count(&as_after_a_crash(&path, "copy.db")), 500);
}

#[test]
fn what_was_undone_never_stands_in_the_way_of_what_others_commit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let ours = opened(&path);
    ours.execute_batch(FEW_PAGES).unwrap();
    let other = Connection::open(&path).unwrap();
    for round in 1..=20 {
        // The log begins anew, so that no page of it has to be read to undo anything.
        let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
        ours.query_row(checkpoint, [], |_| Ok(())).unwrap();
        ours.execute_batch("BEGIN").unwrap();
        insert(&ours, 60);
        ours.execute_batch("ROLLBACK").unwrap();
        insert(&other, 1);
        assert_eq!((count(&ours), count(&other)), (round, round));
        assert!(is_sound(&ours) && is_sound(&other));
        let copy = as_after_a_crash(&path, &format!("{round}.db"));
        assert_eq!(count(&copy), round);
        assert!(is_sound(&copy));
    }
}

#[test]
fn where_commits_do_not_end_with_a_sync_the_log_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let careful = PathBuf::from(format!("file:{}?psow=0", path.display()));
    assert!(!commits_end_with_a_sync(
        &Connection::open(&careful).unwrap()
    ));
    assert!(commits_end_with_a_sync(&Connection::open(&path).unwrap()));
    let ours = opened(&careful);
    insert(&ours, 3);
    assert_eq!(count(&as_after_a_crash(&path, "copy.db")), 3);
}

#[test]
fn a_transaction_that_is_too_large_for_its_room_can_be_undone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let ours = opened(&path);
    ours.execute_batch(FEW_PAGES).unwrap();
    insert(&ours, 10);
    for _ in 0..3 {
        ours.execute_batch("BEGIN").unwrap();
        insert(&ours, 500);
        assert_eq!(count(&ours), 510);
        ours.execute_batch("ROLLBACK").unwrap();
        assert_eq!(count(&ours), 10);
    }
    ours.execute_batch("BEGIN").unwrap();
    insert(&ours, 500);
    ours.execute_batch("COMMIT").unwrap();
    assert_eq!(count(&ours), 510);
    assert!(is_sound(&ours));
    drop(ours);
    // The last one to close it brings the log into the file.
    assert!(!log_of(&path).exists());
    let again = Connection::open(&path).unwrap();
    assert_eq!(count(&again), 510);
}

#[test]
fn a_file_that_cannot_be_opened_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = folder.path().join("missing/a.db");
    open(&nowhere, OpenFlags::default()).unwrap_err();
}
