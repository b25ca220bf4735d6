//! What is wrong with RabbitMQ right now, and what happened so far.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use posthaste_core::port::BrokerCounts;
use tracing::{debug, error, info, warn};

/// What the connections are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Tickets of our own emails.
    Tickets,
    /// Failed messages of other services.
    Messages,
}

impl Purpose {
    /// What happens while RabbitMQ is away.
    const fn meanwhile(self) -> &'static str {
        match self {
            Self::Tickets => "emails are sent from the store meanwhile",
            Self::Messages => "messages wait in the store meanwhile",
        }
    }
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tickets => "tickets",
            Self::Messages => "messages",
        })
    }
}

/// One of the two connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    /// Publishes, and may be blocked by an alarm.
    Publisher,
    /// Takes deliveries.
    Consumer,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Publisher => "publisher",
            Self::Consumer => "consumer",
        })
    }
}

/// How a connection fares.
#[derive(Default)]
struct Connection {
    /// Why it is away, if it is.
    away: Option<String>,
    /// Whether that was logged.
    is_told: bool,
    was_up: bool,
}

#[derive(Default)]
struct State {
    connections: BTreeMap<Role, Connection>,
    blocked: Option<String>,
    queues: BTreeMap<(Role, String), String>,
}

/// What is wrong right now, and what happened so far. Logs every change once.
pub(super) struct Health {
    purpose: Purpose,
    state: Mutex<State>,
    undecodable: AtomicU64,
    returned: AtomicU64,
    reconnected: AtomicU64,
}

impl Health {
    /// Neither connection is up yet.
    pub(super) fn new(purpose: Purpose, roles: impl IntoIterator<Item = Role>) -> Self {
        let not_yet = |role| {
            let connection = Connection {
                away: Some("not connected yet".into()),
                ..Connection::default()
            };
            (role, connection)
        };
        let state = State {
            connections: roles.into_iter().map(not_yet).collect(),
            ..State::default()
        };
        Self {
            purpose,
            state: Mutex::new(state),
            undecodable: AtomicU64::default(),
            returned: AtomicU64::default(),
            reconnected: AtomicU64::default(),
        }
    }

    /// A connection is lost, or cannot be made.
    pub(super) fn away(&self, role: Role, why: String) {
        let mut state = self.state();
        let connection = state.connections.entry(role).or_default();
        connection.away = Some(why.clone());
        let was_told = std::mem::replace(&mut connection.is_told, true);
        if role == Role::Publisher {
            state.blocked = None;
        }
        state.queues.retain(|(of, _), _| *of != role);
        drop(state);
        let lane = self.purpose;
        if was_told {
            debug!(%lane, connection = %role, error = %why, "RabbitMQ is still away");
        } else {
            warn!(%lane, connection = %role, error = %why, "RabbitMQ cannot be reached; trying for ever");
        }
    }

    /// A connection is up and its queues are there.
    pub(super) fn up(&self, role: Role) {
        let mut state = self.state();
        let connection = state.connections.entry(role).or_default();
        connection.away = None;
        connection.is_told = false;
        let again = std::mem::replace(&mut connection.was_up, true);
        drop(state);
        let lane = self.purpose;
        if again {
            self.reconnected.fetch_add(1, Ordering::Relaxed);
            info!(%lane, connection = %role, "RabbitMQ connection is back");
        } else {
            info!(%lane, connection = %role, "RabbitMQ connection is up");
        }
    }

    /// RabbitMQ takes no messages, or takes them again.
    pub(super) fn blocked(&self, reason: Option<String>) {
        let lane = self.purpose;
        match &reason {
            Some(reason) => warn!(%lane, %reason, "RabbitMQ takes no messages because of an alarm"),
            None => info!(%lane, "RabbitMQ takes messages again"),
        }
        self.state().blocked = reason;
    }

    /// A queue cannot be used on this connection.
    pub(super) fn queue_trouble(&self, role: Role, queue: &str, trouble: String) {
        let mut state = self.state();
        let known = state.queues.values().any(|other| *other == trouble);
        state
            .queues
            .insert((role, queue.to_owned()), trouble.clone());
        drop(state);
        if !known {
            error!(queue, "{trouble}");
        }
    }

    /// A queue can be used on this connection.
    pub(super) fn queue_works(&self, role: Role, queue: &str) {
        let removed = self.state().queues.remove(&(role, queue.to_owned()));
        if removed.is_some() {
            info!(connection = %role, queue, "RabbitMQ queue works again");
        }
    }

    /// The queues that cannot be used on this connection.
    pub(super) fn queues_in_trouble(&self, role: Role) -> BTreeSet<String> {
        let state = self.state();
        let of_role = state.queues.keys().filter(|(of, _)| *of == role);
        of_role.map(|(_, queue)| queue.clone()).collect()
    }

    /// Something that could not be read was put aside.
    pub(super) fn count_undecodable(&self) {
        self.undecodable.fetch_add(1, Ordering::Relaxed);
    }

    /// Messages came back because no queue was there.
    pub(super) fn count_returned(&self, count: usize) {
        self.returned.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// What happened so far.
    pub(super) fn counts(&self) -> BrokerCounts {
        BrokerCounts {
            undecodable: self.undecodable.load(Ordering::Relaxed),
            returned: self.returned.load(Ordering::Relaxed),
            reconnected: self.reconnected.load(Ordering::Relaxed),
        }
    }

    /// What is wrong right now, in a sentence for people.
    pub(super) fn trouble(&self) -> Option<String> {
        let state = self.state();
        let away = state.connections.values().find_map(|of| of.away.as_ref());
        let away = away.map(|why| format!("RabbitMQ cannot be reached: {why}"));
        let blocked = state.blocked.as_ref();
        let blocked = blocked.map(|why| format!("RabbitMQ takes no messages: {why}"));
        let queues: BTreeSet<_> = state.queues.values().cloned().collect();
        let troubles: Vec<_> = away.into_iter().chain(blocked).chain(queues).collect();
        let meanwhile = self.purpose.meanwhile();
        (!troubles.is_empty()).then(|| format!("{}; {meanwhile}", troubles.join("; ")))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
