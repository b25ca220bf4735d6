//! Waiting until nothing is under way any more.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::stored::Books;
use crate::client::Client;
use crate::rig::fleet::Fleet;

const ASK_EVERY: Duration = Duration::from_millis(500);
/// States that something still has to happen to.
const UNDER_WAY: [&str; 4] = ["pending", "sending", "failed", "retry_queued"];

/// Returns once the API and the database agree that nothing is under way.
pub(crate) async fn drained(fleet: &Fleet, books: &Books) -> anyhow::Result<()> {
    loop {
        fleet.check()?;
        let left = by_api(fleet).await.is_some_and(|left| left.is_empty());
        // Only then the more expensive question, which knows more.
        if left && books.under_way().await.is_ok_and(|left| left.is_empty()) {
            return Ok(());
        }
        tokio::time::sleep(ASK_EVERY).await;
    }
}

/// What is under way according to `/v1/stats`, if somebody answers.
pub(crate) async fn by_api(fleet: &Fleet) -> Option<BTreeMap<String, i64>> {
    let address = fleet.apis().into_iter().next()?;
    let asking = async {
        let mut client = Client::connect(&address).await.ok()?;
        client.get("/v1/stats").await.ok()
    };
    let (status, body) = tokio::time::timeout(Duration::from_secs(10), asking)
        .await
        .ok()??;
    let answer: Value = serde_json::from_str(&body).ok().filter(|_| status == 200)?;
    let counted = answer["emails"].as_object()?;
    let under_way = UNDER_WAY.iter().map(|status| {
        let n = counted.get(*status).and_then(Value::as_i64);
        ((*status).to_owned(), n.unwrap_or(0))
    });
    Some(under_way.filter(|(_, n)| *n != 0).collect())
}

/// What is left, for people.
pub(crate) async fn what_is_left(fleet: &Fleet, books: &Books) -> String {
    let api = by_api(fleet).await;
    let database = books.under_way().await;
    format!("the API says {api:?}, the database {database:?}")
}
