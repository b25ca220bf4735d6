//! Commands on a SQLite file that belongs to an application: whoever only looks leaves no trace.

use std::path::{Path, PathBuf};

use posthaste_testkit::process::Posthaste;
use rusqlite::Connection;
use tempfile::TempDir;

use crate::backend::Backend;
use crate::support::run;

/// Every command that looks at something, or changes something that must be there.
const VISITS: [&[&str]; 13] = [
    &["dead", "list"],
    &["dead", "retry", "--all"],
    &["emails", "list"],
    &["messages", "list"],
    &["operations", "list"],
    &["templates", "list"],
    &["keys", "list"],
    &["keys", "revoke", "k1"],
    &["admin", "list"],
    &["admin", "remove", "ann"],
    &["audit"],
    &["verify"],
    &["doctor"],
];

/// A file of an application that has no outbox yet, or no posthaste at all.
fn an_applications_file(folder: &TempDir) -> PathBuf {
    let path = folder.path().join("app.db");
    let connection = Connection::open(&path).unwrap();
    let sql = "CREATE TABLE booking (seat TEXT); INSERT INTO booking VALUES ('7a')";
    connection.execute_batch(sql).unwrap();
    path
}

/// A place to run commands in that are led to this file.
async fn led_to(path: &Path, backend: &Backend) -> Posthaste {
    let mut server = backend.posthaste().start().await;
    server.kill9();
    server.set("DATABASE_URL", &format!("sqlite:{}", path.display()));
    server
}

#[tokio::test]
async fn a_file_without_an_outbox_stays_as_it_is_until_it_is_migrated() {
    let (backend, folder) = (Backend::sqlite().await, tempfile::tempdir().unwrap());
    let path = an_applications_file(&folder);
    let commands = led_to(&path, &backend).await;
    let before = std::fs::read(&path).unwrap();
    for visit in VISITS {
        let output = run(&commands, visit).await;
        let told = output.stdout + &output.stderr;
        assert_eq!(output.code, 1, "{visit:?}: {told}");
        assert!(told.contains("it has no outbox"), "{visit:?}: {told}");
        assert!(told.contains("`posthaste migrate`"), "{visit:?}: {told}");
        assert!(std::fs::read(&path).unwrap() == before, "{visit:?}");
        let files = folder.path().read_dir().unwrap().count();
        assert_eq!(files, 1, "{visit:?} left something beside it");
    }

    let migrated = run(&commands, &["migrate"]).await;

    assert_eq!(migrated.code, 0, "{}", migrated.stderr);
    let listed = run(&commands, &["dead", "list"]).await;
    assert_eq!(listed.code, 0, "{}", listed.stderr);
    let seat = |row: &rusqlite::Row<'_>| row.get::<_, String>(0);
    let file = Connection::open(&path).unwrap();
    let seat = file.query_row("SELECT seat FROM booking", [], seat);
    assert_eq!(seat.unwrap(), "7a");
}

#[tokio::test]
async fn a_file_of_another_version_is_left_to_its_owner() {
    let (backend, folder) = (Backend::sqlite().await, tempfile::tempdir().unwrap());
    let path = an_applications_file(&folder);
    let commands = led_to(&path, &backend).await;
    assert_eq!(run(&commands, &["migrate"]).await.code, 0);
    let file = Connection::open(&path).unwrap();
    let forget = "DELETE FROM posthaste_migration WHERE version > 3";
    file.execute(forget, []).unwrap();
    for visit in VISITS {
        let output = run(&commands, visit).await;
        let told = output.stdout + &output.stderr;
        assert_eq!(output.code, 1, "{visit:?}: {told}");
        assert!(told.contains("its schema is at version 3"), "{told}");
        assert!(told.contains("`posthaste migrate`"), "{told}");
    }
    let version = "SELECT max(version) FROM posthaste_migration";
    let version = file.query_row(version, [], |row| row.get::<_, i64>(0));
    assert_eq!(version.unwrap(), 3);
}
