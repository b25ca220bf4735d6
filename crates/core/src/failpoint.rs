//! Named places at which a test can kill or stop the process.
//!
//! Compiled in only with debug assertions: a release build has nothing of this. The variable
//! `POSTHASTE_FAILPOINT` names one place and what happens there: `smtp.before_dot=kill` ends the
//! process as `kill -9` would; `=kill@3` does so at the third visit.

/// Marks a place. `name` is `module.moment`, for example `smtp.after_dot`.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn hit(_name: &str) {}

/// Marks a place. `name` is `module.moment`, for example `smtp.after_dot`.
#[cfg(debug_assertions)]
pub fn hit(name: &str) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    struct Plan {
        name: String,
        visit: u32,
    }
    static PLAN: OnceLock<Option<Plan>> = OnceLock::new();
    static VISITS: AtomicU32 = AtomicU32::new(0);

    let plan = PLAN.get_or_init(|| {
        let text = std::env::var("POSTHASTE_FAILPOINT").ok()?;
        let (name, action) = text.split_once('=')?;
        let visit = action
            .split_once('@')
            .map_or(1, |(_, visit)| visit.parse().unwrap_or(1));
        Some(Plan {
            name: name.to_owned(),
            visit,
        })
    });
    if let Some(plan) = plan
        && plan.name == name
        && VISITS.fetch_add(1, Ordering::SeqCst) + 1 == plan.visit
    {
        // Abort without unwinding or flushing anything, as a crash would.
        std::process::abort();
    }
}
