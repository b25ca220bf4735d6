//! The editor of templates in a real browser: what it comes to appears while it is being written.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::backend::Backend;
use crate::browser::{Browser, PHONE, WIDE};
use crate::support::{a_sink, get, submit, until};

#[tokio::test]
async fn a_template_is_written_previewed_saved_and_restored() {
    let (backend, sink) = (Backend::sqlite().await, a_sink().await);
    let server = backend.sending_to(&sink).start().await;
    let browser = Browser::start().await;
    browser.open(&server.url("/admin/templates/new")).await;
    browser.find("form[data-ready]").await;
    browser.fill("#name", "welcome").await;
    browser.fill("#from", "shop@example.org").await;
    browser.fill("#subject", "Welcome, {{ name }}").await;
    browser
        .fill(
            "#html",
            "<h1 style='color:teal'>Hello {{ name }} of {{ city }}</h1>",
        )
        .await;
    // Nothing is pressed: it appears by itself, and says what is missing.
    browser
        .until_shows("[data-part=preview]", "variables.city")
        .await;
    browser
        .fill("#sample", r#"{"name": "Ann", "city": "Lisbon"}"#)
        .await;
    browser
        .until_shows("[data-part=preview]", "Welcome, Ann")
        .await;
    let frame = "return document.querySelector('#preview-html').srcdoc";
    let shown = browser.script(frame).await;
    assert!(
        shown.as_str().unwrap().contains("Hello Ann of Lisbon"),
        "{shown}"
    );

    // The plan follows, too.
    browser
        .script(
            "const policy = document.querySelector('#policy'); policy.value = '(own)'; \
         policy.dispatchEvent(new Event('input', {bubbles: true}))",
        )
        .await;
    browser.fill("#attempts", "2").await;
    browser.fill("#delay1", "42s").await;
    browser
        .until_shows("[data-part=plan]", "42 s to 1 min 12 s")
        .await;
    let attempts = browser.count(".plan .track").await;
    assert_eq!(attempts, 2);
    for (scheme, device, size) in [
        ("light", "desk", WIDE),
        ("dark", "desk", WIDE),
        ("light", "phone", PHONE),
        ("dark", "phone", PHONE),
    ] {
        browser.prefer(scheme).await;
        browser.resize(size).await;
        browser
            .picture(&format!("{device}-{scheme}-template-editing"))
            .await;
        let wide = "return document.documentElement.scrollWidth - window.innerWidth";
        assert_eq!(browser.script(wide).await, 0, "wider than a {device}");
    }
    browser.resize(WIDE).await;
    browser.press("#editor", "Save").await;
    browser.until_shows(".notice", "Saved as version 1").await;
    let saved = get(&server, "/v1/templates/welcome").await.body;
    assert_eq!(saved["retry_policy"]["max_attempts"], 2);
    assert_eq!(saved["retry_policy"]["backoff"]["schedule"][0], "42s");

    browser.find("form[data-ready]").await;
    browser.fill("#subject", "Hi {{ name }}").await;
    browser.press("#editor", "Save").await;
    browser.until_shows(".notice", "Saved as version 2").await;
    browser.follow("Version 1").await;
    browser.until_shows(".warning", "This is version 1").await;
    browser.press("#editor", "Restore this version").await;
    browser.until_shows(".notice", "Saved as version 3").await;

    let email = serde_json::json!({
        "to": "ann@example.org", "template": "welcome",
        "variables": {"name": "Ann", "city": "Porto"},
    });
    let id = submit(&server, &email).await;
    let sent = until(&server, &id, "sent").await;
    assert_eq!(sent["subject"], "Welcome, Ann");

    browser.fill("input[name=test_to]", "me@example.org").await;
    browser.press("main", "Send a test").await;
    browser
        .until_shows(".notice", "on its way to me@example.org")
        .await;
    sink.wait_for(2).await;

    browser.open(&server.url("/admin/templates")).await;
    let list = browser.text(".list").await;
    assert!(list.contains("own schedule, 2 attempts"), "{list}");
    assert!(!list.contains("never"), "it was used: {list}");
    browser.picture("desk-dark-templates-used").await;
}

#[tokio::test]
async fn the_preview_runs_no_script_and_loads_nothing() {
    let (backend, sink) = (Backend::sqlite().await, a_sink().await);
    let server = backend.sending_to(&sink).start().await;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let visits = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&visits);
    // Ends with the test's process.
    std::thread::spawn(move || {
        for visit in listener.incoming() {
            drop(visit);
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    let elsewhere = format!("http://127.0.0.1:{port}");
    let browser = Browser::start().await;
    browser.open(&server.url("/admin/templates/new")).await;
    browser.find("form[data-ready]").await;
    browser.fill("#subject", "Trap").await;
    let html = format!(
        "<script>parent.document.title = 'taken'</script>\
         <img src='{elsewhere}/pixel.png' onerror=\"parent.document.title='taken'\">\
         <div style=\"background:url({elsewhere}/ground.png)\">x</div>\
         <link rel=stylesheet href='{elsewhere}/style.css'><iframe src='{elsewhere}/frame'></iframe>\
         <meta http-equiv=refresh content='0;url={elsewhere}/away'><p>End</p>"
    );
    browser.fill("#html", &html).await;
    browser.until_shows("[data-part=preview]", "Trap").await;
    let there = "return document.querySelector('#preview-html').srcdoc.includes('End')";
    browser.until_true(there).await;
    // As the server renders it, too.
    browser.press("#editor", "Preview").await;
    browser.find("form[data-ready]").await;
    browser.until_true(there).await;
    browser.picture("safety-template-preview").await;
    let title = browser.script("return document.title").await;
    assert_eq!(title, "New template · Posthaste");
    assert_eq!(visits.load(Ordering::SeqCst), 0, "something was loaded");
}
