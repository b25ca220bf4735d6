//! Connections: how they are made, and the few that everyone shares.
//!
//! A connection goes back to the others only if its last transaction is known to be over;
//! otherwise it is closed. Whoever waits for one, or for an answer, waits for so long and no
//! longer.

use std::future::Future;
use std::str::FromStr as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use deadpool_postgres::{
    ClientWrapper, Manager, ManagerConfig, Object, Pool as Deadpool, PoolError, RecyclingMethod,
    Runtime, Timeouts,
};
use posthaste_core::failpoint;
use posthaste_core::port::{StoreError, StoreResult};
use rustls_platform_verifier::ConfigVerifierExt as _;
use tokio_postgres::config::SslMode;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, NoTls, Row, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::PostgresOptions;
use super::error::{Meaning, Trouble, meaning, store_error};

/// Who is in a hurry waits for a lock no longer than this part of the deadline: a flush of a thousand
/// jobs is cut in two ten times until only who is held up is left.
const HURRY: u32 = 64;
/// How often a transaction is done again when others stood in the way.
pub(super) const CONFLICTS: u32 = 10;

/// Values bound to a statement.
pub(super) type Values<'a> = &'a [&'a (dyn ToSql + Sync)];

/// How connections are made.
#[derive(Clone)]
pub(super) struct Connector {
    config: Config,
    tls: Option<MakeRustlsConnect>,
    offset: Arc<AtomicI64>,
    deadline: Duration,
}

impl Connector {
    pub(super) fn new(options: &PostgresOptions) -> StoreResult<Self> {
        let invalid = |error: &dyn std::fmt::Display| {
            StoreError::Failed(format!("the database URL is not valid: {error}"))
        };
        if let Some(schema) = &options.schema
            && !is_plain_name(schema)
        {
            return Err(StoreError::Failed(format!(
                "the schema `{}` is not a plain name: use lower-case letters, digits and _, at \
                 most 63",
                schema.escape_debug()
            )));
        }
        // With us, `require` checks the certificate; these are other words for it.
        let url = options
            .url
            .replace("sslmode=verify-full", "sslmode=require")
            .replace("sslmode=verify-ca", "sslmode=require");
        let mut config = Config::from_str(&url).map_err(|error| {
            let cause = std::error::Error::source(&error);
            invalid(&cause.map_or_else(|| error.to_string(), ToString::to_string))
        })?;
        let tls = match config.get_ssl_mode() {
            SslMode::Require => Some(tls().map_err(|error| invalid(&error))?),
            _ => None,
        };
        if tls.is_none() {
            config.ssl_mode(SslMode::Disable);
        }
        if config.get_application_name().is_none() {
            config.application_name("posthaste");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(options.deadline);
        }
        config.keepalives(true);
        config.keepalives_idle(Duration::from_secs(30));
        config.tcp_user_timeout(options.deadline.max(Duration::from_secs(5)));
        config.options(session_options(&config, options));
        Ok(Self {
            config,
            tls,
            offset: Arc::clone(&options.clock_offset),
            deadline: options.deadline,
        })
    }

    /// The same, for sessions that only ever follow keys and small partial indexes: a plan that was
    /// made while the tables were small must not read them as a whole once they have grown. So there
    /// is one plan for each statement, and no need to make it again for each batch of values.
    pub(super) fn by_index_only(&self) -> Self {
        let mut connector = self.clone();
        let own = connector
            .config
            .get_options()
            .unwrap_or_default()
            .to_owned();
        connector.config.options(format!(
            "{own} -c enable_seqscan=off -c enable_bitmapscan=off -c enable_hashjoin=off \
             -c enable_mergejoin=off -c plan_cache_mode=force_generic_plan"
        ));
        connector
    }

    /// The connection itself, for one who listens to what comes unasked.
    pub(super) async fn connect_to_listen(
        &self,
    ) -> StoreResult<(Client, tokio::sync::mpsc::UnboundedReceiver<String>)> {
        let (payloads, received) = tokio::sync::mpsc::unbounded_channel();
        let client = match &self.tls {
            None => {
                let (client, connection) =
                    within(self.deadline, self.config.connect(NoTls)).await?;
                tokio::spawn(forward(connection, payloads));
                client
            }
            Some(tls) => {
                let (client, connection) =
                    within(self.deadline, self.config.connect(tls.clone())).await?;
                tokio::spawn(forward(connection, payloads));
                client
            }
        };
        Ok((client, received))
    }

    /// What a session has to be told first, if tests moved the time.
    pub(super) fn clock_setting(&self) -> Option<String> {
        let offset = self.offset.load(Ordering::SeqCst);
        (offset != 0).then(|| format!("SET posthaste.clock_offset = '{offset} microseconds'"))
    }
}

/// Passes on what the server says unasked, until the connection ends.
async fn forward<T>(
    mut connection: tokio_postgres::Connection<Socket, T>,
    payloads: tokio::sync::mpsc::UnboundedSender<String>,
) where
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    while let Some(Ok(message)) =
        std::future::poll_fn(|context| connection.poll_message(context)).await
    {
        if let tokio_postgres::AsyncMessage::Notification(notification) = message
            && payloads.send(notification.payload().to_owned()).is_err()
        {
            return;
        }
    }
}

/// What holds for every session. Nobody waits for a lock or an answer without end, and
/// whatever the server's own default is, a commit is on disk before it is confirmed.
fn session_options(config: &Config, options: &PostgresOptions) -> String {
    let millis = |limit: Duration| limit.as_millis().max(1);
    let mut settings = format!(
        "-c statement_timeout={} -c lock_timeout={} -c idle_in_transaction_session_timeout={} \
         -c synchronous_commit=on -c jit=off",
        millis(options.deadline),
        millis(options.deadline / 4),
        millis(options.deadline * 2),
    );
    if let Some(own) = config.get_options() {
        settings.push(' ');
        settings.push_str(own);
    }
    if let Some(schema) = &options.schema {
        settings.push_str(&format!(" -c search_path=\"{schema}\""));
    }
    settings
}

/// Whether a name needs no quotes.
fn is_plain_name(name: &str) -> bool {
    let rest = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    let first = |b: &u8| b.is_ascii_lowercase() || *b == b'_';
    name.len() <= 63 && name.bytes().all(rest) && name.as_bytes().first().is_some_and(first)
}

fn tls() -> Result<MakeRustlsConnect, rustls::Error> {
    rustls::ClientConfig::with_platform_verifier().map(MakeRustlsConnect::new)
}

/// Waits for an answer, but not for ever.
async fn within<T, E: Into<Trouble>>(
    deadline: Duration,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, Trouble> {
    match tokio::time::timeout(deadline, work).await {
        Ok(answer) => answer.map_err(Into::into),
        Err(_) => {
            let message = format!("no answer within {} ms", deadline.as_millis());
            Err(StoreError::Unavailable(message).into())
        }
    }
}

/// A bounded number of connections for whoever comes.
pub(super) struct Pool {
    pool: Deadpool,
    connector: Connector,
}

impl Pool {
    /// Whether tests moved the time: then nobody knows it without asking.
    pub(super) fn has_moved_time(&self) -> bool {
        self.connector.clock_setting().is_some()
    }

    pub(super) fn new(connector: Connector, connections: usize) -> StoreResult<Self> {
        let manager_config = ManagerConfig {
            recycling_method: RecyclingMethod::Fast,
        };
        let config = connector.config.clone();
        let manager = match connector.tls.clone() {
            None => Manager::from_config(config, NoTls, manager_config),
            Some(tls) => Manager::from_config(config, tls, manager_config),
        };
        let deadline = Some(connector.deadline);
        let pool = Deadpool::builder(manager)
            .max_size(connections.max(1))
            .runtime(Runtime::Tokio1)
            .timeouts(Timeouts {
                wait: deadline,
                create: deadline,
                recycle: deadline,
            })
            .build()
            .map_err(|error| StoreError::Failed(error.to_string()))?;
        Ok(Self { pool, connector })
    }

    /// A connection, within the deadline.
    async fn get(&self) -> StoreResult<Object> {
        let object = self.pool.get().await.map_err(|error| {
            match error {
            PoolError::Backend(error) => store_error(error),
            PoolError::Timeout(_) => StoreError::Unavailable(
                "all connections to the database are busy; raise store.connections if this persists"
                    .into(),
            ),
            other => StoreError::Unavailable(other.to_string()),
        }
        })?;
        if let Some(setting) = self.connector.clock_setting() {
            object.batch_execute(&setting).await.map_err(store_error)?;
        }
        Ok(object)
    }

    /// Answers one query that changes nothing. A connection that was cut while nobody used it
    /// is no reason to fail.
    pub(super) async fn query(&self, sql: &str, values: Values<'_>) -> StoreResult<Vec<Row>> {
        let ask = async |client: &ClientWrapper| {
            let statement = client.prepare_cached(sql).await?;
            client.query(&statement, values).await
        };
        match self.run(ask).await {
            Err(Trouble::Database(error)) if meaning(&error) == Meaning::Away => {
                Ok(self.run(ask).await?)
            }
            answer => Ok(answer?),
        }
    }

    /// Runs a whole transaction: it begins, works and commits within the deadline, or the
    /// connection is closed and the server rolls back. If others stood in the way, it is done
    /// again.
    pub(super) async fn transaction<T, E: Into<Trouble>>(
        &self,
        begin: &str,
        work: impl AsyncFnOnce(&ClientWrapper) -> Result<T, E> + Clone,
    ) -> StoreResult<T> {
        let mut conflicts = 0;
        loop {
            let work = work.clone();
            let done = self.run(async |client: &ClientWrapper| {
                client.batch_execute(begin).await?;
                let done = work(client).await.map_err(Into::into)?;
                failpoint::hit("store.before_commit");
                client.batch_execute("COMMIT").await?;
                failpoint::hit("store.after_commit");
                Ok::<T, Trouble>(done)
            });
            match done.await {
                Err(trouble) if trouble.meaning() == Meaning::Conflict && conflicts < CONFLICTS => {
                    conflicts += 1;
                }
                done => return Ok(done?),
            }
        }
    }

    /// Runs a whole transaction that takes as long as it takes. What the session itself limits,
    /// `begin` lifts.
    pub(super) async fn long_transaction<T, E: Into<Trouble>>(
        &self,
        begin: &str,
        work: impl AsyncFnOnce(&ClientWrapper) -> Result<T, E>,
    ) -> StoreResult<T> {
        let mut connection = Borrowed(Some(self.get().await?));
        let Some(client) = connection.0.as_ref() else {
            return Err(StoreError::Unavailable("the connection is closed".into()));
        };
        client.batch_execute(begin).await.map_err(store_error)?;
        let done = work(client).await.map_err(Into::into)?;
        client.batch_execute("COMMIT").await.map_err(store_error)?;
        drop(connection.0.take());
        Ok(done)
    }

    /// Works on a connection within the deadline. The work must end with no transaction open,
    /// or fail: then the connection is closed.
    pub(super) async fn run<T, E: Into<Trouble>>(
        &self,
        work: impl AsyncFnOnce(&ClientWrapper) -> Result<T, E>,
    ) -> Result<T, Trouble> {
        let mut connection = Borrowed(Some(self.get().await?));
        let Some(client) = connection.0.as_ref() else {
            return Err(StoreError::Unavailable("the connection is closed".into()).into());
        };
        let done = within(self.connector.deadline, work(client)).await?;
        // Its work ended well: it may go back to the others.
        drop(connection.0.take());
        Ok(done)
    }

    /// The same for work that gives up soon when somebody holds what it needs.
    pub(super) async fn run_hurried<T>(
        &self,
        work: impl AsyncFnOnce(&ClientWrapper) -> Result<T, Trouble>,
    ) -> Result<T, Trouble> {
        let patience = (self.connector.deadline / HURRY).as_millis().max(1);
        self.run(async |client: &ClientWrapper| {
            let hurry = format!("SET lock_timeout = {patience}");
            client.batch_execute(&hurry).await?;
            let done = work(client).await?;
            // The work is done, whatever becomes of this: a connection on which it fails is dead.
            let _ = client.batch_execute("RESET lock_timeout").await;
            Ok::<T, Trouble>(done)
        })
        .await
    }
}

/// A connection that is closed when it is dropped with its work unfinished: nobody knows what is
/// still open on it.
struct Borrowed(Option<Object>);

impl Drop for Borrowed {
    fn drop(&mut self) {
        if let Some(object) = self.0.take() {
            drop(Object::take(object));
        }
    }
}
