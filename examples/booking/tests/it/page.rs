//! The page, as a browser without scripts uses it.

use serde_json::Value;

use crate::world::{World, text};

#[tokio::test]
async fn a_slot_is_booked_and_cancelled_by_hand() {
    let world = World::start().await;
    let slots = world.get("/api/slots").await.body;
    let slot = text(&slots[0]);
    let page = world.get("/").await;
    assert!(text(&page.body).contains(&format!("value=\"{slot}\"")));
    assert!(text(&page.body).contains("href=\"/admin/email-queue\""));

    let fields = [
        ("name", "Ada & Co"),
        ("email", "ada@example.org"),
        ("slot", slot),
    ];
    let booked = world.submit("/book", &fields).await;

    assert_eq!(booked.status, 303);
    let page = world.get(&booked.location).await;
    let page = text(&page.body);
    assert!(page.contains("on its way to ada@example.org"), "{page}");
    assert!(page.contains("Ada &amp; Co"), "{page}");
    assert!(!page.contains(&format!("value=\"{slot}\"")), "it is taken");

    let (_, rest) = page.split_once("action=\"/bookings/").unwrap();
    let path = format!("/bookings/{}", rest.split('"').next().unwrap());
    assert_eq!(world.submit(&path, &[]).await.status, 303);
    let page = world.get("/").await;
    assert!(text(&page.body).contains(&format!("value=\"{slot}\"")));
    let bookings = world.get("/api/bookings").await.body;
    assert_eq!(bookings[0]["cancelled"], true);
    world.settle().await;
    assert_eq!(world.mail_server.received().len(), 2);
}

#[tokio::test]
async fn what_is_wrong_is_shown_beside_what_was_filled_in() {
    let world = World::start().await;
    let fields = [("name", "<b>Ada</b>"), ("email", "ada@"), ("slot", "")];

    let answer = world.submit("/book", &fields).await;

    assert_eq!(answer.status, 422);
    let page = text(&answer.body);
    assert!(page.contains("value=\"&lt;b&gt;Ada&lt;/b&gt;\""), "{page}");
    for message in [
        "name has `&lt;` or `&gt;`",
        "email has no domain after",
        "slot is not on offer",
    ] {
        assert!(page.contains(message), "{message}: {page}");
    }
    assert_eq!(world.get("/api/bookings").await.body, Value::Array(vec![]));
}

#[tokio::test]
async fn a_slot_that_was_taken_meanwhile_is_told_on_the_page() {
    let world = World::start().await;
    let booking = world.book().await;
    let slot = text(&booking["slot"]);
    let fields = [
        ("name", "Bob"),
        ("email", "bob@example.org"),
        ("slot", slot),
    ];

    let answer = world.submit("/book", &fields).await;

    assert_eq!(answer.status, 409);
    assert!(text(&answer.body).contains("choose another one"));
}
