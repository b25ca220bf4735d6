//! SMTP to a relay: our own client, because the final dot must be withheld until the gate is
//! passed, and because every failure must say at which stage it happened.
//!
//! The way of a message: the `pool` hands out a connection, or `opening` makes one (`dial`, `tls`,
//! `authentication`); a `transaction` sends the message over it (`dot_stuffing`, `reply_reader`);
//! the connection goes back into the pool, or straight to whoever waits for it: such a one has been
//! announced together with the final dot of the message before (`announcement`, `slots`). A pooled connection that died meanwhile is replaced
//! once, as long as the server cannot have heard anything of the message.

mod announcement;
mod authentication;
mod check;
mod config;
mod connection;
mod dial;
mod dot_stuffing;
mod extensions;
mod opening;
mod pool;
mod reply_reader;
mod slots;
mod stream;
mod tls;
mod transaction;
mod url;

use std::sync::Arc;

use async_trait::async_trait;
use posthaste_core::attempt::Failure;
use posthaste_core::decision::RecipientResult;
use posthaste_core::port::{Gate, Outgoing, Transport};

pub use config::{Credentials, InvalidSmtpConfig, SmtpConfig, Timeouts, TlsMode};

use connection::Connection;
use opening::Opener;
use pool::Pool;
use slots::{Slot, Turn};
use tls::TlsSetup;
use transaction::{Ended, Fate};

/// Sends emails to one SMTP server.
pub struct SmtpTransport {
    opener: Opener,
    pool: Arc<Pool>,
}

impl SmtpTransport {
    /// A transport with this configuration. Connects only when there is something to send.
    pub fn new(config: SmtpConfig) -> Result<Self, InvalidSmtpConfig> {
        config.validate()?;
        Ok(Self {
            pool: Pool::new(
                config.connections,
                config.idle_limit,
                config.messages_per_connection,
            ),
            opener: Opener {
                tls: TlsSetup::new(&config)?,
                config,
            },
        })
    }

    /// Sends over the connection on which it was announced, a pooled or a fresh one.
    async fn deliver(
        &self,
        turn: Turn,
        email: &Outgoing,
        gate: &dyn Gate,
    ) -> Result<Vec<RecipientResult>, Failure> {
        let (used, slot) = match turn {
            Turn::Slot(slot) => (self.pool.take_idle(&slot).await, slot),
            Turn::Announced(connection, slot) => (Some(*connection), slot),
        };
        if let Some(used) = used {
            let (connection, ended) = self.transact(used, email, gate).await;
            if ended.fate != Fate::Stale {
                return Ok(self.conclude(slot, connection, ended));
            }
            tracing::debug!(transport = self.name(), "a pooled connection had died");
        }
        // In a box, as it is rare: whoever has a connection need not make room for opening one.
        let fresh = Box::pin(self.opener.open()).await?;
        let (connection, ended) = self.transact(fresh, email, gate).await;
        Ok(self.conclude(slot, connection, ended))
    }

    async fn transact(
        &self,
        mut connection: Connection,
        email: &Outgoing,
        gate: &dyn Gate,
    ) -> (Connection, Ended) {
        let timeouts = &self.opener.config.timeouts;
        let ended = transaction::run(&mut connection, email, gate, timeouts, &self.pool).await;
        (connection, ended)
    }

    fn conclude(&self, slot: Slot, connection: Connection, ended: Ended) -> Vec<RecipientResult> {
        match (ended.fate, ended.next) {
            (Fate::Usable, Some(next)) => next.hand_over(connection, slot),
            (Fate::Usable, None) => self.pool.put(slot, connection),
            (Fate::Broken | Fate::Stale, next) => {
                drop(connection);
                // It stands first in line again, and gets the slot.
                drop(next);
                drop(slot);
            }
        }
        ended.results
    }
}

#[async_trait]
impl Transport for SmtpTransport {
    fn name(&self) -> &str {
        &self.opener.config.name
    }

    async fn send(&self, email: &Outgoing, gate: &dyn Gate) -> Vec<RecipientResult> {
        if email.recipients.is_empty() {
            return Vec::new();
        }
        let announce = |offers: &_| announcement::in_one_go(email, offers);
        let turn = self.pool.turn(announce).await;
        gate.talks();
        match self.deliver(turn, email, gate).await {
            Ok(results) => results,
            Err(failure) => vec![RecipientResult::Failed(failure); email.recipients.len()],
        }
    }

    async fn check(&self) -> Result<String, String> {
        let slot = self.pool.slot().await;
        self.pool.make_room(&slot);
        match self.opener.open().await {
            Ok(connection) => {
                let text = check::describe(&connection, &self.opener.config);
                connection.quit().await;
                Ok(text)
            }
            Err(failure) => Err(check::advise(&failure, &self.opener.config)),
        }
    }

    async fn close(&self) {
        self.pool.close().await;
    }
}
