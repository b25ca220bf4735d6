//! Dead letters and operations as an operator sees and treats them.

use posthaste_core::admin::Role;
use posthaste_core::port::{DeskStore as _, OperationStore as _};
use serde_json::{Value, json};

use crate::browser::Browser;
use crate::fixture::Server;

async fn dead_letters(server: &Server, count: usize) -> Vec<String> {
    let mut ids = Vec::new();
    for n in 0..count {
        let subject = format!("Invoice {n}");
        ids.push(server.dead(json!({"subject": subject})).await);
    }
    ids
}

async fn operations(server: &Server) -> Vec<Value> {
    let found = server.store.operations(100, None).await.unwrap();
    let told = |operation: &posthaste_core::operation::Operation| {
        json!([
            operation.action.as_str(),
            operation.total,
            operation.rate_per_second
        ])
    };
    found.iter().map(told).collect()
}

#[tokio::test]
async fn a_desk_without_dead_letters_says_that_all_is_well() {
    let server = Server::start();
    let operator = Browser::logged_in(&server, "olga", Role::Operator).await;
    let page = operator.get("/admin/dead-letters").await.text();
    assert!(page.contains("empty good") && page.contains("No dead letters"));
    let page = operator.get("/admin/operations").await.text();
    assert!(page.contains("No operation yet"));
}

#[tokio::test]
async fn a_group_is_retried_after_a_question_that_names_the_number() {
    let server = Server::start();
    dead_letters(&server, 3).await;
    let operator = Browser::logged_in(&server, "olga", Role::Operator).await;
    let groups = server.store.dead_groups(None).await.unwrap();
    let page = operator.get("/admin/dead-letters").await.text();
    assert!(page.contains("Retry group") && page.contains("Discard group"));
    assert!(page.contains("Retry Now") && page.contains("550 5.1.1 no such user"));
    let which = [
        ("all", "yes"),
        ("fingerprint", groups[0].fingerprint.as_str()),
    ];
    let asked = [&which[..], &[("action", "retry")]].concat();
    let question = operator.post("/admin/operations/confirm", &asked).await;
    assert_eq!(question.status, 200, "{}", question.text());
    assert!(question.text().contains("Retry 3 dead letters?"));
    assert_eq!(operations(&server).await, Vec::<Value>::new(), "only asked");

    let paced = [&asked[..], &[("rate", "10")]].concat();
    let begun = operator.post("/admin/operations", &paced).await;
    assert_eq!(begun.status, 303, "{}", begun.text());
    assert_eq!(operations(&server).await, [json!(["retry", 3, 10])]);
    let path = begun.header("location").to_owned();
    server.store.advance_operation(500).await.unwrap();
    let page = operator.get(&path).await.text();
    assert!(
        page.contains("1 of 3") && page.contains("Running"),
        "{page}"
    );
    for (change, shown) in [
        ("pause", "Paused"),
        ("resume", "Running"),
        ("cancel", "Cancelled"),
    ] {
        let changed = operator.post(&format!("{path}/{change}"), &[]).await;
        assert_eq!(changed.status, 303, "{}", changed.text());
        assert!(operator.get(&path).await.text().contains(shown));
    }
    let page = operator.get(&path).await.text();
    assert!(page.contains("2 were not treated"), "{page}");
    assert!(!page.contains(">Resume<"), "it is over");
}

#[tokio::test]
async fn selected_rows_are_treated_and_no_selection_is_not_all() {
    let server = Server::start();
    let ids = dead_letters(&server, 3).await;
    let operator = Browser::logged_in(&server, "olga", Role::Operator).await;
    let nothing = operator
        .post("/admin/operations/confirm", &[("action", "discard")])
        .await;
    assert_eq!(nothing.header("location"), "/admin/dead-letters");
    let refused = operator
        .post("/admin/operations", &[("action", "discard")])
        .await;
    assert_eq!(refused.status, 422);
    let selected = [
        ("action", "discard"),
        ("id", ids[0].as_str()),
        ("id", ids[2].as_str()),
    ];
    let question = operator.post("/admin/operations/confirm", &selected).await;
    assert!(question.text().contains("Discard 2 dead letters?"));
    operator.post("/admin/operations", &selected).await;
    assert_eq!(operations(&server).await, [json!(["discard", 2, null])]);
    server.store.advance_operation(500).await.unwrap();
    let page = operator.get("/admin/dead-letters/discarded").await.text();
    assert!(page.contains("Invoice 0") && page.contains("Restore"));
    assert!(!page.contains("Invoice 1"));
    let again = operator.post("/admin/operations/confirm", &selected).await;
    assert_eq!(again.status, 303, "none of them is dead any more");
}

#[tokio::test]
async fn a_viewer_sees_dead_letters_and_no_buttons() {
    let server = Server::start();
    dead_letters(&server, 2).await;
    let viewer = Browser::logged_in(&server, "vera", Role::Viewer).await;
    let page = viewer.get("/admin/dead-letters?q=Invoice").await.text();
    assert!(page.contains("Invoice 1"));
    for name in ["Retry Now", "Retry group", "Discard", "checkbox"] {
        let button = format!(">{name}");
        assert!(!page.replace(">Discarded", "").contains(&button), "{name}");
    }
}
