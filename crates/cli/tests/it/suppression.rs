//! Addresses that get nothing any more: by API, by hand, and what it means for their mail.

use serde_json::{Value, json};

use crate::backend::{Backend, on_every_backend};
use crate::support::{a_sink, copies, email_to, get, outcomes, post, run, submit, until, verify};

on_every_backend! {
    mail_to_a_suppressed_address_is_dead_without_a_connection_until_it_is_removed,
    others_get_what_one_does_not,
}

async fn mail_to_a_suppressed_address_is_dead_without_a_connection_until_it_is_removed(
    backend: &Backend,
) {
    let sink = a_sink().await;
    let server = backend.sending_to(&sink).start().await;
    let wish = json!({"address": "Ann@example.org", "detail": "asked to be left alone"});
    let added = post(&server, "/v1/suppressions", &wish).await;
    assert_eq!(
        (added.status, &added.body["address"]),
        (201, &json!("ann@example.org"))
    );
    assert_eq!(added.body["reason"], "Suppressed", "{}", added.body);
    assert_eq!(
        post(&server, "/v1/suppressions", &wish).await.status,
        200,
        "it is there already"
    );
    let by_hand = run(
        &server,
        &[
            "suppressions",
            "add",
            "bob@example.org",
            "--detail",
            "moved",
        ],
    )
    .await;
    assert_eq!(by_hand.code, 0, "{}", by_hand.stderr);
    let wrong = post(&server, "/v1/suppressions", &json!({"address": "nobody"})).await;
    assert_eq!(
        (wrong.status, &wrong.body["errors"][0]["field"]),
        (422, &json!("address"))
    );
    assert_eq!(
        run(&server, &["suppressions", "add", "nobody"]).await.code,
        2
    );

    let listed = run(&server, &["suppressions", "list", "--json"])
        .await
        .stdout;
    let listed: Vec<Value> = listed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let addresses: Vec<_> = listed.iter().map(|entry| &entry["address"]).collect();
    assert_eq!(addresses, ["ann@example.org", "bob@example.org"]);
    assert_eq!(listed[0]["detail"], "asked to be left alone");
    let found = get(&server, "/v1/suppressions?q=bob").await.body;
    assert_eq!(found["data"].as_array().unwrap().len(), 1, "{found}");

    for to in ["ann@example.org", "ANN@EXAMPLE.ORG", "bob@example.org"] {
        let id = submit(&server, &email_to(to)).await;
        let dead = until(&server, &id, "dead").await;
        assert_eq!(dead["dead_reason"], "Suppressed", "{dead}");
        assert_eq!(outcomes(&dead), ["permanent"], "{dead}");
        assert!(dead["attempts"][0]["transport"].is_null(), "{dead}");
    }
    assert_eq!(sink.report().connections, 0);

    let path = "/v1/suppressions/ann@example.org";
    for status in [204, 404] {
        let request = server.request(reqwest::Method::DELETE, path);
        assert_eq!(server.answer(request).await.0.as_u16(), status);
    }
    for code in [0, 4] {
        let removed = run(&server, &["suppressions", "remove", "bob@example.org"]).await;
        assert_eq!(removed.code, code, "{}", removed.stderr);
    }
    for to in ["ann@example.org", "bob@example.org"] {
        let id = submit(&server, &email_to(to)).await;
        until(&server, &id, "sent").await;
        assert_eq!(copies(&sink, &id, to), 1);
    }
    verify(&server).await;
}

async fn others_get_what_one_does_not(backend: &Backend) {
    let sink = a_sink().await;
    let server = backend.sending_to(&sink).start().await;
    post(
        &server,
        "/v1/suppressions",
        &json!({"address": "ann@example.org"}),
    )
    .await;
    let mut email = email_to("ann@example.org");
    email["to"] = json!(["ann@example.org", "bob@example.org"]);
    let id = submit(&server, &email).await;
    let dead = until(&server, &id, "dead").await;
    assert_eq!(dead["dead_reason"], "Suppressed", "{dead}");
    assert_eq!(copies(&sink, &id, "bob@example.org"), 1);
    assert_eq!(copies(&sink, &id, "ann@example.org"), 0);
    let standing: Vec<_> = dead["recipients"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            (
                one["address"].as_str().unwrap(),
                one["status"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        standing,
        [("ann@example.org", "dead"), ("bob@example.org", "accepted")]
    );
    verify(&server).await;
}
