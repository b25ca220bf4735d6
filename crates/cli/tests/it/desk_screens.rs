//! Every screen, light and dark, on a desk and on a phone. The pictures are for people; what the
//! tests hold is that each screen has a title and a heading, and fits a phone.

use posthaste_sink::Sink;
use posthaste_testkit::process::Posthaste;
use serde_json::{Value, json};

use crate::backend::{Backend, Store};
use crate::browser::{Browser, PHONE, WIDE};
use crate::support::{a_sink, get, post, run, submit, until};

/// Emails in every state that an operator may come upon.
async fn a_busy_day(server: &Posthaste) -> Vec<(&'static str, String)> {
    let template = json!({
        "description": "After the parcel was handed over",
        "from": "Corner Shop <shop@example.org>",
        "subject": "Your order {{ order }} has shipped",
        "html": "<h1>Hello {{ name }}</h1><p>Order <b>{{ order }}</b> is on its way to {{ city }}.</p>",
        "text": "Hello {{ name }}, order {{ order }} is on its way to {{ city }}.",
        "sample": {"name": "Ann", "order": "4711", "city": "Lisbon"},
    });
    let request = server.request(reqwest::Method::PUT, "/v1/templates/order-shipped");
    let (status, _, body) = server.answer(request.json(&template)).await;
    assert!(status.is_success(), "{body}");
    let mut last = Value::Null;
    for (n, name) in ["ann", "bob", "carla", "dmitri", "eve", "farid", "grace"]
        .iter()
        .enumerate()
    {
        let email = json!({
            "to": format!("{name}@example.org"), "template": "order-shipped",
            "variables": {"name": name, "order": 4711 + n, "city": "Lisbon"},
        });
        last = post(server, "/v1/emails", &email).await.body;
    }
    let sent = last["id"].as_str().unwrap().to_owned();
    let retry = json!({"max_attempts": 3, "backoff": {"schedule": ["10m", "30m"]}});
    let of = |to: &str, subject: &str| {
        json!({
            "from": "Corner Shop <shop@example.org>", "to": to, "subject": subject,
            "text": "Thank you.", "html": "<p>Thank <b>you</b>.</p>", "retry_policy": retry,
        })
    };
    let mut retrying = String::new();
    for n in 1..=3 {
        let email = of(
            &format!("tempfail+{n}@example.org"),
            &format!("Invoice 2026-{n:03}"),
        );
        retrying = submit(server, &email).await;
    }
    let mut dead = String::new();
    for n in 1..=5 {
        let email = of(&format!("reject+{n}@example.org"), "Confirm your address");
        dead = submit(server, &email).await;
    }
    for n in 1..=2 {
        let email = of(
            &format!("reject-data+{n}@example.org"),
            "The November newsletter",
        );
        submit(server, &email).await;
    }
    let mut email = of("drop-after-dot@example.org", "Payment received");
    email["retry_policy"]["on_unknown"] = json!("hold");
    let uncertain = submit(server, &email).await;
    until(server, &retrying, "failed").await;
    until(server, &dead, "dead").await;
    until(server, &uncertain, "unknown").await;
    until(server, &sent, "sent").await;
    vec![
        ("retrying", retrying),
        ("dead", dead),
        ("uncertain", uncertain),
        ("sent", sent),
    ]
}

/// Counters of a day that went before, so that pictures show a chart as people know it. There are no
/// emails to them.
fn a_day_before(backend: &Backend) {
    let Store::Sqlite(folder) = &backend.store else {
        panic!("the pictures are taken on SQLite");
    };
    let mut file = Backend::file(folder);
    let minute = jiff::Timestamp::now().as_second() / 60;
    let counted = file.transaction().unwrap();
    for step in 1..48_i64 {
        // More by day than by night, and an hour in which something was wrong.
        let sent = 40 + 35 * (24 - (step - 24).abs()) / 8 + step * 7 % 13;
        let failed = if (17..20).contains(&step) {
            sent / 3
        } else {
            step % 3
        };
        let dead = i64::from((17..19).contains(&step)) * 6;
        for (from, to, n) in [
            ("", "pending", sent + dead),
            ("pending", "sending", sent + dead),
            ("sending", "failed", failed),
            ("failed", "retry_queued", failed),
            ("retry_queued", "sending", failed),
            ("sending", "sent", sent),
            ("sending", "dead", dead),
            ("dead", "discarded", dead),
        ] {
            let sql = "INSERT INTO posthaste_stat (minute, from_status, to_status, n)
                       VALUES (?1, ?2, ?3, ?4)";
            counted
                .execute(sql, (minute - step * 30, from, to, n))
                .unwrap();
        }
    }
    counted.commit().unwrap();
}

async fn screens(server: &Posthaste) -> Vec<(String, String)> {
    let emails = a_busy_day(server).await;
    let filter = json!({"action": "retry", "filter": {"q": "The November"}, "rate_per_second": 1});
    let operation = post(server, "/v1/operations", &filter).await.body;
    let operation = operation["id"].as_str().unwrap().to_owned();
    let mut screens: Vec<(String, String)> = [
        ("overview", "/admin"),
        ("emails", "/admin/emails"),
        (
            "emails-filtered",
            "/admin/emails?status=sent&template=order-shipped",
        ),
        ("dead-letters", "/admin/dead-letters"),
        ("uncertain", "/admin/uncertain"),
        ("email-queue", "/admin/email-queue"),
        ("messages", "/admin/messages"),
        ("operations", "/admin/operations"),
        ("templates", "/admin/templates"),
        ("template-new", "/admin/templates/new"),
        ("template", "/admin/templates/order-shipped"),
        ("inbox", "/admin/inbox"),
        ("audit", "/admin/audit"),
        ("settings", "/admin/settings"),
        ("docs", "/docs"),
    ]
    .map(|(name, path)| (name.to_owned(), path.to_owned()))
    .into();
    screens.push((
        "operation".to_owned(),
        format!("/admin/operations/{operation}"),
    ));
    for (name, id) in emails {
        screens.push((format!("email-{name}"), format!("/admin/emails/{id}")));
    }
    screens
}

async fn set_up() -> (Backend, Sink, Posthaste) {
    let (backend, sink) = (Backend::sqlite().await, a_sink().await);
    let server = backend.sending_to(&sink).start().await;
    (backend, sink, server)
}

#[tokio::test]
async fn every_screen_has_a_name_and_fits_a_desk_and_a_phone_in_light_and_dark() {
    let (backend, _sink, server) = set_up().await;
    a_day_before(&backend);
    let screens = screens(&server).await;
    let browser = Browser::start().await;
    for scheme in ["light", "dark"] {
        browser.prefer(scheme).await;
        for (device, size) in [("desk", WIDE), ("phone", PHONE)] {
            browser.resize(size).await;
            for (name, path) in &screens {
                browser.open(&server.url(path)).await;
                let heading = browser.text("main h1").await;
                assert!(!heading.trim().is_empty(), "{path} has no heading");
                let wide = browser
                    .script("return document.documentElement.scrollWidth - window.innerWidth")
                    .await;
                assert_eq!(wide, 0, "{path} is wider than a {device}");
                browser.picture(&format!("{device}-{scheme}-{name}")).await;
            }
        }
    }
}

#[tokio::test]
async fn every_screen_can_be_read_by_a_screen_reader() {
    let (_backend, _sink, server) = set_up().await;
    let screens = screens(&server).await;
    let browser = Browser::start().await;
    // What a checker of accessibility looks for first; each finding names the element.
    let check = "
        const found = [];
        const note = (what, element) => found.push(`${what}: ${element.outerHTML.slice(0, 120)}`);
        const named = (e) => e.getAttribute('aria-label') || e.getAttribute('aria-labelledby') || e.title;
        for (const e of document.querySelectorAll('input:not([type=hidden]), select, textarea'))
            if (!(e.labels && e.labels.length) && !named(e)) note('no label', e);
        for (const e of document.querySelectorAll('button, a[href]'))
            if (!e.textContent.trim() && !named(e)) note('no name', e);
        for (const e of document.querySelectorAll('iframe')) if (!e.title) note('no title', e);
        for (const e of document.querySelectorAll('img')) if (e.alt === null) note('no alt', e);
        for (const e of document.querySelectorAll('[id]'))
            if (document.querySelectorAll(`[id=\"${CSS.escape(e.id)}\"]`).length > 1) note('id twice', e);
        for (const e of document.querySelectorAll('[aria-labelledby]'))
            if (!document.getElementById(e.getAttribute('aria-labelledby'))) note('label missing', e);
        if (document.querySelectorAll('main').length !== 1) found.push('not one main');
        if (document.querySelectorAll('h1').length !== 1) found.push('not one h1');
        if (!document.documentElement.lang) found.push('no language');
        if (!document.title) found.push('no title');
        return found;";
    for (_, path) in &screens {
        browser.open(&server.url(path)).await;
        let found = browser.script(check).await;
        assert_eq!(found, json!([]), "{path}");
    }
}

#[tokio::test]
async fn an_operator_gets_everywhere_by_keyboard() {
    let (_backend, _sink, server) = set_up().await;
    let id = submit(&server, &crate::support::email_to("reject@example.org")).await;
    until(&server, &id, "dead").await;
    let browser = Browser::start().await;
    browser.open(&server.url("/admin/dead-letters")).await;
    // Tab from the top until the button of the row has the focus, then Enter.
    let focused = "const e = document.activeElement; \
                   return e.closest('tr') && e.tagName === 'BUTTON' ? e.textContent : ''";
    let mut pressed = false;
    for _ in 0..60 {
        browser.press_key("\u{e004}").await;
        if browser.script(focused).await == "Discard" {
            browser.press_key("\u{e007}").await;
            pressed = true;
            break;
        }
    }
    assert!(pressed, "the button cannot be reached");
    until(&server, &id, "discarded").await;
    let audit = run(&server, &["audit", "--json"]).await;
    assert!(audit.stdout.contains("discard"), "{}", audit.stdout);
    let stats = get(&server, "/v1/stats").await.body;
    assert_eq!(stats["dead_letters"], 0);
}
