//! Turns values into text.

use super::Fault;
use super::meter::Meter;
use super::value::{Text, Value};
use serde_json::Value as Json;

/// Adds a value to a text, as a reader is to see it: nothing for null, JSON for lists and objects.
pub(super) fn append(
    text: &mut String,
    value: &Value<'_>,
    meter: &mut Meter,
) -> Result<(), Fault> {
    match value {
        Value::Null => Ok(()),
        Value::Missing(path) => Err(Fault::Missing(path.clone())),
        Value::Bool(true) => add(text, "True", meter),
        Value::Bool(false) => add(text, "False", meter),
        Value::Integer(number) => add(text, &number.to_string(), meter),
        Value::Float(number) => add(text, &float(*number), meter),
        Value::Text(piece) | Value::Markup(piece) => add(text, piece.as_str(), meter),
        Value::Array(_) | Value::Object(_) | Value::List(_) => append_json(text, value, meter),
    }
}

/// A value as text.
pub(super) fn text_of<'v>(value: &Value<'v>, meter: &mut Meter) -> Result<Text<'v>, Fault> {
    if let Some(text) = value.as_text() {
        return Ok(text.clone());
    }
    let mut text = String::new();
    append(&mut text, value, meter)?;
    Ok(Text::Made(text.into()))
}

/// Adds a value to a text, as JSON.
pub(super) fn append_json(
    text: &mut String,
    value: &Value<'_>,
    meter: &mut Meter,
) -> Result<(), Fault> {
    meter.step()?;
    match value {
        Value::Null => add(text, "null", meter),
        Value::Missing(path) => Err(Fault::Missing(path.clone())),
        Value::Bool(yes) => add(text, if *yes { "true" } else { "false" }, meter),
        Value::Integer(_) | Value::Float(_) => append(text, value, meter),
        Value::Text(piece) | Value::Markup(piece) => quote(text, piece.as_str(), meter),
        Value::Array(_) | Value::List(_) => {
            text.push('[');
            for (index, value) in value.values().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                append_json(text, &value, meter)?;
            }
            text.push(']');
            Ok(())
        }
        Value::Object(entries) => {
            text.push('{');
            for (index, (key, value)) in entries.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                quote(text, key, meter)?;
                text.push(':');
                append_json(text, &Value::of(value), meter)?;
            }
            text.push('}');
            Ok(())
        }
    }
}

/// Adds a text, escaped for HTML, as long as the whole is not larger than this.
pub(super) fn append_escaped(text: &mut String, piece: &str, most: usize) -> Result<(), Fault> {
    let mut rest = piece;
    while let Some(at) = rest.find(['&', '<', '>', '"', '\'']) {
        let (before, from) = rest.split_at(at);
        let escaped = match from.as_bytes()[0] {
            b'&' => "&amp;",
            b'<' => "&lt;",
            b'>' => "&gt;",
            b'"' => "&quot;",
            _ => "&#x27;",
        };
        if text.len() + before.len() + escaped.len() > most {
            return Err(Fault::TooLarge);
        }
        text.push_str(before);
        text.push_str(escaped);
        rest = &from[1..];
    }
    if text.len() + rest.len() > most {
        return Err(Fault::TooLarge);
    }
    text.push_str(rest);
    Ok(())
}

/// Adds a text that is paid for first.
pub(super) fn add(text: &mut String, piece: &str, meter: &mut Meter) -> Result<(), Fault> {
    meter.octets(piece.len())?;
    text.push_str(piece);
    Ok(())
}

fn quote(text: &mut String, piece: &str, meter: &mut Meter) -> Result<(), Fault> {
    let length = |byte| match byte {
        0..0x20 => 6,
        b'"' | b'\\' => 2,
        _ => 1,
    };
    meter.octets(piece.bytes().map(length).sum())?;
    text.push_str(&Json::from(piece).to_string());
    Ok(())
}

/// A number that is told from a whole one.
fn float(number: f64) -> String {
    format!("{number:?}")
}
