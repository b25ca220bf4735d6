//! Ports that no simulated process uses: templates, logins, keys, the dev inbox, messages, bulk
//! operations, alerts, feedback. Whoever asks is told so.

use std::time::Duration;

use async_trait::async_trait;
use posthaste_core::Timestamp;
use posthaste_core::admin::{Admin, LastOperator, Role, Session};
use posthaste_core::email::EmailId;
use posthaste_core::feedback::{ProviderEvent, Recorded};
use posthaste_core::message::{Arrival, MessageAction, MessageId, MessagePolicy, MessageRecord};
use posthaste_core::operation::{
    DeadFilter, NewOperation, Operation, OperationChange, OperationId,
};
use posthaste_core::port::*;
use posthaste_core::suppression::Suppression;
use posthaste_core::template::{Template, TemplateContent};

use super::MemoryStore;

/// The answer of a port that is not part of the simulation.
pub(super) fn not_simulated<T>() -> StoreResult<T> {
    Err(StoreError::Failed("not part of the simulation".into()))
}

#[async_trait]
impl KeyStore for MemoryStore {
    async fn create_key(&self, _: ApiKey, _: [u8; 32], _: &Actor) -> StoreResult<()> {
        not_simulated()
    }

    async fn find_key(&self, _: [u8; 32]) -> StoreResult<Option<ApiKey>> {
        not_simulated()
    }

    async fn keys(&self) -> StoreResult<Vec<ApiKey>> {
        not_simulated()
    }

    async fn revoke_key(&self, _: &str, _: &Actor) -> StoreResult<bool> {
        not_simulated()
    }
}

#[async_trait]
impl InboxStore for MemoryStore {
    async fn capture(&self, _: Captured) -> StoreResult<()> {
        not_simulated()
    }

    async fn captures(&self, _: usize) -> StoreResult<Vec<Captured>> {
        not_simulated()
    }

    async fn find_capture(&self, _: EmailId) -> StoreResult<Option<Captured>> {
        not_simulated()
    }
}

#[async_trait]
impl MessageStore for MemoryStore {
    async fn schedule(&self, _: Vec<Arrival>, _: &MessagePolicy) -> StoreResult<Vec<Scheduled>> {
        not_simulated()
    }

    async fn claim_messages(
        &self,
        _: usize,
        _: usize,
        _: Duration,
    ) -> StoreResult<Vec<ClaimedMessage>> {
        not_simulated()
    }

    async fn settle_messages(&self, _: Vec<Settled>) -> StoreResult<Vec<bool>> {
        not_simulated()
    }

    async fn next_message_due(&self) -> StoreResult<Option<Timestamp>> {
        not_simulated()
    }

    async fn act_on_messages(
        &self,
        _: Vec<MessageId>,
        _: MessageAction,
        _: &Actor,
    ) -> StoreResult<Vec<MessageActed>> {
        not_simulated()
    }

    async fn find_message(&self, _: MessageId) -> StoreResult<Option<MessageRecord>> {
        not_simulated()
    }

    async fn list_messages(&self, _: &MessageFilter) -> StoreResult<Vec<MessageRecord>> {
        not_simulated()
    }

    async fn message_statistics(&self) -> StoreResult<MessageStatistics> {
        not_simulated()
    }

    async fn prune_messages(&self, _: MessageRetention, _: usize) -> StoreResult<u64> {
        not_simulated()
    }
}

#[async_trait]
impl OperationStore for MemoryStore {
    async fn count_dead(&self, _: &DeadFilter, _: Option<&str>) -> StoreResult<u64> {
        not_simulated()
    }

    async fn create_operation(&self, _: NewOperation, _: &Actor) -> StoreResult<Operation> {
        not_simulated()
    }

    async fn operation(&self, _: OperationId, _: Option<&str>) -> StoreResult<Option<Operation>> {
        not_simulated()
    }

    async fn operations(&self, _: usize, _: Option<&str>) -> StoreResult<Vec<Operation>> {
        not_simulated()
    }

    async fn change_operation(
        &self,
        _: OperationId,
        _: OperationChange,
        _: &Actor,
    ) -> StoreResult<OperationChanged> {
        not_simulated()
    }

    async fn advance_operation(&self, _: usize) -> StoreResult<Option<OperationStep>> {
        Ok(None)
    }

    async fn next_step_due(&self) -> StoreResult<Option<Timestamp>> {
        Ok(None)
    }
}

#[async_trait]
impl TemplateStore for MemoryStore {
    async fn save_template(
        &self,
        _: &str,
        _: TemplateContent,
        _: Option<u32>,
        _: &Actor,
    ) -> StoreResult<TemplateSaved> {
        not_simulated()
    }

    async fn template(&self, _: &str, _: Option<u32>) -> StoreResult<Option<Template>> {
        not_simulated()
    }

    async fn templates(&self) -> StoreResult<Vec<Template>> {
        not_simulated()
    }

    async fn template_versions(&self, _: &str) -> StoreResult<Vec<TemplateVersion>> {
        not_simulated()
    }

    async fn delete_template(&self, _: &str, _: &Actor) -> StoreResult<bool> {
        not_simulated()
    }
}

#[async_trait]
impl AdminStore for MemoryStore {
    async fn create_admin(
        &self,
        _: &str,
        _: Role,
        _: &str,
        _: &Actor,
    ) -> StoreResult<Option<Admin>> {
        not_simulated()
    }

    async fn change_password(&self, _: &str, _: &str, _: &Actor) -> StoreResult<bool> {
        not_simulated()
    }

    async fn change_role(
        &self,
        _: &str,
        _: Role,
        _: LastOperator,
        _: &Actor,
    ) -> StoreResult<AdminChanged> {
        not_simulated()
    }

    async fn find_admin(&self, _: &str) -> StoreResult<Option<(Admin, String)>> {
        not_simulated()
    }

    async fn admins(&self) -> StoreResult<Vec<Admin>> {
        not_simulated()
    }

    async fn remove_admin(&self, _: &str, _: LastOperator, _: &Actor) -> StoreResult<AdminChanged> {
        not_simulated()
    }

    async fn begin_session(&self, _: &str, _: &str, _: [u8; 32], _: Duration) -> StoreResult<bool> {
        not_simulated()
    }

    async fn session(&self, _: [u8; 32]) -> StoreResult<Option<Session>> {
        not_simulated()
    }

    async fn end_session(&self, _: [u8; 32]) -> StoreResult<()> {
        not_simulated()
    }
}

#[async_trait]
impl AlertStore for MemoryStore {
    async fn gather_deaths(&self, _: &[String], _: usize) -> StoreResult<usize> {
        Ok(0)
    }

    async fn take_digest(
        &self,
        _: &str,
        _: Duration,
        _: Duration,
        _: Duration,
    ) -> StoreResult<Option<Digest>> {
        not_simulated()
    }

    async fn settle_digest(&self, _: &str, _: &Digest, _: Told) -> StoreResult<()> {
        not_simulated()
    }

    async fn alert_channels(&self) -> StoreResult<Vec<ChannelState>> {
        not_simulated()
    }
}

#[async_trait]
impl SuppressionStore for MemoryStore {
    async fn suppress(&self, _: Vec<Suppression>, _: &Actor) -> StoreResult<Vec<bool>> {
        not_simulated()
    }

    async fn unsuppress(&self, _: &str, _: &str, _: &Actor) -> StoreResult<bool> {
        not_simulated()
    }

    async fn suppressions(&self, _: &SuppressionFilter) -> StoreResult<Vec<Suppression>> {
        not_simulated()
    }

    async fn record_feedback(&self, _: &str, _: Vec<ProviderEvent>) -> StoreResult<Vec<Recorded>> {
        not_simulated()
    }
}
