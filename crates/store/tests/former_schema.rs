//! Emails as they were before there were several ways out, in every state and priority, for each
//! dialect to take over.

#![cfg(all(feature = "postgres", feature = "sqlite"))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use posthaste_core::email::{EmailId, EmailRecord};
use posthaste_core::port::{Acted, Action, Actor, EmailFilter, Store};
use posthaste_core::status::{Priority, Status};
use posthaste_store::{PostgresOptions, PostgresStore, SqliteOptions, SqliteStore};
use posthaste_testkit::{Database, budgets};
use rusqlite::Connection;
use uuid::Uuid;

/// What the program of that time had made of the database.
const SQLITE: [&str; 5] = [
    include_str!("../migrations/sqlite/0001_email.sql"),
    include_str!("../migrations/sqlite/0002_event.sql"),
    include_str!("../migrations/sqlite/0003_message.sql"),
    include_str!("../migrations/sqlite/0004_desk.sql"),
    include_str!("../migrations/sqlite/0005_inline.sql"),
];
const POSTGRES: [&str; 5] = [
    include_str!("../migrations/postgres/0001_email.sql"),
    include_str!("../migrations/postgres/0002_event.sql"),
    include_str!("../migrations/postgres/0003_message.sql"),
    include_str!("../migrations/postgres/0004_desk.sql"),
    include_str!("../migrations/postgres/0005_inline.sql"),
];

/// How a dialect writes things down.
struct Dialect {
    prefix: &'static str,
    id: fn(Uuid) -> String,
    /// A time long ago, and what is false.
    time: &'static str,
    no: &'static str,
    bytes: &'static str,
}

const IN_SQLITE: Dialect = Dialect {
    prefix: "posthaste_",
    id: |id| format!("x'{}'", id.simple()),
    time: "1720000000000000",
    no: "0",
    bytes: "x'6869'",
};
const IN_POSTGRES: Dialect = Dialect {
    prefix: "",
    id: |id| format!("'{id}'"),
    time: "'2024-07-03T09:46:40Z'",
    no: "false",
    bytes: "'\\x6869'",
};

/// The state of an email: its columns from `status` on, and how its only attempt ended.
const STATES: [(&str, &str, Option<&str>); 6] = [
    (
        "pending",
        "'idle', 0, 0, 0, {time}, NULL, NULL, NULL, NULL",
        None,
    ),
    (
        "failed",
        "'idle', 1, 1, 0, {time}, '450 busy', NULL, NULL, NULL",
        Some("transient"),
    ),
    (
        "unknown",
        "'committing', 1, 1, 1, NULL, 'no answer', NULL, NULL, NULL",
        Some("unknown"),
    ),
    (
        "dead",
        "'idle', 1, 1, 0, NULL, '550 no', 'HardBounce', NULL, {time}",
        Some("permanent"),
    ),
    (
        "discarded",
        "'idle', 1, 1, 0, NULL, '550 no', 'HardBounce', NULL, {time}",
        Some("permanent"),
    ),
    (
        "sent",
        "'idle', 1, 0, 0, NULL, NULL, NULL, {time}, {time}",
        Some("sent"),
    ),
];

const PRIORITIES: [Priority; 3] = [Priority::Low, Priority::Normal, Priority::High];

/// Statements that write one email of each state and priority.
fn rows(dialect: &Dialect) -> Vec<String> {
    let Dialect {
        prefix,
        time,
        no,
        bytes,
        ..
    } = dialect;
    let mut rows = Vec::new();
    for (status, state, outcome) in STATES {
        let state = state.replace("{time}", time);
        for priority in PRIORITIES {
            let id = (dialect.id)(Uuid::now_v7());
            rows.push(format!(
                "INSERT INTO {prefix}email (id, owner, message_key, payload_hash, priority,
                     envelope_from, recipients, recipient_count, first_recipient, header_from,
                     header_to, subject, metadata, policy, created_at, size_bytes, content)
                 VALUES ({id}, 'shop', '{status} {priority}', {bytes}, '{priority}',
                     'shop@example.org', '[\"ann@example.org\"]', 1, 'ann@example.org',
                     'shop@example.org', '[]', 'Hello', '{{}}', '\"email\"', {time}, 2, {bytes})"
            ));
            rows.push(format!(
                "INSERT INTO {prefix}email_log (id, status, phase, attempt_number, attempt_count,
                     unknown_count, next_attempt_at, last_error, dead_reason, sent_at, finished_at,
                     budget_from, lease_token, lost_count, possible_duplicate)
                 VALUES ({id}, '{status}', {state}, 0, 1, 0, {no})"
            ));
            rows.extend(outcome.map(|outcome| {
                format!(
                    "INSERT INTO {prefix}email_attempt (email_id, number, started_at, finished_at,
                         outcome, transport, worker, budget)
                     VALUES ({id}, 1, {time}, {time}, '{outcome}', 'smtp', 'w', 8)"
                )
            }));
        }
        rows.push(format!(
            "INSERT INTO {prefix}stat (minute, from_status, to_status, n)
             VALUES (28666666, '', '{status}', {})",
            PRIORITIES.len()
        ));
    }
    rows
}

/// Whatever was there is there, and goes on in the order of its priority.
async fn assert_taken_over(store: &impl Store) {
    assert_eq!(store.verify(&[]).await.unwrap(), []);
    let filter = EmailFilter {
        limit: 100,
        ..EmailFilter::default()
    };
    let all = store.list(&filter).await.unwrap();
    assert_eq!(all.len(), STATES.len() * PRIORITIES.len());
    let is_unknown = |record: &&EmailRecord| record.state.status == Status::Unknown;
    for record in &all {
        let bound_to = record.state.bound_to.as_deref();
        let expected = is_unknown(&record).then_some("smtp");
        assert_eq!(bound_to, expected, "{}", record.message_key);
        assert!(!record.state.ignores_expiry && record.state.waiting_for.is_none());
        assert_eq!(record.route, None);
    }
    let attempts = store.attempts(&[all[0].id]).await.unwrap();
    assert!(attempts.iter().all(|(_, attempt)| !attempt.is_free));
    // Dead letters come back, also those that were discarded.
    let actor = Actor {
        name: "cli:root".into(),
        owner: None,
    };
    let ids = |status: Status| -> Vec<EmailId> {
        let of = all.iter().filter(|record| record.state.status == status);
        of.map(|record| record.id).collect()
    };
    let discarded = ids(Status::Discarded);
    let act = async |ids: Vec<EmailId>, action| store.act(ids, action, &actor).await.unwrap();
    act(discarded.clone(), Action::Restore).await;
    let dead = [discarded, ids(Status::Dead)].concat();
    let done = Acted::Done(Status::Pending);
    assert!(
        act(dead, Action::Retry)
            .await
            .iter()
            .all(|acted| *acted == done)
    );
    let lease = Duration::from_secs(60);
    let due = store.claim_due(100, lease, &budgets()).await.unwrap();
    let claimed: Vec<Priority> = due.iter().map(|due| due.priority).collect();
    // Failed ones, and twice as many that were replayed; new ones had a ticket, or have none.
    let each = claimed.len() / PRIORITIES.len();
    assert_eq!(each, 4);
    let in_order = [Priority::High, Priority::Normal, Priority::Low];
    assert_eq!(
        claimed,
        in_order.map(|priority| vec![priority; each]).concat()
    );
    assert_eq!(store.verify(&[]).await.unwrap(), []);
}

#[tokio::test]
async fn a_sqlite_file_of_before_is_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("posthaste.db");
    let beside = Connection::open(&path).unwrap();
    let memory = "CREATE TABLE posthaste_migration (
             version    INTEGER NOT NULL PRIMARY KEY,
             applied_at INTEGER NOT NULL
         ) STRICT";
    beside.execute_batch(memory).unwrap();
    for (version, sql) in (1..).zip(SQLITE) {
        beside.execute_batch(sql).unwrap();
        let remember = "INSERT INTO posthaste_migration VALUES (?1, 0)";
        beside.execute(remember, [version]).unwrap();
    }
    for sql in rows(&IN_SQLITE) {
        beside.execute_batch(&sql).unwrap();
    }
    drop(beside);
    assert_taken_over(&SqliteStore::open(SqliteOptions::new(&path)).unwrap()).await;
}

#[tokio::test]
async fn a_postgresql_database_of_before_is_taken_over() {
    let database = Database::fresh().await;
    let beside = database.beside().await;
    let memory = "CREATE TABLE posthaste_migration (
             version    integer     PRIMARY KEY,
             applied_at timestamptz NOT NULL DEFAULT now()
         )";
    beside.batch_execute(memory).await.unwrap();
    for (version, sql) in (1_i32..).zip(POSTGRES) {
        beside.batch_execute(sql).await.unwrap();
        let remember = "INSERT INTO posthaste_migration (version) VALUES ($1)";
        beside.execute(remember, &[&version]).await.unwrap();
    }
    for sql in rows(&IN_POSTGRES) {
        beside.batch_execute(&sql).await.unwrap();
    }
    let store = PostgresStore::open(PostgresOptions::new(database.url())).await;
    assert_taken_over(&store.unwrap()).await;
}
