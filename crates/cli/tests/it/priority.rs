//! High before normal before low, and low all the same.

use posthaste_sink::{Mode, Sink};
use posthaste_testkit::process::Posthaste;
use serde_json::json;

use crate::backend::Backend;
use crate::support::{a_sink, email_to, verify};
use crate::ways_support::submit_all;

/// Hands in so many emails of a priority. Their recipients say which.
async fn submit_of(server: &Posthaste, priority: &str, count: usize) {
    let email = |n| {
        let mut email = email_to(&format!("{priority}@d{n}.example.org"));
        email["priority"] = json!(priority);
        email
    };
    let emails: Vec<_> = (0..count).map(email).collect();
    submit_all(server, &emails).await;
}

/// At which places in the order of arrival those of a priority came.
fn places(sink: &Sink, priority: &str) -> Vec<usize> {
    let messages = sink.messages();
    let arrived = messages.iter().enumerate();
    let wanted = arrived.filter(|(_, message)| message.recipients[0].starts_with(priority));
    wanted.map(|(place, _)| place).collect()
}

/// An API without a sender, and a sender of one connection that comes when all is queued.
async fn queue_and_send(backend: &Backend, sink: &Sink, queued: &[(&str, usize)]) {
    let one = || {
        backend
            .sending_to(sink)
            .env("POSTHASTE_SENDER__CONNECTIONS", "1")
    };
    let api = one().role("api,scheduler").start().await;
    for (priority, count) in queued {
        submit_of(&api, priority, *count).await;
    }
    // Slow enough that one is not done with all before it has looked twice.
    sink.set_mode(Mode::Delay(std::time::Duration::from_millis(3)));
    let sender = one().role("sender").start().await;
    let total = queued.iter().map(|(_, count)| *count as u64).sum();
    sink.wait_for(total).await;
    drop(sender);
    verify(&api).await;
}

async fn high_overtakes_low(backend: &Backend) {
    let sink = a_sink().await;
    queue_and_send(backend, &sink, &[("low", 200), ("high", 20)]).await;
    let high = places(&sink, "high");
    assert_eq!(high.len(), 20);
    // Low gets its share meanwhile, and a few are taken before there is anything to choose from.
    assert!(
        high[19] < 80,
        "the last of 20 came at place {} of 220",
        high[19]
    );
}

async fn low_is_not_starved_by_high(backend: &Backend) {
    let sink = a_sink().await;
    queue_and_send(backend, &sink, &[("high", 300), ("low", 10)]).await;
    let low = places(&sink, "low");
    assert_eq!(low.len(), 10);
    assert!(
        low[9] < 250,
        "the last of 10 came at place {} of 310",
        low[9]
    );
}

mod postgres {
    crate::backend::scenario!(postgres, high_overtakes_low);
    crate::backend::scenario!(postgres, low_is_not_starved_by_high);
}

mod postgres_and_rabbitmq {
    crate::backend::scenario!(postgres_and_rabbitmq, high_overtakes_low);
    crate::backend::scenario!(postgres_and_rabbitmq, low_is_not_starved_by_high);
}
