//! Emails in the application's own transactions, and processes that die around them.

use std::time::Duration;

use posthaste::{Error, Outbox, Status, rusqlite};
use posthaste_core::email::EmailId;

use crate::dying_child::{deed, die_after, wait_to_be_killed};
use crate::world::{NOBODY, Own, an_email, builder, sink};

const CHILD: &str = "transaction::the_child_that_dies";
const BOOKINGS: &str = "CREATE TABLE IF NOT EXISTS booking (name TEXT NOT NULL)";
const BOOK: &str = "INSERT INTO booking (name) VALUES ('Ada')";
const COUNT: &str = "SELECT count(*) FROM booking";

/// How a transaction ends.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Commit,
    Rollback,
    /// Not at all, until the process is killed.
    Never,
}

async fn client(own: &Own) -> tokio_postgres::Client {
    match own {
        Own::Postgres(database) => database.beside().await,
        Own::Sqlite(_) => unreachable!("only for PostgreSQL"),
    }
}

/// Books and enqueues in one transaction, which then commits or not.
async fn book(own: &Own, outbox: &Outbox, end: End) -> EmailId {
    match own {
        Own::Sqlite(_) => book_in_sqlite(&own.place(), outbox, end),
        Own::Postgres(_) => book_in_postgres(client(own).await, outbox, end).await,
    }
}

fn book_in_sqlite(file: &str, outbox: &Outbox, end: End) -> EmailId {
    let mut connection = rusqlite::Connection::open(file).unwrap();
    connection.execute_batch(BOOKINGS).unwrap();
    let mut transaction = connection.transaction().unwrap();
    transaction.execute(BOOK, []).unwrap();
    let id = outbox
        .enqueue_in(&mut transaction, an_email("ada"))
        .unwrap();
    match end {
        End::Commit => transaction.commit().unwrap(),
        End::Rollback => transaction.rollback().unwrap(),
        End::Never => wait_to_be_killed(),
    }
    id
}

async fn book_in_postgres(
    mut client: tokio_postgres::Client,
    outbox: &Outbox,
    end: End,
) -> EmailId {
    client.batch_execute(BOOKINGS).await.unwrap();
    let mut transaction = client.transaction().await.unwrap();
    transaction.execute(BOOK, &[]).await.unwrap();
    let id = outbox.enqueue_in(&mut transaction, an_email("ada")).await;
    // The application's own search path is as it was.
    transaction.query_one(COUNT, &[]).await.unwrap();
    match end {
        End::Commit => transaction.commit().await.unwrap(),
        End::Rollback => transaction.rollback().await.unwrap(),
        End::Never => wait_to_be_killed(),
    }
    id.unwrap()
}

async fn bookings(own: &Own) -> i64 {
    match own {
        Own::Sqlite(_) => {
            let connection = rusqlite::Connection::open(own.place()).unwrap();
            let counted = connection.query_row(COUNT, [], |row| row.get(0));
            counted.unwrap()
        }
        Own::Postgres(_) => {
            let row = client(own).await.query_one(COUNT, &[]).await.unwrap();
            row.get(0)
        }
    }
}

#[tokio::test]
async fn a_transaction_that_is_rolled_back_sends_nothing() {
    let sink = sink().await;
    for own in Own::both().await {
        let before = sink.accepted();
        let outbox = own.outbox(&sink.url()).await;
        let worker = outbox.start();
        let id = book(&own, &outbox, End::Rollback).await;
        worker.drain().await.unwrap();
        assert_eq!(outbox.find(id).await.unwrap(), None);
        assert_eq!(bookings(&own).await, 0);
        assert_eq!(sink.accepted(), before);
        worker.stop().await;
        own.verify().await;
    }
}

#[tokio::test]
async fn a_transaction_that_commits_sends_once() {
    let sink = sink().await;
    for own in Own::both().await {
        let before = sink.accepted();
        let outbox = own.outbox(&sink.url()).await;
        let worker = outbox.start();
        let id = book(&own, &outbox, End::Commit).await;
        worker.drain().await.unwrap();
        let entry = outbox.find(id).await.unwrap().unwrap();
        assert_eq!(entry.status, Status::Sent);
        assert_eq!(bookings(&own).await, 1);
        assert_eq!(sink.accepted(), before + 1);
        worker.stop().await;
        own.verify().await;
    }
}

#[tokio::test]
async fn one_key_is_one_email_in_transactions_too() {
    let own = Own::sqlite();
    let outbox = own.outbox(NOBODY).await;
    let email = || an_email("ada").message_key("booking-1");
    let first = outbox.enqueue(email()).await.unwrap();
    let mut connection = rusqlite::Connection::open(own.place()).unwrap();
    let mut transaction = connection.transaction().unwrap();
    assert_eq!(outbox.enqueue_in(&mut transaction, email()).unwrap(), first);
    let other = email().subject("Another");
    let error = outbox.enqueue_in(&mut transaction, other).unwrap_err();
    assert!(matches!(error, Error::KeyConflict(id) if id == first));
    transaction.commit().unwrap();
    own.verify().await;

    let own = Own::postgres().await;
    let outbox = own.outbox(NOBODY).await;
    let first = outbox.enqueue(email()).await.unwrap();
    let mut client = client(&own).await;
    let mut transaction = client.transaction().await.unwrap();
    let again = outbox.enqueue_in(&mut transaction, email()).await;
    assert_eq!(again.unwrap(), first);
    let other = email().subject("Another");
    let error = outbox
        .enqueue_in(&mut transaction, other)
        .await
        .unwrap_err();
    assert!(matches!(error, Error::KeyConflict(id) if id == first));
    transaction.commit().await.unwrap();
    own.verify().await;
}

#[tokio::test]
async fn a_transaction_elsewhere_is_refused_in_words() {
    let [sqlite, postgres] = Own::both().await;
    let (on_sqlite, on_postgres) = (sqlite.outbox(NOBODY).await, postgres.outbox(NOBODY).await);
    let folder = tempfile::tempdir().unwrap();
    let mut elsewhere = rusqlite::Connection::open(folder.path().join("other.db")).unwrap();
    let mut transaction = elsewhere.transaction().unwrap();
    let error = on_sqlite.enqueue_in(&mut transaction, an_email("ada"));
    let error = error.unwrap_err().to_string();
    assert!(error.contains("without an outbox"), "{error}");
    let error = on_postgres.enqueue_in(&mut transaction, an_email("ada"));
    let error = error.unwrap_err().to_string();
    assert!(error.contains("another kind"), "{error}");

    let mut elsewhere: tokio_postgres::Config = postgres.place().parse().unwrap();
    let connected = elsewhere.dbname("template1").connect(tokio_postgres::NoTls);
    let (mut client, connection) = connected.await.unwrap();
    tokio::spawn(connection);
    let mut transaction = client.transaction().await.unwrap();
    let error = on_postgres.enqueue_in(&mut transaction, an_email("ada"));
    let error = error.await.unwrap_err().to_string();
    assert!(error.contains("without an outbox"), "{error}");
}

#[tokio::test]
async fn a_bad_email_leaves_the_transaction_usable() {
    let own = Own::postgres().await;
    let outbox = own.outbox(NOBODY).await;
    let mut client = client(&own).await;
    client.batch_execute(BOOKINGS).await.unwrap();
    let mut transaction = client.transaction().await.unwrap();
    let bad = posthaste::Email::new("nobody", "ada@example.org").text("Hello");
    let error = outbox.enqueue_in(&mut transaction, bad).await;
    assert!(matches!(error, Err(Error::Invalid(_))));
    transaction.execute(BOOK, &[]).await.unwrap();
    transaction.commit().await.unwrap();
    assert_eq!(bookings(&own).await, 1);
}

#[tokio::test]
#[ignore = "run by others, in a process of its own"]
async fn the_child_that_dies() {
    let Some((place, schema)) = crate::dying_child::place() else {
        return;
    };
    let outbox = builder(&place, &schema).smtp(NOBODY).open().await.unwrap();
    let end = if deed() == "commit" {
        End::Commit
    } else {
        End::Never
    };
    if place.starts_with("postgres") {
        let connected = tokio_postgres::connect(&place, tokio_postgres::NoTls);
        let (client, connection) = connected.await.unwrap();
        tokio::spawn(connection);
        book_in_postgres(client, &outbox, end).await;
    } else {
        book_in_sqlite(&place, &outbox, end);
    }
    wait_to_be_killed();
}

#[tokio::test]
async fn what_was_committed_before_a_kill_is_sent_after_the_restart_once() {
    let sink = sink().await;
    for own in Own::both().await {
        let before = sink.accepted();
        die_after(CHILD, "commit", &own);
        let outbox = own.outbox(&sink.url()).await;
        assert_eq!(outbox.counts().await.unwrap().pending, 1);
        let worker = outbox.start();
        worker.drain().await.unwrap();
        assert_eq!(sink.accepted(), before + 1);
        assert_eq!(sink.duplicates(), []);
        assert_eq!(outbox.counts().await.unwrap().pending, 0);
        assert_eq!(bookings(&own).await, 1);
        worker.stop().await;
        own.verify().await;
    }
}

#[tokio::test]
async fn what_was_not_committed_before_a_kill_never_existed() {
    let sink = sink().await;
    for own in Own::both().await {
        let before = sink.accepted();
        die_after(CHILD, "leave open", &own);
        let outbox = own.outbox(&sink.url()).await;
        let worker = outbox.start();
        worker.drain().await.unwrap();
        assert_eq!(sink.accepted(), before);
        assert_eq!(outbox.counts().await.unwrap().pending, 0);
        assert_eq!(bookings(&own).await, 0);
        worker.stop().await;
        own.verify().await;
    }
}

#[tokio::test]
async fn whoever_stops_waiting_leaves_the_transaction_as_it_was() {
    let own = Own::postgres().await;
    let outbox = own.outbox(NOBODY).await;
    let mut client = client(&own).await;
    client.batch_execute(BOOKINGS).await.unwrap();
    let mut transaction = client.transaction().await.unwrap();
    // Given up after the first step, and after a few more.
    for patience in [0, 1, 2, 3] {
        let putting = outbox.enqueue_in(&mut transaction, an_email("ada"));
        let given_up = tokio::time::timeout(Duration::from_millis(patience), putting).await;
        if given_up.is_ok() {
            break;
        }
        transaction.execute(BOOK, &[]).await.unwrap();
    }
    transaction.rollback().await.unwrap();
    let mut transaction = client.transaction().await.unwrap();
    let putting = outbox.enqueue_in(&mut transaction, an_email("ada"));
    let given_up = tokio::time::timeout(Duration::ZERO, putting).await;
    assert!(given_up.is_err(), "it takes several steps");
    transaction.execute(BOOK, &[]).await.unwrap();
    transaction.commit().await.unwrap();
    assert_eq!(bookings(&own).await, 1);
    assert_eq!(outbox.counts().await.unwrap().pending, 0);
    own.verify().await;
}

#[tokio::test]
async fn tables_of_the_session_do_not_stand_in_for_ours() {
    let own = Own::postgres().await;
    let outbox = own.outbox(NOBODY).await;
    let mut client = client(&own).await;
    let mine = "CREATE TEMP TABLE email (id int); CREATE TEMP TABLE email_log (id int);
                CREATE TEMP TABLE stat (id int)";
    client.batch_execute(mine).await.unwrap();
    let mut transaction = client.transaction().await.unwrap();
    let id = outbox.enqueue_in(&mut transaction, an_email("ada")).await;
    transaction.commit().await.unwrap();
    let entry = outbox.find(id.unwrap()).await.unwrap().unwrap();
    assert_eq!(entry.status, Status::Pending);
    own.verify().await;
}
