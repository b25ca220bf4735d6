//! `posthaste`: one binary for everything.

mod arguments;
mod command;
mod config;
mod data_dir;
mod exit;
mod logging;
mod output;
mod password;
mod runtime;
mod serving;
mod user;
mod view;
mod wiring;

use clap::Parser as _;

use crate::arguments::Arguments;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> std::process::ExitCode {
    let arguments = Arguments::parse();
    let runtime = match runtime::start(&arguments) {
        Ok(runtime) => runtime,
        Err(error) => return exit::report(&error.into()),
    };
    match runtime.block_on(command::run(arguments)) {
        Ok(exit) => exit.into(),
        Err(error) => exit::report(&error),
    }
}
