//! Which tables a SQLite file has: ours beside those of an application, and ours of former times.

#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use posthaste_core::email::EmailId;
use posthaste_core::port::{
    Begun, DeskStore, EmailFilter, EmailStore, Finish, Retention, StoreResult,
};
use posthaste_core::status::Status;
use posthaste_store::{SqliteOptions, SqliteStore};
use posthaste_testkit::{an_email, sent};
use rusqlite::Connection;
use rusqlite::types::Value;
use tempfile::TempDir;

/// The schema of the time when tables had plain names, in its versions.
const PLAIN_NAMES: [&str; 4] = [
    include_str!("plain_names/0001_email.sql"),
    include_str!("plain_names/0002_event.sql"),
    include_str!("plain_names/0003_message.sql"),
    include_str!("plain_names/0004_desk.sql"),
];

/// Rows in each of its tables.
const ROWS: &str = include_str!("plain_names/rows.sql");

/// A file that is not there yet.
fn a_file() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("posthaste.db");
    (folder, path)
}

/// A file as it was made at that time, at one of its versions.
fn a_file_with_plain_names(version: usize) -> (TempDir, PathBuf) {
    let (folder, path) = a_file();
    let connection = Connection::open(&path).unwrap();
    let settings = "PRAGMA page_size = 16384; PRAGMA auto_vacuum = INCREMENTAL;
                    PRAGMA journal_mode = WAL";
    connection.execute_batch(settings).unwrap();
    for sql in &PLAIN_NAMES[..version] {
        connection.execute_batch(sql).unwrap();
    }
    connection
        .pragma_update(None, "user_version", version)
        .unwrap();
    (folder, path)
}

fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(SqliteOptions::new(path)).unwrap()
}

/// Opens a file as one that is not to be changed by that.
fn visit(path: &Path) -> StoreResult<SqliteStore> {
    let mut options = SqliteOptions::new(path);
    options.migrates = false;
    SqliteStore::open(options)
}

/// Why a file is not opened so.
#[track_caller]
fn refusal(path: &Path) -> String {
    let Err(error) = visit(path) else {
        panic!("it was opened")
    };
    error.to_string()
}

async fn deliver(store: &SqliteStore, id: EmailId) {
    let lease = Duration::from_secs(60);
    let mut begun = store.begin(vec![id], "w", lease).await.unwrap();
    let Begun::Started(started) = begun.remove(0) else {
        panic!("{id} did not begin")
    };
    let finish = Finish {
        lease: started.lease,
        decision: sent(),
        transport: Some("smtp".into()),
        budget: 8,
        removes_sent: false,
    };
    let finished = store.finish(vec![finish]).await.unwrap();
    assert!(finished[0].is_ok());
}

async fn assert_clean(store: &SqliteStore) {
    assert_eq!(store.verify(&[]).await.unwrap(), []);
}

/// Every part of the schema: kind, name, table, and how it is made, however that is written.
fn schema_of(path: &Path) -> Vec<[String; 4]> {
    let sql = "SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_master ORDER BY 1, 2";
    let connection = Connection::open(path).unwrap();
    let mut statement = connection.prepare(sql).unwrap();
    let parts = statement.query_map([], |row| {
        let sql: String = row.get(3)?;
        let sql = sql.replace('"', "");
        let words: Vec<_> = sql.split_whitespace().collect();
        Ok([row.get(0)?, row.get(1)?, row.get(2)?, words.join(" ")])
    });
    parts.unwrap().map(Result::unwrap).collect()
}

/// The tables of a file whose schema is this one.
fn tables_of(schema: &[[String; 4]]) -> Vec<&str> {
    let tables = schema
        .iter()
        .filter(|[kind, name, ..]| kind == "table" && !name.starts_with("sqlite_"));
    tables.map(|[_, name, ..]| name.as_str()).collect()
}

/// What a file had in a table: its name, its columns, and all of its rows.
type Contents = (String, String, Vec<Vec<Value>>);

/// What a file has in all of its tables.
fn contents_of(path: &Path) -> Vec<Contents> {
    let schema = schema_of(path);
    let contents = tables_of(&schema).into_iter().map(|table| {
        let columns = columns_of(path, table);
        let rows = rows_of(path, table, &columns);
        (table.to_owned(), columns, rows)
    });
    contents.collect()
}

/// All rows of a table, with these of its columns.
fn rows_of(path: &Path, table: &str, columns: &str) -> Vec<Vec<Value>> {
    let connection = Connection::open(path).unwrap();
    let sql = format!("SELECT {columns} FROM {table} ORDER BY {columns}");
    let mut statement = connection.prepare(&sql).unwrap();
    let width = statement.column_count();
    let rows = statement.query_map([], |row| (0..width).map(|at| row.get(at)).collect());
    rows.unwrap().map(Result::unwrap).collect()
}

fn columns_of(path: &Path, table: &str) -> String {
    let connection = Connection::open(path).unwrap();
    let sql = "SELECT group_concat(name) FROM pragma_table_info(?1)";
    connection
        .query_row(sql, [table], |row| row.get(0))
        .unwrap()
}

fn pragma(path: &Path, name: &str) -> Value {
    let connection = Connection::open(path).unwrap();
    let value = connection.pragma_query_value(None, name, |row| row.get(0));
    value.unwrap()
}

#[tokio::test]
async fn a_file_with_plain_names_is_carried_over_and_loses_nothing() {
    let (_folder, path) = a_file_with_plain_names(PLAIN_NAMES.len());
    let beside = Connection::open(&path).unwrap();
    beside.execute_batch(ROWS).unwrap();
    drop(beside);
    let before = contents_of(&path);
    assert_eq!(before.len(), 20);

    let store = open(&path);

    assert_clean(&store).await;
    for (table, columns, rows) in before {
        assert!(!rows.is_empty(), "{table} had no rows to lose");
        let renamed = format!("posthaste_{table}");
        assert_eq!(rows_of(&path, &renamed, &columns), rows, "{table}");
    }
    let (_folder, fresh) = a_file();
    drop(open(&fresh));
    assert_eq!(schema_of(&path), schema_of(&fresh));
    // Numbers go on where they were, and an older program leaves alone what is too new for it.
    let last = rows_of(&path, "sqlite_sequence", "name, seq");
    let last_event = vec![Value::from("posthaste_event".to_owned()), Value::from(41)];
    assert!(last.contains(&last_event), "{last:?}");
    assert_eq!(pragma(&path, "user_version"), Value::Integer(5));
    // It works as before.
    let filter = EmailFilter {
        limit: 10,
        ..EmailFilter::default()
    };
    let emails = store.list(&filter).await.unwrap();
    let states: Vec<_> = emails.iter().map(|email| email.state.status).collect();
    assert_eq!(states, [Status::Pending, Status::Dead, Status::Sent]);
    deliver(&store, emails[0].id).await;
    assert_clean(&store).await;
}

#[test]
fn every_version_with_plain_names_becomes_like_a_new_file() {
    let (_folder, fresh) = a_file();
    drop(open(&fresh));
    for version in 1..=PLAIN_NAMES.len() {
        let (_folder, path) = a_file_with_plain_names(version);
        drop(open(&path));
        assert_eq!(schema_of(&path), schema_of(&fresh), "version {version}");
        let applied = |path| rows_of(path, "posthaste_migration", "version");
        assert_eq!(applied(&path), applied(&fresh), "version {version}");
    }
}

#[test]
fn opening_a_file_again_changes_nothing() {
    for (_folder, path) in [a_file(), a_file_with_plain_names(2)] {
        drop(open(&path));
        let beside = Connection::open(&path).unwrap();
        let version = || -> i64 {
            let version = beside.pragma_query_value(None, "data_version", |row| row.get(0));
            version.unwrap()
        };
        let (before, schema) = (version(), schema_of(&path));
        drop(open(&path));
        assert_eq!(version(), before, "nothing was written");
        assert_eq!(schema_of(&path), schema);
    }
}

#[test]
fn several_may_open_a_file_at_the_same_time() {
    for (_folder, path) in [a_file(), a_file_with_plain_names(4)] {
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| open(&path));
            }
        });
        let (_folder, fresh) = a_file();
        drop(open(&fresh));
        assert_eq!(schema_of(&path), schema_of(&fresh));
    }
}

/// An application's own file: tables, an index and a trigger by names that we would have liked, too,
/// and settings that are not ours.
fn an_applications_file() -> (TempDir, PathBuf) {
    let (folder, path) = a_file();
    let connection = Connection::open(&path).unwrap();
    connection
        .execute_batch(
            "PRAGMA page_size = 4096;
             PRAGMA user_version = 3;
             CREATE TABLE email (id INTEGER PRIMARY KEY, subject TEXT);
             CREATE INDEX email_subject ON email (subject);
             CREATE TABLE email_log (email_id INTEGER REFERENCES email, line TEXT);
             CREATE TRIGGER audit_log_append_only AFTER INSERT ON email
             BEGIN
                 INSERT INTO email_log VALUES (new.id, 'new');
             END;
             CREATE TABLE event (name TEXT, at TEXT);
             CREATE TABLE template (name TEXT, body TEXT);
             CREATE TABLE admin (name TEXT, since TEXT);
             INSERT INTO email (subject) VALUES ('Hello'), ('Goodbye');
             INSERT INTO event VALUES ('concert', 'tonight');
             INSERT INTO template VALUES ('letter', 'Dear');
             INSERT INTO admin VALUES ('ann', 'yesterday');",
        )
        .unwrap();
    (folder, path)
}

#[tokio::test]
async fn an_applications_own_tables_are_left_alone() {
    let (_folder, path) = an_applications_file();
    let schema = schema_of(&path);
    let contents = contents_of(&path);
    assert_eq!(contents.len(), 5);

    let store = open(&path);
    let email = an_email("a").build();
    let id = email.id;
    let accepted = store.accept(vec![email], true).await.unwrap();
    assert!(accepted[0].is_ok());
    deliver(&store, id).await;
    assert_clean(&store).await;
    // Its pages are not ours to give back.
    let now = Duration::ZERO;
    let retention = Retention {
        attempts: Some(now),
        content: Some(now),
        sent: now,
        dead: now,
        captures: now,
        audit: now,
    };
    store.prune(retention, 100).await.unwrap();
    assert_clean(&store).await;
    drop(store);

    let (ours, its_own): (Vec<_>, Vec<_>) =
        schema_of(&path)
            .into_iter()
            .partition(|[_, name, table, _]| {
                name.starts_with("posthaste_") || table.starts_with("posthaste_")
            });
    // The table that SQLite counts in is nobody's.
    let its_own: Vec<_> = its_own
        .into_iter()
        .filter(|[_, name, ..]| name != "sqlite_sequence")
        .collect();
    assert_eq!(its_own, schema);
    assert!(ours.len() > 40, "{} parts of ours", ours.len());
    for (table, columns, rows) in contents {
        assert_eq!(rows_of(&path, &table, &columns), rows, "{table}");
    }
    assert_eq!(pragma(&path, "user_version"), Value::Integer(3));
    assert_eq!(pragma(&path, "page_size"), Value::Integer(4096));
    assert_eq!(pragma(&path, "auto_vacuum"), Value::Integer(0));
}

#[test]
fn a_table_that_only_looks_like_ours_is_left_alone() {
    let (_folder, path) = an_applications_file();
    let beside = Connection::open(&path).unwrap();
    let alike = "ALTER TABLE email_log ADD COLUMN lease_token INTEGER; PRAGMA user_version = 9";
    beside.execute_batch(alike).unwrap();
    let before = contents_of(&path);
    drop(open(&path));
    for (table, columns, rows) in before {
        assert_eq!(rows_of(&path, &table, &columns), rows, "{table}");
    }
}

#[tokio::test]
async fn an_application_may_count_its_own_versions_as_it_likes() {
    for its_version in [0, 1, 4, 7, 4711] {
        let (_folder, path) = an_applications_file();
        let beside = Connection::open(&path).unwrap();
        let count = |version: i64| beside.pragma_update(None, "user_version", version);
        count(its_version).unwrap();
        drop(open(&path));
        assert_eq!(pragma(&path, "user_version"), Value::Integer(its_version));
        // And go on doing so.
        count(its_version + 1).unwrap();
        assert_clean(&open(&path)).await;
        assert_eq!(
            pragma(&path, "user_version"),
            Value::Integer(its_version + 1)
        );
    }
}

/// A file of ours that says that it is at this version.
fn a_file_of_version(version: usize) -> (TempDir, PathBuf) {
    let (folder, path) = a_file();
    drop(open(&path));
    let beside = Connection::open(&path).unwrap();
    beside.busy_timeout(Duration::from_secs(10)).unwrap();
    let forget = "DELETE FROM posthaste_migration WHERE version >= ?1";
    beside.execute(forget, [version]).unwrap();
    let remember = "INSERT INTO posthaste_migration (version, applied_at) VALUES (?1, 0)";
    beside.execute(remember, [version]).unwrap();
    (folder, path)
}

#[test]
fn a_visitor_leaves_a_file_as_it_is_and_is_told_what_to_do() {
    let cases = [
        (an_applications_file(), "it has no outbox"),
        (
            a_file_with_plain_names(4),
            "`posthaste migrate`, or starting its server, carries them over",
        ),
        (
            a_file_of_version(4),
            "its schema is at version 4 and not 7; `posthaste migrate`",
        ),
        (a_file_of_version(4711), "newer posthaste"),
    ];
    for ((_folder, path), told) in cases {
        let beside = Connection::open(&path).unwrap();
        let version = || -> i64 {
            let version = beside.pragma_query_value(None, "data_version", |row| row.get(0));
            version.unwrap()
        };
        let found = || (version(), schema_of(&path), pragma(&path, "journal_mode"));
        let before = found();
        let refusal = refusal(&path);
        assert!(refusal.contains(told), "{refusal}");
        assert_eq!(found(), before, "{told}");
    }
}

#[test]
fn a_visitor_makes_no_file_and_puts_nothing_into_an_empty_one() {
    let (_folder, path) = a_file();
    refusal(&path);
    assert!(!path.exists());
    std::fs::write(&path, "").unwrap();
    let refusal = refusal(&path);
    assert!(refusal.contains("it has no outbox"), "{refusal}");
    assert_eq!(path.metadata().unwrap().len(), 0);
}

#[tokio::test]
async fn a_visitor_works_on_a_file_that_is_up_to_date() {
    let (_folder, path) = a_file();
    drop(open(&path));
    let store = visit(&path).unwrap();
    let email = an_email("a").build();
    let id = email.id;
    let accepted = store.accept(vec![email], true).await.unwrap();
    assert!(accepted[0].is_ok());
    deliver(&store, id).await;
    assert_clean(&store).await;
}
