//! What templates can do with values: minijinja's own filters but for those that show the inside of
//! the machine, or make much out of little.

use minijinja::value::Value;
use minijinja::{Environment, Error, ErrorKind};

use super::part::{LARGEST_OUTPUT_BYTES, write_value};

/// Filters that an email has no use for.
const LEFT_OUT: [&str; 5] = ["chain", "format", "indent", "pprint", "zip"];

/// Chooses what templates can call.
pub(super) fn choose(environment: &mut Environment<'_>) {
    for name in LEFT_OUT {
        environment.remove_filter(name);
    }
    // `debug` shows everything there is, `namespace` lets loops build up text without end.
    for name in ["debug", "namespace"] {
        environment.remove_global(name);
    }
    environment.add_filter("join", join);
    environment.add_filter("replace", replace);
    environment.set_formatter(write_value);
}

/// What is said about a part that does not come to an end.
pub(super) fn too_large() -> String {
    format!(
        "comes to more than {} MiB; shorten its loops, or the lists they go over",
        LARGEST_OUTPUT_BYTES / 1024 / 1024
    )
}

/// The values of a list in one text.
fn join(list: Value, between: Option<String>) -> Result<String, Error> {
    if list.is_undefined() {
        return Err(ErrorKind::UndefinedError.into());
    }
    let between = between.unwrap_or_default();
    let mut text = String::new();
    for (index, value) in list.try_iter()?.enumerate() {
        if index > 0 {
            text.push_str(&between);
        }
        match value.as_str() {
            Some(piece) => text.push_str(piece),
            None => text.push_str(&value.to_string()),
        }
        within_limits(text.len())?;
    }
    Ok(text)
}

/// Puts one text in the place of another.
fn replace(text: String, from: String, to: String) -> Result<String, Error> {
    let found = text.matches(&from).count();
    within_limits(text.len().saturating_add(found.saturating_mul(to.len())))?;
    Ok(text.replace(&from, &to))
}

fn within_limits(bytes: usize) -> Result<(), Error> {
    if bytes > LARGEST_OUTPUT_BYTES {
        return Err(ErrorKind::WriteFailure.into());
    }
    Ok(())
}
