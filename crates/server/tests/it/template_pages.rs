//! The editor of templates, as a browser without scripts uses it.

use posthaste_core::admin::Role;
use posthaste_core::port::TemplateStore as _;
use serde_json::json;

use crate::browser::Browser;
use crate::fixture::Server;

const ORDER: [(&str, &str); 8] = [
    ("name", "order"),
    ("subject", "Order {{ number }}"),
    ("html", "<p style=\"color:red\">Hello {{ name }}</p>"),
    ("text", "Hello {{ name }}\r\nThank you"),
    ("from", "shop@example.org"),
    ("priority", "normal"),
    ("policy", "notification"),
    ("sample", "{\"number\": 7, \"name\": \"<Ann>\"}"),
];

/// The fields with others in their place.
fn with<'a>(changes: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let kept = ORDER
        .into_iter()
        .filter(|(name, _)| changes.iter().all(|(changed, _)| changed != name));
    kept.chain(changes.iter().copied()).collect()
}

#[tokio::test]
async fn a_template_is_made_changed_restored_and_deleted() {
    let server = Server::start();
    let browser = Browser::logged_in(&server, "ann", Role::Operator).await;
    let empty = browser.get("/admin/templates").await.text();
    assert!(empty.contains("No template is here yet"));
    assert_eq!(browser.get("/admin/templates/new").await.status, 200);

    let saved = browser.post("/admin/templates", &ORDER).await;
    assert_eq!(saved.status, 303, "{}", saved.text());
    assert_eq!(saved.header("location"), "/admin/templates/order");
    let list = browser.get("/admin/templates").await.text();
    assert!(list.contains("notification"), "{list}");
    assert!(
        list.contains("3 attempts") && list.contains("never"),
        "{list}"
    );

    let page = browser.get("/admin/templates/order").await;
    let text = page.text();
    assert!(text.contains("Order 7"), "the preview with the sample");
    assert!(
        text.contains("Hello &amp;lt;Ann&amp;gt;"),
        "escaped, in a frame: {text}"
    );
    assert!(text.contains("sandbox=\"\""));
    assert!(
        page.header("content-security-policy")
            .contains("script-src 'self';")
    );
    let kept = server.store.template("order", None).await.unwrap().unwrap();
    let text = kept.content.text.as_deref();
    assert_eq!(text, Some("Hello {{ name }}\nThank you"), "as lines end");
    assert_eq!(kept.saved_by, "admin:ann");

    let changed = with(&[("subject", "Changed"), ("based_on", "1")]);
    assert_eq!(browser.post("/admin/templates", &changed).await.status, 303);
    let old = browser.get("/admin/templates/order?version=1").await.text();
    assert!(
        old.contains("Restore this version") && old.contains("Order {{ number }}"),
        "{old}"
    );
    let restored = with(&[("based_on", "2"), ("version", "1")]);
    assert_eq!(
        browser.post("/admin/templates", &restored).await.status,
        303
    );
    let page = browser.get("/admin/templates/order").await.text();
    assert!(
        page.contains("Version 3") && page.contains("?version=2"),
        "{page}"
    );

    let deleted = browser.post("/admin/templates/order/delete", &[]).await;
    assert_eq!(deleted.header("location"), "/admin/templates");
    assert_eq!(browser.get("/admin/templates/order").await.status, 404);
}

#[tokio::test]
async fn what_is_wrong_is_named_and_what_was_typed_stays() {
    let server = Server::start();
    let browser = Browser::logged_in(&server, "ann", Role::Operator).await;
    let wrong = with(&[
        ("name", "Bad Name"),
        ("subject", "{{ oops"),
        ("sample", "[1]"),
        ("description", "<script>typed</script>"),
    ]);
    let answer = browser.post("/admin/templates", &wrong).await;
    assert_eq!(answer.status, 422);
    let page = answer.text();
    for part in [
        "It was not saved",
        "<code>name</code>",
        "<code>sample</code>",
        "<code>subject</code> line 1",
        "value=\"Bad Name\"",
        "&lt;script&gt;typed",
        "Hello {{ name }}",
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
    browser.post("/admin/templates", &ORDER).await;
    let late = with(&[("subject", "Mine"), ("based_on", "0")]);
    let answer = browser.post("/admin/templates", &late).await;
    assert_eq!(answer.status, 422);
    let page = answer.text();
    assert!(
        page.contains("version 1") && page.contains("value=\"Mine\""),
        "{page}"
    );
    assert!(
        page.contains("name=\"based_on\" value=\"1\""),
        "saving again puts it on top"
    );
}

#[tokio::test]
async fn the_plan_shows_each_attempt_before_it_is_saved() {
    let server = Server::start();
    let browser = Browser::logged_in(&server, "ann", Role::Operator).await;
    let plan = async |changes: &[(&str, &str)]| {
        let answer = browser
            .post("/admin/template-preview", &with(changes))
            .await;
        assert_eq!(answer.status, 200);
        answer.text()
    };
    let notification = plan(&[]).await;
    assert!(notification.contains("now, "), "{notification}");
    assert!(notification.contains("1 min to 1 min 30 s after it was accepted"));
    let own = [
        ("policy", "(own)"),
        ("attempts", "2"),
        ("delay1", "30s"),
        ("jitter", "0s"),
    ];
    let page = plan(&own).await;
    assert!(page.contains("30 s after it was accepted"), "{page}");
    let five = [&own[..], &[("attempts", "5")]].concat();
    let five: Vec<_> = five
        .into_iter()
        .filter(|field| *field != ("attempts", "2"))
        .collect();
    assert!(plan(&five).await.contains("may be at most 3"));
    let urgent = [&five[..], &[("priority", "high")]].concat();
    assert!(
        plan(&urgent).await.contains("2 min after it was accepted"),
        "the last one repeats"
    );
    let soon = [("policy", "(own)"), ("attempts", "2"), ("delay1", "soon")];
    assert!(
        plan(&soon)
            .await
            .contains("retry_policy.backoff.schedule[0]")
    );
    let list = browser.get("/admin/templates").await.text();
    assert!(
        list.contains("No template is here yet"),
        "a preview saves nothing"
    );
}

#[tokio::test]
async fn a_test_sends_what_stands_in_the_form() {
    let server = Server::start();
    let browser = Browser::logged_in(&server, "ann", Role::Operator).await;
    let fields = with(&[("test_to", "me@example.net")]);
    let answer = browser.post("/admin/template-test", &fields).await;
    assert_eq!(answer.status, 200);
    let page = answer.text();
    assert!(page.contains("on its way to me@example.net"), "{page}");
    assert!(
        page.contains("value=\"Order {{ number }}\""),
        "it can go on being edited"
    );
    let list = browser.get("/admin/emails").await.text();
    assert!(
        list.contains("Order 7") && list.contains("me@example.net"),
        "{list}"
    );

    let nobody = browser
        .post("/admin/template-test", &with(&[("test_to", "nobody")]))
        .await;
    assert_eq!(nobody.status, 422);
    assert!(
        nobody.text().contains("<code>to[0]</code>"),
        "{}",
        nobody.text()
    );
    let missing = with(&[("test_to", "me@example.net"), ("sample", "{}")]);
    let missing = browser.post("/admin/template-test", &missing).await.text();
    assert!(
        missing.contains("<code>variables.number</code>"),
        "{missing}"
    );
}

#[tokio::test]
async fn a_viewer_sees_templates_and_writes_none() {
    let server = Server::start();
    let made = server
        .send(crate::templates::put(
            "order",
            &json!({"subject": "s {{ a }}", "text": "t"}),
        ))
        .await;
    assert_eq!(made.status, 201);
    let viewer = Browser::logged_in(&server, "vera", Role::Viewer).await;
    let page = viewer.get("/admin/templates/order").await.text();
    assert!(
        !page.contains(">Save<") && !page.contains("Delete it"),
        "{page}"
    );
    assert!(page.contains("variables.a"), "what the preview lacks");
    for path in ["/admin/template-preview", "/admin/template-test"] {
        assert_eq!(viewer.post(path, &ORDER).await.status, 403, "{path}");
    }
    assert_eq!(viewer.post("/admin/templates", &ORDER).await.status, 403);
}
