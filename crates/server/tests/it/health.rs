//! Whether the server lives, and whether it is of use.

use std::sync::atomic::Ordering;

use serde_json::json;

use crate::fixture::Server;

#[tokio::test]
async fn a_server_that_is_well_says_so() {
    let server = Server::start();
    assert_eq!(server.get("/livez").await.text(), "ok\n");
    for path in ["/readyz", "/healthz"] {
        let answer = server.get(path).await;
        assert_eq!(answer.status, 200);
        assert_eq!(
            answer.json(),
            json!({"status": "ok", "store": "ok", "degraded": []})
        );
    }
}

#[tokio::test]
async fn a_transport_in_trouble_is_named_and_the_server_is_still_ready() {
    let server = Server::start();
    server.transport.in_trouble.store(true, Ordering::SeqCst);
    let answer = server.get("/readyz").await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json()["degraded"], json!(["transport closed"]));
    assert_eq!(answer.json()["status"], "degraded");
    assert!(
        !answer.text().contains("smtp.internal"),
        "no details for strangers"
    );
}
