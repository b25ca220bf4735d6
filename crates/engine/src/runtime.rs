//! Starts the services of the chosen roles, and stops them in order.

use std::sync::Arc;
use std::time::Duration;

use posthaste_core::classification::Classifier;
use posthaste_core::port::{AlertChannel, Broker, MessageBroker, Retention, SharedStore, Tracer};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::alerter::{AlertConfig, Gatherer, Teller};
use crate::announcer::Announcer;
use crate::bulk::Bulk;
use crate::messages::{MessageConfig, MessageDesk, MessageLane, MessageMetrics};
use crate::metrics::Source;
use crate::pruner::Pruner;
use crate::rescuer::Rescuer;
use crate::scheduler::Scheduler;
use crate::sender::{Sender, SenderConfig, SenderParts};
use crate::service::{self, Service};
use crate::{Access, FeedbackDesk, Intake, Metrics, Operator, Policies, Templates, Ways};

/// How long the last tickets may take at the end.
const LAST_TICKETS: Duration = Duration::from_secs(5);

/// Which parts of the work this process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Roles {
    /// Takes emails in and answers operators.
    pub api: bool,
    /// Sends.
    pub sender: bool,
    /// Schedules, rescues, announces, alerts, prunes.
    pub scheduler: bool,
    /// Puts messages of other services back into their queues.
    pub messages: bool,
}

impl Roles {
    /// Everything in one process.
    pub const ALL: Self = Self {
        api: true,
        sender: true,
        scheduler: true,
        messages: true,
    };
}

/// How the engine works.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// Which parts of the work this process does.
    pub roles: Roles,
    /// Its name in leases and records.
    pub worker: String,
    /// How many connections the transport may use.
    pub connections: usize,
    /// How long an email is held without renewal.
    pub lease: Duration,
    /// The scheduler's backstop, and the age at which a ticket is taken for lost.
    pub retry_interval: Duration,
    /// How long to keep what is over.
    pub retention: Retention,
    /// How long a shutdown may take.
    pub drain: Duration,
    /// How the message lane works.
    pub messages: MessageConfig,
    /// How long a login at the dashboard lasts.
    pub session: Duration,
    /// When people are told of deaths.
    pub alerts: AlertConfig,
    /// Where its emails come from, for what is counted.
    pub source: Source,
    /// How long callers wait who want their emails sent at once; `None` if this process does not do
    /// that, and their emails wait as any other.
    pub patience: Option<Duration>,
}

/// What the engine works with.
pub struct EngineParts {
    /// The truth.
    pub store: SharedStore,
    /// Where tickets wait. Without one, senders claim from the store.
    pub broker: Option<Arc<dyn Broker>>,
    /// The ways out.
    pub ways: Arc<Ways>,
    /// The retry policies.
    pub policies: Arc<Policies>,
    /// What failures mean.
    pub classifier: Classifier,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Where messages of other services come and go. Without it there is no message lane.
    pub message_broker: Option<Arc<dyn MessageBroker>>,
    /// What is counted of messages.
    pub message_metrics: Arc<MessageMetrics>,
    /// Records the steps of emails and messages.
    pub tracer: Arc<dyn Tracer>,
    /// Who is told of deaths.
    pub alert_channels: Vec<Arc<dyn AlertChannel>>,
    /// Wakes whoever looks for emails that are due. Engines of one process over the same store
    /// share it.
    pub wake: Arc<Notify>,
}

/// The running services, and the ways in.
pub struct Engine {
    /// Takes emails in.
    pub intake: Arc<Intake>,
    /// What emails are made from.
    pub templates: Arc<Templates>,
    /// What people see and do.
    pub operator: Arc<Operator>,
    /// Who may do what.
    pub access: Arc<Access>,
    /// Who may use the dashboard.
    #[cfg(feature = "admin")]
    pub admins: Arc<crate::Admins>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// The ways out.
    pub ways: Arc<Ways>,
    /// What providers say later.
    pub feedback: Arc<FeedbackDesk>,
    /// Where tickets wait.
    pub broker: Option<Arc<dyn Broker>>,
    /// What people see of messages and do to them.
    pub message_desk: Arc<MessageDesk>,
    /// What is counted of messages.
    pub message_metrics: Arc<MessageMetrics>,
    /// Where messages come and go, if this process sees to them.
    pub message_broker: Option<Arc<dyn MessageBroker>>,
    shutdown: CancellationToken,
    tasks: TaskTracker,
}

impl Engine {
    /// Starts the services of the chosen roles.
    #[must_use]
    pub fn start(parts: EngineParts, config: EngineConfig) -> Self {
        let EngineParts {
            store,
            broker,
            ways,
            policies,
            classifier,
            metrics,
            message_broker,
            message_metrics,
            tracer,
            alert_channels,
            wake: scheduler_wake,
        } = parts;
        let republisher_wake = Arc::new(Notify::new());
        let bulk_wake = Arc::new(Notify::new());
        let roles = config.roles;
        // Tickets that only this process can see are of use only if it sends: then it schedules,
        // too.
        let tickets = broker.clone().filter(|b| b.is_shared() || roles.sender);
        let schedules = broker.clone().filter(|b| {
            if b.is_shared() {
                roles.scheduler
            } else {
                roles.sender
            }
        });
        // Where callers are, some may want to wait for their emails to be sent.
        let sends_inline = roles.api && config.patience.is_some();
        let sender = (sends_inline || roles.sender).then(|| {
            Sender::new(
                SenderParts {
                    store: Arc::clone(&store),
                    broker: broker.clone(),
                    ways: Arc::clone(&ways),
                    policies: Arc::clone(&policies),
                    classifier,
                    metrics: Arc::clone(&metrics),
                    scheduler: Arc::clone(&scheduler_wake),
                    tracer: Arc::clone(&tracer),
                },
                SenderConfig {
                    worker: config.worker,
                    connections: config.connections,
                    lease: config.lease,
                    backstop: config.retry_interval,
                    takes_waiting: roles.sender,
                    patience: config.patience.unwrap_or_default(),
                    removes_sent: config.retention.sent.is_zero(),
                },
            )
        });
        let intake = Intake::new(
            Arc::clone(&store),
            tickets,
            Arc::clone(&policies),
            Some(Arc::clone(&metrics)),
            Arc::clone(&scheduler_wake),
            config.source,
        )
        .traced_by(Arc::clone(&tracer))
        .sending_by(sender.clone().filter(|_| sends_inline));
        let operator = Operator::new(
            Arc::clone(&store),
            Arc::clone(&policies),
            Arc::clone(&scheduler_wake),
        )
        .waking(Arc::clone(&bulk_wake))
        .sending_by(Arc::clone(&ways))
        .alerting(&alert_channels);
        let engine = Self {
            templates: Arc::clone(intake.templates()),
            intake: Arc::new(intake),
            operator: Arc::new(operator),
            access: Arc::new(Access::new(Arc::clone(&store))),
            #[cfg(feature = "admin")]
            admins: Arc::new(crate::Admins::new(Arc::clone(&store), config.session)),
            metrics: Arc::clone(&metrics),
            feedback: Arc::new(FeedbackDesk::new(Arc::clone(&store), Arc::clone(&ways))),
            ways: Arc::clone(&ways),
            broker: broker.clone(),
            message_desk: Arc::new(MessageDesk::new(
                Arc::clone(&store),
                Arc::clone(&republisher_wake),
            )),
            message_metrics: Arc::clone(&message_metrics),
            message_broker: message_broker.clone().filter(|_| roles.messages),
            shutdown: CancellationToken::new(),
            tasks: TaskTracker::new(),
        };
        if let Some(broker) = schedules {
            let scheduler = Scheduler::new(
                Arc::clone(&store),
                broker,
                Arc::clone(&policies),
                Arc::clone(&metrics),
                config.lease,
                config.retry_interval,
            );
            engine.spawn(scheduler, Arc::clone(&scheduler_wake));
        }
        let wakes = [&scheduler_wake, &republisher_wake, &bulk_wake].map(Arc::clone);
        engine.watch(Arc::clone(&store), wakes);
        if let Some(broker) = engine.message_broker.clone() {
            let lane = MessageLane {
                store: Arc::clone(&store),
                broker,
                metrics: message_metrics,
                tracer: Arc::clone(&tracer),
                config: config.messages,
            };
            lane.start(&republisher_wake, &engine.tasks, &engine.shutdown);
        }
        if roles.scheduler {
            let rescuer = Rescuer::new(
                Arc::clone(&store),
                Arc::clone(&policies),
                Arc::clone(&metrics),
                Arc::clone(&scheduler_wake),
                config.lease,
            );
            let announcer = Announcer::new(Arc::clone(&store), broker.clone());
            let pruner = Pruner::new(Arc::clone(&store), config.retention);
            engine.spawn(rescuer, Arc::new(Notify::new()));
            engine.spawn(announcer, Arc::new(Notify::new()));
            engine.spawn(pruner, Arc::new(Notify::new()));
            let bulk = Bulk::new(Arc::clone(&store), Arc::clone(&scheduler_wake));
            engine.spawn(bulk, bulk_wake);
            engine.alert(&store, alert_channels, &config.alerts);
        }
        if let Some(sender) = sender {
            engine
                .tasks
                .spawn(sender.run(engine.shutdown.clone(), config.drain));
        }
        engine
    }

    fn spawn(&self, service: impl Service + 'static, wake: Arc<Notify>) {
        self.tasks
            .spawn(service::run(Arc::new(service), wake, self.shutdown.clone()));
    }

    /// Starts telling people of deaths.
    fn alert(
        &self,
        store: &SharedStore,
        channels: Vec<Arc<dyn AlertChannel>>,
        config: &AlertConfig,
    ) {
        let gatherer = Gatherer::new(Arc::clone(store), &channels);
        self.spawn(gatherer, Arc::new(Notify::new()));
        for channel in channels {
            let teller = Teller::new(
                Arc::clone(store),
                channel,
                config.clone(),
                Arc::clone(&self.metrics),
                self.shutdown.clone(),
            );
            self.spawn(teller, Arc::new(Notify::new()));
        }
    }

    /// Wakes whoever looks for what is due when another process changed something.
    fn watch(&self, store: SharedStore, wakes: [Arc<Notify>; 3]) {
        let shutdown = self.shutdown.clone();
        self.tasks.spawn(async move {
            loop {
                tokio::select! {
                    biased;
                    () = shutdown.cancelled() => return,
                    () = store.changed() => wakes.iter().for_each(|wake| wake.notify_one()),
                }
            }
        });
    }

    /// Is cancelled when the services are to stop.
    #[must_use]
    pub fn stopping(&self) -> CancellationToken {
        self.shutdown.clone()
    }

    /// Lets the services know that they are to stop, and does not wait for them.
    pub fn begin_stop(&self) {
        self.shutdown.cancel();
    }

    /// Stops claiming, drains what is under way, releases leases.
    pub async fn stop(&self) {
        self.begin_stop();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Publishes the last tickets and lets go of the broker. The intake must be closed before.
    pub async fn close(self) {
        // In vain if the broker hangs: then the emails are found in the store.
        let _ = tokio::time::timeout(LAST_TICKETS, self.intake.drain()).await;
        if let Some(broker) = &self.broker {
            broker.close().await;
        }
        if let Some(broker) = &self.message_broker {
            broker.close().await;
        }
    }
}
