//! Which failpoints a process can come by.

use posthaste_core::failpoint;

use crate::rig::member::Role;
use crate::rig::stand::Store;

/// Whether a place belongs to something else than emails over SMTP. Those have tests of their own
/// (`messages_crash.rs`, `failover.rs`).
fn is_foreign(place: &str) -> bool {
    place.starts_with("http.") || place.starts_with("messages.")
}

/// Places that need a queue of tickets.
const OF_TICKETS: [&str; 10] = [
    "intake.before_publish",
    "intake.after_publish",
    "sender.before_acknowledge",
    "sender.after_acknowledge",
    "scheduler.before_claim",
    "scheduler.after_claim",
    "scheduler.before_publish",
    "scheduler.after_publish",
    "scheduler.before_mark",
    "scheduler.after_mark",
];

/// Which role comes by a place; none: everyone does.
fn role_at(place: &str) -> Option<Role> {
    match place.split('.').next()? {
        "intake" | "operator" => Some(Role::Api),
        "sender" | "smtp" => Some(Role::Sender),
        "scheduler" | "rescuer" | "pruner" | "bulk" | "announcer" => Some(Role::Scheduler),
        _ => None,
    }
}

/// The places that somebody comes by.
pub(super) fn on(store: Store) -> impl Iterator<Item = &'static str> {
    let has_tickets = store != Store::Postgres;
    let places = failpoint::NAMES.iter().copied();
    places
        .filter(|place| !is_foreign(place))
        .filter(move |place| has_tickets || !OF_TICKETS.contains(place))
}

/// The places that a process of this role comes by.
pub(super) fn of(role: Role, store: Store) -> Vec<&'static str> {
    let comes_by = |place: &&str| role == Role::Whole || role_at(place).is_none_or(|at| at == role);
    on(store).filter(comes_by).collect()
}

/// Whether every email passes it, so that it is come by all the time.
pub(super) fn is_busy(place: &str) -> bool {
    let modules = ["intake.", "smtp.", "sender.", "store."];
    modules.iter().any(|module| place.starts_with(module)) && !place.ends_with("_renew")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_has_somebody_who_comes_by() {
        let split = [Role::Api, Role::Sender, Role::Scheduler];
        let mut reached: Vec<_> = split
            .into_iter()
            .flat_map(|role| of(role, Store::Rabbitmq))
            .collect();
        reached.sort_unstable();
        reached.dedup();
        let mut all: Vec<_> = on(Store::Rabbitmq).collect();
        all.sort_unstable();
        assert_eq!(reached, all);
        assert!(all.contains(&"smtp.after_gate"));
        assert!(!on(Store::Postgres).any(|place| place == "scheduler.after_mark"));
    }
}
