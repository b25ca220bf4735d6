//! The breakers, shared by all processes.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use posthaste_core::port::{Actor, Parked, StoreResult, WayStore, WaysReport};
use posthaste_core::way::{BreakerRules, Way, WayAnswer, WayEvent, WayName};
use posthaste_store::ledger::{self, Ledger as _};

use super::MemoryStore;
use super::transaction::{Transaction, sure};

impl Transaction<'_> {
    fn tell_way(
        &mut self,
        name: &WayName,
        event: &WayEvent,
        rules: &BreakerRules,
    ) -> (Way, WayAnswer) {
        let now = self.now();
        let known = self.tables.ways.get(name).cloned();
        let way = known.unwrap_or_else(|| Way::flowing(now));
        let change = way.told(event, rules, now);
        for note in &change.refunds {
            if sure(ledger::refund(self, note.email, note.attempt)) {
                self.say(note.email, || {
                    format!("attempt {} given back", note.attempt)
                });
            }
        }
        self.nature().say(self.writer, || {
            let (answer, condition) = (change.answer, change.next.condition);
            format!("way {name}: {} {answer:?} {condition}", event_name(event))
        });
        if change.next.is_plain() {
            self.tables.ways.remove(name);
        } else {
            self.tables.ways.insert(name.clone(), change.next.clone());
        }
        (change.next, change.answer)
    }

    fn ways_report(&mut self, sender: Option<&str>, present: Duration) -> WaysReport {
        let now = self.now();
        if let (Some(sender), Ok(until)) = (sender, now.checked_add(present)) {
            self.tables.senders.insert(sender.to_owned(), until);
        }
        let rows = self.tables.rows();
        let waiting: BTreeSet<&String> = rows
            .filter_map(|row| row.state.waiting_for.as_ref())
            .collect();
        let there = self.tables.senders.values().filter(|until| **until > now);
        let ways = self.tables.ways.iter();
        WaysReport {
            senders: u32::try_from(there.count()).unwrap_or(u32::MAX).max(1),
            waiting_for: waiting.into_iter().cloned().collect(),
            ways: ways
                .map(|(name, way)| (name.clone(), way.clone()))
                .collect(),
        }
    }
}

const fn event_name(event: &WayEvent) -> &'static str {
    match event {
        WayEvent::Fault { .. } => "fault",
        WayEvent::Landed { .. } => "landed",
        WayEvent::Success { .. } => "success",
        WayEvent::Probe { .. } => "probe",
        WayEvent::Abandon { .. } => "abandon",
        WayEvent::Pause { .. } => "pause",
        WayEvent::Resume => "resume",
    }
}

#[async_trait]
impl WayStore for MemoryStore {
    async fn tell_way(
        &self,
        name: &WayName,
        event: WayEvent,
        rules: &BreakerRules,
        _: Option<&Actor>,
    ) -> StoreResult<(Way, WayAnswer)> {
        self.call("tell way", move |transaction| {
            transaction.tell_way(name, &event, rules)
        })
        .await
    }

    async fn watch_ways(&self, sender: Option<&str>, present: Duration) -> StoreResult<WaysReport> {
        self.call("watch ways", move |transaction| {
            transaction.ways_report(sender, present)
        })
        .await
    }

    async fn parked(&self) -> StoreResult<Vec<Parked>> {
        Ok(Vec::new())
    }
}
