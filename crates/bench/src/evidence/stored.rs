//! The rows of every email, in whichever database they are.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use uuid::Uuid;

use crate::rig::services;

/// One row of `email` and `email_log`, with its attempts.
pub(crate) struct Stored {
    pub(crate) key: String,
    pub(crate) status: String,
    pub(crate) dead_reason: Option<String>,
    /// The whole row, for people.
    pub(crate) line: String,
    pub(crate) attempts: Vec<Attempt>,
}

/// One row of `email_attempt`.
pub(crate) struct Attempt {
    pub(crate) outcome: String,
    pub(crate) worker_lost: bool,
    /// The whole row, for people.
    pub(crate) line: String,
}

impl Stored {
    pub(crate) fn with_outcome(&self, outcome: &str) -> u64 {
        let attempts = self.attempts.iter();
        attempts.filter(|a| a.outcome == outcome).count() as u64
    }
}

/// Where the rows are.
#[derive(Debug, Clone)]
pub(crate) enum Books {
    /// The address of a PostgreSQL.
    Postgres(String),
    /// A file.
    Sqlite(PathBuf),
}

/// What something still has to happen to: also an email of unknown fate that nobody has decided
/// about yet.
const UNDER_WAY: &str = "WHERE status IN ('pending', 'sending', 'failed', 'retry_queued')
                            OR (status = 'unknown' AND next_attempt_at IS NOT NULL)
                         GROUP BY status";

impl Books {
    /// Every email.
    pub(crate) async fn emails(&self) -> anyhow::Result<HashMap<Uuid, Stored>> {
        match self {
            Self::Postgres(url) => emails_in_postgres(url).await,
            Self::Sqlite(path) => {
                let path = path.clone();
                tokio::task::spawn_blocking(move || emails_in_sqlite(&path)).await?
            }
        }
    }

    /// What is wrong with the file itself, if it is a file.
    pub(crate) async fn integrity(&self) -> anyhow::Result<Option<String>> {
        let Self::Sqlite(path) = self else {
            return Ok(None);
        };
        let path = path.clone();
        let checking = move || {
            let file = open(&path)?;
            file.pragma_query_value(None, "integrity_check", |row| row.get::<_, String>(0))
        };
        let said = tokio::task::spawn_blocking(checking).await??;
        Ok((said != "ok").then(|| format!("the file is broken: {said}")))
    }

    /// How many emails are in each state that is not an end.
    pub(crate) async fn under_way(&self) -> anyhow::Result<BTreeMap<String, i64>> {
        match self {
            Self::Postgres(url) => {
                let sql = format!("SELECT status, count(*) FROM email_log {UNDER_WAY}");
                let rows = services::connect(url).await?.query(&sql, &[]).await?;
                Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
            }
            Self::Sqlite(path) => {
                let path = path.clone();
                let reading = move || {
                    let sql =
                        format!("SELECT status, count(*) FROM posthaste_email_log {UNDER_WAY}");
                    let file = open(&path)?;
                    let mut statement = file.prepare(&sql)?;
                    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
                    anyhow::Ok(rows.collect::<Result<_, _>>()?)
                };
                tokio::task::spawn_blocking(reading).await?
            }
        }
    }
}

async fn emails_in_postgres(url: &str) -> anyhow::Result<HashMap<Uuid, Stored>> {
    let emails = "SELECT e.id, e.message_key, coalesce(l.status, 'missing'), l.dead_reason,
                         coalesce(row_to_json(l)::text, '')
                  FROM email e LEFT JOIN email_log l ON l.id = e.id";
    let attempts = "SELECT email_id, outcome, coalesce(error_class = 'worker_lost', false),
                           row_to_json(a)::text
                    FROM email_attempt a ORDER BY email_id, number";
    let database = services::connect(url).await?;
    let mut stored = HashMap::new();
    for row in database.query(emails, &[]).await? {
        let email = Stored {
            key: row.try_get(1)?,
            status: row.try_get(2)?,
            dead_reason: row.try_get(3)?,
            line: row.try_get(4)?,
            attempts: Vec::new(),
        };
        stored.insert(row.try_get(0)?, email);
    }
    for row in database.query(attempts, &[]).await? {
        let id: Uuid = row.try_get(0)?;
        if let Some(email) = stored.get_mut(&id) {
            email.attempts.push(Attempt {
                outcome: row.try_get(1)?,
                worker_lost: row.try_get(2)?,
                line: row.try_get(3)?,
            });
        }
    }
    Ok(stored)
}

fn open(path: &Path) -> rusqlite::Result<Connection> {
    let file = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    file.busy_timeout(std::time::Duration::from_secs(10))?;
    Ok(file)
}

fn emails_in_sqlite(path: &Path) -> anyhow::Result<HashMap<Uuid, Stored>> {
    let emails = "SELECT e.id, e.message_key, coalesce(l.status, 'missing'), l.dead_reason,
                         json_object('phase', l.phase, 'attempt_number', l.attempt_number,
                             'attempt_count', l.attempt_count, 'lost_count', l.lost_count,
                             'unknown_count', l.unknown_count, 'lease_token', l.lease_token,
                             'next_attempt_at', l.next_attempt_at, 'locked_until', l.locked_until,
                             'last_queued_at', l.last_queued_at, 'status', l.status,
                             'last_error', l.last_error, 'dead_reason', l.dead_reason)
                  FROM posthaste_email e LEFT JOIN posthaste_email_log l ON l.id = e.id";
    let attempts = "SELECT email_id, outcome, coalesce(error_class = 'worker_lost', 0),
                           json_object('number', number, 'started_at', started_at,
                               'finished_at', finished_at, 'outcome', outcome, 'error', error,
                               'error_class', error_class, 'reply', reply, 'worker', worker)
                    FROM posthaste_email_attempt ORDER BY email_id, number";
    let file = open(path)?;
    let mut stored: HashMap<Uuid, Stored> = HashMap::new();
    let mut statement = file.prepare(emails)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let email = Stored {
            key: row.get(1)?,
            status: row.get(2)?,
            dead_reason: row.get(3)?,
            line: row.get(4)?,
            attempts: Vec::new(),
        };
        stored.insert(row.get(0)?, email);
    }
    let mut statement = file.prepare(attempts)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let id: Uuid = row.get(0)?;
        if let Some(email) = stored.get_mut(&id) {
            email.attempts.push(Attempt {
                outcome: row.get(1)?,
                worker_lost: row.get(2)?,
                line: row.get(3)?,
            });
        }
    }
    Ok(stored)
}
