//! From a host's name to an open TCP connection.

use std::io;
use std::net::SocketAddr;

use posthaste_core::attempt::{Cause, Failure, Stage};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use super::config::SmtpConfig;

/// More addresses than this are not tried: each may take the whole timeout.
const MOST_ADDRESSES: usize = 8;

/// Connects to the first of the host's addresses that answers.
pub(super) async fn dial(config: &SmtpConfig) -> Result<TcpStream, Failure> {
    let mut last = Cause::LookupFailed(format!("{} has no address", config.host));
    let mut stage = Stage::Resolve;
    for address in resolve(config).await?.into_iter().take(MOST_ADDRESSES) {
        stage = Stage::Connect;
        last = match timeout(config.timeouts.connect, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                // Small writes must leave at once. Without it, it is slower but works.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(error)) => cause_of_connect(address, &error),
            Err(_) => Cause::Timeout,
        };
    }
    Err(Failure::new(stage, last))
}

async fn resolve(config: &SmtpConfig) -> Result<Vec<SocketAddr>, Failure> {
    let lookup = lookup_host((config.host.as_str(), config.port));
    let cause = match timeout(config.timeouts.connect, lookup).await {
        Ok(Ok(addresses)) => return Ok(addresses.collect()),
        Ok(Err(error)) => Cause::LookupFailed(format!("{}: {error}", config.host)),
        Err(_) => Cause::Timeout,
    };
    Err(Failure::new(Stage::Resolve, cause))
}

fn cause_of_connect(address: SocketAddr, error: &io::Error) -> Cause {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Cause::Refused,
        io::ErrorKind::TimedOut => Cause::Timeout,
        io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted => Cause::Disconnected,
        _ => Cause::Io(format!("cannot connect to {address}: {error}")),
    }
}
