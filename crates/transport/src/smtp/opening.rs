//! From nothing to a connection that is ready for MAIL: connect, greeting, EHLO, TLS, AUTH.
//!
//! It must never go on in clear once TLS was required or begun.

use posthaste_core::attempt::{Cause, Failure, Stage};
use posthaste_core::failpoint;

use super::authentication::authenticate;
use super::config::{SmtpConfig, TlsMode};
use super::connection::Connection;
use super::dial::dial;
use super::extensions::Extensions;
use super::reply_reader::RawReply;
use super::tls::TlsSetup;

/// Opens connections to one server.
pub(super) struct Opener {
    pub(super) config: SmtpConfig,
    pub(super) tls: TlsSetup,
}

impl Opener {
    /// A connection that is ready for MAIL.
    pub(super) async fn open(&self) -> Result<Connection, Failure> {
        failpoint::hit("smtp.before_connect");
        let mut connection = Connection::new(dial(&self.config).await?);
        if self.config.tls == TlsMode::Implicit {
            connection.secure(&self.tls, &self.config).await?;
        }
        self.await_greeting(&mut connection).await?;
        self.say_hello(&mut connection).await?;
        self.start_tls(&mut connection).await?;
        authenticate(&mut connection, &self.config).await?;
        failpoint::hit("smtp.after_connect");
        tracing::debug!(
            transport = self.config.name,
            tls = connection.tls_version(),
            "connected"
        );
        Ok(connection)
    }

    async fn await_greeting(&self, connection: &mut Connection) -> Result<(), Failure> {
        let limit = self.config.timeouts.banner;
        let reply = connection.reply(Stage::Banner, limit).await?;
        expect_positive(&reply, Stage::Banner)?;
        connection.greeting = reply.to_reply().text;
        Ok(())
    }

    async fn say_hello(&self, connection: &mut Connection) -> Result<(), Failure> {
        let limit = self.config.timeouts.hello;
        let name = match &self.config.client_name {
            Some(name) => name.clone(),
            None => connection.address_literal(),
        };
        let command = format!("EHLO {name}");
        let reply = connection.ask(&command, Stage::Hello, limit).await?;
        if reply.code / 100 != 5 {
            expect_positive(&reply, Stage::Hello)?;
            connection.extensions = Extensions::parse(&reply);
            return Ok(());
        }
        // A server from before 1995, or one that refuses us; HELO tells.
        let command = format!("HELO {name}");
        let reply = connection.ask(&command, Stage::Hello, limit).await?;
        expect_positive(&reply, Stage::Hello)
    }

    async fn start_tls(&self, connection: &mut Connection) -> Result<(), Failure> {
        match self.config.tls {
            TlsMode::None | TlsMode::Implicit => return Ok(()),
            TlsMode::Opportunistic if !connection.extensions.starttls => return Ok(()),
            TlsMode::Required if !connection.extensions.starttls => {
                let text = "it is required, and the server does not offer STARTTLS";
                return Err(Failure::new(Stage::Tls, Cause::Tls(text.to_owned())));
            }
            TlsMode::Opportunistic | TlsMode::Required => {}
        }
        let limit = self.config.timeouts.tls;
        let reply = connection.ask("STARTTLS", Stage::Tls, limit).await?;
        expect_positive(&reply, Stage::Tls)?;
        connection.secure(&self.tls, &self.config).await?;
        // What was said before the handshake may have been said by anyone.
        self.say_hello(connection).await
    }
}

fn expect_positive(reply: &RawReply, stage: Stage) -> Result<(), Failure> {
    let cause = if reply.is_positive() {
        return Ok(());
    } else if reply.is_negative() {
        Cause::Reply(reply.to_reply())
    } else {
        Cause::Protocol(format!("{} out of order", reply.code))
    };
    Err(Failure::new(stage, cause))
}
