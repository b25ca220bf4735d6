//! Named places at which a test can kill or stop the process.
//!
//! Compiled in only with debug assertions: a release build has nothing of this. The variable
//! `POSTHASTE_FAILPOINT` names one place and what happens there: `smtp.before_dot=kill` ends the
//! process as `kill -9` would; `=kill@3` does so at the third visit; `=stop` freezes all of it, as
//! a paused machine would, until somebody sends SIGCONT.

/// Every place there is, in the order in which an email passes them. Whoever marks a new place
/// names it here: whoever breaks things on purpose goes by this list.
pub const NAMES: &[&str] = &[
    "serve.start",
    "intake.before_commit",
    "intake.after_commit",
    "intake.before_publish",
    "intake.after_publish",
    "sender.before_begin",
    "sender.after_begin",
    "sender.before_acknowledge",
    "sender.after_acknowledge",
    "smtp.before_connect",
    "smtp.after_connect",
    "smtp.before_mail",
    "smtp.after_mail",
    "smtp.after_recipient",
    "smtp.before_body",
    "smtp.within_body",
    "smtp.before_gate",
    "smtp.after_gate",
    "smtp.before_dot",
    "smtp.after_dot",
    "smtp.after_reply",
    "http.before_gate",
    "http.before_request",
    "http.after_request",
    "sender.before_finish",
    "sender.after_finish",
    "sender.before_renew",
    "sender.after_renew",
    "store.before_commit",
    "store.after_commit",
    "scheduler.before_claim",
    "scheduler.after_claim",
    "scheduler.before_publish",
    "scheduler.after_publish",
    "scheduler.before_mark",
    "scheduler.after_mark",
    "rescuer.before_rescue",
    "rescuer.after_rescue",
    "rescuer.before_settle",
    "rescuer.after_settle",
    "pruner.before_prune",
    "pruner.after_prune",
    "operator.before_act",
    "operator.after_act",
    "bulk.before_step",
    "bulk.after_step",
    "announcer.before_publish",
    "announcer.after_publish",
    "announcer.before_settle",
    "announcer.after_settle",
    "messages.before_acknowledge",
    "messages.after_claim",
    "messages.after_publish",
];

/// Marks a place. `name` is `module.moment`, for example `smtp.after_dot`.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn hit(_name: &'static str) {}

/// Marks a place. `name` is `module.moment`, for example `smtp.after_dot`.
#[cfg(debug_assertions)]
pub fn hit(name: &'static str) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    static PLAN: OnceLock<Option<Plan>> = OnceLock::new();
    static VISITS: AtomicU32 = AtomicU32::new(0);

    debug_assert!(NAMES.contains(&name), "`{name}` is not on the list");
    let plan = PLAN.get_or_init(|| Plan::read(&std::env::var("POSTHASTE_FAILPOINT").ok()?));
    if let Some(plan) = plan
        && plan.name == name
        && VISITS.fetch_add(1, Ordering::SeqCst) + 1 == plan.visit
    {
        match plan.stops {
            // Abort without unwinding or flushing anything, as a crash would.
            false => std::process::abort(),
            true => stop(),
        }
    }
}

/// What is to happen, and where.
#[cfg(debug_assertions)]
#[derive(Debug, PartialEq)]
struct Plan {
    name: String,
    stops: bool,
    visit: u32,
}

#[cfg(debug_assertions)]
impl Plan {
    fn read(text: &str) -> Option<Self> {
        let (name, action) = text.split_once('=')?;
        let (action, visit) = action.split_once('@').unwrap_or((action, "1"));
        Some(Self {
            name: name.to_owned(),
            stops: action == "stop",
            visit: visit.parse().unwrap_or(1),
        })
    }
}

/// Freezes this process. The shell has `kill` built in.
#[cfg(debug_assertions)]
fn stop() {
    // In vain without a shell: then nothing is frozen.
    let _ = std::process::Command::new("sh")
        .args(["-c", "kill -STOP $PPID"])
        .status();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_and_at_which_visit_is_read_from_the_variable() {
        let plan = |name: &str, stops, visit| {
            let name = name.to_owned();
            Some(Plan { name, stops, visit })
        };
        assert_eq!(Plan::read("a.b=kill"), plan("a.b", false, 1));
        assert_eq!(Plan::read("a.b=kill@3"), plan("a.b", false, 3));
        assert_eq!(Plan::read("a.b=stop@2"), plan("a.b", true, 2));
        assert_eq!(Plan::read("a.b"), None);
    }

    #[test]
    fn no_place_is_named_twice() {
        for (at, name) in NAMES.iter().enumerate() {
            assert!(!NAMES[..at].contains(name), "{name}");
        }
    }
}
