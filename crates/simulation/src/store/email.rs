//! The way of an email through the store in memory, in the order of its life.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use posthaste_core::Timestamp;
use posthaste_core::decision::{Conclusion, Parking};
use posthaste_core::email::{EmailId, NewEmail};
use posthaste_core::lifecycle::{Event, Refusal, State};
use posthaste_core::port::{
    Accepted, Begun, Budgets, Due, EmailStore, Finish, Lease, Opened, Opener, Pick, Pruned,
    Rescued, Retention, StoreResult, Undecided, Unticketed,
};
use posthaste_core::status::Status;
use posthaste_store::ledger::{self, First, Found, Ledger as _};
use tokio::time::Instant;

use super::MemoryStore;
use super::transaction::{Transaction, sure};
use crate::planted::PlantedBug;

impl Transaction<'_> {
    /// What was accepted before under this key.
    fn existing(&self, key: &str, payload_hash: &[u8; 32]) -> Option<Accepted> {
        let row = self.tables.by_key(key)?;
        Some(if row.email.payload_hash == *payload_hash {
            Accepted::Replayed(row.email.id, row.state.status)
        } else {
            Accepted::KeyConflict(row.email.id)
        })
    }

    fn accept(&mut self, email: NewEmail, first: First) -> Accepted {
        if let Some(existing) = self.existing(&email.message_key, &email.payload_hash) {
            return existing;
        }
        let (id, now) = (email.id, self.now());
        let state = first.state(&email, now);
        self.tables.insert(email, state, now);
        if self.database.planted == Some(PlantedBug::Commit) {
            let later = self.nature().draw(|random| random.milliseconds(1, 2_000));
            let unsynced = (self.writer.to_owned(), id, Instant::now() + later);
            self.tables.unsynced.push(unsynced);
        }
        self.say(id, || format!("accept ({first:?})"));
        Accepted::Created
    }

    fn begin(&mut self, id: EmailId, worker: &str, lease: Duration) -> Begun {
        let begun = sure(ledger::apply(self, id, &Event::Begin { worker, lease }));
        match begun {
            Some(Ok(_)) => {
                self.say(id, || "begin".into());
                let now = self.now();
                let row = self.tables.row(id);
                row.map_or(Begun::NotFound, |row| {
                    Begun::Started(Box::new(row.started(now)))
                })
            }
            Some(Err(refusal)) => {
                self.say(id, || format!("begin: {refusal}"));
                Begun::Refused(refusal)
            }
            None => Begun::NotFound,
        }
    }

    /// What was found without a ticket, with all that its senders need.
    fn found(&mut self, found: Vec<(EmailId, Found)>) -> Unticketed {
        let (begun, dead) = ledger::sorted(found);
        let now = self.now();
        let started = begun.into_iter().filter_map(|(id, _)| {
            self.say(id, || "begin without a ticket".into());
            Some(self.tables.row(id)?.started(now))
        });
        let started = started.collect();
        for due in &dead {
            self.say(due.id, || "found dead".into());
        }
        Unticketed { started, dead }
    }

    /// Applies an event to each lease; whether it was allowed.
    fn held<'e>(
        &mut self,
        what: &'static str,
        lease: Lease,
        event: impl FnOnce(i64) -> Event<'e>,
    ) -> bool {
        let event = event(self.token(lease));
        let applied = sure(ledger::apply(self, lease.id, &event));
        let allowed = matches!(applied, Some(Ok(_)));
        if allowed {
            self.assert_fenced(lease, what);
        } else {
            self.nature().count("stale writes refused");
        }
        self.say(lease.id, || format!("{what} t{}: {allowed}", lease.token));
        allowed
    }
}

#[async_trait]
impl EmailStore for MemoryStore {
    async fn accept(
        &self,
        emails: Vec<NewEmail>,
        ticketed: bool,
    ) -> StoreResult<Vec<StoreResult<Accepted>>> {
        let first = if ticketed {
            First::Ticket
        } else {
            First::Finder
        };
        let accepted = self.call("accept", move |transaction| {
            let emails = emails.into_iter();
            emails
                .map(|email| Ok(transaction.accept(email, first)))
                .collect()
        });
        let accepted = accepted.await;
        self.tell_others();
        accepted
    }

    async fn accept_begun(
        &self,
        emails: Vec<NewEmail>,
        opener: Opener,
        worker: &str,
        lease: Duration,
    ) -> StoreResult<Vec<StoreResult<Opened>>> {
        self.call("accept begun", move |transaction| {
            let open = |email: NewEmail| {
                let id = email.id;
                Ok(match transaction.accept(email, First::from(opener)) {
                    Accepted::Created => match transaction.begin(id, worker, lease) {
                        Begun::Started(started) => Opened::Started(started),
                        _ => Opened::KeyConflict(id),
                    },
                    Accepted::Replayed(id, status) => Opened::Replayed(id, status),
                    Accepted::KeyConflict(id) => Opened::KeyConflict(id),
                })
            };
            emails.into_iter().map(open).collect()
        })
        .await
    }

    async fn accepted_before(
        &self,
        _owner: &str,
        message_key: &str,
        payload_hash: [u8; 32],
    ) -> StoreResult<Option<Accepted>> {
        self.call("accepted before", move |transaction| {
            transaction.existing(message_key, &payload_hash)
        })
        .await
    }

    async fn begin(
        &self,
        ids: Vec<EmailId>,
        worker: &str,
        lease: Duration,
    ) -> StoreResult<Vec<Begun>> {
        self.call("begin", move |transaction| {
            let ids = ids.into_iter();
            ids.map(|id| transaction.begin(id, worker, lease)).collect()
        })
        .await
    }

    async fn begin_unticketed(
        &self,
        most: usize,
        queued_before: Timestamp,
        worker: &str,
        lease: Duration,
        budgets: &Budgets,
    ) -> StoreResult<Unticketed> {
        self.call("begin unticketed", move |transaction| {
            let now = transaction.now();
            let ids = transaction.tables.unticketed(now, queued_before, most);
            let found = ids.into_iter().filter_map(|id| {
                let one = ledger::begin_unticketed(
                    transaction,
                    id,
                    queued_before,
                    worker,
                    lease,
                    budgets,
                );
                Some((id, sure(one)?))
            });
            let found = found.collect();
            transaction.found(found)
        })
        .await
    }

    async fn prepare(&self, lease: Lease) -> StoreResult<bool> {
        self.call("prepare", move |transaction| {
            transaction.held("prepare", lease, |token| Event::Prepare { token })
        })
        .await
    }

    async fn renew(&self, leases: Vec<Lease>, lease: Duration) -> StoreResult<Vec<bool>> {
        self.call("renew", move |transaction| {
            // In an order that does not depend on who asks.
            let mut order: Vec<usize> = (0..leases.len()).collect();
            order.sort_by_key(|at| transaction.tables.place(leases[*at].id));
            let mut renewed = vec![false; leases.len()];
            for at in order {
                let renew = |token| Event::Renew { token, lease };
                renewed[at] = transaction.held("renew", leases[at], renew);
            }
            renewed
        })
        .await
    }

    async fn pass_gate(&self, passages: Vec<(Lease, Arc<str>)>) -> StoreResult<Vec<bool>> {
        self.call("gate", move |transaction| {
            let passages = passages.iter();
            passages
                .map(|(lease, transport)| {
                    transaction.held("gate", *lease, |token| ledger::gate(token, transport))
                })
                .collect()
        })
        .await
    }

    async fn park(&self, parked: Vec<(Lease, Parking)>) -> StoreResult<Vec<bool>> {
        self.call("park", move |transaction| {
            let parked = parked.iter();
            parked
                .map(|(lease, parking)| {
                    transaction.held("park", *lease, |token| ledger::park(token, parking))
                })
                .collect()
        })
        .await
    }

    async fn begin_parked(
        &self,
        waiting_for: &str,
        pick: Pick,
        worker: &str,
        lease: Duration,
        budgets: &Budgets,
    ) -> StoreResult<Unticketed> {
        self.call("begin parked", move |transaction| {
            let now = transaction.now();
            let ids = transaction.tables.parked(waiting_for, now, pick);
            let found = ids.into_iter().filter_map(|id| {
                let one =
                    ledger::begin_parked(transaction, id, waiting_for, worker, lease, budgets);
                Some((id, sure(one)?))
            });
            let found = found.collect();
            transaction.found(found)
        })
        .await
    }

    async fn finish(&self, finishes: Vec<Finish>) -> StoreResult<Vec<Result<State, Refusal>>> {
        let recorded = self
            .call("finish", move |transaction| {
                let finish = |finish: Finish| {
                    let carried = finish.lease;
                    let token = transaction.token(carried);
                    let believed = Finish {
                        lease: Lease { token, ..carried },
                        ..finish
                    };
                    let finished = sure(ledger::finish(transaction, &believed));
                    match &finished {
                        Ok(_) => transaction.assert_fenced(carried, "finish"),
                        Err(_) => transaction.nature().count("stale writes refused"),
                    }
                    let decision = &believed.decision;
                    transaction.say(carried.id, || {
                        let refusal = finished.as_ref().err();
                        let refused = refusal.map(ToString::to_string).unwrap_or_default();
                        let (outcome, token) = (decision.outcome, carried.token);
                        format!(
                            "finish t{token}: {outcome} {:?} {refused}",
                            decision.conclusion
                        )
                    });
                    finished
                };
                finishes.into_iter().map(finish).collect()
            })
            .await;
        self.tell_others();
        recorded
    }

    async fn release(&self, leases: Vec<Lease>) -> StoreResult<()> {
        self.call("release", move |transaction| {
            for lease in leases {
                transaction.held("release", lease, |token| Event::Release { token });
            }
        })
        .await
    }

    async fn claim_due(
        &self,
        most: usize,
        lease: Duration,
        budgets: &Budgets,
    ) -> StoreResult<Vec<Due>> {
        self.call("claim due", move |transaction| {
            let now = transaction.now();
            let ids = transaction.tables.due(now, most);
            let claimed = ids.into_iter().filter_map(|id| {
                let claimed = sure(ledger::claim_due(transaction, id, lease, budgets));
                transaction.say(id, || "claim".into());
                claimed
            });
            claimed.collect()
        })
        .await
    }

    async fn mark_queued(&self, published: Vec<Lease>, refused: Vec<Lease>) -> StoreResult<()> {
        self.call("mark queued", move |transaction| {
            for Lease { id, token } in published {
                sure(ledger::apply(transaction, id, &Event::Queued { token }));
                transaction.say(id, || "queued".into());
            }
            for Lease { id, token } in refused {
                sure(ledger::apply(transaction, id, &Event::Unqueued { token }));
                transaction.say(id, || "not queued".into());
            }
        })
        .await
    }

    async fn next_due(&self) -> StoreResult<Option<Timestamp>> {
        self.call("next due", |transaction| transaction.tables.next_due())
            .await
    }

    async fn rescue(&self, most: usize) -> StoreResult<Vec<Rescued>> {
        let rescued = self
            .call("rescue", move |transaction| {
                let now = transaction.now();
                let ids = transaction.tables.expired(now, most);
                let rescued = ids.into_iter().filter_map(|id| {
                    let rescued = sure(ledger::rescue(transaction, id));
                    transaction.say(id, || "the lease expired".into());
                    rescued
                });
                rescued.collect::<Vec<_>>()
            })
            .await;
        if rescued.as_ref().is_ok_and(|rescued| !rescued.is_empty()) {
            self.tell_others();
        }
        rescued
    }

    async fn undecided(&self, most: usize) -> StoreResult<Vec<Undecided>> {
        self.call("undecided", move |transaction| {
            let rows = transaction.tables.rows();
            let undecided = rows.filter(|row| {
                let state = &row.state;
                state.status == Status::Unknown
                    && state.waiting_for.is_none()
                    && state.next_attempt_at.is_some()
            });
            let undecided = undecided.take(most).map(|row| Undecided {
                id: row.email.id,
                state: row.state.clone(),
                policy: row.email.policy.clone(),
                expires_at: row.email.expires_at,
            });
            undecided.collect()
        })
        .await
    }

    async fn settle(&self, settlements: Vec<(EmailId, Conclusion)>) -> StoreResult<()> {
        self.call("settle", move |transaction| {
            for (id, conclusion) in settlements {
                sure(ledger::apply(transaction, id, &Event::Settle(&conclusion)));
                transaction.say(id, || format!("settle {conclusion:?}"));
            }
        })
        .await
    }

    async fn prune(&self, _: Retention, _: usize) -> StoreResult<Pruned> {
        Ok(Pruned::default())
    }
}
