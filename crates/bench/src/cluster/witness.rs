//! What was seen from outside while it ran: put-offs, odd answers, processes that gave up.

use super::stage::Stage;

/// At most this many of one kind are told in full.
const MOST_TOLD: usize = 10;

/// How often something happened while PostgreSQL was away, and at other times.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Times {
    pub(super) excused: u64,
    pub(super) unexcused: u64,
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
pub(super) struct Witnesses {
    /// Answers 200: the first answer had been lost.
    pub(super) replayed: u64,
    /// Requests without an answer.
    pub(super) unanswered: u64,
    /// Answers 503.
    pub(super) put_off: Times,
    /// Answers that are neither an acceptance nor a 503.
    pub(super) unexpected: u64,
    /// Processes that ended by themselves.
    pub(super) ended: Times,
    /// What has no excuse, in words.
    pub(super) complaints: Vec<String>,
}

impl Witnesses {
    /// Asks everyone, once.
    pub(super) fn of(stage: &Stage<'_>) -> Self {
        let ledger = &stage.ledger;
        let refusals = std::mem::take(&mut *ledger.refusals());
        let ended = stage.fleet.ended();
        let excuses = |at| stage.outages.excuses(at);
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
