//! Reads `smtp://` and `smtps://` URLs.
//!
//! Errors must never repeat a piece of the URL that may belong to a password: in a URL with a
//! forgotten `@` or an unencoded `/`, that is nearly every piece.

use std::net::Ipv6Addr;

use super::config::{Credentials, InvalidSmtpConfig, SmtpConfig, TlsMode, is_host};

/// Reads a URL into a configuration.
pub(super) fn parse(url: &str) -> Result<SmtpConfig, InvalidSmtpConfig> {
    let url = url.trim();
    let (scheme, rest) = url.split_once("://").ok_or(InvalidSmtpConfig::Scheme)?;
    let implicit = match scheme.to_ascii_lowercase().as_str() {
        "smtp" => false,
        "smtps" => true,
        _ => return Err(InvalidSmtpConfig::Scheme),
    };
    let (authority, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if tail.contains('@') {
        return Err(InvalidSmtpConfig::UnencodedCredentials);
    }
    let (user_info, server) = match authority.rsplit_once('@') {
        Some((user_info, server)) => (Some(user_info), server),
        None => (None, authority),
    };
    let (host, port) = host_and_port(server)?;
    let mut config = SmtpConfig::new(host, port.unwrap_or(if implicit { 465 } else { 25 }));
    config.credentials = user_info.map(credentials).transpose()?;
    config.tls = match (implicit, tls_parameter(tail)?) {
        (true, None) => TlsMode::Implicit,
        (true, Some(_)) => return Err(InvalidSmtpConfig::TlsTwice),
        (false, mode) => mode.unwrap_or(TlsMode::Opportunistic),
    };
    config.validate()?;
    Ok(config)
}

fn host_and_port(server: &str) -> Result<(String, Option<u16>), InvalidSmtpConfig> {
    let (host, port) = if let Some(rest) = server.strip_prefix('[') {
        let (address, rest) = rest.split_once(']').ok_or(InvalidSmtpConfig::Brackets)?;
        let address: Ipv6Addr = address.parse().map_err(|_| InvalidSmtpConfig::UrlHost)?;
        let port = match rest {
            "" => None,
            rest => Some(rest.strip_prefix(':').ok_or(InvalidSmtpConfig::Port)?),
        };
        (address.to_string(), port)
    } else {
        let (host, port) = match server.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (server, None),
        };
        if port.is_some_and(|port| port.contains(':')) {
            return Err(InvalidSmtpConfig::Brackets);
        }
        if host.is_empty() {
            return Err(InvalidSmtpConfig::NoHost);
        }
        if !is_host(host) {
            return Err(InvalidSmtpConfig::UrlHost);
        }
        (host.to_owned(), port)
    };
    let port = port
        .map(|port| {
            Some(port)
                .filter(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
                .and_then(|port| port.parse().ok())
                .filter(|port| *port != 0)
                .ok_or(InvalidSmtpConfig::Port)
        })
        .transpose()?;
    Ok((host, port))
}

fn credentials(user_info: &str) -> Result<Credentials, InvalidSmtpConfig> {
    let (user, password) = user_info
        .split_once(':')
        .filter(|(_, password)| !password.is_empty())
        .ok_or(InvalidSmtpConfig::NoPassword)?;
    if user.is_empty() {
        return Err(InvalidSmtpConfig::NoUser);
    }
    Ok(Credentials::new(
        percent_decoded(user).ok_or(InvalidSmtpConfig::PercentEncoding("user"))?,
        percent_decoded(password).ok_or(InvalidSmtpConfig::PercentEncoding("password"))?,
    ))
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
            let value = digit(bytes.next())? * 16 + digit(bytes.next())?;
            out.push(u8::try_from(value).ok()?);
        } else {
            out.push(byte);
        }
    }
    String::from_utf8(out).ok()
}

fn tls_parameter(tail: &str) -> Result<Option<TlsMode>, InvalidSmtpConfig> {
    let tail = tail.strip_prefix('/').unwrap_or(tail);
    if tail.is_empty() {
        return Ok(None);
    }
    let query = tail.strip_prefix('?').ok_or(InvalidSmtpConfig::Path)?;
    if query.contains('#') {
        return Err(InvalidSmtpConfig::Path);
    }
    let mut mode = None;
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        mode = match parameter.split_once('=') {
            Some(("tls", "none")) => Some(TlsMode::None),
            Some(("tls", "opportunistic")) => Some(TlsMode::Opportunistic),
            Some(("tls", "required")) => Some(TlsMode::Required),
            Some(("tls", _)) => return Err(InvalidSmtpConfig::Tls),
            _ => return Err(InvalidSmtpConfig::Parameter),
        };
    }
    Ok(mode)
}
