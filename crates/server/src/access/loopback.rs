//! The rule for a server without keys and admins that opens to its own machine: nobody else is
//! answered. A proxy on this machine that hides whom it speaks for cannot be told from a program
//! here; what stands behind one must not open so.
//!
//! The peer must have a loopback address, the `Host` must be a loopback name (a page of a
//! foreign site that rebinds its name to 127.0.0.1 has another one), nothing may have been
//! forwarded, and a page of another site may not be behind it.

use std::net::SocketAddr;

use axum::extract::ConnectInfo;
use axum::http::HeaderMap;
use axum::http::header::{FORWARDED, HOST, ORIGIN, VIA};
use axum::http::request::Parts;

/// Why the request does not count as coming from this machine; `None` if it does.
pub(crate) fn why_not_loopback(parts: &Parts) -> Option<&'static str> {
    let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>();
    if !peer.is_some_and(|ConnectInfo(peer)| is_on_loopback(peer)) {
        return Some("this request came over the network");
    }
    if was_forwarded(&parts.headers) {
        return Some("this request was forwarded by a proxy");
    }
    let Some(host) = only_host(parts) else {
        return Some("this request has no Host header, or several that differ");
    };
    if !is_loopback_name(host) {
        return Some(
            "this request is not addressed to localhost, 127.0.0.1 or [::1] (see its Host header)",
        );
    }
    if is_from_other_site(parts, host) {
        return Some("this request was made by a page of another site (see its Origin header)");
    }
    None
}

/// Whether an address belongs to this machine alone.
pub(crate) fn is_on_loopback(address: &SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

fn was_forwarded(headers: &HeaderMap) -> bool {
    headers.keys().any(|name| {
        name == FORWARDED
            || name == VIA
            || name == "x-real-ip"
            || name.as_str().starts_with("x-forwarded")
    })
}

/// The one host that the request is addressed to.
fn only_host(parts: &Parts) -> Option<&str> {
    let mut hosts = parts.headers.get_all(HOST).iter();
    let host = hosts.next()?.to_str().ok()?;
    let agrees = match parts.uri.authority() {
        Some(authority) => authority.as_str() == host,
        None => true,
    };
    (hosts.next().is_none() && agrees).then_some(host)
}

fn is_loopback_name(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    name.eq_ignore_ascii_case("localhost") || name == "127.0.0.1" || name == "[::1]"
}

/// Browsers say which site a request comes from whenever it could change something.
/// A plain link from another site is fine: that site does not get to see what it leads to.
fn is_from_other_site(parts: &Parts, host: &str) -> bool {
    let from_other_origin = parts.headers.get_all(ORIGIN).iter().any(|origin| {
        let origin = origin.to_str().unwrap_or_default();
        origin.strip_prefix("http://") != Some(host)
    });
    let cross_site = parts
        .headers
        .get("sec-fetch-site")
        .is_some_and(|site| site == "cross-site");
    from_other_origin || (cross_site && !parts.method.is_safe())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_names_of_this_machine_are_loopback_names() {
        for host in [
            "localhost",
            "LocalHost:8086",
            "127.0.0.1",
            "127.0.0.1:80",
            "[::1]",
            "[::1]:8086",
        ] {
            assert!(is_loopback_name(host), "{host}");
        }
        for host in [
            "",
            "example.org",
            "localhost.example.org",
            "127.0.0.1.example.org:80",
            "::1",
            "[::1",
            "localhost:80:evil",
            "127.0.0.2",
        ] {
            assert!(!is_loopback_name(host), "{host}");
        }
    }

    #[test]
    fn an_address_that_is_mapped_into_ipv6_is_still_loopback() {
        for (address, loopback) in [
            ("127.0.0.1:1", true),
            ("127.9.9.9:1", true),
            ("[::1]:1", true),
            ("[::ffff:127.0.0.1]:1", true),
            ("[::ffff:10.0.0.1]:1", false),
            ("0.0.0.0:1", false),
            ("192.168.0.1:1", false),
        ] {
            assert_eq!(
                is_on_loopback(&address.parse().unwrap()),
                loopback,
                "{address}"
            );
        }
    }
}
