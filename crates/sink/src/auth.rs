//! AUTH PLAIN and AUTH LOGIN (RFC 4954, RFC 4616): from base64 lines to credentials.
//! Whether they are the right ones is decided by the session.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::config::Credentials;
use crate::reply::Reply;

/// "Username:" and "Password:" in base64, as clients expect them.
const ASK_USER: &str = "VXNlcm5hbWU6";
const ASK_PASSWORD: &str = "UGFzc3dvcmQ6";

/// What the next line of the client is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Expecting {
    Plain,
    LoginUser,
    LoginPassword { user: String },
}

/// Where the exchange stands.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Send the challenge, expect a line.
    Ask(Expecting, &'static str),
    /// The client has named these.
    Presented(Credentials),
    /// The exchange is over.
    Refused(Reply),
}

/// Starts the exchange that an AUTH command asks for.
pub(crate) fn begin(mechanism: &str, initial: Option<&str>) -> Progress {
    let (expecting, challenge) = if mechanism.eq_ignore_ascii_case("PLAIN") {
        (Expecting::Plain, "")
    } else if mechanism.eq_ignore_ascii_case("LOGIN") {
        (Expecting::LoginUser, ASK_USER)
    } else {
        return Progress::Refused(Reply::new(504, "5.5.4", "Mechanism not supported"));
    };
    match initial {
        // RFC 4954: a lone "=" is an initial response of no bytes.
        Some("=") => proceed(expecting, b""),
        Some(response) => proceed(expecting, response.as_bytes()),
        None => Progress::Ask(expecting, challenge),
    }
}

/// Goes on with a line of the client.
pub(crate) fn proceed(expecting: Expecting, line: &[u8]) -> Progress {
    if line == b"*" {
        return Progress::Refused(Reply::new(501, "5.7.0", "Authentication cancelled"));
    }
    let decoded = STANDARD.decode(line).ok();
    let Some(response) = decoded.and_then(|bytes| String::from_utf8(bytes).ok()) else {
        return Progress::Refused(Reply::new(501, "5.5.2", "Not base64"));
    };
    match expecting {
        Expecting::Plain => match response.splitn(3, '\0').collect::<Vec<_>>()[..] {
            [_identity, user, password] => Progress::Presented(Credentials::new(user, password)),
            _ => Progress::Refused(Reply::new(501, "5.5.2", "Not a PLAIN response")),
        },
        Expecting::LoginUser => {
            Progress::Ask(Expecting::LoginPassword { user: response }, ASK_PASSWORD)
        }
        Expecting::LoginPassword { user } => Progress::Presented(Credentials::new(user, response)),
    }
}
