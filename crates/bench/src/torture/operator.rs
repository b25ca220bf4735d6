//! Someone at the desk all the while: withdraws, retries, discards, restores, resolves, and treats
//! many at once. An act whose answer is lost is done again: doing it twice does it once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::bail;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;
use uuid::Uuid;

use crate::client::Client;
use crate::rig::fleet::Fleet;

/// Between two acts.
const REST: Duration = Duration::from_millis(150);
/// When an answer counts as lost.
const PATIENCE: Duration = Duration::from_secs(15);
/// When an act that has to succeed is tried again.
const AGAIN: Duration = Duration::from_millis(200);

/// Someone at the desk.
pub(super) struct Operator {
    fleet: Arc<Fleet>,
    dice: StdRng,
    /// Emails that are to be withdrawn.
    withdrawn: UnboundedReceiver<Uuid>,
    /// The one that is being withdrawn. Should the work be interrupted, it is not forgotten.
    withdrawing: Option<Uuid>,
    /// What was done, and how often that was answered.
    acts: Mutex<BTreeMap<&'static str, u64>>,
}

impl Operator {
    pub(super) fn new(fleet: Arc<Fleet>, seed: u64, withdrawn: UnboundedReceiver<Uuid>) -> Self {
        Self {
            fleet,
            dice: StdRng::seed_from_u64(seed.rotate_left(17)),
            withdrawn,
            withdrawing: None,
            acts: Mutex::default(),
        }
    }

    /// What was done, and how often that was answered.
    pub(super) fn acts(&self) -> BTreeMap<&'static str, u64> {
        let acts = self.acts.lock().unwrap_or_else(PoisonError::into_inner);
        acts.clone()
    }

    fn count(&self, act: &'static str) {
        let mut acts = self.acts.lock().unwrap_or_else(PoisonError::into_inner);
        *acts.entry(act).or_default() += 1;
    }

    /// Acts until dropped.
    pub(super) async fn work(&mut self) -> anyhow::Result<()> {
        loop {
            match self.dice.random_range(0..10) {
                0..3 => self.withdraw_one().await?,
                3..6 => self.act_on_a_dead_one("retry", "retried").await,
                6 => {
                    self.act_on_a_dead_one("discard", "discarded").await;
                    self.restore_all().await;
                }
                7..9 => self.resolve_one().await,
                _ => self.retry_some_dead().await,
            }
            tokio::time::sleep(REST).await;
        }
    }

    /// Leaves nothing undone, once no more faults come.
    pub(super) async fn clear_the_desk(&mut self) -> anyhow::Result<()> {
        while self.withdrawing.is_some() || !self.withdrawn.is_empty() {
            self.withdraw_one().await?;
        }
        while !self.restore_all().await {
            tokio::time::sleep(AGAIN).await;
        }
        Ok(())
    }

    /// Tries everything again that is dead, whatever it died of.
    pub(super) async fn retry_all_dead(&mut self) {
        self.retry_dead(json!({})).await;
    }

    /// The same with a page of them: those that will never arrive become more and more, and trying
    /// all of them each time would make the work grow with them.
    async fn retry_some_dead(&mut self) {
        match self.list("/v1/dead-letters?limit=50").await {
            Some(ids) if !ids.is_empty() => self.retry_dead(json!({"ids": ids})).await,
            _ => {}
        }
    }

    async fn retry_dead(&mut self, filter: Value) {
        let request = json!({"action": "retry", "filter": filter});
        if let Some((202, _)) = self.post("/v1/operations", &request).await {
            self.count("bulk retries");
        }
    }

    /// Waits until no operation is under way.
    pub(super) async fn until_operations_end(&mut self) {
        loop {
            let answer = self.ask("/v1/operations?limit=50", None).await;
            if let Some((200, body)) = answer
                && !body.contains("\"running\"")
            {
                return;
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// It must be withdrawn: it is for tomorrow.
    async fn withdraw_one(&mut self) -> anyhow::Result<()> {
        if self.withdrawing.is_none() {
            self.withdrawing = self.withdrawn.try_recv().ok();
        }
        let Some(id) = self.withdrawing else {
            return Ok(());
        };
        loop {
            match self
                .post(&format!("/v1/emails/{id}/cancel"), &json!({}))
                .await
            {
                // The second: the first answer was lost.
                Some((200, _)) => break,
                Some((409, body)) if body.contains("`cancelled`") => break,
                Some((status @ 400..500, body)) => {
                    bail!("{id} cannot be withdrawn: {status} {body}")
                }
                _ => tokio::time::sleep(AGAIN).await,
            }
        }
        self.withdrawing = None;
        self.count("withdrawn");
        Ok(())
    }

    async fn act_on_a_dead_one(&mut self, act: &str, what: &'static str) {
        if let Some(id) = self.any("/v1/dead-letters?limit=50").await
            && let Some((200, _)) = self
                .post(&format!("/v1/dead-letters/{id}/{act}"), &json!({}))
                .await
        {
            self.count(what);
        }
    }

    /// The answer is whether nothing is left to restore.
    async fn restore_all(&mut self) -> bool {
        let Some(discarded) = self.list("/v1/emails?status=discarded&limit=50").await else {
            return false;
        };
        for id in &discarded {
            let path = format!("/v1/dead-letters/{id}/restore");
            if let Some((200, _)) = self.post(&path, &json!({})).await {
                self.count("restored");
            }
        }
        discarded.is_empty()
    }

    async fn resolve_one(&mut self) {
        if let Some(id) = self.any("/v1/emails?status=unknown&limit=50").await
            && let Some((200, _)) = self
                .post(&format!("/v1/emails/{id}/resolve"), &json!({"as": "retry"}))
                .await
        {
            self.count("resolved");
        }
    }

    /// Any one of a list.
    async fn any(&mut self, path: &str) -> Option<String> {
        let mut ids = self.list(path).await?;
        if ids.is_empty() {
            return None;
        }
        let at = self.dice.random_range(0..ids.len());
        Some(ids.swap_remove(at))
    }

    /// The ids of a page.
    async fn list(&mut self, path: &str) -> Option<Vec<String>> {
        let (status, body) = self.ask(path, None).await?;
        let answer: Value = serde_json::from_str(&body).ok().filter(|_| status == 200)?;
        let mut fields = answer.as_object()?.values();
        let page = fields.find_map(Value::as_array)?;
        let ids = page.iter().filter_map(|email| email["id"].as_str());
        Some(ids.map(str::to_owned).collect())
    }

    async fn post(&mut self, path: &str, request: &Value) -> Option<(u16, String)> {
        self.ask(path, Some(request)).await
    }

    /// Status and body, if somebody answers.
    async fn ask(&mut self, path: &str, request: Option<&Value>) -> Option<(u16, String)> {
        let addresses = self.fleet.apis();
        let at = self.dice.random_range(0..addresses.len().max(1));
        let address = addresses.get(at)?;
        let asking = async {
            let mut client = Client::connect(address).await.ok()?;
            match request {
                Some(request) => client.post(path, &request.to_string()).await.ok(),
                None => client.get(path).await.ok(),
            }
        };
        tokio::time::timeout(PATIENCE, asking).await.ok().flatten()
    }
}
