//! Tickets that another program published, and messages that are no tickets.

use posthaste_sink::Sink;
use posthaste_testkit::process::Posthaste;

use crate::backend::Backend;
use crate::fleet::submit_many;
use crate::support::{FAR_AWAY, a_sink, copies, get, until, until_healthy, verify};

/// An API whose tickets are all lost, and the emails.
async fn accepted_without_tickets(
    backend: &Backend,
    sink: &Sink,
    recipients: &[&str],
) -> (Posthaste, Vec<String>) {
    let api = backend.sending_to(sink).env(FAR_AWAY.0, FAR_AWAY.1);
    let api = api.role("api").start().await;
    until_healthy(&api).await;
    let ids = submit_many(&api, recipients.iter().map(|to| (*to).to_owned())).await;
    let (queues, count) = (backend.queues(), u32::try_from(ids.len()).unwrap());
    queues.wait_for_count(&queues.send(), count).await;
    assert_eq!(queues.purge_tickets().await, count);
    (api, ids)
}

async fn a_sender(backend: &Backend, sink: &Sink) -> Posthaste {
    let sender = backend.sending_to(sink).env(FAR_AWAY.0, FAR_AWAY.1);
    sender.role("sender").start().await
}

#[tokio::test]
async fn a_ticket_of_another_program_that_only_has_an_id_is_served_at_once() {
    let (backend, sink) = (Backend::postgres_and_rabbitmq().await, a_sink().await);
    let recipients = ["ann@example.org", "bob@example.org", "cid@example.org"];
    let (api, ids) = accepted_without_tickets(&backend, &sink, &recipients).await;
    let _sender = a_sender(&backend, &sink).await;
    let queues = backend.queues();
    for (id, name) in ids.iter().zip(["EmailId", "email_id"]) {
        let ticket = format!(r#"{{"{name}":"{id}"}}"#);
        queues.publish(&queues.send(), ticket.as_bytes()).await;
        until(&api, id, "sent").await;
    }
    assert_eq!(copies(&sink, &ids[0], recipients[0]), 1);
    assert_eq!(copies(&sink, &ids[1], recipients[1]), 1);
    // The one without a ticket shows that the tickets were the reason.
    let waiting = get(&api, &format!("/v1/emails/{}", ids[2])).await;
    assert_eq!(waiting.body["status"], "pending");
    verify(&api).await;
}

#[tokio::test]
async fn doubled_forged_and_late_tickets_send_nothing_twice() {
    let (backend, sink) = (Backend::postgres_and_rabbitmq().await, a_sink().await);
    let recipients = ["ann@example.org", "bob@example.org"];
    let (api, ids) = accepted_without_tickets(&backend, &sink, &recipients).await;
    let (queues, send) = (backend.queues(), backend.queues().send());
    let ticket = |id: &str| format!(r#"{{"email_id":"{id}"}}"#).into_bytes();
    let nobody = "0198a000-0000-7000-8000-000000000000";
    for id in [nobody, &ids[0], &ids[0], nobody, &ids[0]] {
        queues.publish(&send, &ticket(id)).await;
    }
    let mut sender = a_sender(&backend, &sink).await;
    until(&api, &ids[0], "sent").await;
    for id in [&ids[0], &ids[0], &ids[1]] {
        queues.publish(&send, &ticket(id)).await;
    }
    until(&api, &ids[1], "sent").await;
    // Whatever it still held would be given back.
    assert_eq!(sender.terminate().await, Some(0));
    queues.wait_for_count(&send, 0).await;
    assert_eq!(copies(&sink, &ids[0], recipients[0]), 1);
    assert_eq!(sink.report().messages, 2);
    verify(&api).await;
}

#[tokio::test]
async fn what_is_no_ticket_lands_in_review_as_it_was_and_neighbours_flow() {
    let (backend, sink) = (Backend::postgres_and_rabbitmq().await, a_sink().await);
    let recipients = ["ann@example.org", "bob@example.org"];
    let (api, ids) = accepted_without_tickets(&backend, &sink, &recipients).await;
    let (queues, send) = (backend.queues(), backend.queues().send());
    let poison: [&[u8]; 4] = [
        b"\xff\x00 no ticket {",
        b"{}",
        br#"{"email_id":"me"}"#,
        br#"["EmailId"]"#,
    ];
    for bytes in [poison[0], poison[1]] {
        queues.publish(&send, bytes).await;
    }
    for id in &ids {
        let ticket = format!(r#"{{"EmailId":"{id}"}}"#);
        queues.publish(&send, ticket.as_bytes()).await;
    }
    for bytes in [poison[2], poison[3]] {
        queues.publish(&send, bytes).await;
    }
    let mut sender = a_sender(&backend, &sink).await;
    for id in &ids {
        until(&api, id, "sent").await;
    }
    let put_aside = queues.take_many(&queues.review(), poison.len()).await;
    let mut bodies: Vec<_> = put_aside.iter().map(|m| m.body.as_slice()).collect();
    let mut expected = poison;
    bodies.sort_unstable();
    expected.sort_unstable();
    assert_eq!(bodies, expected);
    for message in &put_aside {
        assert_eq!(message.headers["x-original-queue"], send);
        assert!(!message.headers["x-error-reason"].is_empty());
    }
    assert_eq!(sender.terminate().await, Some(0));
    queues.wait_for_count(&send, 0).await;
    assert_eq!(queues.count(&queues.review()).await, 0, "each once");
    verify(&api).await;
}
