//! What becomes of emails that are sent at once, and of those that are not.

use std::time::Duration;

use posthaste::{DeadReason, Delivery, Error, Outbox, Resolution, RetryPolicy, Status};
use posthaste_sink::Mode;

use crate::world::{NOBODY, Own, an_email, sink};

#[tokio::test]
async fn an_email_is_at_the_server_when_the_caller_is_told() {
    let sink = sink().await;
    for own in Own::both().await {
        let before = sink.accepted();
        let outbox = own.outbox(&sink.url()).await;
        let delivery = outbox.send_or_enqueue(an_email("ada")).await.unwrap();
        assert!(delivery.is_sent(), "{delivery:?}");
        assert_eq!(sink.accepted(), before + 1);
        let entry = outbox.find(delivery.id()).await.unwrap().unwrap();
        assert_eq!((entry.status, entry.attempts), (Status::Sent, 0));
        own.verify().await;
    }
}

#[tokio::test]
async fn a_server_that_is_down_is_no_error_and_the_email_waits_thirty_seconds() {
    for own in Own::both().await {
        let outbox = own.outbox(NOBODY).await;
        let before = outbox.now();
        let delivery = outbox.send_or_enqueue(an_email("ada")).await.unwrap();
        let after = outbox.now();
        let Delivery::Queued {
            id,
            next_attempt: Some(next),
            error: Some(error),
            ..
        } = delivery
        else {
            panic!("not queued: {delivery:?}");
        };
        assert!(error.contains("refused"), "{error}");
        let delay = Duration::from_secs(30);
        assert!(before + delay <= next && next <= after + delay, "{next}");
        let entry = outbox.find(id).await.unwrap().unwrap();
        assert_eq!((entry.status, entry.attempts), (Status::Failed, 0));
        assert_eq!(entry.max_attempts, 5);
        assert!(
            entry
                .last_error
                .is_some_and(|error| error.contains("refused"))
        );
        let counts = outbox.counts().await.unwrap();
        assert_eq!((counts.pending, counts.dead), (1, 0));
        own.verify().await;
    }
}

#[tokio::test]
async fn what_is_refused_for_good_is_dead_until_someone_retries_or_dismisses_it() {
    let sink = sink().await;
    for own in Own::both().await {
        let outbox = own.outbox(&sink.url()).await;
        sink.set_mode(Mode::RejectAll);
        let delivery = outbox.send_or_enqueue(an_email("ada")).await.unwrap();
        let Delivery::Dead {
            id, reason, error, ..
        } = delivery
        else {
            panic!("not dead: {delivery:?}");
        };
        assert_eq!(reason, DeadReason::HardBounce);
        assert!(error.is_some_and(|error| error.contains("550")));
        let other = outbox.send_or_enqueue(an_email("bob")).await.unwrap().id();
        assert_eq!(outbox.counts().await.unwrap().dead, 2);

        sink.set_mode(Mode::Normal);
        outbox.dismiss(other).await.unwrap();
        outbox.retry(id).await.unwrap();
        let entries = outbox.undelivered().await.unwrap();
        assert_eq!(entries.len(), 1);
        assert_eq!(
            (entries[0].status, entries[0].attempts),
            (Status::Pending, 0)
        );
        let worker = outbox.start();
        worker.drain().await.unwrap();
        let entry = outbox.find(id).await.unwrap().unwrap();
        assert_eq!(entry.status, Status::Sent);
        assert!(outbox.dismiss(id).await.is_err(), "it was sent");
        worker.stop().await;
        own.verify().await;
    }
}

#[tokio::test]
async fn a_detached_caller_is_told_when_the_email_is_safe_and_not_when_it_is_sent() {
    let sink = sink().await;
    for own in Own::both().await {
        sink.set_mode(Mode::HangAll);
        let outbox = own.outbox(&sink.url()).await;
        let id = outbox
            .send_or_enqueue_detached(an_email("ada"))
            .await
            .unwrap();
        // The server says nothing at all, so the attempt cannot be over.
        let entry = outbox.find(id).await.unwrap().unwrap();
        assert_eq!(entry.status, Status::Sending);
        own.verify().await;
    }
}

#[tokio::test]
async fn a_server_that_hangs_costs_the_caller_bounded_time_and_the_email_nothing() {
    let sink = sink().await;
    sink.set_mode(Mode::HangAll);
    for own in Own::both().await {
        let outbox = own
            .builder()
            .smtp(sink.url())
            .inline_timeout(Duration::from_millis(50))
            .open()
            .await
            .unwrap();
        let delivery = outbox.send_or_enqueue(an_email("ada")).await.unwrap();
        let Delivery::Queued {
            id, next_attempt, ..
        } = delivery
        else {
            panic!("not queued: {delivery:?}");
        };
        assert!(next_attempt.is_some());
        let entry = outbox.find(id).await.unwrap().unwrap();
        assert_eq!((entry.status, entry.attempts), (Status::Failed, 0));
        own.verify().await;
    }
}

#[tokio::test]
async fn the_worker_tries_again_until_the_policy_gives_up() {
    let sink = sink().await;
    for own in Own::both().await {
        let outbox = own
            .builder()
            .smtp(sink.url())
            .retry_policy(RetryPolicy::doubling(Duration::from_millis(1)).attempts(3))
            .open()
            .await
            .unwrap();
        let worker = outbox.start();
        let id = outbox
            .send_or_enqueue(an_email("tempfail"))
            .await
            .unwrap()
            .id();
        let entry = loop {
            let entry = outbox.find(id).await.unwrap().unwrap();
            if entry.status == Status::Dead {
                break entry;
            }
            tokio::task::yield_now().await;
        };
        assert_eq!(entry.attempts, 3, "without the one that was made at once");
        assert_eq!(entry.dead_reason, Some(DeadReason::MaxAttemptsExceeded));
        worker.stop().await;
        own.verify().await;
    }
}

#[tokio::test]
async fn what_was_enqueued_is_sent_by_the_worker_once_it_runs() {
    let sink = sink().await;
    for own in Own::both().await {
        let before = sink.accepted();
        let outbox = own.outbox(&sink.url()).await;
        let id = outbox.enqueue(an_email("ada")).await.unwrap();
        let entry = outbox.find(id).await.unwrap().unwrap();
        assert_eq!(entry.status, Status::Pending);
        let worker = outbox.start();
        worker.drain().await.unwrap();
        assert_eq!(sink.accepted(), before + 1);
        worker.stop().await;
        own.verify().await;
    }
}

#[tokio::test]
async fn one_key_is_one_email_however_it_is_handed_in() {
    let sink = sink().await;
    for own in Own::both().await {
        let before = sink.accepted();
        let outbox = own.outbox(&sink.url()).await;
        let email = || an_email("ada").message_key("booking-1");
        let first = outbox.send_or_enqueue(email()).await.unwrap();
        let second = outbox.send_or_enqueue(email()).await.unwrap();
        assert_eq!(first, second);
        assert_eq!(outbox.enqueue(email()).await.unwrap(), first.id());
        assert_eq!(sink.accepted(), before + 1);
        let other = email().subject("Another");
        let error = outbox.send_or_enqueue(other).await.unwrap_err();
        assert!(matches!(error, Error::KeyConflict(id) if id == first.id()));
        own.verify().await;
    }
}

#[tokio::test]
async fn with_nothing_to_keep_sent_mail_leaves_no_row() {
    let sink = sink().await;
    for own in Own::both().await {
        let outbox = own
            .builder()
            .smtp(sink.url())
            .keep_sent(Duration::ZERO)
            .open()
            .await
            .unwrap();
        let delivery = outbox.send_or_enqueue(an_email("ada")).await.unwrap();
        assert!(delivery.is_sent());
        assert_eq!(outbox.find(delivery.id()).await.unwrap(), None);
        own.verify().await;
    }
}

#[tokio::test]
async fn bad_input_names_every_field_and_keeps_nothing() {
    let own = Own::sqlite();
    let outbox = own.outbox(NOBODY).await;
    let email = posthaste::Email::new("nobody", "also nobody").subject("a\nb");
    let error = outbox.send_or_enqueue(email).await.unwrap_err();
    let Error::Invalid(errors) = &error else {
        panic!("{error}");
    };
    let fields: Vec<_> = errors.iter().map(|error| error.field.as_str()).collect();
    assert_eq!(fields, ["from", "to[0]", "subject", "text"]);
    assert!(error.to_string().contains("to[0]"), "{error}");
    assert_eq!(outbox.undelivered().await.unwrap(), []);
}

#[tokio::test]
async fn an_option_that_cannot_work_is_refused_by_name() {
    let own = Own::sqlite();
    let option = |error: Error| match error {
        Error::Option { option, .. } => option,
        other => panic!("{other}"),
    };
    let missing = own.builder().open().await;
    assert_eq!(option(missing.err().unwrap()), "smtp");
    let wrong = own.builder().smtp("mail.example.org").open().await;
    assert_eq!(option(wrong.err().unwrap()), "smtp");
    for path in [":memory:", "file:app.db?mode=memory", "sqlite:app.db", ""] {
        let opened = Outbox::sqlite(path).smtp(NOBODY).open().await;
        assert_eq!(option(opened.err().unwrap()), "sqlite", "{path}");
    }
    let none = own.builder().smtp(NOBODY).connections(0).open().await;
    assert_eq!(option(none.err().unwrap()), "connections");
    let policy = RetryPolicy::default().attempts(0);
    let never = own.builder().smtp(NOBODY).retry_policy(policy).open().await;
    assert_eq!(option(never.err().unwrap()), "retry_policy");
}

#[tokio::test]
async fn an_uncertain_email_waits_for_whoever_decides() {
    let sink = sink().await;
    for own in Own::both().await {
        let outbox = own
            .builder()
            .smtp(sink.url())
            .retry_policy(RetryPolicy::default().hold_uncertain())
            .open()
            .await
            .unwrap();
        let mut ids = Vec::new();
        for _ in 0..3 {
            let email = an_email("drop-after-dot");
            let delivery = outbox.send_or_enqueue(email).await.unwrap();
            assert!(
                matches!(delivery, Delivery::Uncertain { .. }),
                "{delivery:?}"
            );
            ids.push(delivery.id());
        }
        let counts = outbox.counts().await.unwrap();
        assert_eq!((counts.pending, counts.uncertain, counts.dead), (0, 3, 0));
        let resolutions = [Resolution::Sent, Resolution::Dead, Resolution::Retry];
        for (id, resolution) in ids.iter().zip(resolutions) {
            outbox.resolve(*id, resolution).await.unwrap();
        }
        let mut statuses = Vec::new();
        for id in &ids {
            statuses.push(outbox.find(*id).await.unwrap().unwrap().status);
        }
        assert_eq!(statuses, [Status::Sent, Status::Dead, Status::Pending]);
        let again = outbox.resolve(ids[0], Resolution::Retry).await;
        assert!(matches!(again, Err(Error::NotPossible(_))), "{again:?}");
        own.verify().await;
    }
}

#[cfg(feature = "calendar")]
#[tokio::test]
async fn the_same_invitation_made_again_is_the_same_email() {
    let own = Own::sqlite();
    let outbox = own.outbox(NOBODY).await;
    let invitation = |second: i64| {
        let at = posthaste::Timestamp::from_second(1_800_000_000).unwrap();
        let start = at.to_zoned(posthaste::calendar::jiff::tz::TimeZone::UTC);
        let end = &start + posthaste::calendar::jiff::SignedDuration::from_hours(1);
        let event = posthaste::calendar::Event::new("1@example.org", start, end)
            .summary("Pottery")
            .organizer("studio@example.org")
            .attendee("ada@example.org")
            .stamp(posthaste::Timestamp::from_second(second).unwrap());
        let email = an_email("ada").message_key("booking-1");
        email.calendar(event.request().unwrap())
    };
    let first = outbox.enqueue(invitation(1_700_000_000)).await.unwrap();
    let again = outbox.enqueue(invitation(1_700_000_001)).await.unwrap();
    assert_eq!(first, again);
}

#[tokio::test]
async fn many_processes_may_open_a_new_outbox_at_once() {
    for own in Own::both().await {
        let opening = (0..8).map(|_| own.builder().smtp(NOBODY).open());
        for opened in futures_util::future::join_all(opening).await {
            opened.unwrap();
        }
        own.verify().await;
    }
}

#[tokio::test]
async fn a_schema_may_have_the_name_of_a_keyword_but_no_other_odd_one() {
    let own = Own::postgres().await;
    let Own::Postgres(database) = &own else {
        unreachable!("it was just made");
    };
    // Only this test has a schema of this name.
    let drop = "DROP SCHEMA IF EXISTS \"order\" CASCADE";
    database.beside().await.batch_execute(drop).await.unwrap();
    let outbox = own
        .builder()
        .schema("order")
        .smtp(NOBODY)
        .open()
        .await
        .unwrap();
    outbox.enqueue(an_email("ada")).await.unwrap();
    outbox.close().await;
    database.beside().await.batch_execute(drop).await.unwrap();

    let wrong = own
        .builder()
        .schema("Order; DROP")
        .smtp(NOBODY)
        .open()
        .await;
    let error = wrong.unwrap_err().to_string();
    assert!(error.contains("plain name"), "{error}");
}

#[tokio::test]
async fn several_workers_on_one_outbox_send_each_email_once() {
    let sink = sink().await;
    for own in Own::both().await {
        let before = sink.accepted();
        let mut outboxes = Vec::new();
        for _ in 0..3 {
            outboxes.push(own.outbox(&sink.url()).await);
        }
        let workers: Vec<_> = outboxes.iter().map(Outbox::start).collect();
        for number in 0..60 {
            let outbox = &outboxes[number % outboxes.len()];
            outbox.enqueue(an_email("ada")).await.unwrap();
        }
        for worker in &workers {
            worker.drain().await.unwrap();
        }
        assert_eq!(sink.accepted(), before + 60);
        assert_eq!(sink.duplicates(), []);
        for worker in workers {
            worker.stop().await;
        }
        own.verify().await;
    }
}
