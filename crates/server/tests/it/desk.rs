//! The operator's desk: what its screens say, and what its buttons do.

use serde_json::json;

use crate::fixture::Server;

async fn page(server: &Server, path: &str) -> String {
    let answer = server.get(path).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.text()
}

#[tokio::test]
async fn every_screen_is_there_when_nothing_ever_happened() {
    let server = Server::start();
    for path in [
        "/admin",
        "/admin/emails",
        "/admin/dead-letters",
        "/admin/uncertain",
        "/admin/email-queue",
        "/admin/messages",
        "/admin/operations",
        "/admin/transports",
        "/admin/suppressions",
        "/admin/templates",
        "/admin/audit",
        "/admin/inbox",
        "/admin/settings",
    ] {
        let text = page(&server, path).await;
        assert!(text.contains("<h1>"), "{path} has no heading");
        assert!(
            text.contains("aria-current=\"page\""),
            "{path} is not in the navigation"
        );
    }
}

#[tokio::test]
async fn filters_stand_in_the_address_and_in_the_links_to_older_entries() {
    let server = Server::start();
    for n in 0..3 {
        server
            .dead(json!({"subject": format!("Invoice {n}")}))
            .await;
    }
    server.sent(json!({"subject": "Welcome"})).await;
    let text = page(&server, "/admin/emails?status=dead&limit=2&q=Invoice").await;
    assert!(text.contains("Invoice 2") && text.contains("Invoice 1"));
    assert!(!text.contains("Invoice 0") && !text.contains(">Welcome<"));
    assert!(
        text.contains("/admin/emails?status=dead&amp;q=Invoice&amp;after="),
        "{text}"
    );
    let answer = server.get("/admin/emails?status=lost").await;
    assert_eq!(answer.status, 422, "{}", answer.text());
}

#[tokio::test]
async fn the_overview_warns_by_words_and_signs_and_the_navigation_by_a_number() {
    let server = Server::start();
    server.sent(json!({})).await;
    let text = page(&server, "/admin").await;
    assert!(text.contains("All mail is delivered or on its way"));
    assert!(!text.contains("class=\"badge\""));
    server.dead(json!({"subject": "Invoice"})).await;
    // Numbers are read about once a second, for all who look.
    let text = loop {
        let text = page(&server, "/admin").await;
        if !text.contains("All mail is delivered") {
            break text;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    assert!(text.contains("<span class=\"badge\">1<span class=\"hidden\"> dead letters</span>"));
    assert!(text.contains("50.0 %"), "the success rate");
}

#[tokio::test]
async fn the_page_of_an_email_tells_each_attempt_and_what_can_be_done() {
    let server = Server::start();
    let id = server.dead(json!({"subject": "Invoice"})).await;
    let text = page(&server, &format!("/admin/emails/{id}")).await;
    for part in [
        "Failed (moved to dead letter queue)",
        "Attempt 1",
        "failed for good",
        "550 5.1.1 no such user",
        "at the stage <code>rcpt</code>",
        "by closed",
        "HardBounce",
        "Retry Now",
        "Discard",
        "Download .eml",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    let file = server.get(&format!("/admin/emails/{id}/download")).await;
    assert_eq!(file.headers["content-type"], "message/rfc822");
    let name = format!("attachment; filename=\"{id}.eml\"");
    assert_eq!(file.headers["content-disposition"], name.as_str());
    assert!(file.text().contains("Subject: Invoice"));
}

#[tokio::test]
async fn erased_content_is_gone_from_every_view() {
    let server = Server::start();
    let id = server.sent(json!({"html": "<p>secret</p>"})).await;
    server
        .act("DELETE", &format!("/v1/emails/{id}/content"))
        .await;
    let text = page(&server, &format!("/admin/emails/{id}")).await;
    assert!(text.contains("were erased") && !text.contains("Download .eml"));
    for view in ["html", "source", "download"] {
        let answer = server.get(&format!("/admin/emails/{id}/{view}")).await;
        assert_eq!(answer.status, 410, "{view}");
    }
}

#[tokio::test]
async fn assets_may_be_kept_and_pages_may_not() {
    let server = Server::start();
    let text = page(&server, "/admin").await;
    let from = text.find("/admin/assets/desk.css?").unwrap();
    let address = text[from..].split('"').next().unwrap();
    let style = server.get(address).await;
    assert!(
        style.headers["cache-control"]
            .to_str()
            .unwrap()
            .contains("immutable")
    );
    assert_eq!(
        server.get("/admin").await.headers["cache-control"],
        "no-store"
    );
    assert_eq!(server.get("/admin/assets/other.css").await.status, 404);
}
