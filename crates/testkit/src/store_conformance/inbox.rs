//! The dev inbox.

use posthaste_core::email::EmailId;
use posthaste_core::port::Captured;

use super::StoreFixture;
use super::scene::{ALL, HOUR, Scene};
use crate::{an_email, sent};

fn captured<F: StoreFixture>(scene: &Scene<'_, F>, id: EmailId, content: &str) -> Captured {
    Captured {
        email_id: id,
        captured_at: scene.now(),
        from: "ann@example.com".into(),
        recipients: vec!["bob@example.org".into(), "carl@example.org".into()],
        content: content.to_owned().into(),
    }
}

pub async fn captured_mail_is_listed_newest_first(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let mut ids = Vec::new();
    for key in ["a", "b", "c"] {
        let id = scene.ended(an_email(key), sent()).await;
        let mail = captured(&scene, id, key);
        scene.store.capture(mail).await.expect("capture");
        ids.insert(0, id);
        scene.advance(HOUR).await;
    }
    let listed = scene.store.captures(2).await.expect("captures");
    let listed_ids: Vec<_> = listed.iter().map(|mail| mail.email_id).collect();
    assert_eq!(listed_ids, ids[..2]);
    assert!(listed.iter().all(|mail| mail.content.is_empty()));
    assert_eq!(listed[0].recipients.len(), 2);
    assert!(listed[0].captured_at > listed[1].captured_at);
    assert_eq!(scene.store.captures(ALL).await.expect("captures").len(), 3);
}

pub async fn the_newest_capture_of_an_email_is_found(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.ended(an_email("a"), sent()).await;
    for content in ["first", "second \0 \r\n"] {
        let mail = captured(&scene, id, content);
        scene.store.capture(mail).await.expect("capture");
    }
    let found = scene.store.find_capture(id).await.expect("find capture");
    let found = found.expect("a capture that is there");
    assert_eq!(found.content, "second \0 \r\n");
    assert_eq!((found.email_id, &found.from[..]), (id, "ann@example.com"));
    let other = scene.store.find_capture(EmailId::generate()).await;
    assert!(other.expect("find capture").is_none());
}

pub async fn erasing_an_email_erases_its_captures(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let id = scene.ended(an_email("a"), sent()).await;
    let other = scene.ended(an_email("b"), sent()).await;
    for id in [id, other] {
        let mail = captured(&scene, id, "body");
        scene.store.capture(mail).await.expect("capture");
    }
    scene.act(id, posthaste_core::port::Action::Erase).await;
    let found = scene.store.find_capture(id).await.expect("find capture");
    assert!(found.is_none());
    assert_eq!(scene.store.captures(ALL).await.expect("captures").len(), 1);
}
