//! Filters for numbers.

use super::Fault;
use super::filter::{Arguments, Made};
use super::meter::Meter;
use super::value::Value;
use super::write;

/// More places than any number has a use for.
const MOST_PLACES: usize = 15;

fn number(value: &Value<'_>) -> Result<f64, Fault> {
    value
        .as_float()
        .ok_or_else(|| Fault::Wrong(format!("needs a number, not {}", value.kind())))
}

fn places(arguments: &Arguments<'_>, usual: usize) -> Result<usize, Fault> {
    Ok(arguments.count(0, usual)?.min(MOST_PLACES))
}

/// Rounds to so many places.
pub(super) fn round<'v>(value: Value<'v>, arguments: &Arguments<'v>, _: &mut Meter) -> Made<'v> {
    if value.as_integer().is_some() {
        return Ok(value);
    }
    let places = i32::try_from(places(arguments, 0)?).unwrap_or(0);
    let (number, factor) = (number(&value)?, 10_f64.powi(places));
    let rounded = (number * factor).round() / factor;
    Ok(Value::Float(if rounded.is_finite() {
        rounded
    } else {
        number
    }))
}

/// Writes a number with so many places, as prices are.
pub(super) fn fixed<'v>(value: Value<'v>, arguments: &Arguments<'v>, meter: &mut Meter) -> Made<'v> {
    let (number, places) = (number(&value)?, places(arguments, 2)?);
    let text = format!("{number:.places$}");
    meter.octets(text.len())?;
    Ok(Value::made(text))
}

pub(super) fn abs<'v>(value: Value<'v>, _: &Arguments<'v>, _: &mut Meter) -> Made<'v> {
    Ok(match value {
        Value::Integer(number) => Value::Integer(number.saturating_abs()),
        value => Value::Float(number(&value)?.abs()),
    })
}

/// A whole number, of a text if need be.
#[allow(clippy::cast_possible_truncation, reason = "that is what it is for")]
pub(super) fn int<'v>(value: Value<'v>, _: &Arguments<'v>, meter: &mut Meter) -> Made<'v> {
    Ok(match parsed(&value, meter)? {
        Value::Float(number) => Value::Integer(number.trunc() as i128),
        whole => whole,
    })
}

/// A number, of a text if need be.
pub(super) fn float<'v>(value: Value<'v>, _: &Arguments<'v>, meter: &mut Meter) -> Made<'v> {
    Ok(Value::Float(number(&parsed(&value, meter)?)?))
}

fn parsed<'v>(value: &Value<'v>, meter: &mut Meter) -> Made<'v> {
    if let Value::Bool(yes) = value {
        return Ok(Value::Integer(i128::from(*yes)));
    }
    if value.as_float().is_some() {
        return Ok(value.clone());
    }
    let text = write::text_of(value, meter)?;
    meter.octets(text.as_str().len())?;
    let text = text.as_str().trim();
    if let Ok(whole) = text.parse() {
        return Ok(Value::Integer(whole));
    }
    let number = text.parse().ok().filter(|number: &f64| number.is_finite());
    number.map(Value::Float).ok_or_else(|| {
        Fault::Wrong(format!("needs a number, or a text that is one, not {}", value.kind()))
    })
}
