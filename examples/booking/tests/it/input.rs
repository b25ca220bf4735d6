//! What the application refuses, and how it says so.

use serde_json::{Value, json};

use crate::world::World;

#[tokio::test]
async fn bad_input_is_refused_by_field_and_changes_nothing() {
    let world = World::start().await;
    let good = world.wish().await;
    for (field, value, fix) in [
        ("name", json!(""), "write who comes"),
        ("email", json!("ada"), "write an address such as"),
        ("slot", json!("tomorrow"), "GET /api/slots"),
        ("slot", json!("2099-12-31T18:00"), "GET /api/slots"),
    ] {
        let mut wish = good.clone();
        wish[field] = value;
        let answer = world.post("/api/book", &wish).await;
        assert_eq!(answer.status, 422, "{wish}");
        let errors = answer.body["errors"].as_array().unwrap();
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert_eq!(errors[0]["field"], field);
        let message = errors[0]["message"].as_str().unwrap();
        assert!(message.contains(fix), "{message}");
    }
    for wrong in [json!({"name": 5}), json!([])] {
        let answer = world.post("/api/book", &wrong).await;
        assert_eq!(answer.status, 422, "{}", answer.body);
        assert!(answer.body["error"].is_string(), "{}", answer.body);
    }
    assert_eq!(world.get("/api/bookings").await.body, json!([]));
    assert_eq!(world.rows(), 0);
    assert_eq!(world.mail_server.received(), []);
}

#[tokio::test]
async fn a_name_cannot_break_out_of_a_header() {
    let world = World::start().await;
    let mut wish = world.wish().await;
    wish["name"] = json!("Lovelace, \"Ada\" \\ née Byron; x@y");

    let answer = world.post("/api/book", &wish).await;

    assert_eq!(answer.status, 200, "{}", answer.body);
    world.settle().await;
    let message = world.mail_server.only_one();
    assert_eq!(message.recipients[0], "ada@example.org");
    let invitation = crate::invitation::invitation_in(&message);
    let attendees = invitation["attendees"].as_array().unwrap();
    assert_eq!(attendees.len(), 1, "{attendees:?}");
    assert_eq!(attendees[0]["address"], "mailto:ada@example.org");
    assert_eq!(world.entries().await, [] as [Value; 0]);
}
