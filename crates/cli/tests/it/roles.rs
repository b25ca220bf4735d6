//! The roles in processes of their own, and several of each.

use posthaste_testkit::Queues;
use serde_json::json;

use crate::backend::Backend;
use crate::fleet::{Fleet, submit_many};
use crate::support::{a_sink, copies, email_to, get, metric, outcomes, post, until, verify};

#[tokio::test]
async fn three_processes_on_postgres_and_rabbitmq_deliver_mail_and_retries() {
    let backend = Backend::with_queues(Queues::fresh().quorum()).await;
    let fleet = three_processes_deliver_mail_and_retries(&backend).await;
    // Nobody but the scheduler brings retries back.
    assert!(metric(&fleet.scheduler, "posthaste_retries_requeued_total").await >= 15.0);
    assert_eq!(
        metric(&fleet.sender, "posthaste_retries_requeued_total").await,
        0.0
    );
}

#[tokio::test]
async fn three_processes_on_postgres_alone_deliver_mail_and_retries() {
    three_processes_deliver_mail_and_retries(&Backend::postgres().await).await;
}

async fn three_processes_deliver_mail_and_retries(backend: &Backend) -> Fleet {
    let sink = a_sink().await;
    let fleet = Fleet::start(|| {
        backend
            .sending_to(&sink)
            .env("LEASE_SECONDS", "30")
            .env("POSTHASTE_SENDER__WORKER", "the sender")
    })
    .await;
    let kinds = ["ann", "fail1"];
    let recipients = || (0..30).map(|n| format!("{}+{n}@example.org", kinds[n % 2]));
    let ids = submit_many(&fleet.api, recipients()).await;
    for (id, recipient) in ids.iter().zip(recipients()) {
        let sent = until(&fleet.api, id, "sent").await;
        let expected: &[&str] = match recipient.starts_with("fail1") {
            true => &["transient", "sent"],
            false => &["sent"],
        };
        assert_eq!(outcomes(&sent), expected, "{recipient}");
        assert_eq!(sent["attempts"][0]["worker"], "the sender");
        assert_eq!(copies(&sink, id, &recipient), 1, "{recipient}");
    }
    verify(&fleet.api).await;
    fleet
}

#[tokio::test]
async fn a_process_without_api_serves_health_and_metrics_only() {
    let (backend, sink) = (Backend::postgres_and_rabbitmq().await, a_sink().await);
    let fleet = Fleet::start(|| backend.sending_to(&sink)).await;
    for process in [&fleet.sender, &fleet.scheduler] {
        for path in ["/v1/emails", "/v1/stats", "/v1/dead-letters", "/admin"] {
            assert_eq!(get(process, path).await.status, 404, "{path}");
        }
        let refused = post(process, "/v1/emails", &email_to("ann@example.org")).await;
        assert_eq!(refused.status, 404, "{}", refused.body);
        for path in ["/livez", "/readyz", "/healthz", "/metrics"] {
            assert_eq!(get(process, path).await.status, 200, "{path}");
        }
    }
    assert_eq!(get(&fleet.api, "/v1/emails").await.body["data"], json!([]));
}

#[tokio::test]
async fn three_instances_of_everything_send_what_one_would() {
    three_instances(&Backend::postgres_and_rabbitmq().await).await;
}

#[tokio::test]
async fn three_instances_of_everything_on_postgres_alone_send_what_one_would() {
    three_instances(&Backend::postgres().await).await;
}

async fn three_instances(backend: &Backend) {
    let sink = a_sink().await;
    let start = || backend.sending_to(&sink).env("LEASE_SECONDS", "30").start();
    let (a, b, c) = tokio::join!(start(), start(), start());
    let instances = [&a, &b, &c];
    let kinds = ["ann", "fail1", "fail2", "slow20"];
    let mut ids = Vec::new();
    for (n, instance) in instances.iter().enumerate() {
        let recipients = (0..80).map(|m| format!("{}+{n}-{m}@example.org", kinds[m % 4]));
        ids.extend(submit_many(instance, recipients).await);
    }
    for (n, id) in ids.iter().enumerate() {
        let sent = until(instances[n % 3], id, "sent").await;
        let failures = match n % 4 {
            1 => 1,
            2 => 2,
            _ => 0,
        };
        assert_eq!(sent["attempt_count"], failures, "{sent}");
        assert_eq!(
            outcomes(&sent).len(),
            1 + usize::try_from(failures).unwrap()
        );
    }
    assert_eq!(sink.report().messages, 240);
    assert!(sink.duplicates().is_empty());
    verify(&a).await;
}
