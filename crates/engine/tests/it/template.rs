//! Emails that are made from templates.

use std::time::Duration;

use posthaste_core::email::{EmailId, PolicyChoice};
use posthaste_core::port::{Actor, TemplateSaved};
use posthaste_core::retry_policy::RetryPolicy;
use posthaste_core::status::Priority;
use posthaste_core::template::TemplateContent;
use posthaste_engine::EmailRequest;
use posthaste_engine::intake::{Refused, Submitter, Taken};
use serde_json::{Value, json};

use crate::world::{World, a_request};

fn actor() -> Actor {
    Actor {
        name: "ann".into(),
        owner: None,
    }
}

fn order() -> TemplateContent {
    TemplateContent {
        from: Some("Shop <shop@example.org>".into()),
        subject: "Order {{ number }}".into(),
        html: Some("<p>{{ name }}</p>".into()),
        text: Some("Hello {{ name }}".into()),
        priority: Priority::High,
        ..TemplateContent::default()
    }
}

fn by(template: &str, variables: Value) -> EmailRequest {
    let variables = variables.as_object().cloned().unwrap_or_default();
    EmailRequest {
        to: vec!["ann@example.net".into()],
        template: Some(template.into()),
        variables: variables.into_iter().collect(),
        ..EmailRequest::default()
    }
}

fn for_ann() -> Value {
    json!({ "number": 7, "name": "Ann & Bob" })
}

async fn save(world: &World, content: TemplateContent) -> TemplateSaved {
    let templates = world.intake.templates();
    let saved = templates.save("order", content, None, &actor()).await;
    saved.unwrap()
}

async fn take(world: &World, requests: Vec<EmailRequest>) -> Vec<Result<Taken, Vec<String>>> {
    let submitter = Submitter {
        owner: "default".into(),
        from_addresses: Vec::new(),
    };
    let taken = world.intake.take(&submitter, requests).await;
    taken
        .into_iter()
        .map(|taken| {
            taken.map_err(|refused| match refused {
                Refused::Invalid(errors) => errors
                    .into_iter()
                    .map(|error| format!("{}: {}", error.field, error.message))
                    .collect(),
                other => panic!("{other:?}"),
            })
        })
        .collect()
}

/// What is said about one request.
async fn errors(world: &World, request: EmailRequest) -> Vec<String> {
    take(world, vec![request]).await.remove(0).unwrap_err()
}

#[tokio::test]
async fn a_template_gives_what_the_request_leaves_out() {
    let world = World::new();
    save(&world, order()).await;
    let id = world.accept(by("order", for_ann())).await;
    let email = world.email(id).await;
    assert_eq!(email.template.as_deref(), Some("order"));
    assert_eq!(email.summary.subject, "Order 7");
    assert_eq!(email.summary.from, "Shop <shop@example.org>");
    assert_eq!(email.priority, Priority::High);
    assert_eq!(email.policy, PolicyChoice::Named("notification".into()));
    assert_eq!(email.state.max_attempts, None);
}

#[tokio::test]
async fn what_the_request_says_counts_more() {
    let world = World::new();
    save(&world, order()).await;
    let request = EmailRequest {
        from: "ann@example.org".into(),
        subject: "Yours {{ number }}".into(),
        priority: Some("low".into()),
        retry_policy: Some(posthaste_engine::intake::PolicyRequest::Named(
            "email".into(),
        )),
        ..by("order", for_ann())
    };
    let email = world.email(world.accept(request).await).await;
    assert_eq!(email.summary.subject, "Yours {{ number }}", "as it is");
    assert_eq!(email.summary.from, "ann@example.org");
    assert_eq!(email.priority, Priority::Low);
    assert_eq!(email.policy, PolicyChoice::Named("email".into()));
}

#[tokio::test]
async fn a_template_of_its_own_schedule_gives_its_own_budget() {
    let world = World::new();
    let own = RetryPolicy {
        max_attempts: 5,
        ..RetryPolicy::notification()
    };
    let content = TemplateContent {
        policy: PolicyChoice::Own(Box::new(own.clone())),
        ..order()
    };
    save(&world, content).await;
    let email = world
        .email(world.accept(by("order", for_ann())).await)
        .await;
    assert_eq!(email.policy, PolicyChoice::Own(Box::new(own)));
    assert_eq!(email.state.max_attempts, Some(5));
}

#[tokio::test]
async fn what_is_wrong_is_named() {
    let world = World::new();
    save(&world, order()).await;
    let missing = errors(&world, by("order", json!({ "number": 7 }))).await;
    assert_eq!(
        missing,
        ["variables.name: is missing; the html of the template needs it"]
    );
    let near = errors(
        &world,
        EmailRequest {
            from: "a@example.org".into(),
            ..by("ordr", json!({}))
        },
    )
    .await;
    assert_eq!(
        near,
        ["template: there is no template called `ordr`; did you mean `order`?"]
    );
    let far = errors(
        &world,
        EmailRequest {
            from: "a@example.org".into(),
            ..by("../x\0", json!({}))
        },
    )
    .await;
    assert!(far[0].contains("posthaste templates push"), "{far:?}");
    let beside = EmailRequest {
        text: Some("own".into()),
        ..by("order", for_ann())
    };
    let beside = errors(&world, beside).await;
    assert!(
        beside[0].starts_with("text: stands beside a template"),
        "{beside:?}"
    );
    let injected = by("order", json!({ "number": "7\nBcc: x", "name": "x" }));
    let injected = errors(&world, injected).await;
    assert!(
        injected[0].starts_with("template: its subject: "),
        "{injected:?}"
    );
}

#[tokio::test]
async fn one_bad_entry_of_a_batch_spoils_no_other() {
    let world = World::new();
    save(&world, order()).await;
    let taken = take(
        &world,
        vec![
            by("order", for_ann()),
            by("order", json!({})),
            by("none", for_ann()),
            by("order", for_ann()),
        ],
    )
    .await;
    let accepted: Vec<_> = taken.iter().map(Result::is_ok).collect();
    assert_eq!(accepted, [true, false, false, true]);
}

fn keyed() -> EmailRequest {
    EmailRequest {
        message_key: Some("order-7".into()),
        ..by("order", for_ann())
    }
}

async fn is_replayed(world: &World, first: EmailId) {
    let again = take(world, vec![keyed(), by("none", for_ann())]).await;
    assert!(
        matches!(&again[0], Ok(Taken::Replayed { id, message_key, .. })
            if *id == first && message_key == "order-7"),
        "{again:?}"
    );
    assert!(again[1].is_err(), "{again:?}");
}

#[tokio::test]
async fn the_same_request_is_the_same_email_whatever_became_of_the_template() {
    let world = World::new();
    save(&world, order()).await;
    let first = world.accept(keyed()).await;
    let says_something_else = TemplateContent {
        text: Some("Dear {{ name }}".into()),
        ..order()
    };
    let needs_more = TemplateContent {
        text: Some("{{ something_new }}".into()),
        ..order()
    };
    let has_no_sender = TemplateContent {
        from: None,
        ..order()
    };
    for changed in [says_something_else, needs_more, has_no_sender] {
        save(&world, changed).await;
        is_replayed(&world, first).await;
    }
    let deleted = world.intake.templates().delete("order", &actor()).await;
    assert!(deleted.unwrap());
    is_replayed(&world, first).await;
}

#[tokio::test]
async fn another_request_under_the_key_conflicts_also_where_its_template_is_gone() {
    let world = World::new();
    save(&world, order()).await;
    let first = world.accept(keyed()).await;
    let other = EmailRequest {
        variables: [("number".to_owned(), json!(8))].into(),
        ..keyed()
    };
    let submitter = |owner: &str| Submitter {
        owner: owner.into(),
        from_addresses: Vec::new(),
    };
    let answer = world.intake.take(&submitter("default"), vec![other]).await;
    assert!(
        matches!(answer[0], Err(Refused::KeyConflict(id)) if id == first),
        "{answer:?}"
    );
    let deleted = world.intake.templates().delete("order", &actor()).await;
    assert!(deleted.unwrap());
    let requests = vec![
        keyed(),
        EmailRequest {
            message_key: Some("order-8".into()),
            ..keyed()
        },
        EmailRequest {
            message_key: Some("order-7\0".into()),
            ..keyed()
        },
    ];
    let elsewhere = world.intake.take(&submitter("shop"), requests).await;
    for answer in elsewhere {
        assert!(matches!(answer, Err(Refused::Invalid(_))), "{answer:?}");
    }
}

#[tokio::test]
async fn the_same_request_is_the_same_email_when_its_time_is_over() {
    let world = World::new();
    let now = world.store.now();
    let request = EmailRequest {
        message_key: Some("reminder".into()),
        expires_at: Some((now + Duration::from_secs(300)).to_string()),
        ..a_request()
    };
    let first = world.accept(request.clone()).await;
    world.clock.advance(Duration::from_secs(600));
    let late = EmailRequest {
        message_key: Some("other".into()),
        ..request.clone()
    };
    let answers = take(&world, vec![request, late]).await;
    assert!(
        matches!(answers[0], Ok(Taken::Replayed { id, .. }) if id == first),
        "{answers:?}"
    );
    assert_eq!(answers[1], Err(vec!["expires_at: is in the past".into()]));
}

#[tokio::test]
async fn a_save_acts_at_once_and_a_deleted_template_is_gone() {
    let world = World::new();
    for n in 0..20 {
        let content = TemplateContent {
            subject: format!("Order {{{{ number }}}} of {n}"),
            ..order()
        };
        save(&world, content).await;
        let email = world
            .email(world.accept(by("order", for_ann())).await)
            .await;
        assert_eq!(email.summary.subject, format!("Order 7 of {n}"));
    }
    let deleted = world.intake.templates().delete("order", &actor()).await;
    assert!(deleted.unwrap());
    assert_eq!(errors(&world, by("order", for_ann())).await.len(), 2);
}

#[tokio::test]
async fn another_instances_save_acts_soon() {
    let world = World::new();
    save(&world, order()).await;
    world.accept(by("order", for_ann())).await;
    let content = TemplateContent {
        subject: "Elsewhere".into(),
        ..order()
    };
    let (store, ann) = (&world.store, actor());
    let saved = store.save_template("order", content, None, &ann).await;
    saved.unwrap();
    loop {
        let email = world
            .email(world.accept(by("order", for_ann())).await)
            .await;
        if email.summary.subject == "Elsewhere" {
            break;
        }
        tokio::task::yield_now().await;
    }
}
