//! The ports of a store. Each operation stands in the file of its noun, under the same name in both
//! dialects; this says which is which, once for both.

mod way;

/// Implements the ports for a store.
macro_rules! implement_ports {
    ($store:ident) => {
        use std::sync::Arc;
        use std::time::Duration;

        use async_trait::async_trait;
        use bytes::Bytes;
        use posthaste_core::Timestamp;
        use posthaste_core::admin::{Admin, LastOperator, Role, Session};
        use posthaste_core::attempt::AttemptRecord;
        use posthaste_core::decision::{Conclusion, Parking};
        use posthaste_core::email::{EmailId, EmailRecord, NewEmail};
        use posthaste_core::lifecycle::{Refusal, State};
        use posthaste_core::message::{
            Arrival, MessageAction, MessageId, MessagePolicy, MessageRecord,
        };
        use posthaste_core::operation::{
            DeadFilter, NewOperation, Operation, OperationChange, OperationId,
        };
        use posthaste_core::port::*;
        use posthaste_core::template::{Template, TemplateContent};

        #[async_trait]
        impl EmailStore for $store {
            async fn accept(
                &self,
                emails: Vec<NewEmail>,
                ticketed: bool,
            ) -> StoreResult<Vec<StoreResult<Accepted>>> {
                self.accept_all(emails, ticketed).await
            }

            async fn accept_begun(
                &self,
                emails: Vec<NewEmail>,
                opener: Opener,
                worker: &str,
                lease: Duration,
            ) -> StoreResult<Vec<StoreResult<Opened>>> {
                self.accept_and_begin(emails, opener, worker, lease).await
            }

            async fn accepted_before(
                &self,
                owner: &str,
                message_key: &str,
                payload_hash: [u8; 32],
            ) -> StoreResult<Option<Accepted>> {
                self.accepted_earlier(owner, message_key, payload_hash)
                    .await
            }

            async fn begin(
                &self,
                ids: Vec<EmailId>,
                worker: &str,
                lease: Duration,
            ) -> StoreResult<Vec<Begun>> {
                self.begin_all(ids, worker, lease).await
            }

            async fn begin_unticketed(
                &self,
                most: usize,
                queued_before: Timestamp,
                worker: &str,
                lease: Duration,
                budgets: &Budgets,
            ) -> StoreResult<Unticketed> {
                self.begin_without_ticket(most, queued_before, worker, lease, budgets)
                    .await
            }

            async fn prepare(&self, lease: Lease) -> StoreResult<bool> {
                self.prepare_one(lease).await
            }

            async fn renew(&self, leases: Vec<Lease>, lease: Duration) -> StoreResult<Vec<bool>> {
                self.renew_all(leases, lease).await
            }

            async fn pass_gate(&self, passages: Vec<(Lease, Arc<str>)>) -> StoreResult<Vec<bool>> {
                self.pass_gate_all(passages).await
            }

            async fn park(&self, parked: Vec<(Lease, Parking)>) -> StoreResult<Vec<bool>> {
                self.park_all(parked).await
            }

            async fn begin_parked(
                &self,
                waiting_for: &str,
                pick: Pick,
                worker: &str,
                lease: Duration,
                budgets: &Budgets,
            ) -> StoreResult<Unticketed> {
                self.begin_all_parked(waiting_for, pick, worker, lease, budgets)
                    .await
            }

            async fn finish(
                &self,
                finishes: Vec<Finish>,
            ) -> StoreResult<Vec<Result<State, Refusal>>> {
                self.finish_all(finishes).await
            }

            async fn release(&self, leases: Vec<Lease>) -> StoreResult<()> {
                self.release_all(leases).await
            }

            async fn claim_due(
                &self,
                most: usize,
                lease: Duration,
                budgets: &Budgets,
            ) -> StoreResult<Vec<Due>> {
                self.claim_all_due(most, lease, budgets).await
            }

            async fn mark_queued(
                &self,
                published: Vec<Lease>,
                refused: Vec<Lease>,
            ) -> StoreResult<()> {
                self.mark_all_queued(published, refused).await
            }

            async fn next_due(&self) -> StoreResult<Option<Timestamp>> {
                self.next_due_at().await
            }

            async fn rescue(&self, most: usize) -> StoreResult<Vec<Rescued>> {
                self.rescue_expired(most).await
            }

            async fn undecided(&self, most: usize) -> StoreResult<Vec<Undecided>> {
                self.all_undecided(most).await
            }

            async fn settle(&self, settlements: Vec<(EmailId, Conclusion)>) -> StoreResult<()> {
                self.settle_all(settlements).await
            }

            async fn prune(&self, retention: Retention, most: usize) -> StoreResult<Pruned> {
                self.prune_old(retention, most).await
            }
        }

        #[async_trait]
        impl DeskStore for $store {
            async fn act(
                &self,
                ids: Vec<EmailId>,
                action: Action,
                actor: &Actor,
            ) -> StoreResult<Vec<Acted>> {
                self.act_on(ids, action, actor).await
            }

            async fn find(&self, id: EmailId) -> StoreResult<Option<EmailRecord>> {
                self.find_email(id).await
            }

            async fn content(&self, id: EmailId) -> StoreResult<Option<Bytes>> {
                self.content_of(id).await
            }

            async fn list(&self, filter: &EmailFilter) -> StoreResult<Vec<EmailRecord>> {
                self.list_emails(filter).await
            }

            async fn attempts(
                &self,
                ids: &[EmailId],
            ) -> StoreResult<Vec<(EmailId, AttemptRecord)>> {
                self.attempts_of_all(ids).await
            }

            async fn dead_groups(&self, owner: Option<&str>) -> StoreResult<Vec<DeadGroup>> {
                self.groups(owner).await
            }

            async fn statistics(&self) -> StoreResult<Statistics> {
                self.all_statistics().await
            }

            async fn history(
                &self,
                step_minutes: u32,
                steps: u32,
            ) -> StoreResult<Vec<HistoryStep>> {
                self.history_steps(step_minutes, steps).await
            }

            async fn audit(&self, filter: &AuditFilter) -> StoreResult<Vec<AuditEntry>> {
                self.audit_entries(filter).await
            }

            async fn verify(&self, ledger: &[EmailId]) -> StoreResult<Vec<Violation>> {
                self.violations(ledger).await
            }
        }

        #[async_trait]
        impl KeyStore for $store {
            async fn create_key(
                &self,
                key: ApiKey,
                secret_hash: [u8; 32],
                actor: &Actor,
            ) -> StoreResult<()> {
                self.insert_key(key, secret_hash, actor).await
            }

            async fn find_key(&self, secret_hash: [u8; 32]) -> StoreResult<Option<ApiKey>> {
                self.key_by_hash(secret_hash).await
            }

            async fn keys(&self) -> StoreResult<Vec<ApiKey>> {
                self.all_keys().await
            }

            async fn revoke_key(&self, id: &str, actor: &Actor) -> StoreResult<bool> {
                self.revoke(id, actor).await
            }
        }

        #[async_trait]
        impl InboxStore for $store {
            async fn capture(&self, captured: Captured) -> StoreResult<()> {
                self.insert_capture(captured).await
            }

            async fn captures(&self, most: usize) -> StoreResult<Vec<Captured>> {
                self.newest_captures(most).await
            }

            async fn find_capture(&self, id: EmailId) -> StoreResult<Option<Captured>> {
                self.capture_of(id).await
            }
        }

        #[async_trait]
        impl EventStore for $store {
            async fn take_notices(
                &self,
                most: usize,
                lease: Duration,
            ) -> StoreResult<Vec<(NoticeId, DeadNotice)>> {
                self.take_untold(most, lease).await
            }

            async fn settle_notices(
                &self,
                told: Vec<NoticeId>,
                untold: Vec<NoticeId>,
            ) -> StoreResult<()> {
                self.settle_all_notices(told, untold).await
            }
        }

        #[async_trait]
        impl MessageStore for $store {
            async fn schedule(
                &self,
                arrivals: Vec<Arrival>,
                policy: &MessagePolicy,
            ) -> StoreResult<Vec<Scheduled>> {
                self.schedule_all(arrivals, policy).await
            }

            async fn claim_messages(
                &self,
                most: usize,
                most_bytes: usize,
                lease: Duration,
            ) -> StoreResult<Vec<ClaimedMessage>> {
                self.claim_due_messages(most, most_bytes, lease).await
            }

            async fn settle_messages(&self, settled: Vec<Settled>) -> StoreResult<Vec<bool>> {
                self.settle_claims(settled).await
            }

            async fn next_message_due(&self) -> StoreResult<Option<Timestamp>> {
                self.next_message_due_at().await
            }

            async fn act_on_messages(
                &self,
                ids: Vec<MessageId>,
                action: MessageAction,
                actor: &Actor,
            ) -> StoreResult<Vec<MessageActed>> {
                self.act_on_each(ids, action, actor).await
            }

            async fn find_message(&self, id: MessageId) -> StoreResult<Option<MessageRecord>> {
                self.message_of(id).await
            }

            async fn list_messages(
                &self,
                filter: &MessageFilter,
            ) -> StoreResult<Vec<MessageRecord>> {
                self.newest_messages(filter).await
            }

            async fn message_statistics(&self) -> StoreResult<MessageStatistics> {
                self.all_message_statistics().await
            }

            async fn prune_messages(
                &self,
                retention: MessageRetention,
                most: usize,
            ) -> StoreResult<u64> {
                self.prune_old_messages(retention, most).await
            }
        }

        #[async_trait]
        impl OperationStore for $store {
            async fn count_dead(
                &self,
                filter: &DeadFilter,
                owner: Option<&str>,
            ) -> StoreResult<u64> {
                self.dead_matching(filter, owner).await
            }

            async fn create_operation(
                &self,
                new: NewOperation,
                actor: &Actor,
            ) -> StoreResult<Operation> {
                self.insert_operation(new, actor).await
            }

            async fn operation(
                &self,
                id: OperationId,
                owner: Option<&str>,
            ) -> StoreResult<Option<Operation>> {
                self.operation_of(id, owner).await
            }

            async fn operations(
                &self,
                most: usize,
                owner: Option<&str>,
            ) -> StoreResult<Vec<Operation>> {
                self.newest_operations(most, owner).await
            }

            async fn change_operation(
                &self,
                id: OperationId,
                change: OperationChange,
                actor: &Actor,
            ) -> StoreResult<OperationChanged> {
                self.alter_operation(id, change, actor).await
            }

            async fn advance_operation(&self, most: usize) -> StoreResult<Option<OperationStep>> {
                self.step_operation(most).await
            }

            async fn next_step_due(&self) -> StoreResult<Option<Timestamp>> {
                self.next_step_at().await
            }
        }

        #[async_trait]
        impl TemplateStore for $store {
            async fn save_template(
                &self,
                name: &str,
                content: TemplateContent,
                based_on: Option<u32>,
                actor: &Actor,
            ) -> StoreResult<TemplateSaved> {
                self.insert_template(name, content, based_on, actor).await
            }

            async fn template(
                &self,
                name: &str,
                version: Option<u32>,
            ) -> StoreResult<Option<Template>> {
                self.template_of(name, version).await
            }

            async fn templates(&self) -> StoreResult<Vec<Template>> {
                self.newest_templates().await
            }

            async fn template_versions(&self, name: &str) -> StoreResult<Vec<TemplateVersion>> {
                self.versions_of(name).await
            }

            async fn delete_template(&self, name: &str, actor: &Actor) -> StoreResult<bool> {
                self.remove_template(name, actor).await
            }
        }

        #[async_trait]
        impl AdminStore for $store {
            async fn create_admin(
                &self,
                name: &str,
                role: Role,
                password_hash: &str,
                actor: &Actor,
            ) -> StoreResult<Option<Admin>> {
                self.insert_admin(name, role, password_hash, actor).await
            }

            async fn change_password(
                &self,
                name: &str,
                password_hash: &str,
                actor: &Actor,
            ) -> StoreResult<bool> {
                self.update_password(name, password_hash, actor).await
            }

            async fn change_role(
                &self,
                name: &str,
                role: Role,
                last: LastOperator,
                actor: &Actor,
            ) -> StoreResult<AdminChanged> {
                self.update_role(name, role, last, actor).await
            }

            async fn find_admin(&self, name: &str) -> StoreResult<Option<(Admin, String)>> {
                self.admin_of(name).await
            }

            async fn admins(&self) -> StoreResult<Vec<Admin>> {
                self.all_admins().await
            }

            async fn remove_admin(
                &self,
                name: &str,
                last: LastOperator,
                actor: &Actor,
            ) -> StoreResult<AdminChanged> {
                self.delete_admin(name, last, actor).await
            }

            async fn begin_session(
                &self,
                name: &str,
                password_hash: &str,
                secret_hash: [u8; 32],
                lifetime: Duration,
            ) -> StoreResult<bool> {
                self.insert_session(name, password_hash, secret_hash, lifetime)
                    .await
            }

            async fn session(&self, secret_hash: [u8; 32]) -> StoreResult<Option<Session>> {
                self.session_of(secret_hash).await
            }

            async fn end_session(&self, secret_hash: [u8; 32]) -> StoreResult<()> {
                self.delete_session(secret_hash).await
            }
        }

        crate::port::implement_way_ports!($store);
    };
}

pub(crate) use implement_ports;
pub(crate) use way::implement_way_ports;
