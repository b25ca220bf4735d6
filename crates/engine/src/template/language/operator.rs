//! Compares values and calculates with them.

use std::cmp::Ordering;

use super::Fault;
use super::meter::Meter;
use super::tree::{Comparison, Operator};
use super::value::Value;
use super::write;

/// Whether a comparison of two values holds.
pub(super) fn holds(
    comparison: Comparison,
    left: &Value<'_>,
    right: &Value<'_>,
    meter: &mut Meter,
) -> Result<bool, Fault> {
    let order = |meter: &mut Meter| {
        pay_for_texts(left, right, meter)?;
        compare(left, right)
    };
    Ok(match comparison {
        Comparison::Equal => equal(left, right, meter)?,
        Comparison::NotEqual => !equal(left, right, meter)?,
        Comparison::Less => order(meter)?.is_lt(),
        Comparison::LessOrEqual => order(meter)?.is_le(),
        Comparison::Greater => order(meter)?.is_gt(),
        Comparison::GreaterOrEqual => order(meter)?.is_ge(),
        Comparison::In => contains(right, left, meter)?,
        Comparison::NotIn => !contains(right, left, meter)?,
    })
}

/// Which of two numbers or texts comes first.
pub(super) fn compare(one: &Value<'_>, other: &Value<'_>) -> Result<Ordering, Fault> {
    if let (Some(one), Some(other)) = (one.as_text(), other.as_text()) {
        return Ok(one.as_str().cmp(other.as_str()));
    }
    if let (Some(one), Some(other)) = (one.as_integer(), other.as_integer()) {
        return Ok(one.cmp(&other));
    }
    match (one.as_float(), other.as_float()) {
        (Some(one), Some(other)) => Ok(one.total_cmp(&other)),
        _ => Err(Fault::Wrong(format!(
            "cannot compare {} with {}",
            one.kind(),
            other.kind()
        ))),
    }
}

fn equal(one: &Value<'_>, other: &Value<'_>, meter: &mut Meter) -> Result<bool, Fault> {
    meter.step()?;
    pay_for_texts(one, other, meter)?;
    Ok(match (one, other) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(one), Value::Bool(other)) => one == other,
        (Value::Object(one), Value::Object(other)) => {
            if one.len() != other.len() {
                return Ok(false);
            }
            for (key, value) in *one {
                let Some(found) = other.get(key) else {
                    return Ok(false);
                };
                if !equal(&Value::of(value), &Value::of(found), meter)? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Array(_) | Value::List(_), Value::Array(_) | Value::List(_)) => {
            if one.len() != other.len() {
                return Ok(false);
            }
            for (one, other) in one.values().zip(other.values()) {
                if !equal(&one, &other, meter)? {
                    return Ok(false);
                }
            }
            true
        }
        _ => compare(one, other).is_ok_and(Ordering::is_eq),
    })
}

/// Whether a text has this in it, a list this value, or an object this key.
fn contains(whole: &Value<'_>, part: &Value<'_>, meter: &mut Meter) -> Result<bool, Fault> {
    if let Some(text) = whole.as_text() {
        let part = write::text_of(part, meter)?;
        let length = text.as_str().len().saturating_add(part.as_str().len());
        meter.octets(length)?;
        return Ok(text.as_str().contains(part.as_str()));
    }
    if let Value::Object(entries) = whole {
        let key = write::text_of(part, meter)?;
        meter.octets(key.as_str().len())?;
        return Ok(entries.contains_key(key.as_str()));
    }
    for value in whole.clone().into_list(meter)?.values() {
        if equal(&value, part, meter)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn pay_for_texts(
    one: &Value<'_>,
    other: &Value<'_>,
    meter: &mut Meter,
) -> Result<(), Fault> {
    match (one.as_text(), other.as_text()) {
        (Some(one), Some(other)) => meter.octets(one.as_str().len().min(other.as_str().len())),
        _ => Ok(()),
    }
}

/// Calculates with two numbers. A sum of texts is one text.
pub(super) fn calculate<'v>(
    left: &Value<'v>,
    operator: Operator,
    right: &Value<'v>,
    meter: &mut Meter,
) -> Result<Value<'v>, Fault> {
    if let (Operator::Plus, Some(_), Some(_)) = (operator, left.as_text(), right.as_text()) {
        let mut text = String::new();
        write::append(&mut text, left, meter)?;
        write::append(&mut text, right, meter)?;
        return Ok(Value::made(text));
    }
    arithmetic(left, operator, right)
}

/// Calculates with two numbers.
pub(super) fn arithmetic<'v>(
    left: &Value<'v>,
    operator: Operator,
    right: &Value<'v>,
) -> Result<Value<'v>, Fault> {
    if let (Some(left), Some(right)) = (left.as_integer(), right.as_integer())
        && !matches!(operator, Operator::Divided)
    {
        let result = match operator {
            Operator::Plus => left.checked_add(right),
            Operator::Minus => left.checked_sub(right),
            Operator::Times => left.checked_mul(right),
            Operator::Floored => floored(left, right).map(|(quotient, _)| quotient),
            Operator::Remainder | Operator::Divided => floored(left, right).map(|(_, rest)| rest),
        };
        let message = || Fault::Wrong("divides by zero, or the result is too large".into());
        return result.map(Value::Integer).ok_or_else(message);
    }
    let (Some(one), Some(other)) = (left.as_float(), right.as_float()) else {
        return Err(Fault::Wrong(format!(
            "cannot calculate with {} and {}",
            left.kind(),
            right.kind()
        )));
    };
    let result = match operator {
        Operator::Plus => one + other,
        Operator::Minus => one - other,
        Operator::Times => one * other,
        Operator::Divided => one / other,
        Operator::Floored => (one / other).floor(),
        Operator::Remainder => one - other * (one / other).floor(),
    };
    if !result.is_finite() {
        let message = "divides by zero, or the result is too large";
        return Err(Fault::Wrong(message.into()));
    }
    Ok(Value::Float(result))
}

/// A quotient that is rounded down, and what remains.
fn floored(left: i128, right: i128) -> Option<(i128, i128)> {
    let (quotient, rest) = (left.checked_div(right)?, left.checked_rem(right)?);
    if rest != 0 && (rest < 0) != (right < 0) {
        return Some((quotient - 1, rest + right));
    }
    Some((quotient, rest))
}
