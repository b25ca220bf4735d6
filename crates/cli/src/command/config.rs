//! Checks or shows the configuration.

use toml::{Table, Value};

use crate::arguments::{ConfigCommand, Global};
use crate::config::{hide_secrets, without_password};
use crate::exit::Exit;
use crate::{output, wiring};

pub(crate) fn run(global: &Global, command: &ConfigCommand) -> anyhow::Result<Exit> {
    let mut loaded = wiring::load_config(global, None)?;
    match command {
        ConfigCommand::Check => {
            let from = loaded.file.map_or_else(
                || "the defaults and the environment".to_owned(),
                |file| format!("{}, the defaults and the environment", file.display()),
            );
            output::line(&format!("The configuration is valid (from {from})."));
        }
        ConfigCommand::Show => {
            hide_secrets(&mut loaded.table);
            redact(&mut loaded.table);
            if global.json {
                output::json(&loaded.table);
            } else {
                output::line(toml::to_string(&loaded.table)?.trim_end());
            }
        }
    }
    Ok(Exit::Ok)
}

/// Takes passwords out of URLs, wherever they stand.
fn redact(table: &mut Table) {
    for value in table.iter_mut().map(|(_, value)| value) {
        match value {
            Value::Table(inner) => redact(inner),
            Value::String(text) => *text = without_password(text),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        assert_eq!(
            without_password("smtp://u:p@ss@host:25?tls=none"),
            "smtp://u:***@host:25?tls=none"
        );
        assert_eq!(without_password("smtp://host:25"), "smtp://host:25");
        assert_eq!(
            without_password("postgresql://app@host/db?user=a&Password=secret&sslmode=require"),
            "postgresql://app@host/db?user=a&Password=***&sslmode=require"
        );
        assert!(!without_password("postgresql://h/db?p%61ssword=secret").contains("secret"));
        assert!(!without_password("postgresql://u:p?ss@h/db").contains("ss@"));
        assert_eq!(without_password("sqlite:data/x.db"), "sqlite:data/x.db");
    }
}
