//! What was seen from outside while it ran: put-offs, odd answers, processes that gave up.

use super::ledger::Ledger;
use crate::rig::fleet::Fleet;
use crate::rig::outage::Outages;

/// At most this many of one kind are told in full.
const MOST_TOLD: usize = 10;

/// How often something happened while the database was away, and at other times.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Times {
    pub(crate) excused: u64,
    pub(crate) unexcused: u64,
}

impl FromIterator<bool> for Times {
    fn from_iter<T: IntoIterator<Item = bool>>(excuses: T) -> Self {
        let mut times = Self::default();
        for excused in excuses {
            *match excused {
                true => &mut times.excused,
                false => &mut times.unexcused,
            } += 1;
        }
        times
    }
}

/// What was seen from outside.
#[derive(Default)]
pub(crate) struct Witnesses {
    /// Answers 200: the first answer had been lost.
    pub(crate) replayed: u64,
    /// Requests without an answer.
    pub(crate) unanswered: u64,
    /// Answers 503.
    pub(crate) put_off: Times,
    /// Answers that are neither an acceptance nor a 503.
    pub(crate) unexpected: u64,
    /// Processes that ended by themselves.
    pub(crate) ended: Times,
    /// What has no excuse, in words.
    pub(crate) complaints: Vec<String>,
}

impl Witnesses {
    /// Asks everyone, once.
    pub(crate) fn of(ledger: &Ledger, fleet: &Fleet, outages: &Outages) -> Self {
        let refusals = std::mem::take(&mut *ledger.refusals());
        let ended = fleet.ended();
        let excuses = |at| outages.excuses(at);
        let put_off = refusals.iter().filter(|refusal| refusal.status == 503);
        let odd = refusals
            .iter()
            .filter(|refusal| refusal.status != 503 || !excuses(refusal.at))
            .map(|refusal| format!("ANSWER: {}", refusal.what));
        let given_up = ended
            .iter()
            .filter(|ended| !excuses(ended.at))
            .map(|ended| format!("ENDED: {}", ended.what));
        Self {
            replayed: ledger.replayed(),
            unanswered: ledger.unanswered(),
            put_off: put_off.map(|refusal| excuses(refusal.at)).collect(),
            unexpected: refusals.iter().filter(|r| r.status != 503).count() as u64,
            ended: ended.iter().map(|ended| excuses(ended.at)).collect(),
            complaints: odd
                .take(MOST_TOLD)
                .chain(given_up.take(MOST_TOLD))
                .collect(),
        }
    }
}
