//! The ways out on the operator's desk.

use posthaste_core::admin::Role;
use serde_json::json;

use crate::browser::Browser;
use crate::fixture::{Server, with_key};

const PATH: &str = "/admin/transports";

#[track_caller]
fn contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

/// The page as soon as it has this part: numbers are read about once a second, for all who look.
async fn once(server: &Server, path: &str, part: &str) -> String {
    loop {
        let text = server.get(path).await.text();
        if text.contains(part) {
            return text;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn the_page_says_how_each_transport_does() {
    let server = Server::start();
    let text = server.get(PATH).await.text();
    contains(
        &text,
        &[
            "<h1>Transports</h1>",
            "closed <span class=\"pill good\">",
            "12 per second, 3 at the same time",
            "backup, default",
            "tells us later what became of emails",
            "Pause",
            "aria-current=\"page\"",
        ],
    );
    assert!(!text.contains("Probe Now") && !text.contains("Resume"));
    server.stop("closed").await;
    server.stop("closed@example.net").await;
    server.parked("closed").await;
    let text = server.get(PATH).await.text();
    contains(
        &text,
        &[
            "closed <span class=\"pill bad\">",
            "421 4.3.2 &lt;b&gt;down&lt;/b&gt;",
            "data-countdown=",
            "1 email, the oldest could have been tried",
            "Probe Now",
            "Domains in trouble",
            "/admin/transports/closed@example.net/pause",
        ],
    );
}

#[tokio::test]
async fn an_operator_pauses_and_resumes_and_a_viewer_only_looks() {
    let server = Server::start();
    let olga = Browser::logged_in(&server, "olga", Role::Operator).await;
    let paused = olga.post("/admin/transports/closed/pause", &[]).await;
    assert_eq!(
        (paused.status.as_u16(), paused.header("location")),
        (303, PATH)
    );
    let text = olga.get(PATH).await.text();
    contains(
        &text,
        &["pill odd", "Paused by admin:olga", "/closed/resume"],
    );
    assert!(!text.contains("/closed/pause"), "it is");
    let overview = olga.get("/admin").await.text();
    contains(&overview, &["closed is paused by admin:olga"]);
    let vera = Browser::logged_in(&server, "vera", Role::Viewer).await;
    let text = vera.get(PATH).await.text();
    assert!(
        text.contains("Paused by admin:olga") && !text.contains("<button>Resume"),
        "{text}"
    );
    assert!(!text.contains("/closed/resume"));
    assert_eq!(
        olga.post("/admin/transports/closed/resume", &[])
            .await
            .status,
        303
    );
    contains(
        &olga.get(PATH).await.text(),
        &["pill warn", "It takes up again"],
    );
    assert_eq!(
        olga.post("/admin/transports/nobody/pause", &[])
            .await
            .status,
        404
    );
}

#[tokio::test]
async fn the_overview_says_above_all_what_mail_waits_for() {
    let server = Server::start();
    server.sent(json!({})).await;
    let text = once(&server, "/admin", "All mail is delivered or on its way").await;
    assert!(!text.contains("Waiting for closed"));
    server.stop("closed").await;
    server.parked("closed").await;
    server.parked("closed").await;
    server.stop("spare@example.net").await;
    let text = once(&server, "/admin", "Waiting for closed: 2 emails").await;
    contains(
        &text,
        &[
            "; next probe <time",
            "data-countdown=\"",
            "example.net by spare is stopped",
            "2 wait for a way out",
            "<span class=\"badge\">1<span class=\"hidden\"> transports in trouble</span>",
        ],
    );
    assert!(!text.contains("All mail is delivered"));
}

#[tokio::test]
async fn whoever_sees_only_their_own_emails_hears_nothing_of_others() {
    let server = Server::start();
    server.sent(json!({})).await;
    server.stop("closed").await;
    server.stop("spare@example.net").await;
    let (_, ann) = server.key("ann", &["read"]).await;
    assert_eq!(server.send(with_key("GET", PATH, &ann)).await.status, 403);
    let overview = server.send(with_key("GET", "/admin", &ann)).await.text();
    assert!(overview.contains("closed is stopped") && !overview.contains("example.net"));
}

#[tokio::test]
async fn settings_say_which_routes_take_which_transports() {
    let server = Server::start();
    let text = server.get("/admin/settings").await.text();
    contains(
        &text,
        &[
            "<h2>Ways out</h2>",
            "closed, then spare",
            "12 per second, 3 at the same time",
            "/v1/provider-events/closed",
        ],
    );
}
