//! Other programs that do the same work, run by their own scripts on our servers in the same run.
//!
//! The scripts are not ours: they are told where everything is, their output is shown, and what
//! they write down is read. One that cannot be run is left out, and the report says so.

mod claims;
mod record;
mod script;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use tokio::process::Command;

pub(crate) use self::claims::hold_against;

use self::record::figures;
use self::script::Script;
use crate::arbiter::free_port;
use crate::figures::Section;
use crate::ground::Ground;

/// One run of a script.
struct Peer {
    /// Who is measured.
    name: &'static str,
    file: &'static str,
    arguments: &'static [&'static str],
    needs: &'static [Need],
}

/// What a script cannot do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    /// A program in PATH.
    Program(&'static str),
    /// A variable that names a folder where the peer was installed.
    Folder(&'static str),
    /// A program that was built in the folder of the peers.
    Built(&'static str),
    /// Being root.
    Root,
    /// PostgreSQL.
    Database,
    /// RabbitMQ.
    Broker,
}

const POSTFIX: &[Need] = &[
    Need::Root,
    Need::Program("postfix"),
    Need::Program("smtp-source"),
];
const APALIS: &[Need] = &[
    Need::Database,
    Need::Program("psql"),
    Need::Built("apalis_peer"),
];
const SHIM: &[Need] = &[
    Need::Database,
    Need::Program("psql"),
    Need::Program("cc"),
    Need::Built("apalis_peer"),
];

/// All of them, in this order.
const PEERS: [Peer; 7] = [
    Peer {
        name: "Postfix, for two cores",
        file: "bench_postfix.py",
        arguments: &["few"],
        needs: POSTFIX,
    },
    Peer {
        name: "Postfix, default and tuned",
        file: "bench_postfix.py",
        arguments: &[],
        needs: POSTFIX,
    },
    Peer {
        name: "apalis + lettre with TCP_NODELAY forced",
        file: "bench_rust.py",
        arguments: &["nodelay"],
        needs: SHIM,
    },
    Peer {
        name: "apalis + lettre, 256 connections",
        file: "bench_rust.py",
        arguments: &["wide"],
        needs: APALIS,
    },
    Peer {
        name: "apalis + lettre",
        file: "bench_rust.py",
        arguments: &[],
        needs: APALIS,
    },
    Peer {
        name: "graphile-worker and pg-boss",
        file: "bench_node.py",
        arguments: &[],
        needs: &[
            Need::Database,
            Need::Program("node"),
            Need::Folder("ANCHORS_NODE"),
        ],
    },
    Peer {
        name: "Celery and Dramatiq",
        file: "bench_python.py",
        arguments: &[],
        needs: &[Need::Broker, Need::Folder("ANCHORS_VENV")],
    },
];

/// Runs all peers that can be run, and adds what they did. Takes many minutes.
pub(crate) async fn measure(ground: &Ground<'_>, section: &mut Section) -> anyhow::Result<()> {
    let (options, journal) = (ground.options, ground.journal);
    let Some(folder) = options.beside.as_deref() else {
        return Ok(());
    };
    if options.without_peers {
        section.notes.push("peers were left out".to_owned());
        return Ok(());
    }
    let folder = folder.canonicalize()?;
    let place = Place::prepare(ground, &folder).await?;
    for peer in &PEERS {
        let lacks = peer.needs.iter().find_map(|need| need.lacks(ground));
        if let Some(lacks) = lacks {
            let note = format!("{} skipped: {lacks}", peer.name);
            journal.line(&note);
            section.notes.push(note);
            continue;
        }
        journal.line(&format!("{} begins", peer.name));
        let mut variables = place.variables.clone();
        if peer.arguments.contains(&"nodelay") {
            let shim = place.build_shim(&folder).await?;
            variables.insert("NODELAY_SHIM", shim.display().to_string());
        }
        let script = Script::start(&folder, peer.file, peer.arguments, &variables)?;
        if let Err(error) = script.finish(journal).await {
            let note = format!("{} did not finish: {error:#}", peer.name);
            journal.line(&note);
            section.notes.push(note);
        }
    }
    section.figures.extend(figures(&place.results())?);
    Ok(())
}

impl Need {
    /// What is missing, if something is.
    fn lacks(self, ground: &Ground<'_>) -> Option<String> {
        match self {
            Self::Program(name) if !is_program(name) => Some(format!("{name} is not installed")),
            Self::Root if !is_root() => Some("it must be run as root".to_owned()),
            Self::Built(name) => {
                let there = ground.programs().is_some_and(|f| f.join(name).is_file());
                (!there).then(|| format!("{name} was not built: --features apalis"))
            }
            Self::Folder(name) => match std::env::var_os(name) {
                Some(folder) if Path::new(&folder).is_dir() => None,
                Some(_) => Some(format!("{name} names no folder")),
                None => Some(format!("{name} does not say where it was installed")),
            },
            Self::Database if ground.services().is_err() => {
                Some("PostgreSQL is not part of this run".to_owned())
            }
            Self::Broker if !ground.has_rabbitmq() => {
                Some("RabbitMQ is not part of this run".to_owned())
            }
            Self::Program(_) | Self::Root | Self::Database | Self::Broker => None,
        }
    }
}

/// Where the scripts work, and what they are told.
struct Place {
    folder: PathBuf,
    variables: BTreeMap<&'static str, String>,
}

impl Place {
    async fn prepare(ground: &Ground<'_>, scripts: &Path) -> anyhow::Result<Self> {
        ensure!(
            scripts.join("lib.py").is_file(),
            "{} has no lib.py: --beside wants the folder of the peers",
            scripts.display()
        );
        let folder = ground.folder().join("peers");
        std::fs::create_dir_all(&folder)?;
        let path = |name: &str| folder.join(name).display().to_string();
        let mut variables = BTreeMap::from([
            ("ANCHORS_OUT", path("out")),
            ("ANCHORS_TMP", path("tmp")),
            // Whoever runs us may hold the lock that they share by default.
            (
                "ANCHORS_LOCK",
                std::env::var("ANCHORS_LOCK").unwrap_or_else(|_| path("lock")),
            ),
            ("SINK_PORT", free_port()?.to_string()),
            ("POSTFIX_PORT", free_port()?.to_string()),
        ]);
        if let Some(programs) = ground.programs() {
            variables.insert("ANCHORS_RUST_BIN", programs.display().to_string());
        }
        if let Ok(services) = ground.services() {
            variables.insert("PGURL", services.server_url().to_owned());
            if let Some(url) = &services.rabbitmq_url {
                variables.insert("AMQP_URL", url.clone());
            }
        }
        Ok(Self { folder, variables })
    }

    /// What the scripts wrote down.
    fn results(&self) -> PathBuf {
        self.folder.join("out/results.jsonl")
    }

    /// The library that forces TCP_NODELAY on a program that does not ask for it.
    async fn build_shim(&self, scripts: &Path) -> anyhow::Result<PathBuf> {
        let shim = self.folder.join("nodelay_shim.so");
        let output = Command::new("cc")
            .args(["-shared", "-fPIC", "-O2", "-o"])
            .arg(&shim)
            .arg(scripts.join("nodelay_shim.c"))
            .arg("-ldl")
            .output()
            .await
            .context("cannot run cc")?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "cc failed: {complaint}");
        Ok(shim)
    }
}

fn is_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}
