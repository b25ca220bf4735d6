//! What operators see of messages and do to them, by the command line and by the API, while the
//! lane runs in a process of its own or beside everything else.

use posthaste_broker::RetryMessage;
use posthaste_testkit::process::Posthaste;
use serde_json::{Value, json};

use crate::backend::{Backend, on_both_stores};
use crate::messages_support::{
    a_failure, a_service, assert_copy, hand_in, patient, start_lane, take_one,
};
use crate::support::{get, post, run, until_healthy, verify};

on_both_stores! {
    a_message_retried_by_the_command_line_is_put_back_at_once,
    a_message_in_review_is_retried_with_a_fresh_budget,
    a_discarded_message_stays_where_it_is_until_it_is_retried,
    exit_codes_tell_what_happened_to_messages,
    lists_are_filtered_and_come_in_pages,
}

/// Hands in a message that waits for an hour.
async fn waiting(backend: &Backend, queue: &str) -> RetryMessage {
    let failure = a_failure(queue);
    hand_in(backend, &failure).await;
    let id = &failure.message_id;
    backend.until_message_is(id, "pending").await;
    failure
}

/// Hands in a message whose retries are used up.
async fn in_review(backend: &Backend, queue: &str) -> RetryMessage {
    let mut failure = a_failure(queue);
    failure.retry_count = 3;
    hand_in(backend, &failure).await;
    let aside = take_one(backend, &backend.queues().review()).await;
    assert_copy(&aside, &failure, 3);
    let id = &failure.message_id;
    backend.until_message_is(id, "failed").await;
    failure
}

/// Runs a command that answers with a line of JSON for each thing.
async fn lines(server: &Posthaste, arguments: &[&str]) -> Vec<Value> {
    let output = run(server, &[arguments, &["--json"]].concat()).await;
    assert_eq!(output.code, 0, "{}", output.stderr);
    let line = |line: &str| serde_json::from_str(line).unwrap();
    output.stdout.lines().map(line).collect()
}

/// Action, subject and result of what operators did, latest first.
async fn audited(server: &Posthaste) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let entries = lines(server, &["audit"]).await;
    let entry = |entry: &Value| {
        let actor = text(&entry["actor"]);
        assert!(actor.starts_with("cli:") || actor == "loopback", "{actor}");
        (
            text(&entry["action"]),
            text(&entry["subject"]),
            text(&entry["result"]),
        )
    };
    entries.iter().map(entry).collect()
}

fn entry(action: &str, failure: &RetryMessage, result: &str) -> (String, String, String) {
    (action.into(), failure.message_id.clone(), result.into())
}

/// Nobody looks for an hour: the lane must be told by the other process.
async fn a_message_retried_by_the_command_line_is_put_back_at_once(backend: &Backend) {
    let queue = a_service(backend).await;
    let lane = start_lane(patient(backend)).await;
    let failure = waiting(backend, &queue).await;
    assert_eq!(backend.queues().count(&queue).await, 0);

    let done = lines(&lane, &["messages", "retry", &failure.message_id]).await;

    let id = &failure.message_id;
    assert_eq!(
        done,
        [json!({"id": id, "action": "retry_message", "result": "done"})]
    );
    assert_copy(&take_one(backend, &queue).await, &failure, 1);
    let row = backend.until_message_is(id, "retried").await;
    assert_eq!((row.retry_count, row.repeats), (1, 0));
    let audited = audited(&lane).await;
    assert_eq!(audited, [entry("retry_message", &failure, "pending")]);
    verify(&lane).await;
}

async fn a_message_in_review_is_retried_with_a_fresh_budget(backend: &Backend) {
    let queue = a_service(backend).await;
    let lane = start_lane(patient(backend)).await;
    let failure = in_review(backend, &queue).await;
    let id = failure.message_id.as_str();
    let listed = lines(&lane, &["messages", "list", "--status", "failed"]).await;
    assert_eq!(listed[0]["id"], id);
    assert_eq!(listed[0]["status_text"], "In manual review");
    let reason = "MaxRetriesExceeded: 3 of 3 retries were made";
    assert_eq!(listed[0]["last_error"], reason);

    lines(&lane, &["messages", "retry", id]).await;

    assert_copy(&take_one(backend, &queue).await, &failure, 1);
    let row = backend.until_message_is(id, "retried").await;
    assert_eq!((row.retry_count, row.max_retries), (1, 3));
    assert_eq!(row.last_error, None);
    verify(&lane).await;
}

async fn a_discarded_message_stays_where_it_is_until_it_is_retried(backend: &Backend) {
    let queue = a_service(backend).await;
    let lane = start_lane(patient(backend)).await;
    let failure = waiting(backend, &queue).await;
    let other = waiting(backend, &queue).await;
    let id = failure.message_id.as_str();

    for result in ["done", "unchanged"] {
        let acted = lines(&lane, &["messages", "discard", id]).await;
        assert_eq!(acted[0]["result"], result);
    }

    backend.until_message_is(id, "discarded").await;
    // What comes after it goes past it.
    lines(&lane, &["messages", "retry", &other.message_id]).await;
    assert_copy(&take_one(backend, &queue).await, &other, 1);
    let row = backend.find_message(id).await.unwrap();
    assert_eq!((row.status.as_str(), row.retry_count), ("discarded", 0));
    lines(&lane, &["messages", "retry", id]).await;
    assert_copy(&take_one(backend, &queue).await, &failure, 1);
    backend.until_message_is(id, "retried").await;
    let audited = audited(&lane).await;
    let expected = [
        entry("retry_message", &failure, "pending"),
        entry("retry_message", &other, "pending"),
        entry("discard_message", &failure, "unchanged"),
        entry("discard_message", &failure, "discarded"),
    ];
    assert_eq!(audited, expected);
    verify(&lane).await;
}

async fn exit_codes_tell_what_happened_to_messages(backend: &Backend) {
    let queue = a_service(backend).await;
    let lane = start_lane(patient(backend)).await;
    let waits = waiting(backend, &queue).await.message_id;
    let gone = waiting(backend, &queue).await.message_id;
    let nobody = a_failure(&queue).message_id;
    let code =
        async |arguments: &[&str]| run(&lane, &[&["messages"], arguments].concat()).await.code;
    assert_eq!(code(&["retry", &gone]).await, 0);
    backend.until_message_is(&gone, "retried").await;
    for (arguments, expected) in [
        (&["show", &waits][..], 0),
        (&["list", "--status", "failed"], 0),
        (&["retry", &gone], 1),
        (&["discard", &gone], 1),
        (&["retry", "4711"], 2),
        (&["list", "--status", "lost"], 2),
        (&["show", &nobody], 4),
        (&["discard", &nobody], 4),
        (&["discard", &waits, &gone, &nobody], 5),
        (&["discard", &waits], 0),
    ] {
        assert_eq!(code(arguments).await, expected, "{arguments:?}");
    }
    let refused = run(&lane, &["messages", "retry", &gone]).await;
    let reason = "it was republished; it comes back if it fails again";
    assert!(refused.stdout.contains(reason), "{}", refused.stdout);
    verify(&lane).await;
}

async fn lists_are_filtered_and_come_in_pages(backend: &Backend) {
    let queue = a_service(backend).await;
    let lane = start_lane(patient(backend)).await;
    let other = backend.queues().of_service("others");
    let mut ids = Vec::new();
    for queue in [&queue, &queue, &other, &queue] {
        ids.push(waiting(backend, queue).await.message_id);
    }
    lines(&lane, &["messages", "discard", &ids[0]]).await;
    let listed = async |arguments: &[&str]| -> Vec<Value> {
        let listed = lines(&lane, &[&["messages", "list"], arguments].concat()).await;
        listed
            .into_iter()
            .map(|message| message["id"].clone())
            .collect()
    };
    assert_eq!(listed(&[]).await, [&ids[3][..], &ids[2], &ids[1], &ids[0]]);
    assert_eq!(
        listed(&["--status", "pending,retried", "--queue", &queue]).await,
        [&ids[3][..], &ids[1]]
    );
    assert_eq!(listed(&["--status", "discarded"]).await, [&ids[0][..]]);
    assert_eq!(listed(&["--queue", "nobody"]).await, Vec::<Value>::new());
    let output = run(&lane, &["messages", "list", "--limit", "3"]).await;
    for (n, id) in ids.iter().enumerate() {
        assert_eq!(output.stdout.contains(id), n > 0, "{}", output.stdout);
    }
    let (_, next) = output
        .stderr
        .split_once("There are more: --after ")
        .unwrap();
    assert_eq!(listed(&["--after", next.trim()]).await, [&ids[0][..]]);
    verify(&lane).await;
}

#[tokio::test]
async fn the_api_of_another_process_shows_retries_and_discards_messages() {
    let backend = Backend::postgres_and_rabbitmq().await;
    let queue = a_service(&backend).await;
    let (lane, api) = tokio::join!(
        start_lane(patient(&backend)),
        patient(&backend).role("api").start()
    );
    until_healthy(&api).await;
    let failure = waiting(&backend, &queue).await;
    let other = waiting(&backend, &queue).await;
    let path = |failure: &RetryMessage| format!("/v1/messages/{}", failure.message_id);
    let act = async |failure: &RetryMessage, action: &str| {
        let answer = post(&api, &format!("{}/{action}", path(failure)), &Value::Null).await;
        (answer.status, answer.body)
    };
    let shown = get(&api, &path(&failure)).await;
    assert_eq!(shown.status, 200);
    assert_eq!(shown.body["payload_text"], r#"{"order": 4711}"#);
    assert_eq!(shown.body["status_text"], "Waiting (retry 1 of 3)");

    let (status, body) = act(&failure, "retry").await;
    assert_eq!((status, &body["changed"]), (200, &json!(true)), "{body}");
    let (status, body) = act(&other, "discard").await;
    assert_eq!(
        (status, &body["status"]),
        (200, &json!("discarded")),
        "{body}"
    );

    assert_copy(&take_one(&backend, &queue).await, &failure, 1);
    backend
        .until_message_is(&failure.message_id, "retried")
        .await;
    let (status, body) = act(&failure, "retry").await;
    assert_eq!(status, 409, "{body}");
    assert_eq!(act(&a_failure(&queue), "retry").await.0, 404);
    let listed = get(&api, "/v1/messages?status=retried").await.body;
    assert_eq!(listed["data"][0]["id"], failure.message_id.as_str());
    let expected = [
        entry("retry_message", &failure, "refused"),
        entry("discard_message", &other, "discarded"),
        entry("retry_message", &failure, "pending"),
    ];
    assert_eq!(audited(&lane).await, expected);
    verify(&api).await;
}
