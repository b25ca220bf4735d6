//! One process per role, as in production.

use posthaste_testkit::process::{Posthaste, PosthasteBuilder};
use serde_json::json;

use crate::support::{email_to, post, until_healthy};

/// Three processes on the same database.
pub(crate) struct Fleet {
    pub(crate) api: Posthaste,
    pub(crate) sender: Posthaste,
    pub(crate) scheduler: Posthaste,
}

impl Fleet {
    /// Starts the three at the same moment, and waits until nothing is in trouble.
    pub(crate) async fn start(process: impl Fn() -> PosthasteBuilder) -> Self {
        let (api, sender, scheduler) = tokio::join!(
            process().role("api").start(),
            process().role("sender").start(),
            process().role("scheduler").start(),
        );
        let fleet = Self {
            api,
            sender,
            scheduler,
        };
        fleet.until_healthy().await;
        fleet
    }

    /// Waits until nothing is in trouble.
    pub(crate) async fn until_healthy(&self) {
        for process in [&self.api, &self.sender, &self.scheduler] {
            until_healthy(process).await;
        }
    }
}

/// Hands in one email per recipient and gives their ids.
pub(crate) async fn submit_many(
    api: &Posthaste,
    recipients: impl IntoIterator<Item = String>,
) -> Vec<String> {
    let emails: Vec<_> = recipients.into_iter().map(|to| email_to(&to)).collect();
    let answer = post(api, "/v1/emails/batch", &json!({"emails": emails})).await;
    assert_eq!(answer.status, 202, "{}", answer.body);
    let entries = answer.body["data"].as_array().unwrap();
    entries
        .iter()
        .map(|entry| entry["id"].as_str().unwrap().to_owned())
        .collect()
}
