//! Panics of simulated code. The engine survives its own bugs, so that none of them would be seen
//! otherwise.

use std::cell::RefCell;
use std::panic::AssertUnwindSafe;
use std::sync::Once;

thread_local! {
    static NOTED: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Notes panics that happen in a run, instead of printing them.
pub(crate) fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let is_noted = NOTED.with_borrow_mut(|noted| {
                let noted = noted.as_mut()?;
                noted.push(info.to_string());
                Some(())
            });
            if is_noted.is_none() {
                before(info);
            }
        }));
    });
}

/// What a run gives, unless it ended by a panic itself, and all panics in it.
pub(crate) fn noted<T>(run: impl FnOnce() -> T) -> (Option<T>, Vec<String>) {
    NOTED.set(Some(Vec::new()));
    let result = std::panic::catch_unwind(AssertUnwindSafe(run));
    (result.ok(), NOTED.take().unwrap_or_default())
}
