//! The threads that everything runs on, as many as suit the command.

use std::io;
use std::num::NonZero;
use std::thread::available_parallelism;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use crate::arguments::{Arguments, Command};
use crate::config::Database;
use crate::wiring;

/// For so long a thread that has nothing to do any more is kept, and its memory with it: less than it
/// takes an idle server to wake each of them in turn.
const SPARE_THREADS_LAST: Duration = Duration::from_millis(250);
/// Tokio's own variable, for those who know better.
const THREADS: &str = "TOKIO_WORKER_THREADS";

/// Starts them.
pub(crate) fn start(arguments: &Arguments) -> io::Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    builder.enable_all().thread_keep_alive(SPARE_THREADS_LAST);
    if std::env::var_os(THREADS).is_none() && serves_from_a_file(arguments) {
        let processors = available_parallelism().map_or(1, NonZero::get);
        builder.worker_threads(beside_the_writer(processors));
    }
    builder.build()
}

/// The one thread that writes to SQLite has a processor to itself: whoever shares it makes all others
/// wait for their commits (decision 0022).
fn beside_the_writer(processors: usize) -> usize {
    processors.saturating_sub(1).max(1)
}

/// Whether it is a server on SQLite. What is wrong with its configuration, the command itself tells.
fn serves_from_a_file(arguments: &Arguments) -> bool {
    let listen = match &arguments.command {
        None => None,
        Some(Command::Serve(serve)) => serve.listen,
        Some(_) => return false,
    };
    let loaded = wiring::load_config(&arguments.global, listen);
    let database = loaded.ok().map(|loaded| loaded.settings.database());
    matches!(database, Some(Ok(Database::Sqlite(_))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_always_a_thread_beside_the_writer() {
        assert_eq!([0, 1, 2, 3, 8].map(beside_the_writer), [1, 1, 1, 2, 7]);
    }
}
