//! What an instance remembers of the emails that it is sending, and another one has changed meanwhile.

#![cfg(feature = "postgres")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::sync::Arc;
use std::time::Duration;

use posthaste_core::email::EmailId;
use posthaste_core::lifecycle::Refusal;
use posthaste_core::port::{DeskStore as _, EmailStore as _, Finish, Lease, Opened, Opener};
use posthaste_core::status::Status;
use posthaste_store::{PostgresOptions, PostgresStore};
use posthaste_testkit::{Database, an_email, sent};

const LEASE: Duration = Duration::from_secs(600);

async fn open(database: &Database) -> Arc<PostgresStore> {
    let options = PostgresOptions::new(database.url());
    Arc::new(PostgresStore::open(options).await.unwrap())
}

async fn assert_clean(store: &PostgresStore) {
    assert_eq!(store.verify(&[]).await.unwrap(), []);
}

fn success(lease: Lease) -> Finish {
    Finish {
        lease,
        decision: sent(),
        transport: Some("smtp".into()),
        budget: 8,
        removes_sent: false,
    }
}

/// Whoever remembers an email that another instance took over neither renews nor finishes it.
#[tokio::test]
async fn a_lease_that_another_instance_took_over_is_not_renewed_from_memory() {
    let database = Database::fresh().await;
    let (frozen, other) = (open(&database).await, open(&database).await);
    let email = an_email("a").build();
    let id = email.id;
    let opened = frozen.accept_begun(vec![email], Opener::Sender, "frozen", LEASE);
    let Opened::Started(started) = opened.await.unwrap().remove(0).unwrap() else {
        panic!("it begins");
    };
    let beside = database.beside().await;
    let expire = "UPDATE email_log SET locked_until = posthaste_now() - interval '1 second'";
    assert_eq!(beside.execute(expire, &[]).await.unwrap(), 1);
    assert_eq!(other.rescue(10).await.unwrap().len(), 1);
    let rescued = other.find(id).await.unwrap().unwrap().state;
    assert_eq!(rescued.status, Status::Failed);

    let lease = started.lease;
    assert_eq!(frozen.renew(vec![lease], LEASE).await.unwrap(), [false]);
    let passage = vec![(lease, "smtp".into())];
    assert_eq!(frozen.pass_gate(passage).await.unwrap(), [false]);
    assert_eq!(other.find(id).await.unwrap().unwrap().state, rescued);
    assert_clean(&other).await;
}

/// All that succeeded is written by one statement, which rests on memory. One row that is not as it
/// was left must keep it from writing anything, and then be found out.
#[tokio::test]
async fn one_that_was_taken_over_is_refused_and_spoils_no_other() {
    let database = Database::fresh().await;
    let store = open(&database).await;
    let emails: Vec<_> = ["a", "b", "c"].map(|key| an_email(key).build()).to_vec();
    let ids: Vec<EmailId> = emails.iter().map(|email| email.id).collect();
    let opened = store.accept_begun(emails, Opener::Sender, "w", LEASE);
    assert!(opened.await.unwrap().iter().all(Result::is_ok));
    let leases: Vec<Lease> = ids.iter().map(|id| Lease { id: *id, token: 1 }).collect();
    let passages = leases.iter().map(|lease| (*lease, "smtp".into())).collect();
    assert_eq!(store.pass_gate(passages).await.unwrap(), [true; 3]);
    // As if it had been taken over, and begun again.
    let beside = database.beside().await;
    let take_over = "UPDATE email_log SET lease_token = 2 WHERE id = $1";
    assert_eq!(beside.execute(take_over, &[&ids[0].0]).await.unwrap(), 1);

    let finishes = [2, 0, 1].map(|at| success(leases[at])).to_vec();
    let finished = store.finish(finishes).await.unwrap();
    let statuses: Vec<_> = finished
        .into_iter()
        .map(|state| state.map(|state| state.status))
        .collect();
    let expected = [Ok(Status::Sent), Err(Refusal::StaleToken), Ok(Status::Sent)];
    assert_eq!(statuses, expected);
    for (id, attempts, status) in [
        (ids[0], 0, Status::Sending),
        (ids[1], 1, Status::Sent),
        (ids[2], 1, Status::Sent),
    ] {
        let found = store.find(id).await.unwrap().unwrap();
        assert_eq!(
            (found.attempts.len(), found.state.status),
            (attempts, status)
        );
    }
    assert_clean(&store).await;
}
