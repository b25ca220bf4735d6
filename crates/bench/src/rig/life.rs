//! What happens to a process from one start to its end, and who decides that.

use std::process::ExitStatus;
use std::time::Duration;

use super::member::Member;

/// One life of a process, as it is meant to be.
#[derive(Debug, Clone, Default)]
pub(crate) struct Life {
    /// Variables of this life only.
    pub(crate) variables: Vec<(String, String)>,
    /// A program that starts it, with its arguments, such as `strace`.
    pub(crate) under: Vec<String>,
    /// It is killed if it lives so long.
    pub(crate) limit: Option<Duration>,
    /// Should it freeze, it goes on after this time.
    pub(crate) thaw_after: Option<Duration>,
}

/// How a life ended.
#[derive(Debug)]
pub(crate) enum Death {
    /// Somebody outside killed it.
    Killed,
    /// It lived as long as it was meant to.
    Limit,
    /// It ended, or something within it killed it.
    ByItself(ExitStatus),
}

/// Decides about lives.
pub(crate) trait Director: Send + Sync {
    /// The next life of a process.
    fn life(&self, member: &Member) -> Life;

    /// It listens, so long after it was started.
    fn listens(&self, member: &Member, after: Duration);

    /// It froze by itself.
    fn froze(&self, member: &Member);

    /// It is over. The answer is whether that was meant to be.
    fn over(&self, member: &Member, death: &Death) -> bool;
}

/// Lets everyone live, and excuses no end but those from outside.
pub(crate) struct Undisturbed;

impl Director for Undisturbed {
    fn life(&self, _member: &Member) -> Life {
        Life::default()
    }

    fn listens(&self, _member: &Member, _after: Duration) {}

    fn froze(&self, _member: &Member) {}

    fn over(&self, _member: &Member, death: &Death) -> bool {
        !matches!(death, Death::ByItself(_))
    }
}
