//! High before normal before low, without starving anyone.

use posthaste_core::email::EmailId;
use posthaste_core::status::Priority;

use super::StoreFixture;
use super::scene::{ALL, HOUR, Scene};
use crate::{an_email, transient};

/// What goes first comes first.
const IN_ORDER: [Priority; 3] = [Priority::High, Priority::Normal, Priority::Low];

/// So many of each priority, of which the least come in first.
async fn waiting<F: StoreFixture>(
    scene: &Scene<'_, F>,
    each: usize,
    has_failed: bool,
) -> Vec<(EmailId, Priority)> {
    let mut all = Vec::new();
    for priority in IN_ORDER.into_iter().rev() {
        for n in 0..each {
            let email = an_email(&format!("{priority} {n} {has_failed}")).priority(priority);
            let id = match has_failed {
                true => scene.ended(email, transient(HOUR)).await,
                false => scene.accept_unticketed(email).await,
            };
            all.push((id, priority));
        }
    }
    all
}

fn of(all: &[(EmailId, Priority)], id: EmailId) -> Priority {
    let found = all.iter().find(|(known, _)| *known == id);
    found.expect("an email of this case").1
}

pub async fn a_scheduler_takes_what_goes_first_first(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let failed = waiting(&scene, 2, true).await;
    let new = waiting(&scene, 2, false).await;
    let all = [failed, new].concat();
    scene.advance(HOUR).await;
    let mut claimed = Vec::new();
    for most in [3, 1, ALL] {
        let due = scene.claim(most).await;
        claimed.extend(due.iter().map(|due| of(&all, due.id)));
        assert!(due.iter().all(|due| due.priority == of(&all, due.id)));
    }
    let expected = IN_ORDER.map(|priority| [priority; 4]).concat();
    assert_eq!(claimed, expected);
}

pub async fn a_sender_takes_what_goes_first_first(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let failed = waiting(&scene, 2, true).await;
    let new = waiting(&scene, 2, false).await;
    let all = [failed, new].concat();
    scene.advance(2 * HOUR).await;
    let mut begun = Vec::new();
    for most in [3, 1, ALL] {
        let some = scene.begin_unticketed(most, scene.now()).await;
        begun.extend(some.iter().map(|started| of(&all, started.lease.id)));
    }
    let expected = IN_ORDER.map(|priority| [priority; 4]).concat();
    assert_eq!(begun, expected);
}

pub async fn nobody_starves_while_others_keep_coming(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    // More of what goes first than is ever taken here, by a scheduler and by a sender.
    for (n, priority) in [
        (80, Priority::High),
        (2, Priority::Normal),
        (2, Priority::Low),
    ] {
        for at in 0..n {
            let email = an_email(&format!("{priority} {at}")).priority(priority);
            scene.accept_unticketed(email).await;
        }
    }
    let by_scheduler = async || {
        let due = scene.claim(1).await;
        due.iter().map(|due| due.priority).collect::<Vec<_>>()
    };
    let by_sender = async || {
        let begun = scene.begin_unticketed(1, scene.now()).await;
        let id = begun[0].lease.id;
        vec![scene.find(id).await.priority]
    };
    let (mut claimed, mut begun) = (Vec::new(), Vec::new());
    for _ in 0..16 {
        claimed.extend(by_scheduler().await);
        begun.extend(by_sender().await);
    }
    for taken in [claimed, begun] {
        let times = |wanted| taken.iter().filter(|priority| **priority == wanted).count();
        assert_eq!(IN_ORDER.map(times), [14, 1, 1], "{taken:?}");
    }
}
