//! PostgreSQL: for production, with any number of instances.
//!
//! Writes are gathered: whatever comes in while a transaction is under way shares the next one.
//! A flush locks its rows in the order of their ids, asks the lifecycle about each, and writes
//! everything with one statement per table. Time is the database's.

mod accept;
mod accept_in;
mod act;
mod admin;
mod alert;
mod attempt;
mod batch;
mod books;
mod claim;
mod clock;
mod email_row;
mod error;
mod event;
mod feedback;
mod floor;
mod history;
mod inbox;
mod insert;
mod key;
mod lane;
mod list;
mod listener;
mod message;
mod migration;
mod newcomers;
mod operation;
mod parked;
mod pool;
mod prune;
mod recipient_row;
mod rescue;
mod schedule;
mod search;
mod slot;
mod state_row;
mod statistics;
mod suppressed;
mod suppression;
mod sweep;
mod template;
mod under_way;
mod verify;
mod way;
mod writer;

use std::sync::atomic::AtomicI64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use posthaste_core::Timestamp;
use posthaste_core::port::{Store, StoreError, StoreResult};
use tokio::task::AbortHandle;
use tokio_postgres::Client;

use self::clock::DatabaseClock;
use self::error::store_error;
use self::floor::{Floor, TimeFloor};
use self::listener::Bell;
use self::pool::{Connector, Pool};
use self::slot::TwoSlots;
use self::statistics::Settled;
use self::under_way::UnderWay;
use self::writer::{Wants, Writer};
use crate::sweep::Sweep;
use crate::turn::Turns;

/// What the names of our tables begin with: nothing, since a schema keeps them apart from others.
const PREFIX: &str = "";

/// How a PostgreSQL store is opened.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// `postgresql://user:password@host:port/database`. The tables are in the first schema of the
    /// search path; `?options=-csearch_path%3Dposthaste` chooses another.
    pub url: String,
    /// The schema of the tables, if not the first of the search path. It is made if it is not
    /// there.
    pub schema: Option<String>,
    /// How many connections are shared for reading and claiming.
    pub connections: usize,
    /// How many further connections take new emails in at the same time when there are very many,
    /// and how many write whatever else there is, beside the two for attempts under way.
    pub writers: usize,
    /// How long an operation may take before it is given up.
    pub deadline: Duration,
    /// Whether the schema is brought up to date. If not, one that is not is refused.
    pub migrates: bool,
    /// Whether this process waits for others' news. One that does not tells its own with each
    /// commit, because it may be gone a moment later.
    pub listens: bool,
    /// Microseconds that tests add to the database's time.
    #[doc(hidden)]
    pub clock_offset: Arc<AtomicI64>,
}

impl PostgresOptions {
    /// The defaults for a database.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            schema: None,
            connections: 8,
            writers: 2,
            deadline: Duration::from_secs(10),
            migrates: true,
            listens: true,
            clock_offset: Arc::default(),
        }
    }

    /// Says what is wrong with the URL, if something is.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub fn check(&self) -> StoreResult<()> {
        Connector::new(self).map(drop)
    }
}

/// The oldest server that is supported, as it numbers itself.
const OLDEST_SERVER: i32 = 140_000;

/// How many connections messages have: one takes them in, one claims, two settle.
const MESSAGE_CONNECTIONS: usize = 4;

/// Emails in a PostgreSQL database.
pub struct PostgresStore {
    writer: Arc<Writer>,
    /// For claims, and for what delivery reads.
    pool: Pool,
    /// For what people and programs ask, which may take long and must not hold up delivery.
    desk: Pool,
    /// For messages of other services, so that neither they nor emails wait for the others. No
    /// connection is made where there are none.
    messages: Pool,
    clock: Arc<DatabaseClock>,
    bell: Arc<Bell>,
    under_way: Arc<UnderWay>,
    listener: Option<AbortHandle>,
    /// Where our tables are.
    schema: String,
    /// Where claims are counted.
    slots: TwoSlots,
    /// Whose turn it is when a scheduler claims, and when a sender looks for itself.
    schedulers_turns: Turns,
    senders_turns: Turns,
    parked_turns: Turns,
    /// Where these begin to look.
    schedulers_floor: Floor,
    senders_floor: Floor,
    rescuers_floor: TimeFloor,
    /// Where the search for attempts and for content that are to go stands.
    attempt_sweep: Sweep,
    content_sweep: Sweep,
    /// What counters of long ago add up to.
    settled: Mutex<Option<Settled>>,
}

impl PostgresStore {
    /// Connects and, if so wished, brings the schema up to date. Several instances may do this at
    /// once.
    pub async fn open(options: PostgresOptions) -> StoreResult<Self> {
        let connector = Connector::new(&options)?;
        let (mut client, _) = connector.connect_to_listen().await?;
        check_version(&client).await?;
        if options.migrates {
            migration::make_schema(&client, options.schema.as_deref()).await?;
            migration::migrate(&mut client).await?;
        } else {
            migration::check(&client).await?;
        }
        let row = client
            .query_one("SELECT posthaste_now(), current_schema()::text", &[])
            .await
            .map_err(store_error)?;
        let clock = Arc::new(DatabaseClock::new(row.get(0)));
        let schema: String = row.get(1);
        let bell = Arc::new(Bell::new(&schema, options.listens));
        let listener = options.listens.then(|| {
            tokio::spawn(listener::run(connector.clone(), Arc::clone(&bell))).abort_handle()
        });
        let by_index = connector.by_index_only();
        let under_way = Arc::new(UnderWay::default());
        let writer = Writer::start(
            by_index.clone(),
            options.writers,
            Arc::clone(&clock),
            Arc::clone(&bell),
            Arc::clone(&under_way),
            options.deadline,
        )?;
        let shared = options.connections.max(2);
        Ok(Self {
            writer: Arc::new(writer),
            pool: Pool::new(by_index.clone(), shared - shared / 2)?,
            messages: Pool::new(by_index, MESSAGE_CONNECTIONS)?,
            desk: Pool::new(connector, shared / 2)?,
            clock,
            bell,
            under_way,
            listener,
            schema,
            slots: TwoSlots::any(),
            schedulers_turns: Turns::default(),
            senders_turns: Turns::default(),
            parked_turns: Turns::default(),
            schedulers_floor: Floor::default(),
            senders_floor: Floor::default(),
            rescuers_floor: TimeFloor::default(),
            attempt_sweep: Sweep::default(),
            content_sweep: Sweep::default(),
            settled: Mutex::default(),
        })
    }

    /// The queries that must not become slower as sent emails and republished messages pile up, for
    /// a test that asks PostgreSQL how it would answer them.
    #[doc(hidden)]
    #[must_use]
    pub fn hot_queries() -> Vec<String> {
        let mut queries = vec![
            claim::in_turn(&schedule::DUE),
            claim::in_turn(&attempt::unticketed(false, None)),
            claim::in_turn(&attempt::unticketed(true, None)),
            claim::in_turn(&parked::DUE),
            claim::longest(&parked::DUE),
            claim::waited_too_long(),
            rescue::expired(),
        ];
        let single = [
            schedule::NEXT_DUE,
            rescue::ANY_EXPIRED,
            statistics::WAITING,
            operation::NEXT_STEP,
        ];
        queries.extend(single.map(str::to_owned));
        queries.push(rescue::undecided_query());
        queries.push(operation::due());
        queries.push(crate::way::waiting_query(PREFIX));
        let of_messages = [
            message::CLAIM,
            message::SETTLE,
            message::NEXT_DUE,
            message::OLDEST_DUE,
        ];
        queries.extend(of_messages.map(str::to_owned));
        queries
    }
}

impl PostgresStore {
    /// What is written for every email, for a test that asks PostgreSQL how it would find the rows.
    #[doc(hidden)]
    #[must_use]
    pub fn hot_writes() -> Vec<&'static str> {
        let mut all = books::HOT_WRITES.to_vec();
        all.extend([insert::INSERT, schedule::MARK_QUEUED]);
        all
    }

    /// The query that counts and groups dead letters, for the same kind of test.
    #[doc(hidden)]
    #[must_use]
    pub fn dead_group_query() -> String {
        crate::dead_group::query(PREFIX, None)
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        if let Some(listener) = &self.listener {
            listener.abort();
        }
    }
}

async fn check_version(client: &Client) -> StoreResult<()> {
    let sql =
        "SELECT current_setting('server_version_num')::int4, current_setting('server_version')";
    let row = client.query_one(sql, &[]).await.map_err(store_error)?;
    let (number, name): (i32, String) = (row.get(0), row.get(1));
    if number < OLDEST_SERVER {
        return Err(StoreError::Failed(format!(
            "the server is PostgreSQL {name}; at least version 14 is needed"
        )));
    }
    Ok(())
}

mod port {
    use super::PostgresStore;

    crate::port::implement_ports!(PostgresStore);
}

#[async_trait]
impl Store for PostgresStore {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    async fn changed(&self) {
        self.bell.heard().await;
    }

    async fn check(&self) -> StoreResult<()> {
        // Through the writer, which has to be well too.
        self.writer.run(Wants::default(), |_| ()).await?;
        let sql = "SELECT current_setting('transaction_read_only')::bool";
        if claim::any(&self.pool.query(sql, &[]).await?)? {
            let message = "the database is read-only: is it a replica, or a primary of old?";
            return Err(StoreError::Unavailable(message.into()));
        }
        Ok(())
    }
}
