//! Tells other instances that there is something new to look at, and hears it from them.
//!
//! One connection does both. However many commits there are, it rings at most every few
//! milliseconds: a notification per row, or by trigger, would make every commit wait in line. A
//! ring that is lost costs nothing but time: everyone also looks by themselves now and then.

use std::sync::Arc;
use std::time::Duration;

use posthaste_core::port::StoreResult;
use tokio::sync::Notify;
use tokio_postgres::Client;

use super::error::store_error;
use super::pool::Connector;

/// Rings follow each other no faster than this.
const GAP: Duration = Duration::from_millis(2);
const FIRST_REST: Duration = Duration::from_millis(100);
const LONGEST_REST: Duration = Duration::from_secs(5);

/// Rung after commits that concern others; heard when others ring.
pub(super) struct Bell {
    channel: String,
    /// Who rings, so that nobody listens to himself.
    us: String,
    listens: bool,
    rung: Notify,
    heard: Notify,
}

impl Bell {
    pub(super) fn new(schema: &str, listens: bool) -> Self {
        Self {
            channel: channel(schema),
            us: uuid::Uuid::now_v7().to_string(),
            listens,
            rung: Notify::new(),
            heard: Notify::new(),
        }
    }

    /// Tells others, soon.
    pub(super) fn ring(&self) {
        self.rung.notify_one();
    }

    /// The channel and the words, for one who has to ring within his transaction.
    pub(super) fn inside(&self) -> Option<(String, String)> {
        (!self.listens).then(|| (self.channel.clone(), self.us.clone()))
    }

    /// Resolves when someone else rang. There is one ear in each process.
    pub(super) async fn heard(&self) {
        self.heard.notified().await;
    }

    /// One who does not listen right now hears it when he does.
    fn pass_on(&self) {
        self.heard.notify_one();
    }
}

/// Rings and listens until it is aborted; a lost connection is made anew.
pub(super) async fn run(connector: Connector, bell: Arc<Bell>) {
    let mut rest = FIRST_REST;
    loop {
        match listen(&connector, &bell, &mut rest).await {
            Ok(()) => tracing::debug!("the connection that listens for other instances ended"),
            Err(error) => {
                tracing::debug!(%error, "cannot listen for other instances; will try again");
            }
        }
        tokio::time::sleep(rest).await;
        rest = (rest * 2).min(LONGEST_REST);
    }
}

async fn listen(connector: &Connector, bell: &Bell, rest: &mut Duration) -> StoreResult<()> {
    let (client, mut heard) = connector.connect_to_listen().await?;
    let sql = format!("LISTEN \"{}\"", bell.channel.replace('"', "\"\""));
    client.batch_execute(&sql).await.map_err(store_error)?;
    *rest = FIRST_REST;
    // Whatever was said while we were away.
    bell.pass_on();
    loop {
        tokio::select! {
            payload = heard.recv() => match payload {
                None => return Ok(()),
                Some(from) if from == bell.us => {}
                Some(_) => bell.pass_on(),
            },
            () = bell.rung.notified() => {
                notify(&client, bell).await?;
                tokio::time::sleep(GAP).await;
            }
        }
    }
}

/// Tells everyone who listens.
pub(super) const NOTIFY: &str = "SELECT pg_notify($1, $2)";

async fn notify(client: &Client, bell: &Bell) -> StoreResult<()> {
    let told = client.execute(NOTIFY, &[&bell.channel, &bell.us]).await;
    told.map(drop).map_err(store_error)
}

/// Channels are the database's, tables are a schema's. A name has at most 63 octets.
fn channel(schema: &str) -> String {
    let mut name = format!("posthaste {schema}");
    while name.len() > 63 {
        name.pop();
    }
    name
}
