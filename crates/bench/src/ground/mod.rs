//! What everyone who is measured stands on: the same servers, the same sink, the same disk, and a
//! database of their own that is empty at first.

mod contender;
mod room;
mod series;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Context as _;
use lapin::uri::AMQPUri;
use tempfile::TempDir;

pub(crate) use self::contender::{Contender, Part, Subject};
pub(crate) use self::room::Room;
pub(crate) use self::series::{Round, Series};

use crate::amqp::{self, Rabbit};
use crate::arbiter::{Arbiter, Judge};
use crate::plan::Options;
use crate::processor::{Group, wait_for_calm};
use crate::rig::journal::Journal;
use crate::rig::services::{AS_ANCHORS, Given, Services};
use crate::rig::stand::Store;

/// The ground of a run.
pub(crate) struct Ground<'a> {
    pub(crate) binary: &'a Path,
    pub(crate) options: &'a Options,
    pub(crate) journal: &'a Journal,
    /// Who counts.
    pub(crate) judge: Judge,
    /// Stopped before the folder that they work in is removed.
    services: Option<Services>,
    folder: TempDir,
    /// Processes of the servers.
    servers: Vec<Group>,
    /// The folder with the built programs of others.
    programs: Option<PathBuf>,
    rooms: AtomicU32,
}

impl<'a> Ground<'a> {
    /// Starts the servers that these stores need. Takes some seconds.
    pub(crate) async fn prepare(
        binary: &'a Path,
        options: &'a Options,
        journal: &'a Journal,
        stores: &[Store],
    ) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("posthaste-bench-")
            .tempdir()?;
        let programs = options.beside.as_deref().map(programs_in).transpose()?;
        let judge = Judge::choose(programs.is_some())?;
        let mut ground = Self {
            binary,
            options,
            journal,
            judge,
            folder,
            services: None,
            servers: Vec::new(),
            programs,
            rooms: AtomicU32::new(0),
        };
        let needs_rabbitmq = stores.contains(&Store::Rabbitmq);
        if needs_rabbitmq || stores.contains(&Store::Postgres) {
            journal.line("starting the servers");
            let given = Given {
                without_rabbitmq: !needs_rabbitmq,
                ..options.given()
            };
            let folder = ground.folder.path();
            let services = Services::start(&given, folder, &ground.run()).await?;
            if !services.configure_postgres(AS_ANCHORS).await? {
                journal.line("PostgreSQL is given: its own settings stay as they are");
            } else if !options.quick {
                journal.line("having PostgreSQL use its memory once");
                services.warm_postgres().await?;
            }
            ground.servers = servers(&services)?;
            ground.services = Some(services);
        }
        Ok(ground)
    }

    /// A name of this run that nobody else has.
    fn run(&self) -> String {
        format!("bench-{}-ground", std::process::id())
    }

    /// The servers.
    pub(crate) fn services(&self) -> anyhow::Result<&Services> {
        self.services.as_ref().context("no servers were started")
    }

    /// Whether RabbitMQ is one of them.
    pub(crate) fn has_rabbitmq(&self) -> bool {
        let services = self.services.as_ref();
        services.is_some_and(|services| services.rabbitmq_url.is_some())
    }

    /// A folder of the run; it is gone in the end.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The folder with the programs of others, if they are measured too.
    pub(crate) fn programs(&self) -> Option<&Path> {
        self.programs.as_deref()
    }

    /// An empty database, and names of queues that are not there yet.
    pub(crate) async fn room(&self, store: Store) -> anyhow::Result<Room> {
        let number = self.rooms.fetch_add(1, Ordering::Relaxed);
        let name = self.room_name(number);
        let room = Room::make(store, name, self.folder.path(), self.services.as_ref()).await?;
        wait_for_calm(self.options.calm.0).await;
        Ok(room)
    }

    /// A sink that has counted nothing yet.
    pub(crate) async fn sink(&self) -> anyhow::Result<Arbiter> {
        self.judge.start().await
    }

    /// Everyone whose processor time is looked at.
    pub(crate) fn groups(&self, subject: &Subject, sink: Option<&Arbiter>) -> Vec<Group> {
        let mut groups = vec![subject.group()];
        groups.extend(&self.servers);
        groups.extend(sink.and_then(Arbiter::group));
        groups.push(Group::alone("load", std::process::id()));
        groups
    }

    /// Processes of the servers.
    pub(crate) fn servers(&self) -> &[Group] {
        &self.servers
    }

    /// A connection to RabbitMQ.
    pub(crate) async fn rabbit(&self) -> anyhow::Result<Rabbit> {
        let url = self.services()?.rabbitmq_url.as_deref();
        Rabbit::connect(url.context("RabbitMQ was not started")?).await
    }

    /// Versions and settings of what everyone used.
    pub(crate) async fn facts(&self) -> anyhow::Result<BTreeMap<String, String>> {
        let mut facts = BTreeMap::from([("sink:".to_owned(), self.judge.name().to_owned())]);
        let Some(services) = &self.services else {
            return Ok(facts);
        };
        let database = services.database().await?;
        let mut said = Vec::new();
        for name in [
            "server_version",
            "fsync",
            "synchronous_commit",
            "shared_buffers",
        ] {
            let row = database.query_one(&format!("SHOW {name}"), &[]).await?;
            let value: String = row.try_get(0)?;
            said.push(match name {
                "server_version" => value,
                _ => format!("{name} {value}"),
            });
        }
        facts.insert("PostgreSQL".to_owned(), said.join(", "));
        if let Some(url) = &services.rabbitmq_url {
            let version = amqp::version(url).await?;
            facts.insert("RabbitMQ".to_owned(), version);
        }
        Ok(facts)
    }

    /// Takes back what was made on given servers, also in rooms that a failure left behind.
    pub(crate) async fn clean(&self) -> anyhow::Result<()> {
        let Some(services) = &self.services else {
            return Ok(());
        };
        for number in 0..self.rooms.load(Ordering::Relaxed) {
            let name = self.room_name(number);
            Room::remove(&name, services).await?;
        }
        services.clean().await
    }

    fn room_name(&self, number: u32) -> String {
        format!("{}-{number}", self.run())
    }
}

/// The places of so many contenders in the order in which they come in a round: nobody is always
/// first, and finds what the others find used already.
pub(crate) fn in_turns(round: u32, contenders: usize) -> Vec<usize> {
    let places = 0..contenders;
    match round % 2 {
        0 => places.collect(),
        _ => places.rev().collect(),
    }
}

/// The servers, as far as they can be seen from here.
fn servers(services: &Services) -> anyhow::Result<Vec<Group>> {
    let config: tokio_postgres::Config = services.database_url.parse()?;
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let mut groups: Vec<Group> = Group::listening("postgres", port).into_iter().collect();
    if let Some(url) = &services.rabbitmq_url {
        let uri: AMQPUri = url.parse().map_err(anyhow::Error::msg)?;
        groups.extend(Group::listening("rabbitmq", uri.authority.port));
    }
    Ok(groups)
}

/// Where the programs of others were built.
fn programs_in(folder: &Path) -> anyhow::Result<PathBuf> {
    let programs = folder.join("rs/target/release");
    anyhow::ensure!(
        programs.join("probe").is_file(),
        "{} is not there: copy the folder to where you may write, and in its rs: \
         cargo build --release --features apalis",
        programs.join("probe").display()
    );
    Ok(programs.canonicalize()?)
}
