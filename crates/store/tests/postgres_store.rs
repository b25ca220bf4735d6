//! What only PostgreSQL promises: several instances on one database, and deadlines.

#![cfg(feature = "postgres")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use posthaste_core::email::{EmailId, NewEmail};
use posthaste_core::port::{
    Accepted, Action, Actor, AlertStore as _, AuditFilter, Begun, DeskStore as _, EmailStore as _,
    Finish, KeyStore as _, Lease, Opener, Store as _, StoreError, StoreResult,
};
use posthaste_core::status::{DeadReason, Status};
use posthaste_store::{PostgresOptions, PostgresStore};
use posthaste_testkit::{Database, EmailBuilder, an_email, budgets, dead_of, sent, transient};
use tokio::task::JoinSet;

const LEASE: Duration = Duration::from_secs(3600);

async fn open(database: &Database) -> Arc<PostgresStore> {
    Arc::new(PostgresStore::open(options(database)).await.unwrap())
}

fn options(database: &Database) -> PostgresOptions {
    let mut options = PostgresOptions::new(database.url());
    options.connections = 4;
    options
}

async fn accept(store: &PostgresStore, email: EmailBuilder) -> Result<Accepted, StoreError> {
    let mut answers = store.accept(vec![email.build()], true).await?;
    answers.remove(0)
}

async fn assert_clean(store: &PostgresStore) {
    assert_eq!(store.verify(&[]).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn several_instances_may_start_at_once() {
    let database = Database::fresh().await;
    let mut opening = JoinSet::new();
    for _ in 0..8 {
        let options = options(&database);
        opening.spawn(async move { PostgresStore::open(options).await.map(drop) });
    }
    for opened in opening.join_all().await {
        opened.unwrap();
    }
    let versions = "SELECT count(*) FROM posthaste_migration";
    let rows = database.beside().await.query_one(versions, &[]).await;
    assert_eq!(rows.unwrap().get::<_, i64>(0), 7, "each migration once");
}

#[tokio::test]
async fn a_newer_schema_is_refused_and_left_alone() {
    let database = Database::fresh().await;
    drop(open(&database).await);
    let newer = "INSERT INTO posthaste_migration (version) VALUES (4711)";
    database.beside().await.execute(newer, &[]).await.unwrap();
    let Err(error) = PostgresStore::open(options(&database)).await else {
        panic!("it was opened")
    };
    let error = error.to_string();
    assert!(
        error.contains("4711") && error.contains("newer posthaste"),
        "{error}"
    );
}

#[tokio::test]
async fn what_was_accepted_is_there_after_a_restart() {
    let database = Database::fresh().await;
    let email = an_email("a").build();
    let id = email.id;
    open(&database)
        .await
        .accept(vec![email], true)
        .await
        .unwrap();
    let store = open(&database).await;
    let found = store.find(id).await.unwrap().unwrap();
    assert_eq!(found.state.status, Status::Pending);
    assert!(matches!(
        accept(&store, an_email("a")).await,
        Ok(Accepted::Replayed(first, Status::Pending)) if first == id
    ));
    assert_clean(&store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poisonous_row_fails_its_own_caller_only() {
    let database = Database::fresh().await;
    let store = open(&database).await;
    // They share commits, because they come in while the first of them are under way.
    let mut accepting = JoinSet::new();
    for n in 0..200 {
        let store = Arc::clone(&store);
        let mut email = an_email(&n.to_string()).build();
        if n % 50 == 20 {
            email.summary.subject = "PostgreSQL cannot keep \0 in a text".into();
        }
        accepting.spawn(async move {
            let mut answers = store.accept(vec![email], true).await.unwrap();
            (n, answers.remove(0))
        });
    }
    for (n, answer) in accepting.join_all().await {
        match answer {
            Err(StoreError::Failed(error)) => assert!(n % 50 == 20, "{n}: {error}"),
            answer => assert!(
                matches!(answer, Ok(Accepted::Created)) && n % 50 != 20,
                "{n}"
            ),
        }
    }
    assert_eq!(store.statistics().await.unwrap().accepted, 196);
    assert_clean(&store).await;
}

#[tokio::test]
async fn one_poisonous_entry_of_a_batch_spoils_no_other() {
    let database = Database::fresh().await;
    let store = open(&database).await;
    let mut emails: Vec<NewEmail> = (0..10).map(|n| an_email(&n.to_string()).build()).collect();
    emails[3].message_key = "with a \0".into();
    let answers = store.accept(emails, true).await.unwrap();
    for (n, answer) in answers.iter().enumerate() {
        assert_eq!(answer.is_err(), n == 3, "{n}: {answer:?}");
    }
    assert_clean(&store).await;
}

#[tokio::test]
async fn nul_in_metadata_is_kept_as_it_is() {
    let database = Database::fresh().await;
    let store = open(&database).await;
    let mut email = an_email("a").build();
    email.metadata.insert("odd".into(), "\0".into());
    let id = email.id;
    let answers = store.accept(vec![email], true).await.unwrap();
    assert!(matches!(answers[..], [Ok(Accepted::Created)]));
    let found = store.find(id).await.unwrap().unwrap();
    assert_eq!(found.metadata["odd"], "\0");
}

fn new_leases(ids: &[EmailId]) -> Vec<Lease> {
    ids.iter().map(|id| Lease { id: *id, token: 0 }).collect()
}

/// Overlapping batches with the same keys and the same rows from three instances, in every order.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn overlapping_batches_of_three_instances_never_deadlock_a_caller() {
    const KEYS: usize = 60;
    const ROUNDS: usize = 25;
    let database = Database::fresh().await;
    let instances = [
        open(&database).await,
        open(&database).await,
        open(&database).await,
    ];
    let mut callers = JoinSet::new();
    for (n, store) in instances.iter().enumerate() {
        for task in 0..4 {
            let store = Arc::clone(store);
            callers.spawn(async move {
                let mut created = Vec::new();
                for round in 0..ROUNDS {
                    let mut keys: Vec<usize> = (0..KEYS).collect();
                    keys.rotate_left((n * 17 + task * 7 + round * 3) % KEYS);
                    if (n + task + round) % 2 == 0 {
                        keys.reverse();
                    }
                    let emails: Vec<NewEmail> = keys
                        .iter()
                        .map(|key| an_email(&format!("{round}-{key}")).build())
                        .collect();
                    let ids: Vec<EmailId> = emails.iter().map(|email| email.id).collect();
                    let answers = store.accept(emails, true).await.expect("accept");
                    let mut all = Vec::new();
                    for (id, answer) in ids.into_iter().zip(answers) {
                        match answer.expect("no deadlock reaches a caller") {
                            Accepted::Created => {
                                created.push(id);
                                all.push(id);
                            }
                            Accepted::Replayed(id, _) => all.push(id),
                            Accepted::KeyConflict(id) => panic!("{id} conflicts"),
                        }
                    }
                    // The same rows again, in this caller's own order, by everyone at once.
                    store
                        .mark_queued(new_leases(&all), Vec::new())
                        .await
                        .expect("mark");
                    let begun = store.begin(all, "w", LEASE).await.expect("begin");
                    let leases = begun.into_iter().filter_map(|begun| match begun {
                        Begun::Started(started) => Some(started.lease),
                        _ => None,
                    });
                    let leases: Vec<_> = leases.collect();
                    let passages = leases.iter().map(|lease| (*lease, "smtp".into()));
                    let passed = store.pass_gate(passages.collect()).await.expect("gate");
                    assert!(passed.iter().all(|passed| *passed));
                    let finishes = leases.iter().map(|lease| Finish {
                        lease: *lease,
                        decision: sent(),
                        transport: Some("smtp".into()),
                        budget: 8,
                        removes_sent: false,
                    });
                    let finished = store.finish(finishes.collect()).await.expect("finish");
                    assert!(finished.iter().all(Result::is_ok));
                }
                created
            });
        }
    }
    let created = callers.join_all().await.concat();
    let different: HashSet<_> = created.iter().collect();
    assert_eq!(different.len(), created.len(), "an email was created twice");
    assert_eq!(created.len(), KEYS * ROUNDS);
    let counted = instances[0].statistics().await.unwrap();
    assert_eq!(counted.by_status[&Status::Sent], (KEYS * ROUNDS) as u64);
    assert_clean(&instances[0]).await;
}

#[tokio::test]
async fn a_locked_row_is_unavailable_by_the_deadline_and_the_others_are_not() {
    let database = Database::fresh().await;
    let mut options = options(&database);
    options.deadline = Duration::from_millis(800);
    let store = PostgresStore::open(options).await.unwrap();
    let (held, free) = (an_email("held").build(), an_email("free").build());
    let (held_id, free_id) = (held.id, free.id);
    store.accept(vec![held, free], true).await.unwrap();
    let beside = database.beside().await;
    let lock = "BEGIN; LOCK TABLE api_key IN EXCLUSIVE MODE;";
    beside.batch_execute(lock).await.unwrap();
    beside
        .execute(
            "SELECT 1 FROM email_log WHERE id = $1 FOR UPDATE",
            &[&held_id.0],
        )
        .await
        .unwrap();
    let (held, free) = tokio::join!(
        store.begin(vec![held_id], "w", LEASE),
        store.begin(vec![free_id], "w", LEASE)
    );
    assert!(matches!(held, Err(StoreError::Unavailable(_))), "{held:?}");
    assert!(matches!(free.unwrap()[..], [Begun::Started(_)]));
    beside.batch_execute("ROLLBACK").await.unwrap();
    let begun = store.begin(vec![held_id], "w", LEASE).await.unwrap();
    assert!(matches!(begun[..], [Begun::Started(_)]));
}

/// A thousand may share a flush. If one of them has to wait for too long, the others must not be told
/// that they cannot be kept.
#[tokio::test]
async fn one_whose_key_is_held_for_long_takes_nobody_of_its_flush_along() {
    let database = Database::fresh().await;
    let mut options = options(&database);
    options.deadline = Duration::from_secs(8);
    let store = PostgresStore::open(options).await.unwrap();
    let mut beside = database.beside().await;
    let mut transaction = beside.transaction().await.unwrap();
    let held = an_email("a").build();
    store.accept_in(&mut transaction, &held).await.unwrap();
    let others = (0..32).map(|n| format!("b-{n}"));
    let keys = std::iter::once("a".to_owned()).chain(others);
    let emails = keys.map(|key| an_email(&key).build()).collect();
    let accepted = store.accept(emails, true).await.unwrap();
    let (held, others) = accepted.split_first().unwrap();
    assert!(matches!(held, Err(StoreError::Unavailable(_))), "{held:?}");
    let created = |answer: &StoreResult<Accepted>| matches!(answer, Ok(Accepted::Created));
    assert!(others.iter().all(created), "{others:?}");
    transaction.rollback().await.unwrap();
}

/// New emails come in one flush after the other. An application may hold a key for as long as its
/// transaction is open; whoever comes with the same one waits for it, and whoever comes later does not.
#[tokio::test]
async fn a_key_that_is_held_elsewhere_does_not_hold_up_those_who_come_later() {
    let database = Database::fresh().await;
    let mut options = options(&database);
    // Nobody gives up before the end of this test.
    options.deadline = Duration::from_secs(600);
    let store = Arc::new(PostgresStore::open(options).await.unwrap());
    let mut beside = database.beside().await;
    let pid = beside.query_one("SELECT pg_backend_pid()", &[]).await;
    let mut transaction = beside.transaction().await.unwrap();
    let held = ["one", "another"].map(|key| an_email(key).build());
    for email in &held {
        store.accept_in(&mut transaction, email).await.unwrap();
    }
    let accepting = |key: &'static str| {
        let store = Arc::clone(&store);
        tokio::spawn(async move { accept(&store, an_email(key)).await })
    };
    let waiting = ["one", "another"].map(accepting);
    database.until_someone_waits_for(pid.unwrap().get(0)).await;
    for n in 0..20 {
        let accepted = accept(&store, an_email(&format!("free-{n}"))).await;
        assert_eq!(accepted.unwrap(), Accepted::Created);
    }
    assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
    transaction.commit().await.unwrap();
    for (waiting, held) in waiting.into_iter().zip(held) {
        let answer = waiting.await.unwrap().unwrap();
        let found = match answer {
            Accepted::Replayed(id, _) | Accepted::KeyConflict(id) => Some(id),
            Accepted::Created => None,
        };
        assert_eq!(found, Some(held.id));
    }
    assert_clean(&store).await;
}

#[tokio::test]
async fn a_pool_that_is_used_up_is_unavailable_by_the_deadline() {
    let database = Database::fresh().await;
    let mut options = options(&database);
    (options.connections, options.deadline) = (2, Duration::from_millis(500));
    let store = Arc::new(PostgresStore::open(options).await.unwrap());
    let beside = database.beside().await;
    let lock = "BEGIN; LOCK TABLE audit_log IN ACCESS EXCLUSIVE MODE";
    beside.batch_execute(lock).await.unwrap();
    let mut asking = JoinSet::new();
    for _ in 0..6 {
        let store = Arc::clone(&store);
        asking.spawn(async move { store.audit(&AuditFilter::newest(1)).await });
    }
    for answer in asking.join_all().await {
        assert!(
            matches!(answer, Err(StoreError::Unavailable(_))),
            "{answer:?}"
        );
    }
    beside.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(store.audit(&AuditFilter::newest(1)).await.unwrap(), []);
}

#[tokio::test]
async fn cut_connections_are_made_anew_without_a_word() {
    let database = Database::fresh().await;
    let name = format!("cut-{}", EmailId::generate());
    let mut options = options(&database);
    options.url = format!("{}&application_name={name}", options.url);
    let store = PostgresStore::open(options).await.unwrap();
    let beside = database.beside().await;
    for n in 0..3 {
        // Every kind of connection is in use, then cut while nobody uses it.
        accept(&store, an_email(&n.to_string())).await.unwrap();
        store.keys().await.unwrap();
        store.next_due().await.unwrap();
        let cut = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
                   WHERE application_name = $1";
        assert!(beside.query(cut, &[&name]).await.unwrap().len() >= 3);
    }
    accept(&store, an_email("after")).await.unwrap();
    store.keys().await.unwrap();
    store.next_due().await.unwrap();
    assert_clean(&store).await;
}

#[tokio::test]
async fn an_instance_hears_what_another_has_for_schedulers() {
    let database = Database::fresh().await;
    let (server, other) = (open(&database).await, open(&database).await);
    let mut brief = options(&database);
    brief.listens = false;
    let command = PostgresStore::open(brief).await.unwrap();
    // It listens once it has looked around.
    server.changed().await;
    let heard = server.changed();
    let email = an_email("for later, by another server").build();
    other.accept(vec![email], false).await.unwrap();
    heard.await;
    let heard = server.changed();
    let email = an_email("for later, by a command").build();
    command.accept(vec![email], false).await.unwrap();
    heard.await;
    let heard = server.changed();
    let email = an_email("fails").build();
    let id = email.id;
    other.accept(vec![email], true).await.unwrap();
    let Begun::Started(started) = other.begin(vec![id], "w", LEASE).await.unwrap().remove(0) else {
        panic!("it did not begin");
    };
    let finish = Finish {
        lease: started.lease,
        decision: transient(LEASE),
        transport: Some("smtp".into()),
        budget: 8,
        removes_sent: false,
    };
    other.finish(vec![finish]).await.unwrap()[0]
        .as_ref()
        .unwrap();
    heard.await;
}

#[tokio::test]
async fn a_wrong_password_is_not_shown() {
    let url = "postgresql://someone:secret@127.0.0.1:1/nowhere";
    let Err(error) = PostgresStore::open(PostgresOptions::new(url)).await else {
        panic!("it was opened");
    };
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    assert!(!error.to_string().contains("secret"), "{error}");
}

/// Two schedulers at once: an email is claimed by one of them in each window.
#[tokio::test(flavor = "multi_thread")]
async fn two_instances_never_claim_the_same_email() {
    let database = Database::fresh().await;
    let instances = [
        open(&database).await,
        open(&database).await,
        open(&database).await,
    ];
    let emails = (0..600).map(|n| an_email(&n.to_string()).build()).collect();
    let answers = instances[0].accept(emails, false).await.unwrap();
    assert!(answers.iter().all(Result::is_ok));
    let mut claiming = JoinSet::new();
    for n in 0..12 {
        let store = Arc::clone(&instances[n % 3]);
        claiming.spawn(async move {
            let mut claimed = Vec::new();
            loop {
                let due = store.claim_due(40, LEASE, &budgets()).await.unwrap();
                if due.is_empty() {
                    return claimed;
                }
                claimed.extend(due.into_iter().map(|due| due.id));
            }
        });
    }
    let claimed = claiming.join_all().await.concat();
    let different: HashSet<_> = claimed.iter().collect();
    assert_eq!((claimed.len(), different.len()), (600, 600));
    assert_clean(&instances[0]).await;
}

/// Renewing waits for whoever has one of the rows, and for nobody with another in hand.
#[tokio::test]
async fn a_lease_is_renewed_although_someone_has_its_row_for_a_moment() {
    let database = Database::fresh().await;
    let store = open(&database).await;
    let emails: Vec<_> = (0..3).map(|n| an_email(&n.to_string()).build()).collect();
    let ids: Vec<EmailId> = emails.iter().map(|email| email.id).collect();
    let opened = store.accept_begun(emails, Opener::Sender, "w", LEASE);
    assert!(opened.await.unwrap().iter().all(Result::is_ok));
    let leases: Vec<Lease> = ids.iter().map(|id| Lease { id: *id, token: 1 }).collect();
    let beside = database.beside().await;
    beside.batch_execute("BEGIN").await.unwrap();
    let lock = "SELECT pg_backend_pid() FROM email_log WHERE id = $1 FOR UPDATE";
    let holder: i32 = beside.query_one(lock, &[&ids[1].0]).await.unwrap().get(0);
    let renewing = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.renew(leases, LEASE * 2).await }
    });
    database.until_someone_waits_for(holder).await;
    // The others are renewed, and free.
    let rest: Vec<uuid::Uuid> = vec![ids[0].0, ids[2].0];
    let free = "SELECT count(*) FROM (SELECT 1 FROM email_log WHERE id = ANY($1)
         AND locked_until > posthaste_now() + $2::int8 * interval '1 second'
         FOR UPDATE SKIP LOCKED) AS free";
    let longer = i64::try_from(LEASE.as_secs()).unwrap() + 1;
    let free: i64 = beside
        .query_one(free, &[&rest, &longer])
        .await
        .unwrap()
        .get(0);
    assert_eq!(free, 2);
    beside.batch_execute("COMMIT").await.unwrap();
    assert_eq!(renewing.await.unwrap().unwrap(), [true; 3]);
}

#[tokio::test]
async fn an_attempt_that_began_after_its_caller_had_gone_is_handed_back() {
    let database = Database::fresh().await;
    let store = open(&database).await;
    let email = an_email("a").build();
    let id = email.id;
    store.accept(vec![email], true).await.unwrap();
    let beside = database.beside().await;
    beside.batch_execute("BEGIN").await.unwrap();
    let lock = "SELECT pg_backend_pid() FROM email_log WHERE id = $1 FOR UPDATE";
    let holder: i32 = beside.query_one(lock, &[&id.0]).await.unwrap().get(0);
    let beginning = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.begin(vec![id], "w", LEASE).await }
    });
    database.until_someone_waits_for(holder).await;
    beginning.abort();
    assert!(beginning.await.is_err());
    beside.batch_execute("COMMIT").await.unwrap();
    let found = loop {
        let found = store.find(id).await.unwrap().unwrap();
        // The attempts are read a moment after the state.
        if !found.attempts.is_empty() && found.state.status != Status::Sending {
            break found;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(found.state.status, Status::Pending);
    assert_eq!(found.state.lost_count, 0, "nobody was lost");
    assert_clean(&store).await;
}

/// An email that died, counted for two channels. In the table they stand in the wrong order.
async fn a_death_for_two_channels(database: &Database, store: &PostgresStore) -> EmailId {
    let email = an_email("a").build();
    let id = email.id;
    store.accept(vec![email], true).await.unwrap();
    let Begun::Started(started) = store.begin(vec![id], "w", LEASE).await.unwrap().remove(0) else {
        panic!("not begun")
    };
    let finish = Finish {
        lease: started.lease,
        decision: dead_of(DeadReason::HardBounce, "550 no"),
        transport: Some("smtp".into()),
        budget: 8,
        removes_sent: false,
    };
    store.finish(vec![finish]).await.unwrap();
    let channels = ["slack", "webhook"].map(str::to_owned);
    assert_eq!(store.gather_deaths(&channels, 10).await.unwrap(), 1);
    let move_back = "WITH first AS (DELETE FROM alert_group WHERE channel = 'slack' RETURNING *)
                     INSERT INTO alert_group SELECT * FROM first";
    database
        .beside()
        .await
        .execute(move_back, &[])
        .await
        .unwrap();
    id
}

#[tokio::test]
async fn whoever_erases_takes_what_channels_tell_in_the_order_of_whoever_counts() {
    let database = Database::fresh().await;
    let store = open(&database).await;
    let id = a_death_for_two_channels(&database, &store).await;
    let beside = database.beside().await;
    beside.batch_execute("BEGIN").await.unwrap();
    let lock = "SELECT pg_backend_pid() FROM alert_group WHERE channel = $1 FOR UPDATE NOWAIT";
    let holder: i32 = beside.query_one(lock, &[&"slack"]).await.unwrap().get(0);
    let erasing = tokio::spawn({
        let store = Arc::clone(&store);
        let root = Actor {
            name: "cli:root".into(),
            owner: None,
        };
        async move { store.act(vec![id], Action::Erase, &root).await }
    });
    database.until_someone_waits_for(holder).await;
    let next = beside.query_one(lock, &[&"webhook"]).await;
    assert!(next.is_ok(), "it holds what comes later already: {next:?}");
    beside.batch_execute("COMMIT").await.unwrap();
    erasing.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_transaction_that_lost_a_deadlock_is_done_again() {
    let database = Database::fresh().await;
    let store = open(&database).await;
    a_death_for_two_channels(&database, &store).await;
    // Another email dies of the same, and someone takes the channels in the wrong order.
    let death = "INSERT INTO death (email_id, at, reason, fingerprint)
                 SELECT email_id, last_at, reason, fingerprint FROM alert_group LIMIT 1";
    let beside = database.beside().await;
    beside.execute(death, &[]).await.unwrap();
    beside.batch_execute("BEGIN").await.unwrap();
    // It finds out last, so that it is the other one that has to give way.
    let patient = "SET LOCAL deadlock_timeout = '1h'";
    beside.batch_execute(patient).await.unwrap();
    let lock = "SELECT pg_backend_pid() FROM alert_group WHERE channel = $1 FOR UPDATE";
    let holder: i32 = beside.query_one(lock, &[&"webhook"]).await.unwrap().get(0);
    let counting = tokio::spawn({
        let store = Arc::clone(&store);
        let channels = ["slack", "webhook"].map(str::to_owned);
        async move { store.gather_deaths(&channels, 10).await }
    });
    database.until_someone_waits_for(holder).await;
    beside.query_one(lock, &[&"slack"]).await.unwrap();
    beside.batch_execute("COMMIT").await.unwrap();
    assert_eq!(counting.await.unwrap().unwrap(), 1, "counted all the same");
    let states = store.alert_channels().await.unwrap();
    let waiting: Vec<u64> = states.iter().map(|state| state.waiting).collect();
    assert_eq!(waiting, [2, 2]);
}
