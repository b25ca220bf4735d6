//! Waiting for a state, never for time to pass.

use std::time::Duration;

use reqwest::Method;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::{DEADLINE, Posthaste};

/// How often to ask.
const INTERVAL: Duration = Duration::from_millis(20);

impl Posthaste {
    /// Asks for an email until it is as wanted, and gives it.
    pub async fn wait_for_email(&self, id: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        self.wait_for(&format!("/v1/emails/{id}"), wanted).await
    }

    /// Asks for an email until it has this status, and gives it.
    pub async fn wait_for_status(&self, id: &str, status: &str) -> Value {
        self.wait_for_email(id, |email| email["status"] == status)
            .await
    }

    /// Waits until a line of its output has this in it.
    pub async fn wait_for_line(&self, text: &str) {
        let give_up = Instant::now() + DEADLINE;
        while !self.log.has(text) {
            if Instant::now() >= give_up {
                self.fail(&format!("it does not say `{text}`"));
            }
            sleep(INTERVAL).await;
        }
    }

    /// Asks for a path until the answer is as wanted, and gives it. Fails with the last answer
    /// and the server's output. While the server is away, it goes on asking.
    pub async fn wait_for(&self, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let give_up = Instant::now() + DEADLINE;
        loop {
            let request = self.request(Method::GET, path);
            let request = request.timeout(DEADLINE);
            let last = match self.try_answer(request).await {
                Ok((status, _, body)) if status.is_success() && wanted(&body) => return body,
                Ok((status, _, body)) => format!("{status} {body:#}"),
                Err(error) => format!("{error:?}"),
            };
            if Instant::now() >= give_up {
                self.fail(&format!("{path} did not become as wanted: {last}"));
            }
            sleep(INTERVAL).await;
        }
    }
}
