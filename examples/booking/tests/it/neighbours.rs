//! The application and the outbox in one file: each sees to its own.

use posthaste::rusqlite::Connection;

use crate::world::World;

fn user_version(database: &Connection) -> u32 {
    let version = database.pragma_query_value(None, "user_version", |row| row.get(0));
    version.unwrap()
}

/// What the application itself has made.
fn own_schema(database: &Connection) -> Vec<(String, Option<String>)> {
    let sql = "SELECT name, sql FROM sqlite_schema
               WHERE tbl_name NOT LIKE 'posthaste\\_%' ESCAPE '\\' AND name <> 'sqlite_sequence'
               ORDER BY name";
    let mut statement = database.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
    rows.unwrap().collect::<Result<_, _>>().unwrap()
}

#[tokio::test]
async fn the_outbox_touches_neither_the_applications_table_nor_its_version() {
    let alone = Connection::open_in_memory().unwrap();
    alone
        .execute_batch(include_str!("../../migrations/0001_booking.sql"))
        .unwrap();
    let world = World::start().await;
    let booking = world.book().await;
    world.cancel(&booking).await;
    world.settle().await;

    let database = world.database();

    assert_eq!(own_schema(&database), own_schema(&alone));
    assert_eq!(user_version(&database), 1);
    let count: u32 = database
        .query_row("SELECT count(*) FROM booking", [], |row| row.get(0))
        .unwrap();
    assert_eq!(count, 1);
}

#[tokio::test]
async fn a_file_of_a_newer_version_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = crate::world::database(&folder);
    let database = Connection::open(&path).unwrap();
    database.pragma_update(None, "user_version", 2).unwrap();

    let refused = posthaste_booking::store::Store::open(&path);

    assert!(refused.is_err());
    assert_eq!(user_version(&database), 2);
    assert_eq!(own_schema(&database), []);
}
