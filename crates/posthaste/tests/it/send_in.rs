//! Emails in the application's own transactions that are sent right after the commit.

use std::time::Duration;

use posthaste::{Delivery, Error, Outbox, Sending, Status, rusqlite};
use tokio_postgres::NoTls;

use crate::dying_child::{die_after, wait_to_be_killed};
use crate::world::{NOBODY, Own, an_email, builder, sink};

/// Puts an email into a transaction, which then commits or not.
async fn put(place: &str, outbox: &Outbox, commits: bool) -> Sending {
    if place.starts_with("postgres") {
        let (mut client, connection) = tokio_postgres::connect(place, NoTls).await.unwrap();
        tokio::spawn(connection);
        let mut transaction = client.transaction().await.unwrap();
        let sending = outbox.send_in(&mut transaction, an_email("ada")).await;
        match commits {
            true => transaction.commit().await.unwrap(),
            false => transaction.rollback().await.unwrap(),
        }
        sending.unwrap()
    } else {
        let mut connection = rusqlite::Connection::open(place).unwrap();
        let mut transaction = connection.transaction().unwrap();
        let sending = outbox.send_in(&mut transaction, an_email("ada"));
        match commits {
            true => transaction.commit().unwrap(),
            false => transaction.rollback().unwrap(),
        }
        sending.unwrap()
    }
}

#[tokio::test]
async fn it_is_sent_after_the_commit_without_a_worker() {
    let sink = sink().await;
    for own in Own::both().await {
        let before = sink.accepted();
        let outbox = own.outbox(&sink.url()).await;
        let sending = put(&own.place(), &outbox, true).await;
        assert_eq!(sink.accepted(), before);
        let delivery = sending.finish().await.unwrap();
        assert!(delivery.is_sent(), "{delivery:?}");
        assert_eq!(sink.accepted(), before + 1);
        own.verify().await;
    }
}

#[tokio::test]
async fn nothing_is_sent_of_what_was_rolled_back() {
    let sink = sink().await;
    for own in Own::both().await {
        let before = sink.accepted();
        let outbox = own.outbox(&sink.url()).await;
        let sending = put(&own.place(), &outbox, false).await;
        let id = sending.id();
        let error = sending.finish().await.unwrap_err();
        assert!(
            matches!(error, Error::NotFound(one) if one == id),
            "{error}"
        );
        put(&own.place(), &outbox, false).await.detach();
        outbox.close().await;
        assert_eq!(sink.accepted(), before);
        own.verify().await;
    }
}

#[tokio::test]
async fn a_server_that_is_down_costs_no_attempt() {
    for own in Own::both().await {
        let outbox = own.outbox(NOBODY).await;
        let delivery = put(&own.place(), &outbox, true).await.finish().await;
        let Ok(Delivery::Queued {
            id, next_attempt, ..
        }) = delivery
        else {
            panic!("not queued: {delivery:?}");
        };
        assert!(next_attempt.is_some_and(|at| at > outbox.now()));
        let entry = outbox.find(id).await.unwrap().unwrap();
        assert_eq!((entry.status, entry.attempts), (Status::Failed, 0));
        own.verify().await;
    }
}

#[tokio::test]
async fn what_is_detached_is_sent_in_the_background() {
    let sink = sink().await;
    for own in Own::both().await {
        let before = sink.accepted();
        let outbox = own.outbox(&sink.url()).await;
        let sending = put(&own.place(), &outbox, true).await;
        let id = sending.id();
        sending.detach();
        sink.wait_for(before + 1).await;
        outbox.close().await;
        let entry = outbox.find(id).await.unwrap().unwrap();
        assert_eq!(entry.status, Status::Sent);
        own.verify().await;
    }
}

#[tokio::test]
#[ignore = "run by others, in a process of its own"]
async fn the_child_that_dies() {
    let Some((place, schema)) = crate::dying_child::place() else {
        return;
    };
    let outbox = builder(&place, &schema).smtp(NOBODY);
    let outbox = outbox.lease(Duration::from_secs(1)).open().await.unwrap();
    let _sending = put(&place, &outbox, true).await;
    wait_to_be_killed();
}

#[tokio::test]
async fn a_kill_between_the_commit_and_the_attempt_leaves_it_to_a_worker() {
    let sink = sink().await;
    for own in Own::both().await {
        let before = sink.accepted();
        die_after("send_in::the_child_that_dies", "", &own);
        let outbox = own.outbox(&sink.url()).await;
        assert_eq!(outbox.counts().await.unwrap().pending, 1);
        let worker = outbox.start();
        // What was begun is held until its lease is over.
        sink.wait_for(before + 1).await;
        worker.drain().await.unwrap();
        assert_eq!(sink.accepted(), before + 1);
        worker.stop().await;
        own.verify().await;
    }
}
