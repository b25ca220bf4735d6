//! What templates can do with values: filters and tests that make little out of little. Each is named
//! here; what the engine has besides is not there.

use minijinja::value::Value;
use minijinja::{Environment, Error, ErrorKind, filters, tests};

use super::part::{LARGEST_OUTPUT_BYTES, write_value};

/// The most that a filter may make of a value.
const LARGEST_VALUE_BYTES: usize = 1024 * 1024;

/// Gives an environment without anything what templates can call.
pub(super) fn add_all(environment: &mut Environment<'_>) {
    for name in ["escape", "e"] {
        environment.add_filter(name, filters::escape);
    }
    for name in ["default", "d"] {
        environment.add_filter(name, filters::default);
    }
    for name in ["length", "count"] {
        environment.add_filter(name, filters::length);
    }
    environment.add_filter("abs", filters::abs);
    environment.add_filter("capitalize", filters::capitalize);
    environment.add_filter("dictsort", filters::dictsort);
    environment.add_filter("first", filters::first);
    environment.add_filter("float", filters::float);
    environment.add_filter("int", filters::int);
    environment.add_filter("items", filters::items);
    environment.add_filter("last", filters::last);
    environment.add_filter("lower", filters::lower);
    environment.add_filter("max", filters::max);
    environment.add_filter("min", filters::min);
    environment.add_filter("round", filters::round);
    environment.add_filter("safe", filters::safe);
    environment.add_filter("title", filters::title);
    environment.add_filter("trim", filters::trim);
    environment.add_filter("upper", filters::upper);
    environment.add_filter("urlencode", filters::urlencode);
    environment.add_filter("join", join);
    environment.add_filter("replace", replace);
    environment.add_filter("times", times);
    environment.add_filter("tojson", tojson);
    environment.add_filter("truncate", truncate);

    environment.add_test("defined", tests::is_defined);
    environment.add_test("undefined", tests::is_undefined);
    environment.add_test("none", tests::is_none);
    environment.add_test("odd", tests::is_odd);
    environment.add_test("even", tests::is_even);
    environment.add_test("number", tests::is_number);
    environment.add_test("string", tests::is_string);
    environment.add_test("sequence", tests::is_sequence);
    environment.add_test("mapping", tests::is_mapping);
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

/// A number so many times. Texts are not repeated.
fn times(one: Value, other: Value) -> Result<Value, Error> {
    let not_numbers = || Error::new(ErrorKind::InvalidOperation, "times() takes two numbers");
    if let (Some(one), Some(other)) = (one.as_i64(), other.as_i64())
        && let Some(product) = one.checked_mul(other)
    {
        return Ok(product.into());
    }
    let number = |value: &Value| f64::try_from(value.clone()).map_err(|_| not_numbers());
    Ok((number(&one)? * number(&other)?).into())
}

/// A value as JSON that can stand in HTML.
fn tojson(value: Value) -> Result<Value, Error> {
    let failed =
        |error| Error::new(ErrorKind::BadSerialization, "cannot be JSON").with_source(error);
    let json = serde_json::to_string(&value).map_err(failed)?;
    within_limits(json.len())?;
    let mut safe = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' => safe.push_str("\\u003c"),
            '>' => safe.push_str("\\u003e"),
            '&' => safe.push_str("\\u0026"),
            '\'' => safe.push_str("\\u0027"),
            c => safe.push(c),
        }
    }
    Ok(Value::from_safe_string(safe))
}

/// The beginning of a text, with a sign that more would follow.
fn truncate(text: String, length: Option<usize>) -> String {
    let length = length.unwrap_or(255);
    match text.char_indices().nth(length) {
        Some((at, _)) => format!("{}…", text[..at].trim_end()),
        None => text,
    }
}

fn within_limits(bytes: usize) -> Result<(), Error> {
    if bytes > LARGEST_VALUE_BYTES {
        return Err(ErrorKind::WriteFailure.into());
    }
    Ok(())
}
