//! Visitors who do not wait for the answer, and those who come at the same time.

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use posthaste_booking::booking::BookingRequest;
use serde_json::json;

use crate::world::{World, eventually, text};

#[tokio::test]
async fn a_visitor_who_hangs_up_right_away_still_gets_the_confirmation() {
    let world = World::start().await;
    let wish = world.wish().await;
    let request = BookingRequest {
        name: "Ada".into(),
        email: "ada@example.org".into(),
        slot: text(&wish["slot"]).into(),
    };

    let answer = world.studio.book(request).now_or_never();

    assert!(answer.is_none(), "it was begun and dropped");
    eventually("it is sent", async || {
        world.mail_server.received().len() == 1
    })
    .await;
}

#[tokio::test]
async fn of_many_who_want_the_same_slot_one_gets_it_and_one_email_is_sent() {
    let world = World::start().await;
    let wish = world.wish().await;

    let answers = join_all((0..20).map(|_| world.post("/api/book", &wish))).await;

    let mut statuses: Vec<_> = answers.iter().map(|one| one.status.as_u16()).collect();
    statuses.sort_unstable();
    assert_eq!(statuses[..2], [200, 409]);
    assert!(statuses[1..].iter().all(|status| *status == 409));
    world.settle().await;
    world.mail_server.only_one();
}

#[tokio::test]
async fn a_booking_that_is_cancelled_twice_is_cancelled_once_and_makes_room() {
    let world = World::start().await;
    let booking = world.book().await;
    let first = world.cancel(&booking).await;
    let second = world.cancel(&booking).await;
    assert_eq!(first, second);
    world.settle().await;
    assert_eq!(world.mail_server.received().len(), 2, "one of each");

    let again = world.book().await;

    assert_eq!(again["slot"], booking["slot"]);
    assert_ne!(again["uid"], booking["uid"]);
    let nobody = world
        .post("/api/bookings/nonsense/cancel", &json!({}))
        .await;
    assert_eq!(nobody.status, 404);
}
