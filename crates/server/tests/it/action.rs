//! Acting on emails, and being refused.

use serde_json::json;

use crate::fixture::Server;

#[tokio::test]
async fn a_waiting_email_is_cancelled_once() {
    let server = Server::start();
    let id = server.accepted(json!({})).await;
    let path = format!("/v1/emails/{id}/cancel");
    let first = server.act("POST", &path).await;
    assert_eq!(first.status, 200, "{}", first.text());
    assert_eq!(
        first.json(),
        json!({"id": id, "status": "cancelled", "changed": true})
    );
    assert_eq!(server.act("POST", &path).await.status, 409, "it is over");
}

#[tokio::test]
async fn what_the_state_does_not_allow_is_409_and_says_what_to_do() {
    let server = Server::start();
    let sending = server.accepted(json!({})).await;
    server.begin(&sending).await;
    let pending = server.accepted(json!({})).await;
    let sent = server.sent(json!({})).await;
    let dead = server.dead(json!({})).await;
    let unknown = server.unknown(json!({})).await;
    for (id, action, advice) in [
        (&sending, "emails/ID/cancel", "right now"),
        (&sent, "emails/ID/cancel", "nothing left"),
        (&dead, "emails/ID/cancel", "discard"),
        (&unknown, "emails/ID/cancel", "/resolve"),
        (&sent, "emails/ID/retry", "new email"),
        (&sent, "dead-letters/ID/discard", "dead"),
        (&pending, "dead-letters/ID/discard", "/cancel"),
        (&unknown, "dead-letters/ID/discard", "/resolve"),
        (&sent, "dead-letters/ID/restore", "discarded"),
    ] {
        let path = format!("/v1/{}", action.replace("ID", id));
        let answer = server.act("POST", &path).await;
        let detail = answer.is_problem(409).json()["detail"].to_string();
        assert!(detail.contains(advice), "{path}: {detail}");
    }
    let path = format!("/v1/emails/{sent}/resolve");
    let answer = server.post(&path, &json!({"as": "sent"})).await;
    assert!(answer.is_problem(409).text().contains("unknown"));
    let answer = server
        .act("DELETE", &format!("/v1/emails/{pending}/content"))
        .await;
    assert!(
        answer
            .is_problem(409)
            .text()
            .contains("cancel it: POST /v1/emails/{id}/cancel.")
    );
}

#[tokio::test]
async fn a_dead_letter_is_discarded_restored_and_retried() {
    let server = Server::start();
    let id = server.dead(json!({})).await;
    for (action, status, changed) in [
        ("discard", "discarded", true),
        ("discard", "discarded", false),
        ("restore", "dead", true),
        ("retry", "pending", true),
        ("retry", "pending", false),
    ] {
        let answer = server
            .act("POST", &format!("/v1/dead-letters/{id}/{action}"))
            .await;
        assert_eq!(
            answer.json(),
            json!({"id": id, "status": status, "changed": changed}),
            "{action}"
        );
    }
    let shown = server.get(&format!("/v1/emails/{id}")).await.json();
    assert_eq!(
        (&shown["attempt_count"], &shown["last_error"]),
        (&json!(0), &json!(null))
    );
    assert_eq!(shown["attempts"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn an_uncertain_email_is_resolved() {
    let server = Server::start();
    for (resolution, status) in [("sent", "sent"), ("retry", "pending"), ("dead", "dead")] {
        let id = server.unknown(json!({})).await;
        let answer = server
            .post(
                &format!("/v1/emails/{id}/resolve"),
                &json!({"as": resolution}),
            )
            .await;
        assert_eq!(answer.json()["status"], status, "{}", answer.text());
    }
    let id = server.unknown(json!({})).await;
    for (body, field) in [
        (json!({"as": "maybe"}), "as"),
        (json!({}), "as"),
        (json!({"is": "sent"}), "is"),
    ] {
        let answer = server
            .post(&format!("/v1/emails/{id}/resolve"), &body)
            .await;
        assert_eq!(answer.is_problem(422).fields(), [field]);
    }
}

#[tokio::test]
async fn erased_content_is_gone_for_good() {
    let server = Server::start();
    let id = server.dead(json!({"subject": "secret subject"})).await;
    let path = format!("/v1/emails/{id}/content");
    let first = server.act("DELETE", &path).await;
    assert_eq!(
        (first.status.as_u16(), &first.json()["changed"]),
        (200, &json!(true))
    );
    assert_eq!(server.act("DELETE", &path).await.json()["changed"], false);
    let shown = server.get(&format!("/v1/emails/{id}")).await;
    assert!(
        !shown.text().contains("secret") && !shown.text().contains("ann@"),
        "{}",
        shown.text()
    );
    assert!(shown.json()["erased_at"].is_string());
    let retried = server.act("POST", &format!("/v1/emails/{id}/retry")).await;
    retried.is_problem(410);
    assert_eq!(server.get("/v1/stats").await.json()["dead_letters"], 1);
}

#[tokio::test]
async fn what_is_not_there_is_404() {
    let server = Server::start();
    let nobody = "01900000-0000-7000-8000-000000000000";
    for id in [nobody, "abc", "%ff", "1", "'%20OR%201=1"] {
        server
            .get(&format!("/v1/emails/{id}"))
            .await
            .is_problem(404);
        server
            .act("POST", &format!("/v1/emails/{id}/cancel"))
            .await
            .is_problem(404);
        server
            .act("POST", &format!("/v1/emails/{id}/retry"))
            .await
            .is_problem(404);
        server
            .act("DELETE", &format!("/v1/emails/{id}/content"))
            .await
            .is_problem(404);
        server
            .post(&format!("/v1/emails/{id}/resolve"), &json!({"as": "sent"}))
            .await
            .is_problem(404);
        for action in ["retry", "discard", "restore"] {
            server
                .act("POST", &format!("/v1/dead-letters/{id}/{action}"))
                .await
                .is_problem(404);
        }
    }
}
