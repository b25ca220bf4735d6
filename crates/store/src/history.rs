//! Counters made into steps of time, the same for every dialect.

use posthaste_core::Timestamp;
use posthaste_core::port::HistoryStep;
use posthaste_core::status::Status;

use crate::statistics::number;

/// The most steps that are told at once.
const MOST_STEPS: u32 = 2880;

/// The steps of time that were asked for. They begin at whole multiples of their length.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    /// The minute in which the first step begins.
    pub(crate) first: i64,
    /// How long each is.
    pub(crate) step_minutes: i64,
    steps: i64,
}

/// How many emails went from one state to another in a step.
pub(crate) struct Line {
    /// The minute in which the step began.
    pub(crate) minute: i64,
    /// Where the emails were; `None`: they were accepted.
    pub(crate) from: Option<Status>,
    /// Where they went; `None`: they were pruned.
    pub(crate) to: Option<Status>,
    /// How many.
    pub(crate) n: i64,
}

impl Window {
    /// The last steps up to now.
    pub(crate) fn new(step_minutes: u32, steps: u32, now: Timestamp) -> Self {
        let step_minutes = i64::from(step_minutes.clamp(1, 60));
        let steps = i64::from(steps.clamp(1, MOST_STEPS));
        let present = now.as_second().div_euclid(60);
        let last = present - present.rem_euclid(step_minutes);
        Self {
            first: last - (steps - 1) * step_minutes,
            step_minutes,
            steps,
        }
    }

    /// Every step with what the counters say of it.
    pub(crate) fn filled(&self, lines: impl IntoIterator<Item = Line>) -> Vec<HistoryStep> {
        let mut found: Vec<HistoryStep> = (0..self.steps)
            .map(|step| HistoryStep {
                from: beginning_of(self.first + step * self.step_minutes),
                accepted: 0,
                sent: 0,
                failed: 0,
                dead: 0,
            })
            .collect();
        for line in lines {
            let step = (line.minute - self.first).div_euclid(self.step_minutes);
            let Some(step) = usize::try_from(step).ok().and_then(|at| found.get_mut(at)) else {
                continue;
            };
            let n = number(line.n);
            match (line.from, line.to) {
                (None, _) => step.accepted += n,
                (_, Some(Status::Sent)) => step.sent += n,
                // One that a scheduler hands back did not fail again.
                (Some(Status::Sending | Status::Unknown), Some(Status::Failed)) => step.failed += n,
                // A restored one did not die again.
                (Some(Status::Discarded), Some(Status::Dead)) => {}
                (_, Some(Status::Dead)) => step.dead += n,
                _ => {}
            }
        }
        found
    }
}

fn beginning_of(minute: i64) -> Timestamp {
    Timestamp::from_second(minute.saturating_mul(60)).unwrap_or(Timestamp::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_begin_at_whole_multiples_and_end_with_the_present() {
        let now: Timestamp = "2026-03-01T12:34:56Z".parse().unwrap();
        let steps = Window::new(60, 24, now).filled([]);
        assert_eq!(steps.len(), 24);
        assert_eq!(steps[23].from, "2026-03-01T12:00:00Z".parse().unwrap());
        assert_eq!(steps[0].from, "2026-02-28T13:00:00Z".parse().unwrap());
        let quarter = Window::new(15, 2, now).filled([]);
        assert_eq!(quarter[1].from, "2026-03-01T12:30:00Z".parse().unwrap());
        assert_eq!(Window::new(0, 0, now).filled([]).len(), 1);
    }

    #[test]
    fn what_is_outside_is_left_out() {
        let window = Window::new(60, 2, Timestamp::from_second(7200).unwrap());
        let line = |minute| Line {
            minute,
            from: None,
            to: Some(Status::Pending),
            n: 1,
        };
        let steps = window.filled([line(0), line(60), line(119), line(120), line(999)]);
        let accepted: Vec<_> = steps.iter().map(|step| step.accepted).collect();
        assert_eq!(accepted, [2, 1]);
    }
}
