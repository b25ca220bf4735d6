//! Lets happen what the plan wants, and ends it.

use std::sync::Arc;

use posthaste_core::email::EmailId;
use posthaste_core::port::{Actor, Ticket};
use posthaste_core::status::Priority;

use crate::caller::Ledger;
use crate::fleet::Fleet;
use crate::plan::{Deed, Mishap};

/// Who acts on emails.
pub(super) fn person() -> Actor {
    Actor {
        name: "person".into(),
        owner: None,
    }
}

/// Everything that goes wrong, and everything that people do, each at its time.
pub(super) fn begin(fleet: &Arc<Fleet>, ledger: &Arc<Ledger>) {
    for disaster in fleet.ground.plan.disasters.clone() {
        let fleet = Arc::clone(fleet);
        tokio::spawn(async move {
            tokio::time::sleep(disaster.at).await;
            if !fleet.ground.nature.is_calm() {
                fleet.suffer(disaster.mishap).await;
            }
        });
    }
    for deed in fleet.ground.plan.deeds.clone() {
        let (fleet, ledger) = (Arc::clone(fleet), Arc::clone(ledger));
        tokio::spawn(async move {
            tokio::time::sleep(deed.at).await;
            act(&fleet, &ledger, &deed).await;
        });
    }
}

/// The trouble is over: who is dead is started again, who stands still goes on, all servers are
/// there.
pub(super) async fn end(fleet: &Fleet) {
    let ground = &fleet.ground;
    ground.nature.calm_down();
    ground.database.come_back();
    ground.mail.come_back();
    if let Some(queue) = &ground.queue {
        queue.come_back();
    }
    for life in fleet.all() {
        life.process.spare();
        if let Some(queue) = life.own_queue() {
            queue.come_back();
        }
        if let Some(until) = life.process.frozen_until() {
            tokio::time::sleep_until(until).await;
        }
    }
}

/// An operator acts on an email that they know of.
async fn act(fleet: &Fleet, ledger: &Ledger, deed: &Deed) {
    let (Some(id), Some(life)) = (ledger.id(&deed.key), fleet.any_api()) else {
        return;
    };
    fleet.ground.nature.count("acts of operators");
    let _ = life.engine.operator.act(id, deed.action, &person()).await;
}

impl Fleet {
    async fn suffer(&self, mishap: Mishap) {
        let ground = &self.ground;
        let nature = &ground.nature;
        nature.say("world", || format!("{mishap:?}"));
        match mishap {
            Mishap::Crash(slot) => {
                if let Some(life) = self.at(slot) {
                    life.process.die("killed");
                }
            }
            Mishap::Freeze(slot, time) => {
                if let Some(life) = self.at(slot) {
                    life.process.freeze("stopped", time);
                }
            }
            Mishap::Trap(slot, trap) => {
                if let Some(life) = self.at(slot) {
                    life.process.set(trap);
                }
            }
            Mishap::Stop(slot) => {
                if let Some(life) = self.at(slot) {
                    nature.count("processes asked to stop");
                    life.stop().await;
                }
            }
            Mishap::StoreAway(time) => {
                nature.count("outages of the store");
                ground.database.go_away(time);
            }
            Mishap::MailAway(time) => {
                nature.count("outages of the mail server");
                ground.mail.go_away(time);
            }
            Mishap::BrokerAway(time) => {
                nature.count("outages of the broker");
                self.queues().for_each(|queue| queue.go_away(time));
            }
            Mishap::Purge => {
                nature.count("queues purged");
                self.queues().for_each(|queue| queue.purge());
            }
            Mishap::Forge => {
                nature.count("forged tickets");
                let ticket = Ticket {
                    email_id: EmailId::generate(),
                    message_key: "forged".into(),
                    priority: Priority::Normal,
                    queued_at: nature.now(),
                    traceparent: None,
                };
                self.queues()
                    .for_each(|queue| queue.put(ticket.clone(), true));
            }
        }
    }

    /// Every queue there is.
    fn queues(&self) -> impl Iterator<Item = Arc<crate::broker::Queue>> {
        let own: Vec<_> = self
            .all()
            .iter()
            .filter_map(|life| life.own_queue().cloned())
            .collect();
        self.ground.queue.clone().into_iter().chain(own)
    }
}
