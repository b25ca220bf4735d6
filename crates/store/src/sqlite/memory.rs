//! What the writer remembers of emails that are under way, so that it need not read again what it
//! has just written.
//!
//! It is a copy of rows and never more: whatever is not in it is read, and all of it is forgotten
//! when a transaction fails or another connection wrote to the file.

use std::collections::HashMap;
use std::sync::Arc;

use posthaste_core::Timestamp;
use posthaste_core::email::{EmailId, NewEmail, Recipient};
use posthaste_core::lifecycle::State;
use posthaste_core::port::{Lease, Started};
use posthaste_core::status::Status;

use super::accept::NewRow;
use super::{from_micros, micros};
use crate::ledger::Suppressed;

/// At most this many states are remembered.
const MOST_STATES: usize = 8192;
/// New emails are remembered as long as all of them together are not larger.
const MOST_BYTES: usize = 16 * 1024 * 1024;
/// About what an email takes besides its content.
const BYTES_BESIDE_CONTENT: usize = 1024;

/// An email as it was accepted, before its first attempt.
pub(super) struct Fresh {
    row: Arc<NewRow>,
    accepted_at: Timestamp,
}

/// Everything that the writer remembers.
#[derive(Default)]
pub(super) struct Memory {
    states: HashMap<EmailId, State>,
    fresh: HashMap<EmailId, Fresh>,
    fresh_bytes: usize,
    /// The file's version of which all this is true.
    version: Option<i64>,
}

impl Memory {
    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.states.clear();
        self.fresh.clear();
        self.fresh_bytes = 0;
    }

    /// Forgets everything if the file is at another version.
    pub(super) fn follow(&mut self, version: Option<i64>) {
        if version.is_none() || version != self.version {
            self.clear();
            self.version = version;
        }
    }

    /// Gives the state of an email away: whoever changes it remembers what became of it.
    pub(super) fn take_state(&mut self, id: EmailId) -> Option<State> {
        self.states.remove(&id)
    }

    /// Remembers what was written of an email, if more is likely to be written soon.
    pub(super) fn written(&mut self, id: EmailId, before: Status, next: &State) {
        if next.status == Status::Sending {
            self.keep_state(id, next.clone());
        } else if before == Status::Pending {
            self.take_fresh(id);
        }
    }

    /// Remembers an email that was accepted and is about to be sent.
    pub(super) fn accepted(&mut self, row: &Arc<NewRow>, state: State, at: Timestamp) {
        let id = row.email.id;
        let bytes = self.fresh_bytes + size_of(row);
        if bytes <= MOST_BYTES && self.states.len() < MOST_STATES {
            let row = Arc::clone(row);
            let accepted_at = at;
            self.fresh.insert(id, Fresh { row, accepted_at });
            self.fresh_bytes = bytes;
            self.keep_state(id, state);
        }
    }

    /// Remembers a state as it would be read.
    pub(super) fn keep_state(&mut self, id: EmailId, mut state: State) {
        if self.states.len() < MOST_STATES {
            // The others are whole microseconds already.
            state.locked_until = state.locked_until.map(|at| from_micros(micros(at)));
            self.states.insert(id, state);
        }
    }

    /// Gives an email away whose first attempt begins.
    pub(super) fn take_fresh(&mut self, id: EmailId) -> Option<Fresh> {
        let fresh = self.fresh.remove(&id)?;
        self.fresh_bytes -= size_of(&fresh.row);
        Some(fresh)
    }
}

fn size_of(row: &NewRow) -> usize {
    row.email.content.len() + BYTES_BESIDE_CONTENT
}

impl Fresh {
    /// The email.
    pub(super) fn email(&self) -> &NewEmail {
        &self.row.email
    }

    /// What a sender needs of it, whose first attempt began with this state.
    pub(super) fn started(&self, state: State, suppressed: Suppressed, now: Timestamp) -> Started {
        let email = &self.row.email;
        let recipients = email.envelope.recipients.iter().cloned();
        Started {
            lease: Lease {
                id: email.id,
                token: state.lease_token,
            },
            from: email.envelope.from.clone(),
            recipients: recipients.map(Recipient::waiting).collect(),
            content: email.content.clone(),
            suppressed,
            policy: email.policy.clone(),
            route: email.route.clone(),
            created_at: self.accepted_at,
            expires_at: email.expires_at.map(|at| from_micros(micros(at))),
            traceparent: email.traceparent.clone(),
            state,
            now,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use posthaste_core::lifecycle::Event;
    use posthaste_core::port::{Begun, EmailStore as _, Opened, Opener, Pick, StoreResult};
    use posthaste_testkit::{EmailBuilder, an_email, parking, sent};
    use rusqlite::Connection;
    use tempfile::TempDir;

    use super::*;
    use crate::ledger;
    use crate::sqlite::writer::Flush;
    use crate::sqlite::{SqliteOptions, SqliteStore, corrupt, state_row};

    /// Not a whole number of microseconds.
    const LEASE: Duration = Duration::from_nanos(60_000_000_789);

    fn a_store() -> (TempDir, SqliteStore) {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteOptions::new(folder.path().join("posthaste.db"));
        let store = SqliteStore::open(options).unwrap();
        (folder, store)
    }

    async fn accept(store: &SqliteStore, email: EmailBuilder) -> EmailId {
        let email = email.build();
        let id = email.id;
        let accepted = store.accept(vec![email], true).await.unwrap();
        assert!(accepted[0].is_ok());
        id
    }

    async fn begin(store: &SqliteStore, id: EmailId) -> Started {
        match store.begin(vec![id], "w", LEASE).await.unwrap().remove(0) {
            Begun::Started(started) => *started,
            other => panic!("{other:?}"),
        }
    }

    async fn pass_gate(store: &SqliteStore, lease: Lease) -> bool {
        let passages = vec![(lease, "smtp".into())];
        store.pass_gate(passages).await.unwrap() == [true]
    }

    async fn run<T: Send + 'static>(
        store: &SqliteStore,
        job: impl FnMut(&mut Flush<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> StoreResult<T> {
        store.writer.run(job).await
    }

    /// The state that is remembered, after looking that it is the one that would be read.
    async fn remembered(store: &SqliteStore, id: EmailId) -> Option<State> {
        let (state, read) = run(store, move |flush| {
            let state = flush.memory.states.get(&id).cloned();
            Ok((state, state_row::load(flush, id)?))
        })
        .await
        .unwrap();
        assert!(state.is_none() || state == read, "{state:?} {read:?}");
        state
    }

    async fn counts(store: &SqliteStore) -> (usize, usize, usize) {
        run(store, |flush| {
            let Memory { states, fresh, .. } = &*flush.memory;
            Ok((states.len(), fresh.len(), flush.memory.fresh_bytes))
        })
        .await
        .unwrap()
    }

    #[tokio::test]
    async fn what_is_remembered_is_what_would_be_read_until_the_email_is_over() {
        let (_folder, store) = a_store();
        let id = accept(&store, an_email("a")).await;
        let status = remembered(&store, id).await.map(|state| state.status);
        assert_eq!(status, Some(Status::Pending));
        let started = begin(&store, id).await;
        assert!(remembered(&store, id).await.is_some());
        assert!(pass_gate(&store, started.lease).await);
        assert!(remembered(&store, id).await.is_some());
        let finish = posthaste_core::port::Finish {
            lease: started.lease,
            decision: sent(),
            transport: Some("smtp".into()),
            budget: 8,
            removes_sent: false,
        };
        store.finish(vec![finish]).await.unwrap()[0]
            .as_ref()
            .unwrap();
        assert_eq!(counts(&store).await, (0, 0, 0));
    }

    #[tokio::test]
    async fn one_that_begins_as_it_is_accepted_is_remembered_too() {
        let (_folder, store) = a_store();
        let email = an_email("a").build();
        let id = email.id;
        let opened = store.accept_begun(vec![email], Opener::Sender, "w", LEASE);
        let opened = opened.await.unwrap().remove(0).unwrap();
        assert!(matches!(opened, Opened::Started(_)), "{opened:?}");
        assert!(remembered(&store, id).await.is_some());
        assert_eq!(counts(&store).await, (1, 0, 0));
    }

    #[tokio::test]
    async fn an_email_is_the_same_from_memory_and_from_the_file() {
        let (_folder, store) = a_store();
        let id = accept(&store, an_email("a").to(["a@example.org", "b@example.org"])).await;
        let from_memory = begin(&store, id).await;
        let parked = (from_memory.lease, parking("smtp", Duration::ZERO));
        assert_eq!(store.park(vec![parked]).await.unwrap(), [true]);
        assert_eq!(counts(&store).await, (0, 0, 0));
        let budgets = posthaste_testkit::budgets();
        let unparked = store.begin_parked("smtp", Pick::UpTo(1), "w", LEASE, &budgets);
        let from_file = unparked.await.unwrap().started.remove(0);
        assert_eq!(from_memory.content, from_file.content);
        assert_eq!(from_memory.from, from_file.from);
        assert_eq!(from_memory.recipients, from_file.recipients);
        assert_eq!(from_memory.policy, from_file.policy);
        assert_eq!(from_memory.created_at, from_file.created_at);
        assert_eq!(from_memory.expires_at, from_file.expires_at);
    }

    #[tokio::test]
    async fn what_another_connection_wrote_counts() {
        let (folder, store) = a_store();
        let id = accept(&store, an_email("a")).await;
        let started = begin(&store, id).await;
        let beside = Connection::open(folder.path().join("posthaste.db")).unwrap();
        let sql = "UPDATE posthaste_email_log SET lease_token = lease_token + 1";
        assert_eq!(beside.execute(sql, []).unwrap(), 1);
        assert!(!pass_gate(&store, started.lease).await);
    }

    #[tokio::test]
    async fn what_was_rolled_back_is_forgotten() {
        let (_folder, store) = a_store();
        let id = accept(&store, an_email("a")).await;
        let started = begin(&store, id).await;
        let token = started.lease.token;
        let failed = run(&store, move |flush| {
            let transport = "smtp";
            ledger::apply(flush, id, &Event::Gate { token, transport })?;
            Err::<(), _>(corrupt("the job fails"))
        });
        failed.await.unwrap_err();
        assert_eq!(counts(&store).await, (0, 0, 0));
        assert!(pass_gate(&store, started.lease).await);
        let phase = run(&store, move |flush| state_row::load(flush, id));
        let phase = phase.await.unwrap().unwrap().phase;
        assert_eq!(phase, posthaste_core::status::Phase::Committing);
    }

    #[tokio::test]
    async fn what_does_not_fit_is_read_again() {
        let (_folder, store) = a_store();
        let small = accept(&store, an_email("small")).await;
        let large = accept(&store, an_email("large").content(vec![b'x'; MOST_BYTES])).await;
        assert_eq!(counts(&store).await.1, 1);
        assert_eq!(begin(&store, large).await.content.len(), MOST_BYTES);
        begin(&store, small).await;
        assert_eq!(counts(&store).await, (2, 0, 0));
    }

    #[tokio::test]
    async fn one_that_is_cancelled_before_it_began_is_forgotten() {
        let (_folder, store) = a_store();
        let id = accept(&store, an_email("a")).await;
        let cancelled = run(&store, move |flush| {
            ledger::apply(flush, id, &Event::Cancel).map(|applied| applied.is_some())
        });
        assert!(cancelled.await.unwrap());
        assert_eq!(counts(&store).await, (0, 0, 0));
    }
}
