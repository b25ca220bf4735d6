//! AUTH PLAIN and AUTH LOGIN.
//!
//! Credentials must never be sent in clear, unless that was chosen (`tls=none`) or the server is
//! on this machine; and must never be part of an error.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use posthaste_core::attempt::{Cause, Failure, Stage};

use super::config::{Credentials, SmtpConfig, TlsMode};
use super::connection::Connection;
use super::reply_reader::RawReply;

/// Signs in, if there are credentials.
pub(super) async fn authenticate(
    connection: &mut Connection,
    config: &SmtpConfig,
) -> Result<(), Failure> {
    let Some(credentials) = &config.credentials else {
        return Ok(());
    };
    let may_be_sent = connection.tls_version().is_some()
        || config.tls == TlsMode::None
        || connection.is_loopback();
    if !may_be_sent {
        return Err(unusable(
            "the server offers no TLS, and the password is not sent in clear; use a port or \
             server with TLS, or choose tls=none to allow it",
        ));
    }
    let offers = &connection.extensions;
    if offers.auth_plain {
        plain(connection, credentials, config).await
    } else if offers.auth_login {
        login(connection, credentials, config).await
    } else if offers.auth {
        Err(unusable(
            "the server offers AUTH, but neither PLAIN nor LOGIN, which are all we speak",
        ))
    } else {
        Err(unusable(
            "a user and a password are configured, but the server offers no AUTH; remove them, or \
             use the server's port for submission (587 or 465)",
        ))
    }
}

async fn plain(
    connection: &mut Connection,
    credentials: &Credentials,
    config: &SmtpConfig,
) -> Result<(), Failure> {
    let Credentials { user, password } = credentials;
    let response = STANDARD.encode(format!("\0{user}\0{password}"));
    let reply = ask(connection, &format!("AUTH PLAIN {response}"), config).await?;
    expect(&reply, 235)
}

async fn login(
    connection: &mut Connection,
    credentials: &Credentials,
    config: &SmtpConfig,
) -> Result<(), Failure> {
    let reply = ask(connection, "AUTH LOGIN", config).await?;
    expect(&reply, 334)?;
    let reply = ask(connection, &STANDARD.encode(&credentials.user), config).await?;
    expect(&reply, 334)?;
    let reply = ask(connection, &STANDARD.encode(&credentials.password), config).await?;
    expect(&reply, 235)
}

async fn ask(
    connection: &mut Connection,
    line: &str,
    config: &SmtpConfig,
) -> Result<RawReply, Failure> {
    let limit = config.timeouts.authentication;
    connection.ask(line, Stage::Authentication, limit).await
}

fn expect(reply: &RawReply, code: u16) -> Result<(), Failure> {
    let cause = if reply.code == code {
        return Ok(());
    } else if reply.is_negative() {
        Cause::Reply(reply.to_reply())
    } else {
        Cause::Protocol(format!("{} where {code} belongs, in AUTH", reply.code))
    };
    Err(Failure::new(Stage::Authentication, cause))
}

fn unusable(text: &str) -> Failure {
    Failure::new(Stage::Authentication, Cause::Credentials(text.to_owned()))
}
