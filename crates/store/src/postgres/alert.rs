//! What channels have not told yet of emails that died, and of ways out.

use std::time::Duration;

use deadpool_postgres::ClientWrapper;
use posthaste_core::Timestamp;
use posthaste_core::alert::AlertGroup;
use posthaste_core::email::EmailId;
use posthaste_core::port::{ChannelState, Digest, StoreResult, Told};
use tokio_postgres::{Error, Row};

use super::PostgresStore;
use super::claim::any;
use super::error::{Trouble, corrupt};
use super::state_row::{get, named, unsigned};
use crate::way::News;

/// Channels that are heard of for the first time.
const ADD_CHANNELS: &str = "INSERT INTO alert_channel (name, rests_until)
     SELECT name, posthaste_now() FROM unnest($1::text[]) AS u (name) ORDER BY name
     ON CONFLICT DO NOTHING";

/// Takes deaths, each once, however many instances ask, and adds them to what each channel has to
/// tell. The last one is the sample. Whoever locks several groups does so in the order of their key,
/// so that two transactions never wait for each other in a circle.
const GATHER: &str = "WITH taken AS MATERIALIZED (
         SELECT seq FROM death ORDER BY seq LIMIT $2 FOR UPDATE SKIP LOCKED),
     gone AS (
         DELETE FROM death d USING taken WHERE d.seq = taken.seq
         RETURNING d.seq, d.email_id, d.at, d.reason, d.fingerprint, d.error),
     grouped AS (
         SELECT fingerprint, count(*) AS n, min(at) AS first_at, max(at) AS last_at,
             max(seq) AS last
         FROM gone GROUP BY fingerprint),
     added AS (
         INSERT INTO alert_group AS a (channel, fingerprint, reason, n, first_at, last_at,
             gathered_at, sample, email_id)
         SELECT c.name, g.fingerprint, d.reason, g.n, g.first_at, g.last_at, posthaste_now(),
             d.error, d.email_id
         FROM grouped g JOIN gone d ON d.seq = g.last CROSS JOIN unnest($1::text[]) AS c (name)
         ORDER BY c.name, g.fingerprint
         ON CONFLICT (channel, taken, fingerprint) DO UPDATE SET n = a.n + excluded.n,
             reason = excluded.reason, last_at = greatest(a.last_at, excluded.last_at),
             sample = excluded.sample, email_id = excluded.email_id)
     SELECT count(*) FROM gone";

/// Holds a channel that has something to tell and may. `$2`: how long it must have waited; what it
/// began to tell need not.
const HOLD: &str = "SELECT 1 FROM alert_channel c
     WHERE name = $1 AND rests_until <= posthaste_now()
       AND (locked_until IS NULL OR locked_until <= posthaste_now())
       AND EXISTS (SELECT 1 FROM alert_group g WHERE g.channel = c.name
                   AND (g.taken OR g.gathered_at <= posthaste_now() - make_interval(secs => $2)))
     FOR UPDATE";

/// What is to be told now. What failed is told again as it was, by itself: a receiver may know its
/// id already.
const LOCK_WAITING: &str = "SELECT fingerprint FROM alert_group WHERE channel = $1
       AND NOT EXISTS (SELECT 1 FROM alert_group WHERE channel = $1 AND taken)
     ORDER BY taken, fingerprint FOR UPDATE";
const FREEZE: &str = "UPDATE alert_group SET taken = true
     WHERE channel = $1 AND NOT taken AND fingerprint = ANY($2)";

const GROUPS: &str = "SELECT fingerprint, reason, n, first_at, last_at, sample, email_id
     FROM alert_group WHERE channel = $1 AND taken ORDER BY n DESC, fingerprint";

/// Takes the channel. `$2`: after how long a streak ends, `$3`: how long it is taken for, `$4`: an
/// id that is not in use, if this is told for the first time.
const TAKE: &str = "UPDATE alert_channel
     SET locked_until = posthaste_now() + make_interval(secs => $3),
         digest_id = coalesce($4, digest_id),
         streak = CASE WHEN rests_until <= posthaste_now() - make_interval(secs => $2) THEN 0
                       ELSE streak END
     WHERE name = $1 AND coalesce($4, digest_id) IS NOT NULL
     RETURNING failures, streak, digest_id";

const FAILED: &str = "UPDATE alert_channel
     SET rests_until = posthaste_now() + make_interval(secs => $3), locked_until = NULL,
         failures = failures + 1, last_error = $4
     WHERE name = $1 AND digest_id = $2";

const TOLD: &str = "UPDATE alert_channel
     SET rests_until = posthaste_now() + make_interval(secs => $3), locked_until = NULL,
         digest_id = NULL, failures = 0, streak = streak + 1, last_told_at = posthaste_now(),
         last_error = NULL
     WHERE name = $1 AND digest_id = $2";

/// What was told is taken off, in the order of the key, too.
const LOCK_TOLD: &str = "SELECT 1 FROM alert_group WHERE channel = $1 AND taken
     ORDER BY fingerprint FOR UPDATE";
const DELETE_TOLD: &str = "DELETE FROM alert_group WHERE channel = $1 AND taken";

const INSERT_NEWS: &str = "INSERT INTO death (email_id, at, reason, fingerprint, error)
     VALUES ($1, $2, $3, $4, $5)";

impl PostgresStore {
    pub(super) async fn count_deaths(
        &self,
        channels: &[String],
        most: usize,
    ) -> StoreResult<usize> {
        // Most of the time there is nothing.
        let sql = "SELECT EXISTS (SELECT 1 FROM death)";
        if !any(&self.desk.query(sql, &[]).await?)? {
            return Ok(0);
        }
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let gathered = self.desk.transaction("BEGIN", async |client| {
            let statement = client.prepare_cached(ADD_CHANNELS).await?;
            client.execute(&statement, &[&channels]).await?;
            let statement = client.prepare_cached(GATHER).await?;
            let row = client.query_one(&statement, &[&channels, &most]).await?;
            row.try_get::<_, i64>(0)
        });
        usize::try_from(gathered.await?).map_err(corrupt)
    }

    pub(super) async fn digest_of(
        &self,
        channel: &str,
        gather: Duration,
        quiet: Duration,
        lease: Duration,
    ) -> StoreResult<Option<Digest>> {
        let new_id = uuid::Uuid::now_v7().to_string();
        let [gather, quiet, lease] = [gather, quiet, lease].map(|time| time.as_secs_f64());
        let take = async |client: &ClientWrapper| -> Result<_, Trouble> {
            let statement = client.prepare_cached(HOLD).await?;
            let held = client.query_opt(&statement, &[&channel, &gather]).await?;
            if held.is_none() {
                return Ok(None);
            }
            let is_new = freeze(client, channel).await?;
            let statement = client.prepare_cached(GROUPS).await?;
            let groups = client.query(&statement, &[&channel]).await?;
            let id = is_new.then_some(&new_id);
            let statement = client.prepare_cached(TAKE).await?;
            let values: super::pool::Values<'_> = &[&channel, &quiet, &lease, &id];
            let Some(taken) = client.query_opt(&statement, values).await? else {
                return Ok(None);
            };
            Ok(Some(Digest {
                groups: groups.iter().map(group_of).collect::<StoreResult<_>>()?,
                failures: unsigned(&taken, 0)?,
                streak: unsigned(&taken, 1)?,
                id: get(&taken, 2)?,
            }))
        };
        self.desk.transaction("BEGIN", take).await
    }

    pub(super) async fn settle_told(
        &self,
        channel: &str,
        digest: &Digest,
        told: Told,
    ) -> StoreResult<()> {
        let settle = async |client: &ClientWrapper| -> Result<(), Error> {
            match &told {
                Told::Told { rest } => take_off(client, channel, digest, *rest).await,
                Told::Failed { rest, error } => {
                    let statement = client.prepare_cached(FAILED).await?;
                    let rest = rest.as_secs_f64();
                    client
                        .execute(&statement, &[&channel, &digest.id, &rest, error])
                        .await
                        .map(drop)
                }
            }
        };
        self.desk.transaction("BEGIN", settle).await
    }

    pub(super) async fn all_channels(&self) -> StoreResult<Vec<ChannelState>> {
        let sql = "SELECT c.name, (SELECT coalesce(sum(n), 0)::bigint FROM alert_group
                                   WHERE channel = c.name
                                     AND reason NOT IN ('TransportStopped',
                                                        'TransportRecovered')),
                 c.last_told_at, c.failures, c.last_error
             FROM alert_channel c ORDER BY c.name";
        let rows = self.desk.query(sql, &[]).await?;
        let state_of = |row| {
            Ok(ChannelState {
                name: get(row, 0)?,
                waiting: u64::try_from(get::<i64>(row, 1)?).map_err(corrupt)?,
                last_told_at: get(row, 2)?,
                failures: unsigned(row, 3)?,
                last_error: get(row, 4)?,
            })
        };
        rows.iter().map(state_of).collect()
    }
}

/// Something is to be told about a way out.
pub(super) async fn insert_news(
    client: &ClientWrapper,
    news: &News,
    now: Timestamp,
) -> Result<(), Error> {
    let statement = client.prepare_cached(INSERT_NEWS).await?;
    let values: super::pool::Values<'_> = &[
        &news.email.0,
        &now,
        &news.reason.as_str(),
        &news.fingerprint,
        &news.sentence,
    ];
    client.execute(&statement, values).await.map(drop)
}

/// Takes what waits, unless something is being told already; whether it did.
async fn freeze(client: &ClientWrapper, channel: &str) -> Result<bool, Error> {
    let statement = client.prepare_cached(LOCK_WAITING).await?;
    let rows = client.query(&statement, &[&channel]).await?;
    let waiting: Vec<&str> = rows
        .iter()
        .map(|row| row.try_get(0))
        .collect::<Result<_, _>>()?;
    let statement = client.prepare_cached(FREEZE).await?;
    let frozen = client.execute(&statement, &[&channel, &waiting]).await?;
    Ok(frozen > 0)
}

/// What was told is done with, unless someone else was faster.
async fn take_off(
    client: &ClientWrapper,
    channel: &str,
    digest: &Digest,
    rest: Duration,
) -> Result<(), Error> {
    let statement = client.prepare_cached(TOLD).await?;
    let rest = rest.as_secs_f64();
    let settled = client
        .execute(&statement, &[&channel, &digest.id, &rest])
        .await?;
    if settled == 0 {
        return Ok(());
    }
    for sql in [LOCK_TOLD, DELETE_TOLD] {
        let statement = client.prepare_cached(sql).await?;
        client.execute(&statement, &[&channel]).await?;
    }
    Ok(())
}

fn group_of(row: &Row) -> StoreResult<AlertGroup> {
    Ok(AlertGroup {
        fingerprint: get(row, 0)?,
        reason: named(row, 1)?,
        count: u64::try_from(get::<i64>(row, 2)?).map_err(corrupt)?,
        first_at: get(row, 3)?,
        last_at: get(row, 4)?,
        sample: get(row, 5)?,
        email_id: EmailId(get(row, 6)?),
    })
}
