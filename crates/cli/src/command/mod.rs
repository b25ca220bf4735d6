//! One file per command.

mod admin;
mod audit;
mod completions;
mod config;
mod dead;
mod demo;
mod doctor;
mod emails;
mod follow;
mod keys;
mod messages;
mod migrate;
mod operations;
mod policy;
mod send;
mod serve;
mod sink;
mod suppressions;
mod templates;
mod transports;
mod verify;

pub(crate) use self::serve::ended_by_signal;
use crate::arguments::{Arguments, Command, ServeArguments};
use crate::exit::Exit;

/// Runs the command.
pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<Exit> {
    let Arguments { global, command } = arguments;
    match command.unwrap_or_else(|| Command::Serve(ServeArguments::default())) {
        Command::Serve(arguments) => serve::run(&global, arguments).await,
        Command::Migrate => migrate::run(&global).await,
        Command::Config(command) => config::run(&global, &command),
        Command::Doctor(arguments) => doctor::run(&global, &arguments).await,
        Command::Send(arguments) => send::run(&global, *arguments).await,
        Command::Emails(command) => emails::run(&global, command).await,
        Command::Dead(command) => dead::run(&global, command).await,
        Command::Operations(command) => operations::run(&global, command).await,
        Command::Messages(command) => messages::run(&global, command).await,
        Command::Templates(command) => templates::run(&global, command).await,
        Command::Policy(command) => policy::run(&global, command),
        Command::Transports(command) => transports::run(&global, command).await,
        Command::Suppressions(command) => suppressions::run(&global, command).await,
        Command::Audit(arguments) => audit::run(&global, arguments).await,
        Command::Admin(command) => admin::run(&global, command).await,
        Command::Keys(command) => keys::run(&global, command).await,
        Command::Demo(arguments) => demo::run(&global, arguments).await,
        Command::Sink(arguments) => sink::run(&global, arguments).await,
        Command::Verify { ledger } => verify::run(&global, ledger.as_deref()).await,
        Command::Completions { shell } => Ok(completions::run(shell)),
    }
}
