//! Who is measured: our binary or the probe, on one of the stores.

use std::net::SocketAddr;
use std::process::Stdio;

use anyhow::{Context as _, bail};
use tokio::process::{Child, Command};

use super::{Ground, Room};
use crate::amqp::QueueType;
use crate::arbiter::{free_port, listening};
use crate::figures::Who;
use crate::load::{self, Load, Pace, Request, Until};
use crate::processor::Group;
use crate::rig::stand::Store;
use crate::server::Server;

/// Which part of the work is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Taking in; nothing is delivered.
    Accept,
    /// Only publishing retries that are due; ours alone can do that.
    Schedule,
    /// Everything, with a sink on this port.
    Whole(u16),
}

/// Someone who takes emails in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contender {
    /// Our binary, in one process.
    Posthaste(Store),
    /// The probe; the kind of queue means something only with RabbitMQ.
    Probe(Store, QueueType),
    /// The probe when it stores nothing: what the load itself can do at most.
    Nothing,
}

impl Contender {
    /// Whose figures these are.
    pub(crate) const fn who(self) -> Who {
        match self {
            Self::Posthaste(_) => Who::Posthaste,
            Self::Probe(..) | Self::Nothing => Who::Probe,
        }
    }

    /// The store.
    pub(crate) const fn store(self) -> Store {
        match self {
            Self::Posthaste(store) | Self::Probe(store, _) => store,
            Self::Nothing => Store::Sqlite,
        }
    }

    /// Its name in reports, beside whose it is.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Posthaste(store) => store.title(),
            Self::Probe(Store::Rabbitmq, QueueType::Classic) => "PostgreSQL + RabbitMQ, classic",
            Self::Probe(Store::Rabbitmq, QueueType::Quorum) => "PostgreSQL + RabbitMQ, quorum",
            Self::Probe(store, _) => store.title(),
            Self::Nothing => "nothing stored",
        }
    }

    /// Starts it in a room.
    pub(crate) async fn start(
        self,
        ground: &Ground<'_>,
        room: &Room,
        part: Part,
    ) -> anyhow::Result<Subject> {
        match self {
            Self::Posthaste(store) => ours(ground, room, store, part).await,
            Self::Probe(store, queue_type) => {
                let (mode, words) = mode(room, store, queue_type, part)?;
                probe(ground, room, mode, &words).await
            }
            Self::Nothing => probe(ground, room, "null", &[]).await,
        }
    }
}

async fn ours(
    ground: &Ground<'_>,
    room: &Room,
    store: Store,
    part: Part,
) -> anyhow::Result<Subject> {
    let mut variables = room.variables();
    let options = ground.options;
    let mut set = |name: &str, value: String| variables.push((name.to_owned(), value));
    set("POSTHASTE_LOG__LEVEL", "error".to_owned());
    set(
        "POSTHASTE_SENDER__CONNECTIONS",
        options.connections(store).to_string(),
    );
    // Port 1: neither the API nor the scheduler ever sends.
    let (arguments, port): (&[&str], u16) = match part {
        Part::Accept => (&["--role", "api"], 1),
        Part::Schedule => (&["--role", "scheduler"], 1),
        Part::Whole(port) => (&[], port),
    };
    set("SMTP_URL", format!("smtp://127.0.0.1:{port}?tls=none"));
    if let Some(queue_type) = room.queue_type.or(options.queue_type) {
        let name = queue_type.name().to_owned();
        set("POSTHASTE_BROKER__QUEUE_TYPE", name);
    }
    variables.extend(options.variables.iter().cloned());
    let environment: Vec<(&str, String)> = variables
        .iter()
        .map(|(name, value)| (name.as_str(), value.clone()))
        .collect();
    let server = Server::start(ground.binary, arguments, &environment).await?;
    Ok(Subject {
        address: load::address(&server.address)?,
        request: Request::to_us(),
        process: Process::Ours(server),
    })
}

/// What the probe is told: its mode, and what follows the port.
fn mode(
    room: &Room,
    store: Store,
    queue_type: QueueType,
    part: Part,
) -> anyhow::Result<(&'static str, Vec<String>)> {
    let file = room.folder.join("probe.sqlite").display().to_string();
    let url = room.database_url.as_str();
    let text = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    Ok(match (store, part) {
        (_, Part::Schedule) => bail!("the probe is no scheduler"),
        (Store::Sqlite, Part::Accept) => ("sqlite", text(&[&file, "FULL"])),
        (Store::Sqlite, Part::Whole(sink)) => {
            let sink = format!("127.0.0.1:{sink}");
            ("sqlmem", text(&[&file, "FULL", &sink]))
        }
        (_, Part::Accept) => ("pg", text(&[url, "external", "2"])),
        (_, Part::Whole(sink)) => {
            let amqp = room.rabbitmq_url.as_deref();
            let amqp = amqp.context("the probe delivers with RabbitMQ only")?;
            let (sink, kind) = (format!("127.0.0.1:{sink}"), queue_type.name());
            let words = [url, "external", "2", amqp, kind, &sink, "claim"];
            ("pgmq", text(&words))
        }
    })
}

async fn probe(
    ground: &Ground<'_>,
    room: &Room,
    mode: &str,
    words: &[String],
) -> anyhow::Result<Subject> {
    let folder = ground.programs().context("no probe without --beside")?;
    let port = free_port()?;
    let child = Command::new(folder.join("probe"))
        .args([mode, &port.to_string()])
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(room.folder.join("probe.log"))?)
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .context("cannot start the probe")?;
    listening(port).await?;
    Ok(Subject {
        address: SocketAddr::from(([127, 0, 0, 1], port)),
        request: Request::to_the_probe(),
        process: Process::Probe(child),
    })
}

/// A process that takes emails in. It is killed when this is dropped.
pub(crate) struct Subject {
    address: SocketAddr,
    request: Request,
    process: Process,
}

enum Process {
    Ours(Server),
    Probe(Child),
}

impl Subject {
    fn id(&self) -> Option<u32> {
        match &self.process {
            Process::Ours(server) => server.id().ok(),
            Process::Probe(child) => child.id(),
        }
    }

    /// Its process.
    pub(crate) fn group(&self) -> Group {
        let name = match &self.process {
            Process::Ours(_) => "posthaste",
            Process::Probe(_) => "probe",
        };
        Group::alone(name, self.id().unwrap_or_default())
    }

    /// A load for it.
    pub(crate) fn load(&self, clients: usize, until: Until, pace: Pace) -> Load {
        Load {
            address: self.address,
            request: self.request.clone(),
            clients,
            until,
            pace,
        }
    }

    /// How many bytes it has had written to the disk so far.
    pub(crate) fn written_bytes(&self) -> anyhow::Result<f64> {
        let id = self.id().context("the process has ended")?;
        let text = std::fs::read_to_string(format!("/proc/{id}/io"))?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("write_bytes:"));
        Ok(line.context("no write_bytes")?.trim().parse()?)
    }

    /// Ends it without a warning.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        match self.process {
            Process::Ours(server) => server.stop().await,
            Process::Probe(mut child) => Ok(child.kill().await?),
        }
    }

    /// Asks it to end, and waits until it has.
    pub(crate) async fn shut_down(self) -> anyhow::Result<()> {
        match self.process {
            Process::Ours(server) => server.shut_down().await,
            Process::Probe(mut child) => Ok(child.kill().await?),
        }
    }
}
