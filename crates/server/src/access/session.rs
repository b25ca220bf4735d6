//! Logins of people, as their browsers carry them.
//!
//! The cookie holds the secret of a session. Browsers send it along by themselves, so whatever
//! changes something must also come from a page of ours and carry the token that belongs to it.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use axum::http::header::{COOKIE, HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue};
use sha2::{Digest, Sha256};

use crate::problem::{Kind, Problem};

/// The cookie that carries the secret of a session.
const SESSION_COOKIE: &str = "posthaste_session";
/// The header in which programs send the token that belongs to their session.
const CSRF_HEADER: &str = "x-csrf-token";

/// The secret of the session that a browser sends along, if any.
pub(super) fn secret_of(headers: &HeaderMap) -> Option<String> {
    cookie(headers, SESSION_COOKIE).filter(|secret| !secret.is_empty())
}

/// What a browser is told to keep after a login. `secure`: and to send over https only.
pub(crate) fn begun(secret: &str, lifetime: Duration, secure: bool) -> Option<HeaderValue> {
    set_cookie(secret, lifetime, secure)
}

/// What a browser is told to forget after a logout.
pub(crate) fn over(secure: bool) -> Option<HeaderValue> {
    set_cookie("", Duration::ZERO, secure)
}

fn set_cookie(secret: &str, lifetime: Duration, secure: bool) -> Option<HeaderValue> {
    let secure = if secure { "; Secure" } else { "" };
    let seconds = lifetime.as_secs();
    let text = format!(
        "{SESSION_COOKIE}={secret}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"
    );
    HeaderValue::from_str(&text).ok()
}

/// Whether the browser reached us, or the proxy before us, over https.
pub(crate) fn came_by_https(headers: &HeaderMap) -> bool {
    let scheme = headers.get("x-forwarded-proto");
    scheme
        .and_then(|scheme| scheme.to_str().ok())
        .and_then(|schemes| schemes.split(',').next())
        .is_some_and(|scheme| scheme.trim().eq_ignore_ascii_case("https"))
}

/// Where a request comes from. What a proxy says counts if we trust it: then it is the last address
/// that none of the trusted ones added. Anything before that may be made up.
pub(crate) fn origin_of(peer: IpAddr, headers: &HeaderMap, trusted: &[IpAddr]) -> IpAddr {
    let same = |a: IpAddr, b: IpAddr| a.to_canonical() == b.to_canonical();
    let is_trusted = |address| trusted.iter().any(|proxy| same(*proxy, address));
    let lines = headers.get_all("x-forwarded-for").iter().rev();
    let hops = lines.flat_map(|line| line.to_str().unwrap_or_default().rsplit(','));
    let mut origin = peer;
    for hop in hops.map(|hop| address_of(hop.trim())) {
        match hop {
            Some(hop) if is_trusted(origin) => origin = hop,
            _ => break,
        }
    }
    origin
}

/// An address, with or without a port.
fn address_of(text: &str) -> Option<IpAddr> {
    let with_port = || text.parse().map(|address: SocketAddr| address.ip());
    text.parse().or_else(|_| with_port()).ok()
}

/// The token that belongs to a secret. It does not give the secret away.
pub(super) fn token_of(secret: &[u8]) -> String {
    let mut hasher = Sha256::new();
    hasher.update(b"csrf:");
    hasher.update(secret);
    let hash = hasher.finalize();
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The token that a program sends, if any.
pub(super) fn sent_token(headers: &HeaderMap) -> &str {
    let token = headers.get(CSRF_HEADER);
    token
        .and_then(|token| token.to_str().ok())
        .unwrap_or_default()
}

/// Refuses a request that does not carry the token. How long it takes tells nothing about it.
pub(super) fn check_token(given: &str, expected: &str) -> Result<(), Problem> {
    let pairs = given.bytes().zip(expected.bytes());
    let difference = pairs.fold(0, |difference, (a, b)| difference | (a ^ b));
    if given.len() == expected.len() && difference == 0 {
        return Ok(());
    }
    Err(Problem::new(
        Kind::Forbidden,
        "The form is from an old page, or the request has no X-CSRF-Token. Nothing was changed: \
         go back, reload the page, and try again.",
    ))
}

/// Refuses what a page of another site makes a browser send.
pub(crate) fn own_site(parts: &Parts) -> Result<(), Problem> {
    let refused = || {
        Problem::new(
            Kind::Forbidden,
            "This was sent by a page of another site (see its Origin header). Nothing was changed.",
        )
    };
    let headers = &parts.headers;
    if headers
        .get("sec-fetch-site")
        .is_some_and(|site| site != "same-origin" && site != "none")
    {
        return Err(refused());
    }
    // A proxy may put its own name into `Host` and ours elsewhere; no page can make a browser
    // do so.
    let names = [headers.get(HOST), headers.get("x-forwarded-host")];
    for origin in headers.get_all(ORIGIN) {
        let site = origin.to_str().ok().and_then(|origin| {
            let rest = origin.strip_prefix("https://");
            rest.or_else(|| origin.strip_prefix("http://"))
        });
        let is_ours = |site: &str| names.iter().flatten().any(|name| *name == site);
        if !site.is_some_and(is_ours) {
            return Err(refused());
        }
    }
    Ok(())
}

/// The value of a cookie.
pub(super) fn cookie(headers: &HeaderMap, name: &str) -> Option<String> {
    let pairs = headers.get_all(COOKIE).iter();
    pairs
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(given, _)| *given == name)
        .map(|(_, value)| value.to_owned())
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    fn request(headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::post("/admin/x");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn only_pages_of_this_site_may_send_forms() {
        for headers in [
            &[("host", "a.example")][..],
            &[
                ("host", "a.example:8086"),
                ("origin", "http://a.example:8086"),
            ],
            &[("host", "a.example"), ("origin", "https://a.example")],
            &[("host", "a.example"), ("sec-fetch-site", "same-origin")],
            &[
                ("host", "10.0.0.1:8086"),
                ("x-forwarded-host", "a.example"),
                ("origin", "https://a.example"),
            ],
        ] {
            assert!(own_site(&request(headers)).is_ok(), "{headers:?}");
        }
        for headers in [
            &[("host", "a.example"), ("origin", "https://evil.example")][..],
            &[("host", "a.example"), ("origin", "http://a.example:3000")],
            &[("host", "a.example"), ("origin", "https://a.example.evil")],
            &[("host", "a.example"), ("origin", "null")],
            &[("origin", "http://a.example")],
            &[("host", "a.example"), ("sec-fetch-site", "cross-site")],
            &[("host", "a.example"), ("sec-fetch-site", "same-site")],
        ] {
            assert!(own_site(&request(headers)).is_err(), "{headers:?}");
        }
    }

    #[test]
    fn a_token_is_compared_as_a_whole() {
        let token = token_of(b"secret");
        assert!(check_token(&token, &token).is_ok());
        for wrong in ["", &token[1..], &token_of(b"other"), &format!("{token}0")] {
            assert!(check_token(wrong, &token).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_trusted_proxies_say_where_a_request_comes_from() {
        let trusted: [IpAddr; 2] = ["10.0.0.1", "10.0.0.2"].map(|ip| ip.parse().unwrap());
        for (peer, lines, origin) in [
            ("192.0.2.1", &[][..], "192.0.2.1"),
            ("192.0.2.1", &["198.51.100.7"], "192.0.2.1"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &["198.51.100.7"], "198.51.100.7"),
            ("::ffff:10.0.0.1", &["198.51.100.7"], "198.51.100.7"),
            ("10.0.0.1", &["203.0.113.9, 198.51.100.7"], "198.51.100.7"),
            ("10.0.0.1", &["203.0.113.9", "198.51.100.7"], "198.51.100.7"),
            ("10.0.0.1", &["198.51.100.7, 10.0.0.2"], "198.51.100.7"),
            ("10.0.0.1", &["10.0.0.2"], "10.0.0.2"),
            ("10.0.0.1", &["198.51.100.7, unknown"], "10.0.0.1"),
            ("10.0.0.1", &["198.51.100.7:4711"], "198.51.100.7"),
            ("10.0.0.1", &["[2001:db8::7]:4711"], "2001:db8::7"),
        ] {
            let lines: Vec<_> = lines
                .iter()
                .map(|line| ("x-forwarded-for", *line))
                .collect();
            let parts = request(&lines);
            let found = origin_of(peer.parse().unwrap(), &parts.headers, &trusted);
            assert_eq!(found, origin.parse::<IpAddr>().unwrap(), "{peer} {lines:?}");
        }
    }

    #[test]
    fn https_counts_as_the_first_proxy_saw_it() {
        for (scheme, is_https) in [("https", true), ("HTTPS, http", true), ("http", false)] {
            let parts = request(&[("x-forwarded-proto", scheme)]);
            assert_eq!(came_by_https(&parts.headers), is_https, "{scheme}");
        }
        assert!(!came_by_https(&request(&[]).headers));
    }
}
