//! Templates in all their versions.

use posthaste_core::email::PolicyChoice;
use posthaste_core::port::{AuditFilter, TemplateSaved};
use posthaste_core::retry_policy::RetryPolicy;
use posthaste_core::status::Priority;
use posthaste_core::template::{Template, TemplateContent};
use serde_json::json;

use super::StoreFixture;
use super::scene::{ALL, HOUR, Scene, operator, together};

fn saying(subject: &str) -> TemplateContent {
    TemplateContent {
        subject: subject.into(),
        text: Some("Hello {{ name }}".into()),
        ..TemplateContent::default()
    }
}

fn full() -> TemplateContent {
    let sample = json!({ "name": "Zoë", "lines": [1, 2.5, null, {"a": "\u{1F600}"}] });
    TemplateContent {
        description: "Sent after an order".into(),
        from: Some("Shop <shop@example.org>".into()),
        subject: "Your order {{ number }}".into(),
        html: Some("<p>{{ name }}</p>".into()),
        text: None,
        priority: Priority::High,
        policy: PolicyChoice::Own(Box::new(RetryPolicy::notification())),
        route: Some("bulk".into()),
        sample: sample.as_object().cloned().unwrap_or_default(),
    }
}

impl<F: StoreFixture> Scene<'_, F> {
    async fn save(
        &self,
        name: &str,
        content: TemplateContent,
        based_on: Option<u32>,
    ) -> TemplateSaved {
        let root = operator();
        let saved = self.store.save_template(name, content, based_on, &root);
        saved.await.expect("save")
    }

    /// Saves what becomes a new version.
    async fn save_new(&self, name: &str, content: TemplateContent) -> Template {
        match self.save(name, content, None).await {
            TemplateSaved::Saved(template) => template,
            other => panic!("{other:?}"),
        }
    }

    async fn template(&self, name: &str, version: Option<u32>) -> Option<Template> {
        self.store.template(name, version).await.expect("template")
    }

    async fn versions(&self, name: &str) -> Vec<u32> {
        let versions = self.store.template_versions(name).await.expect("versions");
        versions.iter().map(|one| one.version).collect()
    }

    async fn delete(&self, name: &str) -> bool {
        let root = operator();
        let deleted = self.store.delete_template(name, &root);
        deleted.await.expect("delete")
    }

    /// What was done to a template, oldest first.
    async fn done_to(&self, name: &str) -> Vec<(String, String)> {
        let filter = AuditFilter {
            subject: Some(name.to_owned()),
            ..AuditFilter::newest(ALL)
        };
        let entries = self.store.audit(&filter).await.expect("audit");
        let done = entries
            .into_iter()
            .map(|entry| (entry.action, entry.result));
        done.rev().collect()
    }
}

pub async fn a_template_is_kept_as_it_was_saved(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let (saved, moment) = scene.timed(scene.save_new("order", full())).await;
    moment.is(Some(saved.saved_at));
    assert_eq!((saved.version, &saved.content), (1, &full()));
    assert_eq!(saved.saved_by, operator().name);
    assert_eq!(scene.template("order", None).await, Some(saved));
    assert_eq!(scene.template("other", None).await, None);
    assert_eq!(scene.template("or\0der", None).await, None);
    assert!(scene.versions("or\0der").await.is_empty());
    assert!(!scene.delete("or\0der").await);
}

pub async fn every_version_is_kept(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let first = scene.save_new("order", saying("one")).await;
    scene.advance(HOUR).await;
    let second = scene.save_new("order", saying("two")).await;
    assert_eq!((first.version, second.version), (1, 2));
    let versions = scene.store.template_versions("order").await;
    let versions = versions.expect("versions");
    let listed: Vec<_> = versions.iter().map(|v| (v.version, v.saved_at)).collect();
    assert_eq!(listed, [(2, second.saved_at), (1, first.saved_at)]);
    assert_eq!(scene.template("order", Some(1)).await, Some(first));
    assert_eq!(scene.template("order", Some(2)).await, Some(second.clone()));
    assert_eq!(scene.template("order", None).await, Some(second));
    assert_eq!(scene.template("order", Some(3)).await, None);
    assert_eq!(scene.template("order", Some(u32::MAX)).await, None);
}

pub async fn the_newest_of_each_are_listed_by_name(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    for name in ["b", "a-2", "a.1", "a_3", "gone"] {
        scene.save_new(name, saying("old")).await;
        scene.save_new(name, saying(name)).await;
    }
    scene.delete("gone").await;
    let templates = scene.store.templates().await.expect("templates");
    let listed: Vec<_> = templates
        .iter()
        .map(|one| (&one.name[..], one.version, &one.content.subject[..]))
        .collect();
    let expected = ["a-2", "a.1", "a_3", "b"].map(|name| (name, 2, name));
    assert_eq!(listed, expected);
}

pub async fn what_is_unchanged_makes_no_version(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let first = scene.save_new("order", full()).await;
    for based_on in [None, Some(1), Some(0)] {
        let again = scene.save("order", full(), based_on).await;
        assert_eq!(again, TemplateSaved::Unchanged(first.clone()));
    }
    assert_eq!(scene.versions("order").await, [1]);
    assert_eq!(scene.done_to("order").await.len(), 1);
}

pub async fn an_edit_of_an_older_version_conflicts(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let unknown = scene.save("order", saying("one"), Some(1)).await;
    assert_eq!(unknown, TemplateSaved::Conflict(0), "there is none");
    let created = scene.save("order", saying("one"), Some(0)).await;
    assert!(matches!(created, TemplateSaved::Saved(_)), "{created:?}");
    let twice = scene.save("order", saying("other"), Some(0)).await;
    assert_eq!(twice, TemplateSaved::Conflict(1));
    let edited = scene.save("order", saying("two"), Some(1)).await;
    assert!(matches!(edited, TemplateSaved::Saved(_)), "{edited:?}");
    let late = scene.save("order", saying("three"), Some(1)).await;
    assert_eq!(late, TemplateSaved::Conflict(2));
    assert_eq!(scene.versions("order").await, [2, 1]);
    assert_eq!(scene.done_to("order").await.len(), 2);
}

pub async fn a_deleted_template_is_not_there_and_goes_on_counting(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let first = scene.save_new("order", saying("one")).await;
    scene.save_new("order", saying("two")).await;
    assert!(scene.delete("order").await);
    assert!(!scene.delete("order").await);
    assert!(!scene.delete("other").await);
    assert_eq!(scene.template("order", None).await, None);
    assert_eq!(scene.template("order", Some(1)).await, None);
    assert!(scene.versions("order").await.is_empty());
    assert!(scene.store.templates().await.expect("templates").is_empty());

    let late = scene.save("order", saying("three"), Some(2)).await;
    assert_eq!(late, TemplateSaved::Conflict(0));
    // The same as before it was deleted is no reason to do nothing.
    let anew = scene.save("order", saying("two"), Some(0)).await;
    let TemplateSaved::Saved(anew) = anew else {
        panic!("{anew:?}")
    };
    assert_eq!(anew.version, 3);
    assert_eq!(scene.versions("order").await, [3, 2, 1]);
    assert_eq!(scene.template("order", Some(1)).await, Some(first));
}

pub async fn of_two_who_edit_the_same_version_one_wins(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let store = scene.store.clone();
    let saved = together(8, move |n| {
        let store = store.clone();
        async move {
            let content = saying(&format!("by {n}"));
            let root = operator();
            let saved = store.save_template("order", content, Some(0), &root);
            saved.await.expect("save")
        }
    })
    .await;
    let won = saved
        .iter()
        .filter(|saved| matches!(saved, TemplateSaved::Saved(one) if one.version == 1));
    assert_eq!(won.count(), 1, "{saved:?}");
    let lost = saved
        .iter()
        .filter(|saved| **saved == TemplateSaved::Conflict(1));
    assert_eq!(lost.count(), 7, "{saved:?}");
}

pub async fn those_who_save_whatever_is_there_get_different_versions(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let store = scene.store.clone();
    let saved = together(8, move |n| {
        let store = store.clone();
        async move {
            let content = saying(&format!("by {n}"));
            let root = operator();
            let saved = store.save_template("order", content, None, &root);
            saved.await.expect("save")
        }
    })
    .await;
    let mut versions: Vec<_> = saved
        .iter()
        .map(|saved| match saved {
            TemplateSaved::Saved(one) => one.version,
            other => panic!("{other:?}"),
        })
        .collect();
    versions.sort_unstable();
    assert_eq!(versions, (1..=8).collect::<Vec<_>>());
}

pub async fn every_change_of_a_template_leaves_an_audit_entry(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    scene.save_new("order", saying("one")).await;
    scene.save_new("order", saying("two")).await;
    scene.delete("order").await;
    scene.delete("order").await;
    let done = scene.done_to("order").await;
    let done: Vec<_> = done.iter().map(|(a, r)| (&a[..], &r[..])).collect();
    let expected = [
        ("save_template", "version 1"),
        ("save_template", "version 2"),
        ("delete_template", "deleted"),
    ];
    assert_eq!(done, expected);
}

pub async fn text_that_cannot_be_kept_is_an_error_and_spoils_nothing(fixture: &impl StoreFixture) {
    let scene = Scene::new(fixture);
    let first = scene.save_new("order", saying("one")).await;
    // SQLite keeps it, PostgreSQL cannot: either way it is all or nothing.
    let saved = scene
        .store
        .save_template("order", saying("t\0wo"), None, &operator())
        .await;
    match saved {
        Ok(TemplateSaved::Saved(second)) => {
            assert_eq!(scene.template("order", None).await, Some(second));
        }
        Ok(other) => panic!("{other:?}"),
        Err(_) => {
            assert_eq!(scene.template("order", None).await, Some(first));
            assert_eq!(scene.done_to("order").await.len(), 1);
        }
    }
    scene.save_new("order", saying("three")).await;
}
