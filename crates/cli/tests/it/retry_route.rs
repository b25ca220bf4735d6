//! Retries on a route of their own.

use posthaste_testkit::Queues;

use crate::backend::Backend;
use crate::support::{FAR_AWAY, a_sink, email_to, submit, until, until_healthy, verify};

#[tokio::test]
async fn with_a_route_of_their_own_retries_go_there_and_first_attempts_do_not() {
    let backend = Backend::with_queues(Queues::fresh().with_retry_route()).await;
    let sink = a_sink().await;
    let process = || {
        backend
            .sending_to(&sink)
            .env("BACKOFF_SCHEDULE", "1h")
            .env(FAR_AWAY.0, FAR_AWAY.1)
    };
    let (queues, send, retry) = {
        let queues = backend.queues();
        (queues, queues.send(), queues.retry())
    };
    let api = process().role("api").start().await;
    until_healthy(&api).await;
    let id = submit(&api, &email_to("fail1@example.org")).await;
    queues.wait_for_count(&send, 1).await;
    assert_eq!(queues.count(&retry).await, 0);

    let mut sender = process().role("sender").start().await;
    until(&api, &id, "failed").await;
    assert_eq!(sender.terminate().await, Some(0));
    assert_eq!(backend.make_failed_due().await, 1);
    let _scheduler = process().role("scheduler").start().await;
    queues.wait_for_count(&retry, 1).await;
    assert_eq!(queues.count(&send).await, 0);
    until(&api, &id, "retry_queued").await;

    sender.restart(&[]).await;
    let sent = until(&api, &id, "sent").await;
    assert_eq!(sent["attempts"].as_array().unwrap().len(), 2);
    queues.wait_for_count(&retry, 0).await;
    verify(&api).await;
}
