//! The dev inbox shows mail without being harmed by it.

use axum::body::Bytes;
use posthaste_core::port::{Captured, DeskStore as _, InboxStore as _, Store as _};
use serde_json::{Value, json};

use crate::fixture::{Server, with_key};

/// Hands an email in and captures it, as the capture transport would.
async fn captured(server: &Server, patch: Value) -> String {
    let id = server.sent(patch).await;
    let email_id = id.parse().unwrap();
    let content = server.store.content(email_id).await.unwrap().unwrap();
    capture(server, &id, content).await;
    id
}

async fn capture(server: &Server, id: &str, content: Bytes) {
    let captured = Captured {
        email_id: id.parse().unwrap(),
        captured_at: server.store.now(),
        from: "shop@example.org".into(),
        recipients: vec!["ann@example.net".into()],
        content,
    };
    server.store.capture(captured).await.unwrap();
}

#[tokio::test]
async fn an_empty_inbox_says_where_mail_goes() {
    let server = Server::start();
    let page = server.get("/admin/inbox").await;
    assert_eq!(page.status, 200);
    assert!(page.text().contains("Mail goes out by closed, spare"));
}

#[tokio::test]
async fn the_list_shows_time_sender_recipient_subject_and_status() {
    let server = Server::start();
    let id = captured(&server, json!({"subject": "Hello <Ann> & \"Bob\""})).await;
    let page = server.get("/admin/inbox").await;
    let text = page.text();
    for part in [
        "Shop &lt;shop@example.org&gt;",
        "ann@example.net",
        "Hello &lt;Ann&gt; &amp; &quot;Bob&quot;",
        "sent",
        "UTC",
        &format!("/admin/inbox/{id}"),
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[tokio::test]
async fn a_page_never_becomes_what_an_email_wants_it_to_be() {
    let server = Server::start();
    let attack = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'>";
    let id = captured(
        &server,
        json!({
            "from": "\"&quot;'\" <shop@example.org>",
            "subject": attack,
            "text": format!("</pre>{attack}"),
            "html": format!("<p>{attack}</p>"),
            "headers": {"X-Attack": attack},
            "attachments": [{"filename": "<script>.txt", "content": "YQ=="}],
        }),
    )
    .await;
    for path in ["/admin/inbox".to_owned(), format!("/admin/inbox/{id}")] {
        let page = server.get(&path).await;
        assert_eq!(page.status, 200);
        let text = page.text();
        // Our own script, from our own address, is the only one.
        let own = text.matches("<script src=\"/admin/assets/desk.js?").count();
        assert_eq!((own, text.matches("<script").count()), (1, 1), "{text}");
        assert!(!text.contains("<img"), "{text}");
        assert!(text.contains("&lt;script&gt;"), "{text}");
        assert!(
            page.header("content-security-policy")
                .contains("default-src 'none'")
        );
        assert!(!page.header("content-security-policy").contains("unsafe"));
        assert_eq!(page.header("x-content-type-options"), "nosniff");
        assert_eq!(page.header("referrer-policy"), "same-origin");
        assert_eq!(page.header("x-frame-options"), "DENY");
    }
    let text = server.get(&format!("/admin/inbox/{id}")).await.text();
    assert!(text.contains("<iframe sandbox=\"\""), "{text}");
}

#[tokio::test]
async fn the_html_of_an_email_has_a_frame_without_rights() {
    let server = Server::start();
    let id = captured(&server, json!({"html": "<p style=\"color:red\">Hi <img src=\"cid:logo\"></p>",
        "attachments": [{"filename": "logo.png", "content_type": "image/png", "content": "iVBORw==", "content_id": "logo"}]}))
    .await;
    let html = server.get(&format!("/admin/inbox/{id}/html")).await;
    let policy = html.header("content-security-policy");
    for rule in [
        "default-src 'none'",
        "style-src 'unsafe-inline'",
        "img-src data:",
        "sandbox",
    ] {
        assert!(policy.contains(rule), "{policy}");
    }
    assert!(!policy.contains("allow-"), "{policy}");
    assert_eq!(html.header("x-frame-options"), "SAMEORIGIN");
    assert!(html.text().contains("<p style=\"color:red\">Hi"));
    assert!(
        html.text().contains("data:image/png;base64,iVBORw=="),
        "{}",
        html.text()
    );
}

#[tokio::test]
async fn the_source_is_plain_text() {
    let server = Server::start();
    let id = captured(&server, json!({"text": "plain words"})).await;
    let source = server.get(&format!("/admin/inbox/{id}/source")).await;
    assert_eq!(source.header("content-type"), "text/plain; charset=utf-8");
    assert_eq!(source.header("x-content-type-options"), "nosniff");
    assert!(source.text().contains("plain words"));
    let page = server.get(&format!("/admin/inbox/{id}")).await.text();
    assert!(page.contains("<pre>plain words"));
    let page = server
        .get(&format!("/admin/inbox/{id}?view=source"))
        .await
        .text();
    assert!(page.contains("plain words") && page.contains("Message-ID"));
    server
        .get(&format!("/admin/inbox/{id}/html"))
        .await
        .is_problem(404);
}

#[tokio::test]
async fn what_is_no_mail_at_all_is_still_shown() {
    let server = Server::start();
    let id = server.sent(json!({})).await;
    for content in [
        &b""[..],
        b"\xff\xfe\x00<b>",
        b"Subject: =?utf-8?q?<b>=0a?=\r\n\r\n<b>",
    ] {
        capture(&server, &id, Bytes::from_static(content)).await;
        let page = server.get(&format!("/admin/inbox/{id}")).await;
        assert_eq!(page.status, 200);
        assert!(!page.text().contains("<b>"), "{}", page.text());
    }
}

#[tokio::test]
async fn one_owners_key_never_sees_anothers_mail() {
    let server = Server::start();
    let id = captured(&server, json!({"subject": "for the default owner"})).await;
    let (_, bob) = server.key("bob", &["read"]).await;
    let (_, own) = server.key("default", &["read"]).await;
    let list = server.send(with_key("GET", "/admin/inbox", &bob)).await;
    assert!(!list.text().contains("default owner"));
    for path in ["", "/html", "/source"] {
        let path = format!("/admin/inbox/{id}{path}");
        server
            .send(with_key("GET", &path, &bob))
            .await
            .is_problem(404);
    }
    let page = server
        .send(with_key("GET", &format!("/admin/inbox/{id}"), &own))
        .await;
    assert_eq!(page.status, 200);
}
