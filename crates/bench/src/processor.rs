//! Who used the processors: the process under test, the servers, this program, and others.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

const TICKS_PER_SECOND: f64 = 100.0;

/// The machine is calm while this share of one processor is used, over so long.
const CALM: f64 = 0.25;
const CALM_FOR: Duration = Duration::from_secs(1);

/// A process, with those that it started or alone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Group {
    pub(crate) name: &'static str,
    pub(crate) root: u32,
    pub(crate) with_children: bool,
}

impl Group {
    /// Whoever listens on a port of this machine, if that can be seen.
    pub(crate) fn listening(name: &'static str, port: u16) -> Option<Self> {
        let root = listener(port)?;
        Some(Self {
            name,
            root,
            with_children: true,
        })
    }

    /// One process.
    pub(crate) const fn alone(name: &'static str, root: u32) -> Self {
        Self {
            name,
            root,
            with_children: false,
        }
    }
}

/// What was used up to a moment.
pub(crate) struct Reading {
    at: Instant,
    groups: Vec<Group>,
    seconds: Vec<f64>,
    busy: f64,
    stolen: f64,
}

/// What was used between two moments, in seconds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Usage {
    pub(crate) wall: f64,
    pub(crate) by_group: Vec<(&'static str, f64)>,
    /// By processes that have nothing to do with this.
    pub(crate) others: f64,
    /// By other machines on the same hardware.
    pub(crate) stolen: f64,
}

impl Reading {
    /// Now.
    pub(crate) fn of(groups: &[Group]) -> Self {
        let processes = processes();
        let (busy, stolen) = machine().unwrap_or_default();
        Self {
            at: Instant::now(),
            seconds: groups.iter().map(|g| used_by(*g, &processes)).collect(),
            groups: groups.to_vec(),
            busy,
            stolen,
        }
    }

    /// What was used since then.
    pub(crate) fn until_now(&self) -> Usage {
        let now = Self::of(&self.groups);
        let used = self.seconds.iter().zip(&now.seconds);
        let used: Vec<f64> = used
            .map(|(before, after)| (after - before).max(0.0))
            .collect();
        let names = self.groups.iter().map(|group| group.name);
        Usage {
            wall: (now.at - self.at).as_secs_f64(),
            others: (now.busy - self.busy - used.iter().sum::<f64>()).max(0.0),
            stolen: (now.stolen - self.stolen).max(0.0),
            by_group: names.zip(used).collect(),
        }
    }
}

impl Usage {
    /// In percent of one core, for people.
    pub(crate) fn percent(&self) -> String {
        let percent = |seconds: f64| (seconds / self.wall.max(0.001) * 100.0).round();
        let groups = self.by_group.iter();
        let mut parts: Vec<String> = groups
            .map(|(name, seconds)| format!("{name} {}", percent(*seconds)))
            .collect();
        parts.push(format!("others {}", percent(self.others)));
        parts.push(format!("stolen {}", percent(self.stolen)));
        parts.join(", ")
    }

    /// In percent of one core, by name; the processes of others and the time that other machines
    /// took as well.
    pub(crate) fn percentages(&self) -> Vec<(String, f64)> {
        let percent = |seconds: f64| (seconds / self.wall.max(0.001) * 1000.0).round() / 10.0;
        let groups = self.by_group.iter();
        let mut all: Vec<(String, f64)> = groups
            .map(|(name, seconds)| ((*name).to_owned(), percent(*seconds)))
            .collect();
        all.push(("others".to_owned(), percent(self.others)));
        all.push(("stolen".to_owned(), percent(self.stolen)));
        all
    }

    /// In microseconds for each of so many messages, for people.
    pub(crate) fn per_message(&self, messages: f64) -> String {
        let each = |seconds: f64| (seconds * 1e6 / messages.max(1.0)).round();
        let groups = self.by_group.iter();
        let parts: Vec<String> = groups
            .map(|(name, seconds)| format!("{name} {}", each(*seconds)))
            .collect();
        parts.join(", ")
    }
}

/// Waits until nobody else needs the processors, but not longer than this.
pub(crate) async fn wait_for_calm(limit: Duration) {
    let give_up = Instant::now() + limit;
    while Instant::now() < give_up {
        let (busy, stolen) = machine().unwrap_or_default();
        tokio::time::sleep(CALM_FOR).await;
        let (busy_now, stolen_now) = machine().unwrap_or_default();
        let used = busy_now - busy + stolen_now - stolen;
        if used < CALM * CALM_FOR.as_secs_f64() {
            return;
        }
    }
}

/// One line of the table of processes.
struct Process {
    parent: u32,
    own: f64,
    /// By children that have ended.
    ended: f64,
}

fn processes() -> BTreeMap<u32, Process> {
    let Ok(folders) = fs::read_dir("/proc") else {
        return BTreeMap::new();
    };
    let ids = folders.filter_map(|folder| folder.ok()?.file_name().to_str()?.parse().ok());
    ids.filter_map(|id: u32| Some((id, process(id)?))).collect()
}

fn process(id: u32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name in parentheses may hold blanks.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
    Some(Process {
        parent: fields.get(1)?.parse().ok()?,
        own: (ticks(11)? + ticks(12)?) / TICKS_PER_SECOND,
        ended: (ticks(13)? + ticks(14)?) / TICKS_PER_SECOND,
    })
}

fn used_by(group: Group, processes: &BTreeMap<u32, Process>) -> f64 {
    let Some(root) = processes.get(&group.root) else {
        return 0.0;
    };
    if !group.with_children {
        return root.own;
    }
    let children = processes.values().filter(|p| p.parent == group.root);
    root.own + root.ended + children.map(|p| p.own + p.ended).sum::<f64>()
}

/// How long all processors were busy, and how long they were taken away from this machine.
fn machine() -> Option<(f64, f64)> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let fields = stat.lines().next()?.split_whitespace().skip(1);
    let times: Vec<f64> = fields.filter_map(|field| field.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal
    let [user, nice, system, _, _, irq, softirq, steal, ..] = times[..] else {
        return None;
    };
    let busy = user + nice + system + irq + softirq;
    Some((busy / TICKS_PER_SECOND, steal / TICKS_PER_SECOND))
}

/// The process that listens on a port of this machine.
fn listener(port: u16) -> Option<u32> {
    let table = fs::read_to_string("/proc/net/tcp").ok()?;
    let local = format!(":{port:04X}");
    let inode = table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let listens = fields.get(1)?.ends_with(&local) && *fields.get(3)? == "0A";
        fields.get(9).filter(|_| listens).copied()
    })?;
    let socket = format!("socket:[{inode}]");
    let folders = fs::read_dir("/proc").ok()?;
    let ids = folders.filter_map(|folder| folder.ok()?.file_name().to_str()?.parse().ok());
    let holders: Vec<u32> = ids.filter(|id| holds(*id, &socket)).collect();
    // Children may have inherited it.
    let is_first = |id: &&u32| process(**id).is_some_and(|p| !holders.contains(&p.parent));
    holders.iter().find(is_first).copied()
}

fn holds(id: u32, socket: &str) -> bool {
    let Ok(files) = fs::read_dir(format!("/proc/{id}/fd")) else {
        return false;
    };
    let mut links = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
    links.any(|link| link.to_str() == Some(socket))
}
