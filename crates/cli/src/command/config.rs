//! Checks or shows the configuration.

use crate::arguments::{ConfigCommand, Global};
use crate::exit::Exit;
use crate::{output, wiring};

pub(crate) fn run(global: &Global, command: &ConfigCommand) -> anyhow::Result<Exit> {
    let loaded = wiring::load_config(global, None)?;
    match command {
        ConfigCommand::Check => {
            let from = loaded.file.map_or_else(
                || "the defaults and the environment".to_owned(),
                |file| format!("{}, the defaults and the environment", file.display()),
            );
            output::line(&format!("The configuration is valid (from {from})."));
        }
        ConfigCommand::Show => {
            let table = loaded.without_secrets();
            if global.json {
                output::json(&table);
            } else {
                output::line(toml::to_string(&table)?.trim_end());
            }
        }
    }
    Ok(Exit::Ok)
}
