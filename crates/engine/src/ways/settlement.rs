//! What the result of an attempt says about its way, and what follows for the email.

use posthaste_core::Timestamp;
use posthaste_core::classification::{Fault, Reach};
use posthaste_core::decision::Decision;
use posthaste_core::port::{SharedStore, Started};
use posthaste_core::status::Outcome;
use posthaste_core::way::{BreakerRules, FaultNote, WayAnswer, WayEvent, WayName};
use tokio::time::Instant;

use super::{Pass, Ways};

/// With another way out at hand, this many faults are enough …
const FAILURES_WITH_ALTERNATIVE: u32 = 3;
/// … and they may be this many times further apart.
const WINDOWS_WITH_ALTERNATIVE: u32 = 10;

/// A failure that its email bears for now, and whose it may turn out to be.
pub(crate) struct Borne {
    way: WayName,
    note: FaultNote,
}

impl Ways {
    /// A failure is on record that its email bears for now. If the way was stopped meanwhile, it is
    /// given back.
    pub(crate) async fn landed(&self, store: &SharedStore, borne: Borne) {
        let Some(rules) = &self.breaker else {
            return;
        };
        let Borne { way, note } = borne;
        if let Err(error) = self
            .tell(store, &way, WayEvent::Landed { note }, rules)
            .await
        {
            tracing::warn!(%way, %error, "could not ask whose fault it was");
        }
    }

    /// The attempt ended before anything was known: what it tested is still to be tested.
    pub(crate) async fn abandon(&self, store: &SharedStore, started: &Started, pass: &Pass) {
        self.give_up_probes(store, started, &pass.probes).await;
    }

    /// Takes what a result says about the way, and gives the decision that follows: a failure of
    /// the way is not the email's to bear, unless nobody can tell yet.
    pub(crate) async fn settle(
        &self,
        store: &SharedStore,
        started: &Started,
        pass: &Pass,
        decision: Decision,
    ) -> (Decision, Option<Borne>) {
        let whole = WayName::transport(&pass.name);
        let reach = decision
            .judgement
            .map_or(Reach::Email, |judged| judged.reach);
        if let Some(judged) = decision.judgement
            && judged.asks_for_less
        {
            let way = match reach {
                Reach::Transport => Some(&whole),
                Reach::Domain | Reach::Email => pass.domain.as_ref(),
            };
            let pace = way.and_then(|way| self.pace_of(way, store.now()));
            if let Some((pace, _)) = pace {
                pace.slow_down(judged.floor, Instant::now());
            }
        }
        match reach {
            Reach::Transport => {
                // That tells nothing of the domain, if that is what was tested.
                let tested: Vec<WayName> = pass
                    .probes
                    .iter()
                    .filter(|way| **way != whole)
                    .cloned()
                    .collect();
                self.give_up_probes(store, started, &tested).await;
                Box::pin(self.fault(store, started, pass, &whole, decision)).await
            }
            Reach::Domain => {
                self.success(store, started, pass, &whole).await;
                match &pass.domain {
                    Some(domain) => {
                        Box::pin(self.fault(store, started, pass, domain, decision)).await
                    }
                    None => (decision, None),
                }
            }
            Reach::Email => {
                self.success(store, started, pass, &whole).await;
                if let Some(domain) = &pass.domain {
                    self.success(store, started, pass, domain).await;
                }
                (decision, None)
            }
        }
    }

    async fn success(&self, store: &SharedStore, started: &Started, pass: &Pass, name: &WayName) {
        let Some(rules) = &self.breaker else {
            return;
        };
        // What was tested is told, whatever was last seen of it.
        let seen = self.seen(name);
        let matters = pass.probes.contains(name) || seen.is_some_and(|way| !way.faults.is_empty());
        if !matters {
            return;
        }
        let email = started.lease.id;
        if let Err(error) = self
            .tell(store, name, WayEvent::Success { email }, rules)
            .await
        {
            tracing::warn!(way = %name, %error, "could not record that it works");
        }
    }

    /// A way failed. Another one is tried if there is one; otherwise the email waits for it, or
    /// bears the failure while nobody can tell whose it is.
    async fn fault(
        &self,
        store: &SharedStore,
        started: &Started,
        pass: &Pass,
        name: &WayName,
        decision: Decision,
    ) -> (Decision, Option<Borne>) {
        let Some(judged) = decision.judgement else {
            return (decision, None);
        };
        let note = FaultNote {
            email: started.lease.id,
            attempt: started.state.attempt_number,
        };
        let is_ours = judged.fault == Fault::OurConfig;
        let spares = if name.domain.is_none() {
            &pass.others[..]
        } else {
            &[]
        };
        // Each way is tried once before a failure counts.
        let is_first = !started.state.has_tried(&pass.name);
        let has_alternative =
            is_first && spares.iter().any(|other| self.is_free(other, store.now()));
        let answer = match &self.breaker {
            None => WayAnswer::Spends,
            Some(rules) => {
                let event = WayEvent::Fault {
                    note,
                    is_ours,
                    error: decision.error.clone().unwrap_or_default(),
                    floor: judged.floor,
                };
                let rules = rules_for(rules, has_alternative);
                match self.tell(store, name, event, &rules).await {
                    Ok(answer) => answer,
                    Err(error) => {
                        tracing::warn!(way = %name, %error, "could not record its fault");
                        WayAnswer::Spends
                    }
                }
            }
        };
        // What may have left by this way is not sent by another, nor for nothing by the same: the
        // policy says whether it is sent again, and it is paid for.
        if decision.may_double() {
            return (decision, None);
        }
        if has_alternative && !decision.binds() {
            return (decision.failed_over(), None);
        }
        match answer {
            WayAnswer::Waits => {
                let floor = judged.floor.unwrap_or_default();
                let parking = self.parking(started, std::slice::from_ref(name), floor);
                (decision.parked(parking), None)
            }
            _ => {
                let borne = Borne {
                    way: name.clone(),
                    note,
                };
                let may_be_refunded = decision.outcome == Outcome::Transient;
                (decision, may_be_refunded.then_some(borne))
            }
        }
    }

    /// Whether a transport would take an email, as far as is known.
    fn is_free(&self, transport: &str, now: Timestamp) -> bool {
        let way = self.seen(&WayName::transport(transport));
        way.is_none_or(|way| {
            let never = BreakerRules::default();
            way.is_open(self.breaker.as_ref().unwrap_or(&never), now)
        })
    }
}

/// Where another way is at hand, stopping one costs nothing: it is done sooner.
fn rules_for(rules: &BreakerRules, has_alternative: bool) -> BreakerRules {
    if !has_alternative {
        return *rules;
    }
    BreakerRules {
        failures: rules.failures.min(FAILURES_WITH_ALTERNATIVE),
        window: rules.window.saturating_mul(WINDOWS_WITH_ALTERNATIVE),
        ..*rules
    }
}
