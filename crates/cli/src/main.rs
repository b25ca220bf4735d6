//! `posthaste`: one binary for everything.

mod arguments;
mod command;
mod config;
mod data_dir;
mod exit;
mod logging;
mod output;
mod password;
mod serving;
mod user;
mod view;
mod wiring;

use clap::Parser as _;

use crate::arguments::Arguments;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// For so long a thread that has nothing to do any more is kept, and its memory with it: less than it
/// takes an idle server to wake each of them in turn.
const SPARE_THREADS_LAST: std::time::Duration = std::time::Duration::from_millis(250);

fn main() -> std::process::ExitCode {
    let arguments = Arguments::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_keep_alive(SPARE_THREADS_LAST)
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return exit::report(&error.into()),
    };
    match runtime.block_on(command::run(arguments)) {
        Ok(exit) => exit.into(),
        Err(error) => exit::report(&error),
    }
}
