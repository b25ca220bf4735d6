//! What operations people watch. Zero-initialised; no address or id is ever a label.

use std::sync::atomic::Ordering;

use posthaste_core::message::MessageStatus;
use posthaste_core::port::BrokerCounts;
use posthaste_core::status::{DeadReason, Outcome, Phase, Status};
use posthaste_core::way::Condition;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// One label called `status`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct StatusLabel {
    status: &'static str,
}

impl From<MessageStatus> for StatusLabel {
    fn from(status: MessageStatus) -> Self {
        let status = status.as_str();
        Self { status }
    }
}

/// One label called `source`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct SourceLabel {
    source: &'static str,
}

/// The labels of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct AttemptLabels {
    transport: String,
    outcome: &'static str,
}

/// One label called `transport`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct TransportLabel {
    transport: String,
}

/// The labels of a transport's state.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ConditionLabels {
    transport: String,
    state: &'static str,
}

/// The labels of an alert.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct AlertLabels {
    channel: String,
    outcome: &'static str,
}

/// One label called `reason`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ReasonLabel {
    reason: &'static str,
}

/// One label called `phase`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct PhaseLabel {
    phase: &'static str,
}

/// The labels of an HTTP request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct HttpLabels {
    /// The route, with its parameters as placeholders.
    pub route: String,
    /// The method.
    pub method: String,
    /// The status code.
    pub status: u16,
}

/// Where an email came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The HTTP API.
    Api,
    /// The command line.
    Cli,
    /// The application that we are a part of.
    Library,
}

impl Source {
    const fn name(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Cli => "cli",
            Self::Library => "library",
        }
    }
}

/// Every metric of the email lane.
pub struct Metrics {
    emails: Family<StatusLabel, Gauge>,
    accepted: Family<SourceLabel, Counter>,
    attempts: Family<AttemptLabels, Counter>,
    /// How long attempts take.
    pub attempt_duration: Histogram,
    /// How long emails take from acceptance to delivery.
    pub time_to_delivery: Histogram,
    /// Failed emails that are due right now.
    pub retries_due: Gauge,
    /// Retries handed to the broker.
    pub retries_requeued: Counter,
    /// How late retries were handed to the broker.
    pub retry_lateness: Histogram,
    dead: Family<ReasonLabel, Counter>,
    alerts: Family<AlertLabels, Counter>,
    /// How long the oldest waiting email has been due, in seconds.
    pub oldest_pending_age: Gauge,
    /// Results of attempts that came too late to count.
    pub stale_writes_rejected: Counter,
    leases_rescued: Family<PhaseLabel, Counter>,
    /// Emails that found no way out free, and wait for one.
    pub parked: Counter,
    emails_waiting: Family<TransportLabel, Gauge>,
    transport_state: Family<ConditionLabels, Gauge>,
    /// Whether the store answered when the gauges were read: if not, they are of another time.
    pub store_up: Gauge,
    /// Whether the broker is well; 1 without one.
    pub broker_up: Gauge,
    tickets_undecodable: Counter,
    publishes_returned: Counter,
    broker_reconnects: Counter,
    /// How long HTTP requests take.
    pub http_request_duration: Family<HttpLabels, Histogram, fn() -> Histogram>,
}

/// The transport of attempts whose worker was lost: which way out it used is lost with it.
pub const LOST_TRANSPORT: &str = "lost";

/// The transport of attempts that were over before one was chosen.
pub const NO_TRANSPORT: &str = "none";

/// From a tenth of a millisecond to minutes.
const SECONDS: [f64; 16] = [
    0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0,
    300.0,
];

pub(crate) fn seconds() -> Histogram {
    Histogram::new(SECONDS)
}

impl Metrics {
    /// Registers every metric. `transports` are the ways out that exist.
    #[must_use]
    pub fn new(registry: &mut Registry, transports: &[&str]) -> Self {
        let metrics = Self {
            emails: Family::default(),
            accepted: Family::default(),
            attempts: Family::default(),
            attempt_duration: seconds(),
            time_to_delivery: seconds(),
            retries_due: Gauge::default(),
            retries_requeued: Counter::default(),
            retry_lateness: seconds(),
            dead: Family::default(),
            alerts: Family::default(),
            oldest_pending_age: Gauge::default(),
            stale_writes_rejected: Counter::default(),
            leases_rescued: Family::default(),
            parked: Counter::default(),
            emails_waiting: Family::default(),
            transport_state: Family::default(),
            store_up: Gauge::default(),
            broker_up: Gauge::default(),
            tickets_undecodable: Counter::default(),
            publishes_returned: Counter::default(),
            broker_reconnects: Counter::default(),
            http_request_duration: Family::new_with_constructor(seconds),
        };
        metrics.register(registry);
        metrics.start_at_zero(transports);
        metrics
    }

    fn register(&self, registry: &mut Registry) {
        // Counters get their `_total` from the encoder.
        registry.register("posthaste_emails", "Emails by status", self.emails.clone());
        registry.register(
            "posthaste_emails_accepted",
            "Emails accepted",
            self.accepted.clone(),
        );
        registry.register(
            "posthaste_attempts",
            "Attempts that ended",
            self.attempts.clone(),
        );
        registry.register(
            "posthaste_attempt_duration_seconds",
            "Duration of attempts",
            self.attempt_duration.clone(),
        );
        registry.register(
            "posthaste_time_to_delivery_seconds",
            "Time from acceptance to delivery",
            self.time_to_delivery.clone(),
        );
        registry.register(
            "posthaste_retries_due",
            "Failed emails that are due",
            self.retries_due.clone(),
        );
        registry.register(
            "posthaste_retries_requeued",
            "Retries handed to the broker",
            self.retries_requeued.clone(),
        );
        registry.register(
            "posthaste_retry_lateness_seconds",
            "How late retries were handed to the broker",
            self.retry_lateness.clone(),
        );
        registry.register("posthaste_dead", "Emails that died", self.dead.clone());
        registry.register(
            "posthaste_alerts",
            "Tries to tell a channel of dead emails",
            self.alerts.clone(),
        );
        registry.register(
            "posthaste_oldest_pending_age_seconds",
            "How long the oldest waiting email has been due",
            self.oldest_pending_age.clone(),
        );
        registry.register(
            "posthaste_stale_writes_rejected",
            "Results that came too late to count",
            self.stale_writes_rejected.clone(),
        );
        registry.register(
            "posthaste_leases_rescued",
            "Expired leases",
            self.leases_rescued.clone(),
        );
        registry.register(
            "posthaste_emails_parked",
            "Times that an email found no way out free",
            self.parked.clone(),
        );
        registry.register(
            "posthaste_emails_waiting_for_transport",
            "Emails that wait for a way out, by the first that could take them",
            self.emails_waiting.clone(),
        );
        registry.register(
            "posthaste_transport_state",
            "1 for the state that a transport is in",
            self.transport_state.clone(),
        );
        registry.register(
            "posthaste_store_up",
            "Whether the store answered; if not, gauges of emails are of another time",
            self.store_up.clone(),
        );
        registry.register(
            "posthaste_broker_up",
            "Whether the broker is well",
            self.broker_up.clone(),
        );
        registry.register(
            "posthaste_tickets_undecodable",
            "Tickets that could not be read and were put aside for review",
            self.tickets_undecodable.clone(),
        );
        registry.register(
            "posthaste_publishes_returned",
            "Publishes for which the broker had no queue",
            self.publishes_returned.clone(),
        );
        registry.register(
            "posthaste_broker_reconnects",
            "Lost connections to the broker that were made anew",
            self.broker_reconnects.clone(),
        );
        registry.register(
            "posthaste_http_request_duration_seconds",
            "Duration of HTTP requests",
            self.http_request_duration.clone(),
        );
    }

    /// What the broker has counted by itself.
    pub fn set_broker(&self, counts: BrokerCounts) {
        for (counter, value) in [
            (&self.tickets_undecodable, counts.undecodable),
            (&self.publishes_returned, counts.returned),
            (&self.broker_reconnects, counts.reconnected),
        ] {
            counter.inner().store(value, Ordering::Relaxed);
        }
    }

    fn start_at_zero(&self, transports: &[&str]) {
        for status in Status::ALL {
            self.set_emails(*status, 0);
        }
        for source in [Source::Api, Source::Cli] {
            self.accepted_from(source, 0);
        }
        for reason in DeadReason::ALL {
            self.dead
                .get_or_create(&ReasonLabel {
                    reason: reason.as_str(),
                })
                .inc_by(0);
        }
        for phase in Phase::ALL {
            self.leases_rescued
                .get_or_create(&PhaseLabel {
                    phase: phase.as_str(),
                })
                .inc_by(0);
        }
        for transport in transports {
            self.set_waiting(transport, 0);
            self.set_transport(transport, Some(Condition::Flowing));
        }
        for transport in transports.iter().chain([&LOST_TRANSPORT, &NO_TRANSPORT]) {
            for outcome in Outcome::ALL {
                let labels = AttemptLabels {
                    transport: (*transport).to_owned(),
                    outcome: outcome.as_str(),
                };
                self.attempts.get_or_create(&labels).inc_by(0);
            }
        }
    }

    /// How many emails are in this state.
    pub fn set_emails(&self, status: Status, n: u64) {
        let label = StatusLabel {
            status: status.as_str(),
        };
        self.emails
            .get_or_create(&label)
            .set(i64::try_from(n).unwrap_or(i64::MAX));
    }

    /// Emails were accepted.
    pub fn accepted_from(&self, source: Source, n: u64) {
        self.accepted
            .get_or_create(&SourceLabel {
                source: source.name(),
            })
            .inc_by(n);
    }

    /// An attempt ended.
    pub fn attempt_ended(&self, transport: &str, outcome: Outcome) {
        let labels = AttemptLabels {
            transport: transport.to_owned(),
            outcome: outcome.as_str(),
        };
        self.attempts.get_or_create(&labels).inc();
    }

    /// How many emails wait for a transport.
    pub fn set_waiting(&self, transport: &str, n: u64) {
        let label = TransportLabel {
            transport: transport.to_owned(),
        };
        self.emails_waiting
            .get_or_create(&label)
            .set(i64::try_from(n).unwrap_or(i64::MAX));
    }

    /// How a transport does; `None` if it is paused.
    pub fn set_transport(&self, transport: &str, condition: Option<Condition>) {
        let now = condition.map_or("paused", Condition::as_str);
        let all = Condition::ALL.iter().map(|one| one.as_str());
        for state in all.chain(["paused"]) {
            let labels = ConditionLabels {
                transport: transport.to_owned(),
                state,
            };
            let is_now = i64::from(state == now);
            self.transport_state.get_or_create(&labels).set(is_now);
        }
    }

    /// An email died.
    pub fn died(&self, reason: DeadReason) {
        self.dead
            .get_or_create(&ReasonLabel {
                reason: reason.as_str(),
            })
            .inc();
    }

    /// A channel is about to be told of deaths.
    pub fn expect_alerts(&self, channel: &str) {
        for told in [true, false] {
            self.alerts_of(channel, told).inc_by(0);
        }
    }

    /// A channel was told of deaths, or could not be.
    pub fn told(&self, channel: &str, told: bool) {
        self.alerts_of(channel, told).inc();
    }

    fn alerts_of(&self, channel: &str, told: bool) -> Counter {
        let labels = AlertLabels {
            channel: channel.to_owned(),
            outcome: if told { "told" } else { "failed" },
        };
        self.alerts.get_or_create_owned(&labels)
    }

    /// An expired lease was released.
    pub fn lease_rescued(&self, phase: Phase) {
        self.leases_rescued
            .get_or_create(&PhaseLabel {
                phase: phase.as_str(),
            })
            .inc();
    }
}
