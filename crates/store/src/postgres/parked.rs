//! Emails that wait until a way out is free again.

use std::time::Duration;

use posthaste_core::email::EmailId;
use posthaste_core::port::{Budgets, Pick, StoreResult, Unticketed};

use super::PostgresStore;
use super::claim::{Candidates, FactsOf, InTurn, Part, in_turn, longest};
use super::list::has_nul;
use crate::ledger;

/// Those that wait for exactly these ways (`$4`), and may be tried by now.
pub(super) const DUE: [Part; 1] = [Part {
    kind: 0,
    condition: "l.waiting_for = $4 AND l.next_attempt_at <= posthaste_now()",
    until: None,
}];

impl PostgresStore {
    pub(super) async fn begin_all_parked(
        &self,
        waiting_for: &str,
        pick: Pick,
        worker: &str,
        lease: Duration,
        budgets: &Budgets,
    ) -> StoreResult<Unticketed> {
        if has_nul(waiting_for) {
            return Ok(Unticketed::default());
        }
        let turn = self.parked_turns.next();
        let candidates = Candidates {
            query: match pick {
                Pick::UpTo(_) => in_turn(&DUE),
                Pick::Longest => longest(&DUE),
            },
            values: &[&waiting_for],
            in_turn: Some(InTurn {
                priorities: &turn.priorities,
                parts: &DUE,
                floor: None,
            }),
            most: pick.most(),
            with_overdue: false,
            facts_of: FactsOf::All,
        };
        let (found, now) = self
            .claim(candidates, |books, ids| {
                let begin = |id: &EmailId| {
                    let Ok(found) =
                        ledger::begin_parked(books, *id, waiting_for, worker, lease, budgets);
                    found.map(|found| (*id, found))
                };
                ids.iter().filter_map(begin).collect()
            })
            .await?;
        let (begun, dead) = ledger::sorted(found);
        let started = self.started_or_released(begun, now).await?;
        Ok(Unticketed { started, dead })
    }
}
