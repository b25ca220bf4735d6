//! Puts defaults, file, environment and flags together.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize as _;
use toml::{Table, Value};

use super::flag::Overrides;
use super::nearest::nearest;
use super::settings::Settings;
use super::transport;
use super::well_known::WELL_KNOWN;

const DEFAULTS: &str = include_str!("../../../../config.default.toml");
const FILE: &str = "posthaste.toml";
const PREFIX: &str = "POSTHASTE_";
/// Sections whose keys are the user's own.
const OPEN_SECTIONS: [&str; 4] = ["policy", "transport", "route", "limits.domain"];
/// The one among them whose own sections have known keys.
const TRANSPORTS: &str = "transport";

/// What else starts with the prefix: flags, and what only tests and scripts use.
const NOT_OPTIONS: [&str; 5] = [
    "CLOCK_STEP",
    "CONFIG",
    "DATA_DIR",
    "FAILPOINT",
    "SERVICES_DIR",
];

/// What is wrong with the configuration, where, and how to mend it.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {message}")]
pub(crate) struct ConfigError {
    place: String,
    message: String,
}

impl ConfigError {
    pub(super) fn new(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            message: message.into(),
        }
    }
}

/// The configuration, and where it came from.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// What it says.
    pub(crate) settings: Settings,
    /// The file it was read from.
    pub(crate) file: Option<PathBuf>,
    /// Everything as a table, with its secrets.
    pub(super) table: Table,
    /// Where values are from that are no defaults: the file, a variable or a flag, by path.
    pub(super) sources: BTreeMap<String, String>,
}

/// Loads the configuration from all places.
pub(crate) fn load(
    overrides: &Overrides,
    environment: &BTreeMap<String, String>,
) -> Result<Loaded, ConfigError> {
    let defaults: Table = DEFAULTS
        .parse()
        .map_err(|error| ConfigError::new("config.default.toml", format!("{error}")))?;
    let mut table = defaults.clone();
    let mut sources = BTreeMap::new();
    let file = find_file(overrides)?;
    if let Some(path) = &file {
        let place = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|error| ConfigError::new(&place, error.to_string()))?;
        let written: Table = text
            .parse()
            .map_err(|error| ConfigError::new(&place, format!("{error}")))?;
        check_known(&place, "", &written, &defaults)?;
        sources.extend(
            paths(&written)
                .into_iter()
                .map(|path| (path, place.clone())),
        );
        merge(&mut table, written);
    }
    let mut given = from_environment(environment, &defaults)?;
    given.extend(overrides.given());
    for (path, place, value) in given {
        set(&mut table, &path, value, &place)?;
        sources.insert(path, place);
    }
    let settings = Settings::deserialize(table.clone())
        .map_err(|error| ConfigError::new("configuration", error.to_string().trim().to_owned()))?;
    settings.validate()?;
    Ok(Loaded {
        settings,
        file,
        table,
        sources,
    })
}

fn find_file(overrides: &Overrides) -> Result<Option<PathBuf>, ConfigError> {
    match &overrides.file {
        Some(path) if path.is_file() => Ok(Some(path.clone())),
        Some(path) => Err(ConfigError::new(
            "--config",
            format!("there is no file {}", path.display()),
        )),
        None => Ok(Some(PathBuf::from(FILE)).filter(|path| path.is_file())),
    }
}

/// Refuses keys that are not in the defaults, naming the one that was probably meant.
fn check_known(
    place: &str,
    section: &str,
    written: &Table,
    defaults: &Table,
) -> Result<(), ConfigError> {
    for (key, value) in written {
        let path = if section.is_empty() {
            key.clone()
        } else {
            format!("{section}.{key}")
        };
        let Some(default) = defaults.get(key) else {
            return Err(unknown(
                place,
                &path,
                key,
                defaults.keys().map(String::as_str),
            ));
        };
        match (value, default) {
            (Value::Table(inner), Value::Table(known))
                if !OPEN_SECTIONS.contains(&path.as_str()) =>
            {
                check_known(place, &path, inner, known)?;
            }
            (Value::Table(inner), Value::Table(_)) if path == TRANSPORTS => {
                check_transports(place, inner)?;
            }
            (Value::Table(_), Value::Table(_)) => {}
            (value, default) if !same_kind(value, default) => {
                let message = format!("`{path}` must be {}, not {}", kind(default), kind(value));
                return Err(ConfigError::new(place, message));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The same for each transport.
fn check_transports(place: &str, written: &Table) -> Result<(), ConfigError> {
    for (name, transport) in written {
        let path = format!("{TRANSPORTS}.{name}");
        let Value::Table(inner) = transport else {
            let message = format!("`{path}` must be a section, not {}", kind(transport));
            return Err(ConfigError::new(place, message));
        };
        // Headers are the user's own.
        let mut inner = inner.clone();
        inner.remove("headers");
        check_known(place, &path, &inner, &transport::keys())?;
    }
    Ok(())
}

fn unknown<'a>(
    place: &str,
    path: &str,
    key: &str,
    known: impl Iterator<Item = &'a str>,
) -> ConfigError {
    let hint = match nearest(key, known) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "config.default.toml lists every option".to_owned(),
    };
    ConfigError::new(place, format!("unknown option `{path}`; {hint}"))
}

/// A variable that is meant for us, but names no option.
fn no_such_variable(variable: &str, name: &str) -> ConfigError {
    let bare = name.strip_suffix("_FILE").unwrap_or(name);
    let message = if WELL_KNOWN.iter().any(|(known, ..)| *known == bare) {
        format!("this name works without the prefix: set {name}")
    } else {
        "is no option: write POSTHASTE_<SECTION>__<KEY>, with two underscores between".to_owned()
    };
    ConfigError::new(variable, message)
}

/// Whether a value is of the kind of another. A whole number is a number, too.
fn same_kind(value: &Value, known: &Value) -> bool {
    std::mem::discriminant(value) == std::mem::discriminant(known)
        || matches!((value, known), (Value::Integer(_), Value::Float(_)))
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "a text in quotes",
        Value::Integer(_) => "a whole number",
        Value::Float(_) => "a number",
        Value::Boolean(_) => "true or false",
        Value::Array(_) => "a list",
        Value::Table(_) => "a section",
        Value::Datetime(_) => "a time",
    }
}

fn merge(into: &mut Table, from: Table) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Value::Table(inner)), Value::Table(value)) => merge(inner, value),
            (_, value) => {
                into.insert(key, value);
            }
        }
    }
}

/// Everything the environment says: the option's path, the variable, the value.
fn from_environment(
    environment: &BTreeMap<String, String>,
    defaults: &Table,
) -> Result<Vec<(String, String, Value)>, ConfigError> {
    let mut found = Vec::new();
    for (variable, path, shape) in WELL_KNOWN {
        if let Some((place, text)) = variable_or_file(environment, variable)? {
            let text = shape
                .written(&text)
                .map_err(|message| ConfigError::new(&place, message))?;
            found.push((
                path.to_owned(),
                place.clone(),
                typed(&place, &text, lookup(defaults, path))?,
            ));
        }
    }
    for variable in environment.keys() {
        let Some(name) = variable.strip_prefix(PREFIX) else {
            continue;
        };
        if NOT_OPTIONS.contains(&name) {
            continue;
        }
        if !name.contains("__") {
            return Err(no_such_variable(variable, name));
        }
        let path = name
            .strip_suffix("_FILE")
            .unwrap_or(name)
            .to_lowercase()
            .replace("__", ".");
        let of_transport = transport_key(variable, &path)?;
        let default = of_transport.as_ref().or_else(|| lookup(defaults, &path));
        let open = OPEN_SECTIONS
            .iter()
            .any(|section| path.starts_with(&format!("{section}.")));
        if default.is_none() && !open {
            let all = paths(defaults);
            let known = all.iter().map(String::as_str);
            return Err(unknown(variable, &path, &path, known));
        }
        let base = variable.strip_suffix("_FILE").unwrap_or(variable);
        if let Some((place, text)) = variable_or_file(environment, base)? {
            found.push((path, place.clone(), typed(&place, &text, default)?));
        }
    }
    Ok(found)
}

/// The kind of a key of a transport, if it is one.
fn transport_key(variable: &str, path: &str) -> Result<Option<Value>, ConfigError> {
    let key = path
        .strip_prefix("transport.")
        .and_then(|rest| rest.split_once('.'));
    let Some((_, key)) = key.filter(|(_, key)| !key.starts_with("headers.")) else {
        return Ok(None);
    };
    let keys = transport::keys();
    match keys.get(key) {
        Some(known) => Ok(Some(known.clone())),
        None => Err(unknown(
            variable,
            path,
            key,
            keys.keys().map(String::as_str),
        )),
    }
}

/// The variable's value, or the content of the file that its `_FILE` twin names.
fn variable_or_file(
    environment: &BTreeMap<String, String>,
    variable: &str,
) -> Result<Option<(String, String)>, ConfigError> {
    if let Some(text) = environment.get(variable) {
        return Ok(Some((variable.to_owned(), text.clone())));
    }
    let twin = format!("{variable}_FILE");
    let Some(path) = environment.get(&twin) else {
        return Ok(None);
    };
    let text = std::fs::read_to_string(Path::new(path))
        .map_err(|error| ConfigError::new(&twin, format!("{path} cannot be read: {error}")))?;
    Ok(Some((twin, text.trim_end().to_owned())))
}

/// Reads a variable's text as the kind of value that its option has.
fn typed(place: &str, text: &str, default: Option<&Value>) -> Result<Value, ConfigError> {
    let invalid =
        |default: &Value| ConfigError::new(place, format!("`{text}` is not {}", kind(default)));
    match default {
        Some(default @ Value::Integer(_)) => text
            .trim()
            .parse()
            .map(Value::Integer)
            .map_err(|_| invalid(default)),
        Some(default @ Value::Float(_)) => text
            .trim()
            .parse()
            .map(Value::Float)
            .map_err(|_| invalid(default)),
        Some(default @ Value::Boolean(_)) => text
            .trim()
            .parse()
            .map(Value::Boolean)
            .map_err(|_| invalid(default)),
        Some(Value::Array(_)) if !text.trim_start().starts_with('[') => {
            let entries = text.split(',').map(str::trim);
            Ok(Value::Array(
                entries
                    .map(|entry| Value::String(entry.to_owned()))
                    .collect(),
            ))
        }
        Some(Value::String(_)) => Ok(Value::String(text.to_owned())),
        // A list in TOML, or a value of one of the user's own sections.
        _ => {
            let parsed = format!("value = {text}")
                .parse::<Table>()
                .ok()
                .and_then(|mut table| table.remove("value"));
            Ok(parsed.unwrap_or_else(|| Value::String(text.to_owned())))
        }
    }
}

fn lookup<'a>(table: &'a Table, path: &str) -> Option<&'a Value> {
    match path.split_once('.') {
        None => table.get(path),
        Some((section, rest)) => lookup(table.get(section)?.as_table()?, rest),
    }
}

fn paths(table: &Table) -> Vec<String> {
    let of = |(key, value): (&String, &Value)| match value {
        Value::Table(section) => paths(section)
            .into_iter()
            .map(|inner| format!("{key}.{inner}"))
            .collect(),
        _ => vec![key.clone()],
    };
    table.iter().flat_map(of).collect()
}

fn set(table: &mut Table, path: &str, value: Value, place: &str) -> Result<(), ConfigError> {
    let mut keys: Vec<&str> = path.split('.').collect();
    let last = keys.pop().unwrap_or_default();
    let mut inner = table;
    for key in keys {
        inner = inner
            .entry(key)
            .or_insert_with(|| Value::Table(Table::new()))
            .as_table_mut()
            .ok_or_else(|| {
                ConfigError::new(
                    place,
                    format!("`{path}` is inside something that is no section"),
                )
            })?;
    }
    inner.insert(last.to_owned(), value);
    Ok(())
}

#[cfg(test)]
mod tests;
