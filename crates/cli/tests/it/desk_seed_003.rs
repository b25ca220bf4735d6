//! Seed 003's acceptance tests, in a browser, as an operator would go through them.

use jiff::{SignedDuration, Timestamp};
use posthaste_sink::{Mode, Sink};
use posthaste_testkit::process::Posthaste;
use serde_json::{Value, json};

use crate::backend::Backend;
use crate::browser::Browser;
use crate::support::{a_sink, copies, eventually, get, submit, until, verify};

struct Desk {
    backend: Backend,
    sink: Sink,
    server: Posthaste,
    browser: Browser,
}

impl Desk {
    async fn set_up() -> Self {
        let (backend, sink) = (Backend::postgres().await, a_sink().await);
        let server = backend
            .sending_to(&sink)
            .env("RETRY_INTERVAL_SECONDS", "1")
            .start()
            .await;
        let browser = Browser::start().await;
        Self {
            backend,
            sink,
            server,
            browser,
        }
    }

    async fn open(&self, path: &str) {
        self.browser.open(&self.server.url(path)).await;
    }

    /// The row of an email in a list.
    fn row(id: &str) -> String {
        format!("tr[data-key=\"{id}\"]")
    }

    /// An email that is dead because its address does not exist.
    async fn dead_letter(&self) -> String {
        let id = submit(&self.server, &notification("reject+user@example.org")).await;
        until(&self.server, &id, "dead").await;
        id
    }
}

/// An email with the retries of a notification.
fn notification(recipient: &str) -> Value {
    json!({
        "from": "shop@example.org", "to": recipient, "subject": "Your order has shipped",
        "text": "It is on its way.", "html": "<p>It is on its <b>way</b>.</p>",
        "retry_policy": "notification",
    })
}

#[tokio::test]
async fn test_1_an_email_is_seen_to_be_retried_and_then_delivered() {
    let desk = Desk::set_up().await;
    desk.sink.set_mode(Mode::TempfailAll);
    let id = submit(&desk.server, &notification("ann@example.org")).await;
    desk.open(&format!("/admin/emails/{id}")).await;
    desk.browser
        .until_shows(".head", "Retrying (attempt 2 of 3)")
        .await;
    desk.browser.picture("seed-003-1-retrying").await;
    desk.open("/admin/emails").await;
    let row = Desk::row(&id);
    desk.browser
        .until_shows(&row, "Retrying (attempt 2 of 3)")
        .await;

    desk.sink.set_mode(Mode::Normal);
    eventually("the retry timer fires", async || {
        desk.backend.make_failed_due().await == 1
    })
    .await;
    // Nobody touches the page: it follows by itself.
    desk.browser.until_shows(&row, "Delivered").await;
    desk.open(&format!("/admin/emails/{id}")).await;
    let timeline = desk.browser.text(".timeline").await;
    assert!(timeline.contains("Attempt 1") && timeline.contains("failed, may pass"));
    assert!(timeline.contains("Attempt 2") && timeline.contains("delivered"));
    assert_eq!(desk.browser.count(".timeline time").await, 3, "{timeline}");
    desk.browser.picture("seed-003-1-delivered").await;
    assert_eq!(copies(&desk.sink, &id, "ann@example.org"), 1);
    verify(&desk.server).await;
}

#[tokio::test]
async fn test_2_retries_come_after_1_5_and_15_minutes_with_jitter() {
    let desk = Desk::set_up().await;
    desk.sink.set_mode(Mode::TempfailAll);
    let mut email = notification("ann@example.org");
    email["retry_policy"] = json!({
        "max_attempts": 4, "backoff": {"schedule": ["1m", "5m", "15m"]}, "jitter": "30s",
    });
    let id = submit(&desk.server, &email).await;
    for (count, minutes) in [(1, 1), (2, 5), (3, 15)] {
        let shown = desk
            .server
            .wait_for_email(&id, |email| {
                email["attempt_count"] == count && email["status"] == "failed"
            })
            .await;
        let time = |value: &Value| value.as_str().unwrap().parse::<Timestamp>().unwrap();
        let attempt = shown["attempts"].as_array().unwrap().last().unwrap();
        let wait = time(&shown["next_attempt_at"]) - time(&attempt["finished_at"]);
        let wait = SignedDuration::try_from(wait).unwrap();
        let least = SignedDuration::from_mins(minutes);
        assert!(wait >= least, "{count}: {wait:?}");
        assert!(
            wait <= least + SignedDuration::from_secs(30),
            "{count}: {wait:?}"
        );
        desk.open(&format!("/admin/emails/{id}")).await;
        let next = desk.browser.text(".timeline > li:last-child").await;
        assert!(next.contains("Next attempt"), "{next}");
        assert!(next.contains(&format!("{} of 4", count + 1)), "{next}");
        if count == 3 {
            desk.browser.picture("seed-003-2-timing").await;
        }
        assert_eq!(desk.backend.make_failed_due().await, 1);
    }
    let shown = until(&desk.server, &id, "dead").await;
    assert_eq!(shown["dead_reason"], "MaxAttemptsExceeded");
    assert_eq!(shown["attempts"].as_array().unwrap().len(), 4);
}

#[tokio::test]
async fn test_3_a_permanent_failure_goes_to_the_dead_letter_queue_at_once() {
    let desk = Desk::set_up().await;
    let id = desk.dead_letter().await;
    let shown = get(&desk.server, &format!("/v1/emails/{id}")).await.body;
    assert_eq!(shown["attempts"].as_array().unwrap().len(), 1);
    assert!(shown["next_attempt_at"].is_null());
    desk.open("/admin").await;
    let link = ".side > nav a[href='/admin/dead-letters']";
    desk.browser.until_shows(link, "1").await;
    desk.open("/admin/dead-letters").await;
    let row = desk.browser.text(&Desk::row(&id)).await;
    assert!(row.contains("550 5.1.1"), "{row}");
    assert!(row.contains("reject+user@example.org"), "{row}");
    desk.browser.picture("seed-003-3-dead-letter").await;
    desk.open(&format!("/admin/emails/{id}")).await;
    let head = desk.browser.text(".head").await;
    assert!(
        head.contains("Failed (moved to dead letter queue)"),
        "{head}"
    );
    assert!(head.contains("HardBounce"), "{head}");
}

#[tokio::test]
async fn test_4_retry_now_gives_a_dead_letter_a_fresh_start() {
    let desk = Desk::set_up().await;
    desk.sink.set_mode(Mode::RejectAll);
    let id = submit(&desk.server, &notification("ann@example.org")).await;
    until(&desk.server, &id, "dead").await;
    desk.sink.set_mode(Mode::Normal);

    desk.open("/admin").await;
    desk.browser.until_shows("#card-dead-letters", "1").await;
    desk.open("/admin/dead-letters").await;
    desk.browser.press(&Desk::row(&id), "Retry Now").await;
    desk.browser.until_shows(".notice", "tried again now").await;
    assert_eq!(desk.browser.count(&Desk::row(&id)).await, 0);
    desk.browser.picture("seed-003-4-retried").await;
    let shown = until(&desk.server, &id, "sent").await;
    assert_eq!(shown["attempt_count"], 0, "a fresh set of attempts");
    desk.open(&format!("/admin/emails/{id}")).await;
    desk.browser.until_shows(".head", "Delivered").await;
    assert_eq!(copies(&desk.sink, &id, "ann@example.org"), 1);
    desk.open("/admin/dead-letters").await;
    desk.browser
        .until_shows(".empty.good", "No dead letters")
        .await;
    verify(&desk.server).await;
}

#[tokio::test]
async fn test_5_discard_takes_a_dead_letter_out_of_the_queue_and_is_audited() {
    let desk = Desk::set_up().await;
    let id = desk.dead_letter().await;
    desk.open("/admin/dead-letters").await;
    desk.browser.press(&Desk::row(&id), "Discard").await;
    desk.browser.until_shows(".notice", "discarded").await;
    assert_eq!(desk.browser.count(&Desk::row(&id)).await, 0);
    desk.open(&format!("/admin/emails/{id}")).await;
    desk.browser
        .until_shows(".head", "Permanently Failed")
        .await;
    desk.open("/admin/email-queue").await;
    assert_eq!(desk.browser.count(&Desk::row(&id)).await, 0);
    desk.open(&format!("/admin/audit?subject={id}")).await;
    let entry = desk.browser.text("main tbody tr").await;
    assert!(
        entry.contains("discard") && entry.contains("loopback"),
        "{entry}"
    );
    desk.browser.picture("seed-003-5-audit").await;

    desk.open(&format!("/admin/emails/{id}")).await;
    desk.browser.press(".head", "Restore").await;
    desk.browser
        .until_shows(".head", "Failed (moved to dead letter queue)")
        .await;
}

#[tokio::test]
async fn test_6_the_overview_counts_what_is_in_retry_dead_and_delivered() {
    let desk = Desk::set_up().await;
    // Open before anything happens: the numbers must come by themselves.
    desk.open("/admin").await;
    desk.browser.until_shows(".empty", "No email yet").await;
    for n in 0..7 {
        submit(&desk.server, &notification(&format!("user{n}@example.org"))).await;
    }
    for n in 0..2 {
        submit(
            &desk.server,
            &notification(&format!("tempfail+{n}@example.org")),
        )
        .await;
    }
    desk.dead_letter().await;
    let value = |name: &str| format!("#card-{name} .value");
    let is = |wanted: &'static str| move |text: &str| text == wanted;
    desk.browser.until(&value("in-retry"), is("2")).await;
    desk.browser.until(&value("dead-letters"), is("1")).await;
    desk.browser
        .until(&value("success-rate"), is("87.5 %"))
        .await;
    desk.browser.until(&value("sent"), is("7")).await;
    desk.browser.picture("seed-003-6-overview").await;

    desk.sink.set_mode(Mode::Normal);
    let stats = get(&desk.server, "/v1/stats").await.body;
    assert_eq!(
        (&stats["in_retry"], &stats["dead_letters"]),
        (&json!(2), &json!(1))
    );
    verify(&desk.server).await;
}
