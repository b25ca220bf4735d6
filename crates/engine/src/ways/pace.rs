//! How fast emails go by one way, and how many at the same time.
//!
//! Three things bound it: what the configuration says, what the other side asked for (it said that
//! we send too much), and, for destination domains, a window that opens with every quick answer and
//! closes on a slow one, so that a domain that takes its time holds few connections.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// An answer that takes longer than this is a slow one.
const SLOW: Duration = Duration::from_secs(2);
/// After an answer that takes no longer than this, places become free all the time.
const QUICK: Duration = Duration::from_millis(100);
/// After the other side asked for less, the rate doubles after each time of this length.
const FORGETS: Duration = Duration::from_secs(30);
/// And is forgotten after this time.
const FORGOTTEN: Duration = Duration::from_secs(300);
/// For so long nothing goes after the other side asked for less and did not say how long.
const REST: Duration = Duration::from_secs(1);
/// Nobody is left alone for longer than this, whatever they ask for: their breaker is for that.
const LONGEST_REST: Duration = Duration::from_secs(300);
/// It never gets slower than this, in emails per second.
const SLOWEST: f64 = 0.2;
/// So much of a second may go at once.
const BURST: f64 = 0.1;

/// What the configuration allows; `None` for any number.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Limits {
    /// Emails per second, over all instances.
    pub rate: Option<f64>,
    /// Emails at the same time, over all instances.
    pub concurrency: Option<usize>,
}

impl Limits {
    /// Whether it bounds anything.
    #[must_use]
    pub const fn is_any(&self) -> bool {
        self.rate.is_some() || self.concurrency.is_some()
    }

    /// The part of one of so many.
    pub(super) fn shared_by(self, senders: u32) -> Self {
        let senders = senders.max(1);
        Self {
            rate: self.rate.map(|rate| rate / f64::from(senders)),
            concurrency: self
                .concurrency
                .map(|most| (most / senders as usize).max(1)),
        }
    }

    /// Both of these bounds on the rate.
    pub(super) fn slowed_to(self, rate: Option<f64>) -> Self {
        let rate = match (self.rate, rate) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        Self { rate, ..self }
    }
}

/// Why an email cannot go right now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Full {
    /// As many are under way as may be.
    Slots,
    /// As many are under way as the window lets through.
    Window,
    /// The next one may go after this time.
    Until(Duration),
}

/// How long one who finds no place waits for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// Usually.
    pub(crate) usual: Duration,
    /// At a window whose answers are quick.
    pub(crate) at_a_quick_window: Duration,
}

impl Patience {
    /// Not at all.
    pub(super) const NONE: Self = Self::of(Duration::ZERO);

    /// So long, wherever it is.
    pub(crate) const fn of(time: Duration) -> Self {
        Self {
            usual: time,
            at_a_quick_window: time,
        }
    }
}

/// The window of a destination domain.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    /// How many may be under way before anything is known.
    pub(super) first: usize,
    /// The most it opens to.
    pub(super) most: usize,
}

struct Slowed {
    at: Instant,
    rate: f64,
    rests_until: Instant,
}

struct Inner {
    /// Since when each email under way takes the other side's time, in the order in which they came.
    under_way: BTreeMap<u64, Instant>,
    next_id: u64,
    tokens: f64,
    filled_at: Instant,
    slowed: Option<Slowed>,
    /// How many went in this second and in the one before.
    second: Instant,
    counts: [u32; 2],
    window: Option<(Window, usize)>,
    /// How long the last answer took.
    last_took: Option<Duration>,
    used_at: Instant,
}

/// The pace of one way in this process.
pub(super) struct Pace {
    inner: Mutex<Inner>,
    freed: Notify,
}

impl Pace {
    pub(super) fn new(window: Option<Window>, now: Instant) -> Arc<Self> {
        Arc::new(Self {
            inner: Mutex::new(Inner {
                under_way: BTreeMap::new(),
                next_id: 0,
                tokens: 1.0,
                filled_at: now,
                slowed: None,
                second: now,
                counts: [0; 2],
                window: window.map(|window| (window, window.first)),
                last_took: None,
                used_at: now,
            }),
            freed: Notify::new(),
        })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place, if there is one.
    pub(super) fn enter(
        self: &Arc<Self>,
        limits: Limits,
        now: Instant,
        wake: &Arc<Notify>,
    ) -> Result<Slot, Full> {
        let mut inner = self.inner();
        inner.room(limits, now)?;
        inner.used_at = now;
        inner.tokens -= 1.0;
        inner.count(now);
        let id = inner.next_id;
        inner.next_id += 1;
        inner.under_way.insert(id, now);
        Ok(Slot {
            pace: Arc::clone(self),
            wake: Arc::clone(wake),
            id,
        })
    }

    /// The same, for someone who waits for it. Those who wait are called in the order in which they
    /// came; one who comes when there is room goes at once.
    pub(super) async fn enter_soon(
        self: &Arc<Self>,
        limits: Limits,
        wake: &Arc<Notify>,
        patience: Patience,
    ) -> Result<Slot, Full> {
        let came = Instant::now();
        let mut freed = std::pin::pin!(self.freed.notified());
        loop {
            let now = Instant::now();
            let full = match self.enter(limits, now, wake) {
                Ok(slot) => {
                    // One who left may have made room for two.
                    if self.room(limits, now).is_ok() {
                        self.freed.notify_one();
                    }
                    return Ok(slot);
                }
                Err(full) => full,
            };
            let patience = match full {
                Full::Window if self.is_quick(now) => patience.at_a_quick_window,
                _ => patience.usual,
            };
            let left = (came + patience).saturating_duration_since(now);
            match full {
                _ if left.is_zero() => return Err(full),
                Full::Until(wait) if wait > left => return Err(full),
                Full::Until(wait) => tokio::time::sleep(wait).await,
                Full::Slots | Full::Window => {
                    let wait = tokio::time::timeout(left.min(QUICK), freed.as_mut());
                    if wait.await.is_ok() {
                        freed.set(self.freed.notified());
                    }
                }
            }
        }
    }

    /// Whether the last answer was quick, and none has been awaited for long.
    fn is_quick(&self, now: Instant) -> bool {
        let inner = self.inner();
        let longest = inner.under_way.first_key_value();
        inner.last_took.is_some_and(|took| took <= QUICK)
            && longest.is_none_or(|(_, began)| now.saturating_duration_since(*began) <= QUICK * 3)
    }

    /// How many could go right now, or why none can.
    pub(super) fn room(&self, limits: Limits, now: Instant) -> Result<usize, Full> {
        self.inner().room(limits, now)
    }

    /// The other side says that we send too much.
    pub(super) fn slow_down(&self, rest: Option<Duration>, now: Instant) {
        let rest = rest.map(|rest| rest.min(LONGEST_REST));
        let mut inner = self.inner();
        let going = f64::from(inner.counts[0].max(inner.counts[1]));
        // Further words about what went before the first of them change nothing.
        if let Some(slowed) = &mut inner.slowed
            && now < slowed.rests_until
        {
            slowed.rests_until = slowed.rests_until.max(now + rest.unwrap_or_default());
            return;
        }
        let rate = inner.learned(now).map_or(going, |rate| rate.min(going));
        inner.slowed = Some(Slowed {
            at: now,
            rate: (rate / 2.0).max(SLOWEST),
            rests_until: now + rest.unwrap_or(REST),
        });
        inner.tokens = inner.tokens.min(0.0);
    }

    /// How many emails per second the other side can take, as far as it told us; `None` if it did
    /// not.
    pub(super) fn learned(&self, now: Instant) -> Option<f64> {
        self.inner().learned(now)
    }

    /// Whether nothing is under way and nobody came for this long.
    pub(super) fn is_idle(&self, time: Duration, now: Instant) -> bool {
        let inner = self.inner();
        inner.under_way.is_empty() && now.saturating_duration_since(inner.used_at) >= time
    }

    /// What those under way were waiting for was ours: their time begins anew.
    pub(super) fn excuse(&self, now: Instant) {
        let mut inner = self.inner();
        inner
            .under_way
            .values_mut()
            .for_each(|began| *began = (*began).max(now));
    }

    /// How many are under way.
    pub(super) fn under_way(&self) -> usize {
        self.inner().under_way.len()
    }
}

impl Inner {
    fn room(&mut self, limits: Limits, now: Instant) -> Result<usize, Full> {
        if let Some(slowed) = &self.slowed
            && now < slowed.rests_until
        {
            return Err(Full::Until(slowed.rests_until - now));
        }
        let rate = limits.slowed_to(self.learned(now)).rate;
        let tokens = self.fill(rate, now);
        if let Some(rate) = rate
            && tokens < 1.0
        {
            let wait = Duration::from_secs_f64(((1.0 - tokens) / rate).clamp(0.001, 3600.0));
            return Err(Full::Until(wait));
        }
        let (allowed, open) = (limits.concurrency.unwrap_or(usize::MAX), self.open(now));
        match allowed.min(open).saturating_sub(self.under_way.len()) {
            0 if allowed <= open => Err(Full::Slots),
            0 => Err(Full::Window),
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            free => Ok(rate.map_or(free, |_| free.min(tokens as usize))),
        }
    }

    /// Fills up what may go, and gives it.
    fn fill(&mut self, rate: Option<f64>, now: Instant) -> f64 {
        let passed = now.saturating_duration_since(self.filled_at).as_secs_f64();
        self.filled_at = now;
        self.tokens = match rate {
            None => 1.0,
            Some(rate) => (self.tokens + passed * rate).min((rate * BURST).max(1.0)),
        };
        self.tokens
    }

    /// How many may be under way by the window.
    fn open(&self, now: Instant) -> usize {
        let Some((window, open)) = self.window else {
            return usize::MAX;
        };
        let oldest = self.under_way.first_key_value();
        let is_slow = oldest.is_some_and(|(_, began)| now.saturating_duration_since(*began) > SLOW);
        if is_slow {
            open.min(window.first)
        } else {
            open
        }
    }

    fn learned(&self, now: Instant) -> Option<f64> {
        let slowed = self.slowed.as_ref()?;
        let passed = now.saturating_duration_since(slowed.rests_until.max(slowed.at));
        let doublings = passed.as_secs_f64() / FORGETS.as_secs_f64();
        (passed < FORGOTTEN).then(|| slowed.rate * doublings.exp2())
    }

    fn count(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.second).as_secs();
        if passed > 0 {
            self.counts = [0, if passed == 1 { self.counts[0] } else { 0 }];
            self.second = now;
        }
        self.counts[0] += 1;
    }
}

/// A place among those under way. It is free again when this is dropped.
pub(super) struct Slot {
    pace: Arc<Pace>,
    wake: Arc<Notify>,
    id: u64,
}

impl Slot {
    /// From now on the other side takes its time; so far the email waited for us.
    pub(super) fn talks(&self) {
        let mut inner = self.pace.inner();
        if let Some(began) = inner.under_way.get_mut(&self.id) {
            *began = Instant::now();
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut inner = self.pace.inner();
        let took = inner
            .under_way
            .remove(&self.id)
            .map(|began| began.elapsed());
        inner.last_took = took;
        if let (Some(took), Some((window, open))) = (took, &mut inner.window) {
            *open = if took > SLOW {
                window.first
            } else {
                (*open + 1).min(window.most)
            };
        }
        drop(inner);
        self.pace.freed.notify_one();
        self.wake.notify_one();
    }
}

#[cfg(test)]
mod tests;
