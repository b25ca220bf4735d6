//! What only SQLite promises: settings of the file, group commit, other processes, plans.
//!
//! `synchronous` belongs to a connection and cannot be seen from another one: the store's own
//! unit tests look at it.

#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::future::{Future, poll_fn};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use posthaste_core::email::EmailId;
use posthaste_core::port::{
    Accepted, AuditFilter, Begun, DeskStore, EmailFilter, EmailStore, Finish, Retention, Store,
    StoreError, StoreResult,
};
use posthaste_core::status::{Outcome, Status};
use posthaste_store::{SqliteOptions, SqliteStore};
use posthaste_testkit::{EmailBuilder, ManualClock, an_email, sent};
use rusqlite::Connection;
use tempfile::TempDir;

struct File {
    path: PathBuf,
    clock: Arc<ManualClock>,
    _folder: TempDir,
}

impl File {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self {
            path: folder.path().join("posthaste.db"),
            clock: Arc::new(ManualClock::new()),
            _folder: folder,
        }
    }

    fn options(&self) -> SqliteOptions {
        let mut options = SqliteOptions::new(&self.path);
        options.clock = self.clock.clone();
        options
    }

    fn open(&self) -> SqliteStore {
        SqliteStore::open(self.options()).unwrap()
    }

    /// As another process would open it.
    fn beside(&self) -> Connection {
        Connection::open(&self.path).unwrap()
    }
}

async fn accept(store: &SqliteStore, email: EmailBuilder) -> StoreResult<Accepted> {
    let mut answers = store.accept(vec![email.build()], true).await?;
    answers.remove(0)
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
    store.finish(vec![finish]).await.unwrap();
}

fn pragma<T: rusqlite::types::FromSql>(connection: &Connection, name: &str) -> T {
    let value = connection.pragma_query_value(None, name, |row| row.get(0));
    value.unwrap()
}

async fn assert_clean(store: &SqliteStore) {
    let violations = store.verify(&[]).await.unwrap();
    assert_eq!(violations, []);
}

#[test]
fn the_linked_sqlite_is_new_enough() {
    let version = SqliteStore::linked_version();
    let numbers: Vec<u32> = version.split('.').map(|n| n.parse().unwrap()).collect();
    assert!(numbers >= vec![3, 51, 3], "{version}");
}

#[tokio::test]
async fn the_file_has_a_write_ahead_log_and_large_pages() {
    let file = File::new();
    let store = file.open();
    accept(&store, an_email("a")).await.unwrap();
    let beside = file.beside();
    assert_eq!(pragma::<String>(&beside, "journal_mode"), "wal");
    assert_eq!(pragma::<i64>(&beside, "page_size"), 16_384);
    assert_eq!(pragma::<i64>(&beside, "auto_vacuum"), 2, "incremental");
}

#[tokio::test]
async fn what_was_accepted_is_there_after_a_restart() {
    let file = File::new();
    let email = an_email("a").build();
    let id = email.id;
    {
        let store = file.open();
        store.accept(vec![email], true).await.unwrap();
    }
    let store = file.open();
    let found = store.find(id).await.unwrap().unwrap();
    assert_eq!(found.state.status, Status::Pending);
    assert!(matches!(
        accept(&store, an_email("a")).await,
        Ok(Accepted::Replayed(first, Status::Pending)) if first == id
    ));
    assert_clean(&store).await;
}

#[tokio::test]
async fn a_newer_schema_is_refused_and_left_alone() {
    let file = File::new();
    drop(file.open());
    let beside = file.beside();
    let newer = "INSERT INTO posthaste_migration (version, applied_at) VALUES (4711, 0)";
    beside.execute(newer, []).unwrap();
    let schema = pragma::<i64>(&beside, "schema_version");
    let Err(error) = SqliteStore::open(file.options()) else {
        panic!("it was opened")
    };
    let error = error.to_string();
    assert!(
        error.contains("4711") && error.contains("newer posthaste"),
        "{error}"
    );
    assert_eq!(pragma::<i64>(&beside, "schema_version"), schema);
}

#[tokio::test]
async fn a_poisonous_job_fails_its_own_caller_only() {
    let file = File::new();
    let store = file.open();
    let taken = an_email("taken").build();
    let id = taken.id;
    store.accept(vec![taken], true).await.unwrap();

    // While another process writes, jobs pile up; then they share commits.
    let beside = file.beside();
    beside.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut calls: Vec<Pin<Box<dyn Future<Output = StoreResult<Accepted>>>>> = Vec::new();
    for n in 0..40 {
        let email = an_email(&format!("{n}"));
        let email = if n == 20 { email.id(id) } else { email };
        calls.push(Box::pin(accept(&store, email)));
    }
    for call in &mut calls {
        // The first poll hands the job to the writer.
        let is_ready = poll_fn(|context| Poll::Ready(call.as_mut().poll(context).is_ready()));
        assert!(!is_ready.await);
    }
    beside.execute_batch("COMMIT").unwrap();
    for (n, call) in calls.into_iter().enumerate() {
        match call.await {
            Err(StoreError::Failed(error)) => assert!(n == 20, "{n}: {error}"),
            answer => assert!(matches!(answer, Ok(Accepted::Created)) && n != 20, "{n}"),
        }
    }
    let statistics = store.statistics().await.unwrap();
    assert_eq!(statistics.accepted, 40);
    assert_clean(&store).await;
}

#[tokio::test]
async fn a_locked_file_is_unavailable_and_then_well_again() {
    let file = File::new();
    let mut options = file.options();
    options.busy_timeout = Duration::from_millis(1);
    let store = SqliteStore::open(options).unwrap();
    let beside = file.beside();
    beside.execute_batch("BEGIN IMMEDIATE").unwrap();
    let refused = accept(&store, an_email("a")).await;
    assert!(
        matches!(refused, Err(StoreError::Unavailable(_))),
        "{refused:?}"
    );
    assert!(matches!(
        store.check().await,
        Err(StoreError::Unavailable(_))
    ));
    let listed = store.list(&EmailFilter::default()).await;
    assert!(listed.is_ok(), "it can still be read");
    beside.execute_batch("COMMIT").unwrap();
    store.check().await.unwrap();
    let accepted = accept(&store, an_email("a")).await;
    assert!(matches!(accepted, Ok(Accepted::Created)));
    assert_clean(&store).await;
}

#[tokio::test]
async fn another_processs_change_is_noticed() {
    let file = File::new();
    let store = file.open();
    accept(&store, an_email("a")).await.unwrap();
    let beside = file.beside();
    for _ in 0..3 {
        let changed = store.changed();
        let sql = "INSERT INTO posthaste_audit_log (at, actor, action, subject, result)
                   VALUES (0, 'someone', 'something', '', '')";
        beside.execute(sql, []).unwrap();
        changed.await;
    }
}

#[tokio::test]
async fn reading_is_not_taken_for_a_change() {
    let file = File::new();
    let store = file.open();
    accept(&store, an_email("a")).await.unwrap();
    let beside = file.beside();
    let before = pragma::<i64>(&beside, "data_version");
    // Each of these opens a connection of its own.
    let newest = AuditFilter::newest(1);
    let (a, b, c, d) = tokio::join!(
        store.statistics(),
        store.next_due(),
        store.audit(&newest),
        store.dead_groups(None)
    );
    assert!(a.is_ok() && b.is_ok() && c.is_ok() && d.is_ok());
    drop(file.open());
    assert_eq!(pragma::<i64>(&beside, "data_version"), before);
}

#[tokio::test]
async fn two_stores_on_one_file_keep_the_same_books() {
    let file = File::new();
    let (server, command_line) = (file.open(), file.open());
    let changed = server.changed();
    for n in 0..10 {
        accept(&server, an_email(&format!("server {n}")))
            .await
            .unwrap();
        let email = an_email(&format!("command line {n}"));
        accept(&command_line, email).await.unwrap();
    }
    changed.await;
    let (first, second) = tokio::join!(
        accept(&server, an_email("both")),
        accept(&command_line, an_email("both"))
    );
    let created = [first.unwrap(), second.unwrap()];
    let created = created.iter().filter(|a| **a == Accepted::Created);
    assert_eq!(created.count(), 1);
    assert_eq!(server.statistics().await.unwrap().accepted, 21);
    assert_clean(&command_line).await;
}

#[tokio::test]
async fn of_two_processes_that_disagree_about_the_time_neither_sends_in_silence() {
    let file = File::new();
    let (slow, fast) = (file.open(), Arc::new(ManualClock::new()));
    let ids = ["before the gate", "past the gate"].map(|key| (key, EmailId::generate()));
    let mut leases = Vec::new();
    for (key, id) in ids {
        accept(&slow, an_email(key).id(id)).await.unwrap();
        let lease = Duration::from_secs(60);
        let begun = slow.begin(vec![id], "slow", lease).await.unwrap();
        let [Begun::Started(started)] = &begun[..] else {
            panic!("{begun:?}")
        };
        leases.push(started.lease);
    }
    assert_eq!(
        slow.pass_gate(vec![(leases[1], "smtp".into())])
            .await
            .unwrap(),
        [true]
    );
    // The machine was suspended, or its clock was set, before this one started.
    fast.advance(Duration::from_secs(61));
    let options = SqliteOptions {
        clock: fast,
        ..file.options()
    };
    let fast = SqliteStore::open(options).unwrap();

    assert_eq!(fast.rescue(10).await.unwrap().len(), 2);

    // What had not left cannot leave any more; what may have left is on record as such.
    assert_eq!(
        slow.pass_gate(vec![(leases[0], "smtp".into())])
            .await
            .unwrap(),
        [false]
    );
    for ((_, id), outcome) in ids.into_iter().zip([Outcome::Lost, Outcome::Unknown]) {
        let email = slow.find(id).await.unwrap().unwrap();
        let outcomes: Vec<_> = email.attempts.iter().map(|one| one.outcome).collect();
        assert_eq!(outcomes, [outcome]);
    }
    assert_clean(&fast).await;
}

#[tokio::test]
async fn pruning_gives_pages_back_to_the_file_system() {
    let file = File::new();
    let store = file.open();
    for n in 0..8 {
        let email = an_email(&n.to_string())
            .content(vec![b'x'; 100_000])
            .build();
        let id = email.id;
        store.accept(vec![email], true).await.unwrap();
        deliver(&store, id).await;
    }
    let beside = file.beside();
    let before = pragma::<i64>(&beside, "page_count");
    assert!(before > 50, "{before} pages");
    file.clock.advance(Duration::from_secs(3600));
    let now = Duration::ZERO;
    let retention = Retention {
        attempts: None,
        content: None,
        sent: now,
        dead: now,
        captures: now,
        audit: now,
    };
    let pruned = store.prune(retention, 100).await.unwrap();
    assert_eq!(pruned.emails, 8);
    let after = pragma::<i64>(&beside, "page_count");
    assert!(after < before - 40, "{before} pages, then {after}");
    assert_clean(&store).await;
}

#[tokio::test]
async fn no_hot_query_reads_the_whole_table() {
    let file = File::new();
    let _store = file.open();
    let beside = file.beside();
    let queries = SqliteStore::hot_queries();
    assert!(queries.len() >= 14);
    for sql in queries {
        let plan = plan_of(&beside, &sql);
        let touches = |line: &&String| {
            let aliases = [" l ", " e ", " q "];
            let tables = ["posthaste_email_log", "posthaste_operation"];
            tables.iter().any(|table| line.contains(table))
                || aliases.iter().any(|alias| line.contains(alias))
        };
        let steps: Vec<_> = plan.iter().filter(touches).collect();
        assert!(!steps.is_empty(), "{sql}: {plan:#?}");
        for step in steps {
            // Or the first entry of a small index.
            let is_first =
                step.ends_with("INDEX posthaste_idx_retry_next_retry") && sql.ends_with("LIMIT 1");
            assert!(step.starts_with("SEARCH ") || is_first, "{sql}: {step}");
        }
        // The order comes from the index, too: nothing is collected and sorted.
        assert!(
            !plan.iter().any(|line| line.contains("TEMP B-TREE")),
            "{sql}: {plan:#?}"
        );
    }
}

fn plan_of(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection
        .prepare(&format!("EXPLAIN QUERY PLAN {sql}"))
        .unwrap();
    // The plan does not depend on the values, so none are bound.
    let lines = statement.raw_query().mapped(|row| row.get(3));
    lines.collect::<Result<_, _>>().unwrap()
}
