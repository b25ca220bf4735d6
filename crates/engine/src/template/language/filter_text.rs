//! Filters for texts.

use super::filter::{Arguments, Made};
use super::meter::Meter;
use super::value::{Text, Value};
use super::{LARGEST_OUTPUT_BYTES, write};

/// What a character can become at most, when its case changes or it is encoded.
const GROWTH: usize = 3;

/// Makes a text of another, which may grow.
fn remade<'v>(
    value: &Value<'v>,
    meter: &mut Meter,
    make: impl FnOnce(&str) -> String,
) -> Made<'v> {
    let text = write::text_of(value, meter)?;
    meter.octets(text.as_str().len().saturating_mul(GROWTH))?;
    Ok(Value::made(make(text.as_str())))
}

pub(super) fn upper<'v>(value: Value<'v>, _: &Arguments<'v>, meter: &mut Meter) -> Made<'v> {
    remade(&value, meter, str::to_uppercase)
}

pub(super) fn lower<'v>(value: Value<'v>, _: &Arguments<'v>, meter: &mut Meter) -> Made<'v> {
    remade(&value, meter, str::to_lowercase)
}

/// Every word with a capital.
pub(super) fn title<'v>(value: Value<'v>, _: &Arguments<'v>, meter: &mut Meter) -> Made<'v> {
    remade(&value, meter, |text| {
        let mut begins = true;
        let mut titled = String::with_capacity(text.len());
        for character in text.chars() {
            if begins {
                titled.extend(character.to_uppercase());
            } else {
                titled.extend(character.to_lowercase());
            }
            begins = !character.is_alphanumeric() && character != '\'';
        }
        titled
    })
}

/// The first letter as a capital, the others small.
pub(super) fn capitalize<'v>(value: Value<'v>, _: &Arguments<'v>, meter: &mut Meter) -> Made<'v> {
    remade(&value, meter, |text| {
        let mut characters = text.chars();
        let first = characters.next().into_iter().flat_map(char::to_uppercase);
        first.chain(characters.flat_map(char::to_lowercase)).collect()
    })
}

pub(super) fn trim<'v>(value: Value<'v>, _: &Arguments<'v>, meter: &mut Meter) -> Made<'v> {
    let text = write::text_of(&value, meter)?;
    meter.octets(text.as_str().len())?;
    Ok(match text {
        Text::Found(text) => Value::Text(Text::Found(text.trim())),
        Text::Made(text) => Value::made(text.trim().to_owned()),
    })
}

/// Puts one text in the place of another.
pub(super) fn replace<'v>(
    value: Value<'v>,
    arguments: &Arguments<'v>,
    meter: &mut Meter,
) -> Made<'v> {
    let text = write::text_of(&value, meter)?;
    let (Some(old), Some(new)) = (arguments.text(0, meter)?, arguments.text(1, meter)?) else {
        return Ok(value);
    };
    let (text, old, new) = (text.as_str(), old.as_str(), new.as_str());
    meter.octets(text.len().saturating_mul(2).saturating_add(old.len()))?;
    let found = text.matches(old).count();
    meter.octets(found.saturating_mul(new.len()))?;
    Ok(Value::made(text.replace(old, new)))
}

/// The beginning of a text that is too long.
pub(super) fn truncate<'v>(
    value: Value<'v>,
    arguments: &Arguments<'v>,
    meter: &mut Meter,
) -> Made<'v> {
    let most = arguments.count(0, 255)?;
    let end = arguments.text(1, meter)?.unwrap_or(Text::Found("…"));
    let text = write::text_of(&value, meter)?;
    let length = text.as_str().len().saturating_add(end.as_str().len());
    meter.octets(length)?;
    if text.as_str().chars().nth(most).is_none() {
        return Ok(Value::Text(text));
    }
    let kept = most.saturating_sub(end.as_str().chars().count());
    let mut short: String = text.as_str().chars().take(kept).collect();
    short.truncate(short.trim_end().len());
    short.push_str(end.as_str());
    Ok(Value::made(short))
}

/// A text as a part of a web address.
pub(super) fn urlencode<'v>(value: Value<'v>, _: &Arguments<'v>, meter: &mut Meter) -> Made<'v> {
    use std::fmt::Write as _;
    remade(&value, meter, |text| {
        let mut encoded = String::with_capacity(text.len());
        for byte in text.bytes() {
            if byte.is_ascii_alphanumeric() || b"-_.~/".contains(&byte) {
                encoded.push(char::from(byte));
            } else {
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
        encoded
    })
}

/// Escapes a text for HTML, once.
pub(super) fn escape<'v>(value: Value<'v>, _: &Arguments<'v>, meter: &mut Meter) -> Made<'v> {
    if matches!(value, Value::Markup(_)) {
        return Ok(value);
    }
    let text = write::text_of(&value, meter)?;
    meter.octets(text.as_str().len())?;
    let mut escaped = String::new();
    write::append_escaped(&mut escaped, text.as_str(), LARGEST_OUTPUT_BYTES)?;
    meter.octets(escaped.len())?;
    Ok(Value::Markup(Text::Made(escaped.into())))
}

/// Says that a text is HTML that can be trusted.
pub(super) fn safe<'v>(value: Value<'v>, _: &Arguments<'v>, meter: &mut Meter) -> Made<'v> {
    Ok(Value::Markup(write::text_of(&value, meter)?))
}

pub(super) fn string<'v>(value: Value<'v>, _: &Arguments<'v>, meter: &mut Meter) -> Made<'v> {
    Ok(Value::Text(write::text_of(&value, meter)?))
}

/// A value as JSON, in a form that cannot end a script or an attribute.
pub(super) fn tojson<'v>(value: Value<'v>, _: &Arguments<'v>, meter: &mut Meter) -> Made<'v> {
    let mut text = String::new();
    write::append_json(&mut text, &value, meter)?;
    for (character, harmless) in [
        ('<', "\\u003c"),
        ('>', "\\u003e"),
        ('&', "\\u0026"),
        ('\'', "\\u0027"),
    ] {
        let found = text.matches(character).count();
        meter.octets(found.saturating_mul(harmless.len()).saturating_add(text.len()))?;
        text = text.replace(character, harmless);
    }
    Ok(Value::Markup(Text::Made(text.into())))
}
