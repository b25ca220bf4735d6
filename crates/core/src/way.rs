//! The ways out and their breakers: when one is taken for broken, and how it comes back.
//!
//! A way is a transport, or one destination domain by a transport. Faults that speak about the way
//! and not about an email are counted; too many in a row stop it. While it is stopped, emails wait
//! for it without spending attempts. One email at a time probes it; when one gets through, the way
//! takes up again slowly. Everything here is pure: stores keep what [`Way::told`] answers, so that
//! all instances share one breaker.

mod name;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::email::EmailId;
use crate::lifecycle::after;
use crate::status::named;

pub use self::name::{WayName, any_of, in_words, is_name, ways_of};

named! {
    /// How a way does.
    Condition {
        /// Everything goes.
        Flowing = "flowing",
        /// Nothing goes.
        Stopped = "stopped",
        /// One email tests it.
        Probing = "probing",
        /// It takes up again, more with every moment.
        Ramping = "ramping",
    }
}

/// When a breaker stops a way, and how it comes back.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BreakerRules {
    /// This many emails in a row must fail by the way's fault.
    pub failures: u32,
    /// The same for faults of our own configuration, which kill emails: no more than these.
    pub credential_failures: u32,
    /// Within this time, without one that got through; no limit for our own faults.
    pub window: Duration,
    /// The first probe comes after this time, each further one after twice as long …
    pub first_probe: Duration,
    /// … but not after more than this.
    pub longest_probe: Duration,
    /// A way that comes back takes this many emails in the first second.
    pub ramp_rate: f64,
    /// And twice as many after each time of this length.
    pub ramp_doubling: Duration,
    /// Until it has done so for this long.
    pub ramp: Duration,
}

impl Default for BreakerRules {
    fn default() -> Self {
        Self {
            failures: 10,
            credential_failures: 5,
            window: Duration::from_secs(30 * 60),
            first_probe: Duration::from_secs(10),
            longest_probe: Duration::from_secs(60),
            ramp_rate: 5.0,
            ramp_doubling: Duration::from_secs(5),
            ramp: Duration::from_secs(60),
        }
    }
}

/// A fault during a ramp stops the way again after this many.
const RAMP_FAILURES: usize = 2;

/// An attempt that failed by a way's fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultNote {
    /// Whose attempt.
    pub email: EmailId,
    /// Which attempt.
    pub attempt: u32,
}

/// How a way does, as all instances share it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Way {
    /// How it does.
    pub condition: Condition,
    /// Since when.
    pub since: Timestamp,
    /// Who paused it by hand.
    pub paused_by: Option<String>,
    /// Faults in a row, one per email.
    pub faults: Vec<FaultNote>,
    /// When the first of them was.
    pub faults_since: Option<Timestamp>,
    /// What went wrong last.
    pub last_error: Option<String>,
    /// When it may be probed.
    pub next_probe_at: Option<Timestamp>,
    /// How long the last rest between probes was.
    pub probe_rest: Duration,
    /// Which email probes it, or did last without having come back.
    pub probe: Option<EmailId>,
    /// Until when that one has to be back.
    pub probe_until: Option<Timestamp>,
}

/// What happens to a way.
#[derive(Debug, Clone, PartialEq)]
pub enum WayEvent {
    /// An attempt failed, and the way is what failed.
    Fault {
        /// The attempt.
        note: FaultNote,
        /// Whether it was our configuration, such as a wrong password.
        is_ours: bool,
        /// What went wrong, for people.
        error: String,
        /// How long the server wants to be left alone.
        floor: Option<Duration>,
    },
    /// A failure that was told before is on record now. If the way was stopped in between, it is
    /// given back.
    Landed {
        /// The attempt.
        note: FaultNote,
    },
    /// An attempt got through, whatever became of its email.
    Success {
        /// Which email's.
        email: EmailId,
    },
    /// An email would like to probe it.
    Probe {
        /// Which one.
        email: EmailId,
        /// For how long at most.
        lease: Duration,
    },
    /// The email that probed it was handed back before anything was tried.
    Abandon {
        /// Which one.
        email: EmailId,
    },
    /// An operator wants nothing sent by it.
    Pause {
        /// Who.
        actor: String,
    },
    /// An operator takes that back; a way that was stopped is probed now.
    Resume,
}

/// What the way answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WayAnswer {
    /// Noted.
    Noted,
    /// The failure is the email's to bear, as far as anyone can tell.
    Spends,
    /// The failure is the way's: the email waits and spends nothing.
    Waits,
    /// The email may probe.
    Taken,
    /// It may not.
    Refused,
}

/// What people are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WayNews {
    /// It was stopped.
    Stopped,
    /// It takes up again.
    Recovered,
}

/// What an event makes of a way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WayChange {
    /// How it does now.
    pub next: Way,
    /// The answer to whoever told it.
    pub answer: WayAnswer,
    /// What people are told.
    pub news: Option<WayNews>,
    /// Attempts that turned out to have failed by the way's fault.
    pub refunds: Vec<FaultNote>,
}

impl Way {
    /// A way that nothing is known against.
    #[must_use]
    pub const fn flowing(since: Timestamp) -> Self {
        Self {
            condition: Condition::Flowing,
            since,
            paused_by: None,
            faults: Vec::new(),
            faults_since: None,
            last_error: None,
            next_probe_at: None,
            probe_rest: Duration::ZERO,
            probe: None,
            probe_until: None,
        }
    }

    /// Whether it needs to be kept at all.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.condition == Condition::Flowing && self.paused_by.is_none() && self.faults.is_empty()
    }

    /// How it does at this moment: a ramp ends by itself, a probe that never came back too.
    #[must_use]
    pub fn condition_at(&self, rules: &BreakerRules, now: Timestamp) -> Condition {
        match self.condition {
            Condition::Ramping if after(self.since, rules.ramp) <= now => Condition::Flowing,
            Condition::Probing if self.probe_until.is_none_or(|until| until <= now) => {
                Condition::Stopped
            }
            condition => condition,
        }
    }

    /// Whether an email may go by it now without asking.
    #[must_use]
    pub fn is_open(&self, rules: &BreakerRules, now: Timestamp) -> bool {
        let condition = self.condition_at(rules, now);
        self.paused_by.is_none() && matches!(condition, Condition::Flowing | Condition::Ramping)
    }

    /// Whether an email may ask to probe it.
    #[must_use]
    pub fn may_be_probed(&self, rules: &BreakerRules, now: Timestamp) -> bool {
        self.paused_by.is_none()
            && self.condition_at(rules, now) == Condition::Stopped
            && self.next_probe_at.is_none_or(|at| at <= now)
    }

    /// How many emails it takes per second while it takes up again; `None` for any number.
    #[must_use]
    pub fn ramp_rate(&self, rules: &BreakerRules, now: Timestamp) -> Option<f64> {
        if self.condition_at(rules, now) != Condition::Ramping {
            return None;
        }
        let ramping = now.duration_since(self.since).as_secs_f64().max(0.0);
        let doublings = ramping / rules.ramp_doubling.as_secs_f64().max(0.001);
        Some(rules.ramp_rate * doublings.min(60.0).exp2())
    }

    /// What an event makes of it.
    #[must_use]
    pub fn told(&self, event: &WayEvent, rules: &BreakerRules, now: Timestamp) -> WayChange {
        let mut next = self.clone();
        next.settle(rules, now);
        let (mut news, mut refunds) = (None, Vec::new());
        let answer = match event {
            WayEvent::Fault {
                note,
                is_ours,
                error,
                floor,
            } => {
                next.last_error = Some(error.clone());
                let before = next.condition;
                let is_over = next.fault(*note, *is_ours, rules, now);
                if is_over {
                    let tripped = std::mem::take(&mut next.faults);
                    next.stop(*floor, rules, now);
                    // Those that our own configuration killed are dead.
                    if !is_ours {
                        refunds = tripped;
                    }
                    if before != Condition::Probing {
                        news = Some(WayNews::Stopped);
                    }
                }
                if let (Condition::Stopped, Some(floor)) = (next.condition, floor) {
                    next.next_probe_at = next.next_probe_at.max(Some(after(now, *floor)));
                }
                match before {
                    Condition::Flowing if *is_ours || !is_over => WayAnswer::Spends,
                    _ => WayAnswer::Waits,
                }
            }
            WayEvent::Landed { note } => {
                if next.condition != Condition::Flowing {
                    refunds.push(*note);
                }
                WayAnswer::Noted
            }
            WayEvent::Success { email } => {
                // Also one that came back late, as long as nobody else probes.
                let is_shut = matches!(next.condition, Condition::Probing | Condition::Stopped);
                if is_shut && next.probe == Some(*email) {
                    next.turn(Condition::Ramping, now);
                    next.probe_rest = Duration::ZERO;
                    news = Some(WayNews::Recovered);
                }
                if matches!(next.condition, Condition::Flowing | Condition::Ramping) {
                    next.faults.clear();
                    next.faults_since = None;
                }
                WayAnswer::Noted
            }
            WayEvent::Probe { email, lease } => {
                if next.may_be_probed(rules, now) {
                    next.turn(Condition::Probing, self.since);
                    next.probe = Some(*email);
                    next.probe_until = Some(after(now, *lease));
                    WayAnswer::Taken
                } else {
                    WayAnswer::Refused
                }
            }
            WayEvent::Abandon { email } => {
                if next.condition == Condition::Probing && next.probe == Some(*email) {
                    next.turn(Condition::Stopped, self.since);
                    next.next_probe_at = Some(now);
                }
                WayAnswer::Noted
            }
            WayEvent::Pause { actor } => {
                if next.paused_by.is_none() {
                    next.paused_by = Some(actor.clone());
                    WayAnswer::Taken
                } else {
                    WayAnswer::Refused
                }
            }
            WayEvent::Resume => {
                let was_paused = next.paused_by.take().is_some();
                match next.condition {
                    Condition::Stopped => next.next_probe_at = Some(now),
                    // What has gathered must not come all at once.
                    Condition::Flowing if was_paused => next.turn(Condition::Ramping, now),
                    _ => {}
                }
                if was_paused || next.condition == Condition::Stopped {
                    WayAnswer::Taken
                } else {
                    WayAnswer::Refused
                }
            }
        };
        WayChange {
            next,
            answer,
            news,
            refunds,
        }
    }

    /// Notes a fault; whether it is one too many.
    fn fault(
        &mut self,
        note: FaultNote,
        is_ours: bool,
        rules: &BreakerRules,
        now: Timestamp,
    ) -> bool {
        match self.condition {
            Condition::Stopped => return false,
            // Others may still have been on their way when it was stopped.
            Condition::Probing => return self.probe == Some(note.email),
            Condition::Flowing | Condition::Ramping => {}
        }
        // A wrong password does not become right with time.
        let is_old = |since: Timestamp| !is_ours && after(since, rules.window) <= now;
        if self.faults_since.is_none_or(is_old) {
            self.faults.clear();
            self.faults_since = Some(now);
        }
        // One email that fails again and again says nothing about the others.
        if let Some(known) = self
            .faults
            .iter_mut()
            .find(|known| known.email == note.email)
        {
            *known = note;
        } else {
            self.faults.push(note);
        }
        let most = match self.condition {
            Condition::Ramping => RAMP_FAILURES,
            _ if is_ours => rules.credential_failures as usize,
            _ => rules.failures as usize,
        };
        self.faults.len() >= most
    }

    fn stop(&mut self, floor: Option<Duration>, rules: &BreakerRules, now: Timestamp) {
        let rest = match self.condition {
            Condition::Probing => self.probe_rest.saturating_mul(2),
            _ => rules.first_probe,
        };
        let since = match self.condition {
            Condition::Probing => self.since,
            _ => now,
        };
        self.turn(Condition::Stopped, since);
        self.probe_rest = rest.clamp(
            rules.first_probe,
            rules.longest_probe.max(rules.first_probe),
        );
        let rest = self.probe_rest.max(floor.unwrap_or_default());
        self.next_probe_at = Some(after(now, rest));
        self.faults_since = None;
    }

    fn turn(&mut self, condition: Condition, since: Timestamp) {
        self.condition = condition;
        self.since = since;
        self.next_probe_at = None;
        self.probe = None;
        self.probe_until = None;
    }

    /// Writes down what has come about by time alone.
    fn settle(&mut self, rules: &BreakerRules, now: Timestamp) {
        let condition = self.condition_at(rules, now);
        if condition == self.condition {
            return;
        }
        let since = if condition == Condition::Flowing {
            now
        } else {
            self.since
        };
        let probe = self.probe;
        self.turn(condition, since);
        if condition == Condition::Stopped {
            self.next_probe_at = Some(now);
            // It may still come back, and bring good news.
            self.probe = probe;
        }
    }
}
