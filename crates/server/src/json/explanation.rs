//! Says where JSON is wrong, and what would be right.

use serde::de::Deserialize;
use serde_json::error::Category;

use super::shape::TOO_MANY_VALUES;
use crate::problem::{Kind, Problem};

/// The longest path that is repeated to the client.
const LONGEST_PATH: usize = 200;

/// Reads the text again, with a record of the path, and explains the error.
pub(super) fn explain<'a, T: Deserialize<'a>>(
    bytes: &'a [u8],
    error: &serde_json::Error,
) -> Problem {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let path = match serde_path_to_error::deserialize::<_, T>(&mut deserializer) {
        Err(error) if error.path().iter().next().is_some() => error.path().to_string(),
        // It is the whole body, or what comes after it.
        Err(_) | Ok(_) => String::new(),
    };
    let path = path.as_str();
    let text = error.to_string();
    match error.classify() {
        Category::Data => {
            let (field, message) = finding(path, without_position(&text));
            if field.is_empty() {
                Problem::new(Kind::Invalid, format!("The body {message}."))
            } else {
                Problem::invalid(field, message)
            }
        }
        Category::Syntax | Category::Eof | Category::Io => {
            let problem = Problem::new(Kind::Malformed, format!("The body is not JSON: {text}."));
            // Of something nested without end, the name of the outermost field says enough.
            let field = if text.starts_with("recursion limit") {
                outermost(path)
            } else {
                path
            };
            if field.is_empty() {
                problem
            } else {
                problem.with_field(shortened(field), format!("is not JSON: {text}"))
            }
        }
    }
}

/// The field and what is wrong about it.
fn finding(path: &str, message: &str) -> (String, String) {
    if let Some(rest) = message.strip_prefix("unknown field `") {
        let (name, known) = rest.rsplit_once("`, expected ").unwrap_or((rest, ""));
        // The path ends in the name here, and above it for the others.
        let nameless = if name.is_empty() { "\"\"" } else { "" };
        return (shortened(path) + nameless, unknown(name, known));
    }
    let named = |prefix: &str| message.strip_prefix(prefix)?.strip_suffix('`');
    if let Some(name) = named("missing field `") {
        return (within(path, name), "is missing".to_owned());
    }
    if let Some(name) = named("duplicate field `") {
        return (within(path, name), "is given more than once".to_owned());
    }
    if message == TOO_MANY_VALUES {
        return (outermost(path).to_owned(), message.to_owned());
    }
    (shortened(path), in_words(message))
}

/// The path of a field inside of what `path` leads to.
fn within(path: &str, name: &str) -> String {
    if path.is_empty() {
        shortened(name)
    } else {
        shortened(&format!("{path}.{name}"))
    }
}

fn unknown(name: &str, expected: &str) -> String {
    let known = || expected.split('`').skip(1).step_by(2);
    let nearest = known()
        .map(|field| (strsim::damerau_levenshtein(name, field), field))
        .min()
        .filter(|(distance, field)| *distance <= 1 + field.len() / 3);
    match nearest {
        Some((_, field)) if name.len() <= LONGEST_PATH => {
            format!("is not a known field; did you mean `{field}`?")
        }
        _ => format!(
            "is not a known field; known are {}",
            known().collect::<Vec<_>>().join(", ")
        ),
    }
}

/// Serde's words for types in words for people.
fn in_words(message: &str) -> String {
    let message = message
        .replace("expected i64", "expected a whole number")
        .replace("expected u32", "expected a whole number")
        .replace("expected f64", "expected a number")
        .replace("unit value", "null");
    match message.strip_prefix("invalid type: ") {
        Some(rest) => match rest.split_once(", expected ") {
            Some((found, expected)) => {
                let found = match found {
                    "map" => "an object",
                    "sequence" => "a list",
                    other => other,
                };
                format!("must be {expected}, not {found}")
            }
            None => message,
        },
        None => message,
    }
}

fn without_position(text: &str) -> &str {
    text.rsplit_once(" at line ").map_or(text, |(text, _)| text)
}

fn outermost(path: &str) -> &str {
    path.split(['.', '[']).next().unwrap_or_default()
}

fn shortened(path: &str) -> String {
    match path.char_indices().nth(LONGEST_PATH) {
        Some((at, _)) => format!("{}…", &path[..at]),
        None => path.to_owned(),
    }
}
