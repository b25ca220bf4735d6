//! Finding emails.

use posthaste_core::email::EmailId;
use posthaste_core::port::EmailFilter;
use posthaste_core::status::{DeadReason, Status};

use super::scene::{ALL, HOUR, Scene};
use super::{StoreFixture, same_ids};
use crate::{an_email, dead, dead_of, sent, transient};

fn by_q(q: &str) -> EmailFilter {
    EmailFilter {
        q: Some(q.into()),
        ..Default::default()
    }
}

fn by_to(to: &str) -> EmailFilter {
    EmailFilter {
        to: Some(to.into()),
        ..Default::default()
    }
}

pub async fn the_newest_come_first_and_without_attempts(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let mut expected = Vec::new();
    for key in ["a", "b", "c"] {
        expected.insert(0, scene.ended(an_email(key), sent()).await);
    }
    assert_eq!(scene.list(EmailFilter::default()).await, expected);
    let filter = EmailFilter {
        limit: 2,
        ..Default::default()
    };
    let listed = scene.store.list(&filter).await.expect("list");
    assert_eq!(listed.len(), 2);
    for record in listed {
        let found = scene.find(record.id).await;
        assert_eq!(record.message_key, found.message_key);
        assert_eq!(record.state, found.state);
        assert!(record.attempts.is_empty() && !found.attempts.is_empty());
    }
}

pub async fn what_very_many_emails_share_is_found_like_what_few_do(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let rare = scene
        .accept(
            an_email("rare")
                .subject("Receipt 1")
                .to(["ann@example.org"]),
        )
        .await;
    let many: Vec<_> = (0..700)
        .map(|n| {
            an_email(&format!("{n}"))
                .subject("Receipt 2")
                .to(["bob@example.org", "x@example.org"])
        })
        .map(crate::EmailBuilder::build)
        .collect();
    let newest: Vec<EmailId> = many.iter().rev().take(3).map(|email| email.id).collect();
    scene.store.accept(many, true).await.expect("accept");
    for filter in [
        by_q("receipt"),
        by_q("receipt 2"),
        by_to("bob@example.org"),
        by_to("X@example.org"),
        by_q("bob@example.org"),
    ] {
        let filter = EmailFilter { limit: 3, ..filter };
        assert_eq!(scene.list(filter.clone()).await, newest, "{filter:?}");
    }
    for filter in [by_q("receipt 1"), by_to("ann@example.org"), by_q("rare")] {
        assert_eq!(scene.list(filter).await, [rare]);
    }
    let both = EmailFilter {
        to: Some("ann@example.org".into()),
        ..by_q("receipt")
    };
    assert_eq!(scene.list(both).await, [rare]);
}

pub async fn the_attempts_of_many_come_by_email_and_in_order(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let (one, two) = (
        scene
            .ended(an_email("one"), dead(DeadReason::HardBounce))
            .await,
        scene.ended(an_email("two"), sent()).await,
    );
    scene.accept(an_email("none")).await;
    let attempts = scene.store.attempts(&[two, one]).await.expect("attempts");
    let found: Vec<_> = attempts.iter().map(|(id, a)| (*id, a.number)).collect();
    assert_eq!(found, [(one, 1), (two, 1)]);
    assert_eq!(attempts[0].1, scene.find(one).await.attempts[0]);
    assert!(
        scene
            .store
            .attempts(&[])
            .await
            .expect("attempts")
            .is_empty()
    );
}

pub async fn pages_have_no_gaps_and_no_repeats(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let emails: Vec<_> = (0..250)
        .map(|n| an_email(&format!("{n}")).build())
        .collect();
    let mut expected: Vec<EmailId> = emails.iter().map(|email| email.id).collect();
    expected.reverse();
    let accepted = scene.store.accept(emails, true).await.expect("accept");
    assert_eq!(accepted.len(), 250);
    let mut seen = Vec::new();
    loop {
        let page = EmailFilter {
            limit: 33,
            after: seen.last().copied(),
            ..Default::default()
        };
        let page = scene.list(page).await;
        if page.is_empty() {
            break;
        }
        assert!(page.len() <= 33);
        seen.extend(page);
        // What arrives meanwhile is newer than the cursor and moves nothing.
        let key = format!("meanwhile {}", seen.len());
        scene.accept(an_email(&key)).await;
    }
    assert_eq!(seen, expected);
}

pub async fn emails_are_found_by_status(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let pending = scene.accept(an_email("pending")).await;
    let delivered = scene.ended(an_email("sent"), sent()).await;
    let failed = scene.ended(an_email("failed"), transient(HOUR)).await;
    let given_up = scene
        .ended(an_email("dead"), dead(DeadReason::HardBounce))
        .await;
    let by = |statuses: &[Status]| EmailFilter {
        statuses: statuses.to_vec(),
        ..Default::default()
    };
    for (status, id) in [
        (Status::Pending, pending),
        (Status::Sent, delivered),
        (Status::Failed, failed),
        (Status::Dead, given_up),
    ] {
        assert_eq!(scene.list(by(&[status])).await, [id]);
    }
    let both = by(&[Status::Dead, Status::Pending, Status::Unknown]);
    assert_eq!(scene.list(both).await, [given_up, pending]);
    assert!(scene.list(by(&[Status::Discarded])).await.is_empty());
    let mut after = by(&[Status::Dead]);
    after.after = Some(given_up);
    assert!(scene.list(after).await.is_empty());
}

pub async fn emails_are_found_by_owner_template_and_age(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let old = scene.accept(an_email("old").template("welcome")).await;
    scene.advance(HOUR).await;
    let since = scene.now();
    let new = scene.accept(an_email("new").template("welcome")).await;
    let shop = an_email("shop").owner("shop").template("receipt");
    let shop = scene.accept(shop).await;
    let plain = scene.accept(an_email("plain")).await;
    let template = |template: &str| EmailFilter {
        template: Some(template.into()),
        ..Default::default()
    };
    assert_eq!(scene.list(template("welcome")).await, [new, old]);
    assert_eq!(scene.list(template("receipt")).await, [shop]);
    assert!(scene.list(template("Welcome")).await.is_empty());
    let owner = |owner: &str| EmailFilter {
        owner: Some(owner.into()),
        ..Default::default()
    };
    assert_eq!(scene.list(owner("shop")).await, [shop]);
    assert_eq!(scene.list(owner("default")).await, [plain, new, old]);
    let recent = EmailFilter {
        since: Some(since),
        ..template("welcome")
    };
    assert_eq!(scene.list(recent).await, [new]);
    let both = EmailFilter {
        owner: Some("shop".into()),
        ..template("welcome")
    };
    assert!(scene.list(both).await.is_empty());
}

pub async fn emails_are_found_by_any_recipient(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let one = scene.accept(an_email("one").to(["Ann@example.org"])).await;
    let two = an_email("two").to(["bob@example.org", "Ann@Example.org"]);
    let two = scene.accept(two).await;
    scene
        .accept(an_email("three").to(["joann@example.org"]))
        .await;
    for to in ["ann@example.org", "ANN@example.ORG"] {
        assert_eq!(scene.list(by_to(to)).await, [two, one], "{to}");
        assert_eq!(scene.list(by_q(to)).await, [two, one], "{to}");
    }
    assert_eq!(scene.list(by_to("bob@example.org")).await, [two]);
    assert!(
        scene.list(by_to("ann")).await.is_empty(),
        "only whole addresses"
    );
    assert!(scene.list(by_to("%@example.org")).await.is_empty());
}

pub async fn a_search_finds_ids_keys_and_subjects(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let invoice = an_email("order-4711").subject("Your Invoice 4711");
    let invoice = scene.accept(invoice).await;
    let reminder = an_email("order-4712").subject("your invoice is due");
    let reminder = scene.accept(reminder).await;
    let other = scene
        .accept(an_email("50% off").subject("100% discount"))
        .await;

    assert_eq!(scene.list(by_q(&invoice.to_string())).await, [invoice]);
    let upper = invoice.to_string().to_uppercase();
    assert_eq!(scene.list(by_q(&upper)).await, [invoice]);
    assert_eq!(scene.list(by_q("order-4712")).await, [reminder]);
    assert!(
        scene.list(by_q("order")).await.is_empty(),
        "only whole keys"
    );
    for q in ["Your Invoice", "your invoice", "YOUR INVOICE"] {
        assert_eq!(scene.list(by_q(q)).await, [reminder, invoice], "{q}");
    }
    assert_eq!(scene.list(by_q("Your Invoice 4711")).await, [invoice]);
    assert!(
        scene.list(by_q("Invoice")).await.is_empty(),
        "only the start"
    );
    assert_eq!(scene.list(by_q("100%")).await, [other]);
    assert_eq!(scene.list(by_q("50% off")).await, [other]);
    // What would be a wildcard or would end a string elsewhere is plain text here.
    for q in ["%", "_our", "' OR 1 = 1 --", "\"", "\\"] {
        assert!(scene.list(by_q(q)).await.is_empty(), "{q}");
    }
    let unknown = EmailId::generate().to_string();
    assert!(scene.list(by_q(&unknown)).await.is_empty());
    // A key may look like an id.
    let odd = scene.accept(an_email(&unknown)).await;
    assert_eq!(scene.list(by_q(&unknown)).await, [odd]);
}

pub async fn dead_letters_are_found_by_fingerprint(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let full = "552 5.2.2 Mailbox full";
    let a = dead_of(DeadReason::HardBounce, full);
    let fingerprint = a.fingerprint.clone();
    let a = scene.ended(an_email("a"), a).await;
    let b = dead_of(DeadReason::PolicyBlocked, "550 5.7.1 Blocked");
    scene.ended(an_email("b"), b).await;
    // One that is not dead may have failed the same way.
    let mut again = transient(HOUR);
    again.fingerprint.clone_from(&fingerprint);
    scene.ended(an_email("c"), again).await;
    let filter = EmailFilter {
        fingerprint,
        ..Default::default()
    };
    assert_eq!(scene.list(filter).await, [a]);
    // Those that never got as far as an error go by the reason.
    let expired = an_email("expired").expires_at(scene.now() + HOUR);
    let expired = scene.accept_unticketed(expired).await;
    scene.advance(2 * HOUR).await;
    scene.claim(ALL).await;
    let filter = EmailFilter {
        fingerprint: Some("Expired".into()),
        ..Default::default()
    };
    assert_eq!(scene.list(filter).await, [expired]);
}

pub async fn an_email_that_is_not_there_is_not_found(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    scene.accept(an_email("a")).await;
    let id = EmailId::generate();
    assert!(scene.store.find(id).await.expect("find").is_none());
    assert!(scene.store.content(id).await.expect("content").is_none());
}

pub async fn filters_narrow_each_other(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let mut expected = Vec::new();
    for n in 0..12 {
        let owner = if n % 2 == 0 { "even" } else { "odd" };
        let template = if n % 3 == 0 { "three" } else { "other" };
        let email = an_email(&format!("{n}")).owner(owner).template(template);
        let id = scene
            .accept(email.to(["x@example.org", "y@example.org"]))
            .await;
        if n % 4 != 0 {
            scene.attempt(id, sent()).await;
        }
        if n % 2 == 0 && n % 3 == 0 && n % 4 == 0 {
            expected.push(id);
        }
    }
    let filter = EmailFilter {
        owner: Some("even".into()),
        template: Some("three".into()),
        statuses: vec![Status::Pending],
        to: Some("Y@example.org".into()),
        q: Some("subject of".into()),
        ..Default::default()
    };
    same_ids(scene.list(filter).await, expected);
}
