//! What the desk must never allow: content of emails that acts, forms of other sites.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use crate::backend::Backend;
use crate::browser::Browser;
use crate::support::{a_sink, submit, until};

/// A server that counts who connects, even if they say nothing.
fn counting_server() -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let visits = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&visits);
    // Ends with the test's process.
    std::thread::spawn(move || {
        for visit in listener.incoming() {
            counted.fetch_add(1, Ordering::SeqCst);
            drop(visit);
        }
    });
    (port, visits)
}

#[tokio::test]
async fn the_html_of_an_email_runs_no_script_and_loads_nothing() {
    let (backend, sink) = (Backend::sqlite().await, a_sink().await);
    let server = backend.sending_to(&sink).start().await;
    let (port, visits) = counting_server();
    let elsewhere = format!("http://127.0.0.1:{port}");
    let html = format!(
        "<p id=mark>Shown</p>\
         <script>parent.document.title = 'taken'; document.title = 'taken'</script>\
         <img src=\"{elsewhere}/pixel.png\" onerror=\"parent.document.title='taken'\">\
         <link rel=stylesheet href=\"{elsewhere}/style.css\">\
         <iframe src=\"{elsewhere}/frame\"></iframe>\
         <link rel=preconnect href=\"{elsewhere}\">\
         <style>@import url({elsewhere}/import.css); p {{ background: url({elsewhere}/bg) }}</style>\
         <object data=\"{elsewhere}/object\"></object>\
         <form action=\"{elsewhere}/form\"><button>Send</button></form>\
         <meta http-equiv=refresh content=\"0;url={elsewhere}/away\">\
         <a href=\"{elsewhere}/link\" target=_top>Click</a>"
    );
    let email = json!({
        "from": "mallory@example.org", "to": "ann@example.org",
        "subject": "<script>document.title='taken'</script>",
        "text": "<script>document.title='taken'</script>", "html": html,
    });
    let id = submit(&server, &email).await;
    until(&server, &id, "sent").await;
    let browser = Browser::start().await;
    for view in ["html", "text", "headers", "source"] {
        browser
            .open(&server.url(&format!("/admin/emails/{id}?view={view}")))
            .await;
        browser.until_shows("h1", "<script>").await;
        // Only our own script runs, and by now it has: the page knows that it is watched.
        browser.find("html[data-stream=open]").await;
        let title = browser.script("return document.title").await;
        assert_eq!(title, "<script>document.title='taken'</script> · Posthaste");
    }
    browser
        .open(&server.url(&format!("/admin/emails/{id}?view=html")))
        .await;
    browser.find("iframe").await;
    let reach = "try { return document.querySelector('iframe').contentDocument === null } \
                 catch { return true }";
    assert_eq!(
        browser.script(reach).await,
        true,
        "the frame is another origin"
    );
    // The document itself, opened as a page, is as powerless.
    browser
        .open(&server.url(&format!("/admin/emails/{id}/html")))
        .await;
    browser.until_shows("#mark", "Shown").await;
    assert_ne!(browser.script("return document.title").await, "taken");
    browser.picture("safety-email-html").await;
    assert_eq!(visits.load(Ordering::SeqCst), 0, "something reached out");
}

#[tokio::test]
async fn a_form_of_another_site_changes_nothing() {
    let (backend, sink) = (Backend::sqlite().await, a_sink().await);
    let server = backend.sending_to(&sink).start().await;
    let id = submit(&server, &crate::support::email_to("reject@example.org")).await;
    until(&server, &id, "dead").await;
    // Another name for the same machine is another site.
    let foreign = tempfile::tempdir().unwrap();
    let page = foreign.path().join("page.html");
    let form = format!(
        "<form method=post action=\"{}\"><button id=go>Win a prize</button></form>",
        server.url(&format!("/admin/emails/{id}/discard"))
    );
    std::fs::write(&page, form).unwrap();
    let browser = Browser::start().await;
    browser.open(&format!("file://{}", page.display())).await;
    browser.find("#go").await.click().await.unwrap();
    browser.until_shows("body", "not allowed").await;
    let email = until(&server, &id, "dead").await;
    assert_eq!(email["status"], "dead");
}

#[tokio::test]
async fn the_desk_works_without_scripts() {
    let (backend, sink) = (Backend::sqlite().await, a_sink().await);
    let server = backend.sending_to(&sink).start().await;
    let id = submit(&server, &crate::support::email_to("reject@example.org")).await;
    until(&server, &id, "dead").await;
    let browser = Browser::start().await;
    browser.run_scripts(false).await;
    browser.open(&server.url("/admin")).await;
    browser
        .click(".side > nav a[href='/admin/dead-letters']")
        .await;
    browser
        .press(&format!("tr[data-key=\"{id}\"]"), "Discard")
        .await;
    browser.until_shows(".notice", "discarded").await;
    until(&server, &id, "discarded").await;
}

#[tokio::test]
async fn updates_move_no_selection_no_scroll_and_no_open_tab() {
    let (backend, sink) = (Backend::sqlite().await, a_sink().await);
    let server = backend.sending_to(&sink).start().await;
    for n in 0..60 {
        let id = submit(
            &server,
            &crate::support::email_to(&format!("reject+{n}@example.org")),
        )
        .await;
        until(&server, &id, "dead").await;
    }
    let browser = Browser::start().await;
    browser.open(&server.url("/admin/dead-letters")).await;
    browser.find("html[data-stream=open]").await;
    browser
        .script("document.querySelectorAll('input[name=id]')[40].click(); window.scrollTo(0, 700)")
        .await;
    let before = browser
        .script("return [window.scrollY, document.querySelectorAll('tbody tr').length]")
        .await;
    let id = submit(&server, &crate::support::email_to("reject+new@example.org")).await;
    until(&server, &id, "dead").await;
    // What is new is announced at the top, and nothing else moves.
    browser
        .until(".fresh", |text| text.contains("something new"))
        .await;
    let after = browser
        .script("return [window.scrollY, document.querySelectorAll('tbody tr').length]")
        .await;
    assert_eq!(before, after);
    let chosen = browser
        .script("return document.querySelectorAll('input[name=id]')[40].checked")
        .await;
    assert_eq!(chosen, true);
}
