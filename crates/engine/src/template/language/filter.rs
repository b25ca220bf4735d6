//! What can be done with values: filters, and those for lists.

use super::Fault;
use super::filter_number as number;
use super::filter_text as text;
use super::meter::Meter;
use super::operator::{arithmetic, compare};
use super::tree::Operator;
use super::value::{Text, Value};
use super::write;

/// A filter.
pub(super) struct Filter {
    name: &'static str,
    /// What its arguments are called.
    pub(super) parameters: &'static [&'static str],
    /// How many of them it needs.
    pub(super) required: usize,
    run: Run,
}

/// What is done with a value. It is paid for before it is done.
type Run = for<'v> fn(Value<'v>, &Arguments<'v>, &mut Meter) -> Made<'v>;

/// What becomes of a value.
pub(super) type Made<'v> = Result<Value<'v>, Fault>;

/// The arguments in the order of the parameters.
pub(super) struct Arguments<'v>(pub(super) Vec<Option<Value<'v>>>);

impl<'v> Arguments<'v> {
    pub(super) fn get(&self, place: usize) -> Option<&Value<'v>> {
        self.0.get(place).and_then(Option::as_ref)
    }

    /// A text.
    pub(super) fn text(&self, place: usize, meter: &mut Meter) -> Result<Option<Text<'v>>, Fault> {
        let value = self.get(place);
        value.map(|value| write::text_of(value, meter)).transpose()
    }

    /// A count.
    pub(super) fn count(&self, place: usize, usual: usize) -> Result<usize, Fault> {
        let Some(value) = self.get(place) else {
            return Ok(usual);
        };
        let count = value.as_integer().and_then(|count| count.try_into().ok());
        count.ok_or_else(|| Fault::Wrong("needs a whole number that is not negative".into()))
    }
}

macro_rules! filters {
    ($($name:literal ($($parameter:literal),*) $required:literal => $run:expr;)*) => {
        &[$(Filter {
            name: $name,
            parameters: &[$($parameter),*],
            required: $required,
            run: $run,
        }),*]
    };
}

/// All there are: name, parameters, how many of them are needed.
static FILTERS: &[Filter] = filters! {
    "default" ("value", "boolean") 0 => default;
    "d" ("value", "boolean") 0 => default;
    "length" () 0 => length;
    "count" () 0 => length;
    "first" () 0 => first;
    "last" () 0 => last;
    "reverse" () 0 => reverse;
    "sort" ("reverse", "attribute") 0 => sort;
    "join" ("with", "attribute") 0 => join;
    "map" ("attribute") 1 => map;
    "sum" ("attribute") 0 => sum;
    "items" () 0 => items;
    "upper" () 0 => text::upper;
    "lower" () 0 => text::lower;
    "title" () 0 => text::title;
    "capitalize" () 0 => text::capitalize;
    "trim" () 0 => text::trim;
    "replace" ("old", "new") 2 => text::replace;
    "truncate" ("length", "end") 0 => text::truncate;
    "urlencode" () 0 => text::urlencode;
    "escape" () 0 => text::escape;
    "e" () 0 => text::escape;
    "safe" () 0 => text::safe;
    "string" () 0 => text::string;
    "tojson" () 0 => text::tojson;
    "round" ("precision") 0 => number::round;
    "fixed" ("places") 0 => number::fixed;
    "abs" () 0 => number::abs;
    "int" () 0 => number::int;
    "float" () 0 => number::float;
};

impl Filter {
    /// Does it. Only `default` has a use for what is missing.
    pub(super) fn apply<'v>(
        &self,
        value: Value<'v>,
        arguments: &Arguments<'v>,
        meter: &mut Meter,
    ) -> Made<'v> {
        let value = if matches!(self.name, "default" | "d") {
            value
        } else {
            value.there()?
        };
        (self.run)(value, arguments, meter).map_err(|fault| match fault {
            Fault::Wrong(message) => Fault::Wrong(format!("`{}` {message}", self.name)),
            other => other,
        })
    }

    /// How it is to be used.
    pub(super) fn usage(&self) -> String {
        format!("use `{}` as {0}({})", self.name, self.parameters.join(", "))
    }
}

/// The filter of this name.
pub(super) fn find(name: &str) -> Option<&'static Filter> {
    FILTERS.iter().find(|filter| filter.name == name)
}

/// What to say about a name that no filter has.
pub(super) fn unknown(name: &str) -> String {
    let names: Vec<_> = FILTERS.iter().map(|filter| filter.name).collect();
    format!("there is no filter `{name}`; there are {}", names.join(", "))
}

/// Another value for what is missing; with `true` also for what is empty.
fn default<'v>(value: Value<'v>, arguments: &Arguments<'v>, _: &mut Meter) -> Made<'v> {
    let is_there = match (&value, arguments.get(1)) {
        (Value::Missing(_), _) => false,
        (value, Some(also_empty)) if also_empty.is_true()? => value.is_true()?,
        _ => true,
    };
    if is_there {
        return Ok(value);
    }
    let other = arguments.get(0).cloned();
    Ok(other.unwrap_or(Value::Text(Text::Found(""))))
}

fn length<'v>(value: Value<'v>, _: &Arguments<'v>, meter: &mut Meter) -> Made<'v> {
    if let Some(text) = value.as_text() {
        meter.octets(text.as_str().len())?;
        return Ok(Value::count(text.as_str().chars().count()));
    }
    let message = || Fault::Wrong(format!("needs a list or a text, not {}", value.kind()));
    value.len().map(Value::count).ok_or_else(message)
}

fn first<'v>(value: Value<'v>, _: &Arguments<'v>, meter: &mut Meter) -> Made<'v> {
    Ok(value.into_list(meter)?.at(0).unwrap_or(Value::Null))
}

fn last<'v>(value: Value<'v>, _: &Arguments<'v>, meter: &mut Meter) -> Made<'v> {
    let list = value.into_list(meter)?;
    let last = list.len().unwrap_or(0).checked_sub(1);
    Ok(last.and_then(|last| list.at(last)).unwrap_or(Value::Null))
}

fn reverse<'v>(value: Value<'v>, _: &Arguments<'v>, meter: &mut Meter) -> Made<'v> {
    let mut values = collect(value, meter)?;
    values.reverse();
    Value::list(values)
}

fn sort<'v>(value: Value<'v>, arguments: &Arguments<'v>, meter: &mut Meter) -> Made<'v> {
    let values = collect(value, meter)?;
    let mut keyed = Vec::with_capacity(values.len());
    let turns = values.len().max(1).ilog2() as usize + 1;
    for value in values {
        let key = attribute(&value, arguments.get(1), meter)?;
        // What comparing it will cost, as often as it has to be.
        let length = key.as_text().map_or(1, |text| text.as_str().len());
        meter.octets(length.saturating_mul(turns))?;
        keyed.push((key, value));
    }
    let mut fault = None;
    keyed.sort_by(|(one, _), (other, _)| {
        compare(one, other).unwrap_or_else(|found| {
            fault = Some(found);
            std::cmp::Ordering::Equal
        })
    });
    if let Some(fault) = fault {
        return Err(fault);
    }
    if let Some(backwards) = arguments.get(0)
        && backwards.is_true()?
    {
        keyed.reverse();
    }
    Value::list(keyed.into_iter().map(|(_, value)| value).collect())
}

fn join<'v>(value: Value<'v>, arguments: &Arguments<'v>, meter: &mut Meter) -> Made<'v> {
    let list = value.into_list(meter)?;
    let between = arguments.text(0, meter)?;
    let mut text = String::new();
    for (index, value) in list.values().enumerate() {
        meter.step()?;
        if let Some(between) = between.as_ref().filter(|_| index > 0) {
            write::add(&mut text, between.as_str(), meter)?;
        }
        let value = attribute(&value, arguments.get(1), meter)?;
        write::append(&mut text, &value, meter)?;
    }
    Ok(Value::made(text))
}

fn map<'v>(value: Value<'v>, arguments: &Arguments<'v>, meter: &mut Meter) -> Made<'v> {
    let mut values = collect(value, meter)?;
    for value in &mut values {
        *value = attribute(value, arguments.get(0), meter)?;
    }
    Value::list(values)
}

fn sum<'v>(value: Value<'v>, arguments: &Arguments<'v>, meter: &mut Meter) -> Made<'v> {
    let list = value.into_list(meter)?;
    let mut total = Value::Integer(0);
    for value in list.values() {
        meter.step()?;
        let value = attribute(&value, arguments.get(0), meter)?;
        total = arithmetic(&total, Operator::Plus, &value)?;
    }
    Ok(total)
}

/// The keys and values of an object, in pairs.
fn items<'v>(value: Value<'v>, _: &Arguments<'v>, meter: &mut Meter) -> Made<'v> {
    let Value::Object(entries) = value else {
        let message = format!("needs an object, not {}", value.kind());
        return Err(Fault::Wrong(message));
    };
    meter.values(entries.len().saturating_mul(4))?;
    let pairs = entries.iter().map(|(key, value)| {
        Value::list(vec![Value::Text(Text::Found(key)), Value::of(value)])
    });
    Value::list(pairs.collect::<Result<_, _>>()?)
}

/// The values of a list.
fn collect<'v>(value: Value<'v>, meter: &mut Meter) -> Result<Vec<Value<'v>>, Fault> {
    let list = value.into_list(meter)?;
    meter.values(list.len().unwrap_or(0))?;
    Ok(list.values().collect())
}

/// A value itself, or what it has under a key.
fn attribute<'v>(
    value: &Value<'v>,
    key: Option<&Value<'v>>,
    meter: &mut Meter,
) -> Result<Value<'v>, Fault> {
    let Some(key) = key else {
        return Ok(value.clone());
    };
    let key = write::text_of(key, meter)?;
    meter.octets(key.as_str().len())?;
    let missing = || Fault::Wrong(format!("finds no `{}` in {}", key.as_str(), value.kind()));
    value.get(key.as_str()).ok_or_else(missing)
}
