//! The processes: each is started, dies, and is started again under another name.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use posthaste_core::classification::Classifier;
use posthaste_core::port::{Broker, NoTracer, Retention, SharedStore, Transport};
use posthaste_engine::metrics::Source;
use posthaste_engine::runtime::EngineParts;
use posthaste_engine::{
    AlertConfig, Engine, EngineConfig, MessageConfig, Policies, Roles, Ways, WaysConfig,
};
use tokio::sync::Notify;

use crate::broker::{MemoryBroker, Queue};
use crate::gauge::Gauges;
use crate::mail::{MailServer, MemoryTransport};
use crate::nature::Nature;
use crate::plan::{Plan, Setting};
use crate::process::Process;
use crate::store::{Database, MemoryStore};

const DAY: Duration = Duration::from_secs(24 * 3600);
/// How long a process that is asked to stop has for it.
const DRAIN: Duration = Duration::from_secs(5);

/// What the processes work with.
pub(crate) struct Ground {
    pub(crate) nature: Arc<Nature>,
    pub(crate) plan: Plan,
    pub(crate) policies: Arc<Policies>,
    pub(crate) gauges: Gauges,
    pub(crate) database: Arc<Database>,
    /// The queue that the processes share, if they do.
    pub(crate) queue: Option<Arc<Queue>>,
    pub(crate) mail: Arc<MailServer>,
}

/// One life of a process.
pub(crate) struct Life {
    pub(crate) process: Arc<Process>,
    pub(crate) engine: Engine,
    /// The queue, if it dies with the process.
    own_queue: Option<Arc<Queue>>,
}

/// All processes.
pub(crate) struct Fleet {
    pub(crate) ground: Arc<Ground>,
    lives: Mutex<Vec<Option<Arc<Life>>>>,
}

impl Fleet {
    /// Starts all of them, and again whenever one dies.
    pub(crate) fn start(ground: Arc<Ground>) -> Arc<Self> {
        let count = ground.plan.processes.len();
        let fleet = Arc::new(Self {
            lives: Mutex::new((0..count).map(|_| None).collect()),
            ground,
        });
        for slot in 0..count {
            tokio::spawn(Arc::clone(&fleet).keep(slot));
        }
        fleet
    }

    fn lives(&self) -> MutexGuard<'_, Vec<Option<Arc<Life>>>> {
        self.lives.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The process in this slot, if it lives.
    pub(crate) fn at(&self, slot: usize) -> Option<Arc<Life>> {
        self.lives().get(slot).cloned().flatten()
    }

    /// Every process that lives.
    pub(crate) fn all(&self) -> Vec<Arc<Life>> {
        self.lives().iter().flatten().cloned().collect()
    }

    /// One that takes emails in, if there is one.
    pub(crate) fn any_api(&self) -> Option<Arc<Life>> {
        let lives = self.lives();
        let plan = &self.ground.plan;
        let apis = lives.iter().zip(&plan.processes);
        let apis = apis.filter_map(|(life, roles)| life.as_ref().filter(|_| roles.api));
        let apis: Vec<Arc<Life>> = apis.cloned().collect();
        if apis.is_empty() {
            return None;
        }
        let nature = &self.ground.nature;
        Some(nature.draw(|random| Arc::clone(random.pick(&apis))))
    }

    /// Keeps a slot alive for as long as the world lasts.
    async fn keep(self: Arc<Self>, slot: usize) {
        let ground = &self.ground;
        for life in 1_u32.. {
            let name = format!("p{}.{life}", slot + 1);
            let life = Arc::new(ground.begin(name, ground.plan.processes[slot]));
            let process = Arc::clone(&life.process);
            self.lives()[slot] = Some(life);
            process.death().await;
            self.lives()[slot] = None;
            ground.database.bury(&process);
            if let Some(queue) = &ground.queue {
                queue.bury(&process);
            }
            let rest = ground.nature.draw(|random| random.milliseconds(10, 8_000));
            let most = if ground.nature.is_calm() { 100 } else { 8_000 };
            tokio::time::sleep(rest.min(Duration::from_millis(most))).await;
        }
    }
}

impl Ground {
    /// Starts a process: the engine as it is, over simulated ports.
    fn begin(&self, name: String, roles: Roles) -> Life {
        let plan = &self.plan;
        let process = Process::new(name.clone(), Arc::clone(&self.nature));
        self.nature.say(&name, || "starts".into());
        let database = Arc::clone(&self.database);
        let store: SharedStore = Arc::new(MemoryStore::new(database, Arc::clone(&process)));
        let own_queue = (plan.setting == Setting::Alone)
            .then(|| Queue::new(Arc::clone(&self.nature), plan.broker, false));
        let queue = own_queue.clone().or_else(|| self.queue.clone());
        let is_shared = own_queue.is_none();
        let broker = queue.map(|queue| -> Arc<dyn Broker> {
            Arc::new(MemoryBroker::new(queue, Arc::clone(&process), is_shared))
        });
        let parts = EngineParts {
            store,
            broker,
            ways: Arc::new(self.ways(&process)),
            policies: Arc::clone(&self.policies),
            classifier: Classifier::default(),
            metrics: Arc::clone(&self.gauges.emails),
            message_broker: None,
            message_metrics: Arc::clone(&self.gauges.messages),
            tracer: Arc::new(NoTracer),
            alert_channels: Vec::new(),
            wake: Arc::new(Notify::new()),
        };
        let engine = Engine::start(parts, self.config(name, roles));
        Life {
            process,
            engine,
            own_queue,
        }
    }

    fn ways(&self, process: &Arc<Process>) -> Ways {
        let transport = |name: &&str| {
            let (server, process) = (Arc::clone(&self.mail), Arc::clone(process));
            let transport = MemoryTransport::new((*name).to_owned(), server, process);
            let transport: Arc<dyn Transport> = Arc::new(transport);
            transport.into()
        };
        let names = ["primary", "secondary"];
        Ways::new(WaysConfig {
            transports: names[..self.plan.transports]
                .iter()
                .map(transport)
                .collect(),
            breaker: self.plan.breaker,
            connections: self.plan.connections,
            ..WaysConfig::default()
        })
    }

    fn config(&self, worker: String, roles: Roles) -> EngineConfig {
        EngineConfig {
            roles,
            worker,
            connections: self.plan.connections,
            lease: self.plan.lease,
            retry_interval: self.plan.backstop,
            retention: Retention {
                sent: DAY,
                dead: DAY,
                attempts: None,
                content: None,
                captures: DAY,
                audit: DAY,
            },
            drain: DRAIN,
            messages: MessageConfig::default(),
            session: DAY,
            alerts: AlertConfig::default(),
            source: Source::Api,
            patience: self.plan.patience,
        }
    }
}

impl Life {
    /// It is asked to stop, does so, and is gone.
    pub(crate) async fn stop(&self) {
        let stopping = self.engine.stop();
        // What hangs longer than it may is killed.
        let in_time = tokio::time::timeout(DRAIN * 4, stopping).await.is_ok();
        self.process
            .die(if in_time { "it stopped" } else { "it hung" });
    }

    /// Its own tickets are gone, or one comes that nobody wrote.
    pub(crate) const fn own_queue(&self) -> Option<&Arc<Queue>> {
        self.own_queue.as_ref()
    }
}
