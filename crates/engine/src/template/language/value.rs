//! What templates work with. Variables are never copied: values point into them.

use std::rc::Rc;

use serde_json::{Map, Value as Json};

use super::Fault;
use super::meter::Meter;

/// How deep lists may stand in lists that a template makes.
const DEEPEST: usize = 20;

/// A value.
#[derive(Clone)]
pub(super) enum Value<'v> {
    /// The variable of this path is not there.
    Missing(Rc<str>),
    Null,
    Bool(bool),
    Integer(i128),
    Float(f64),
    Text(Text<'v>),
    /// Text that is HTML already, and not escaped again.
    Markup(Text<'v>),
    /// A list of the variables.
    Array(&'v [Json]),
    /// An object of the variables.
    Object(&'v Map<String, Json>),
    /// A list that was made.
    List(Rc<List<'v>>),
}

/// A text, cheap to hand on.
#[derive(Clone)]
pub(super) enum Text<'v> {
    /// From the variables, or from the template.
    Found(&'v str),
    /// Made on the way.
    Made(Rc<str>),
}

/// A list that was made.
pub(super) struct List<'v> {
    values: Vec<Value<'v>>,
    depth: usize,
}

impl Text<'_> {
    pub(super) fn as_str(&self) -> &str {
        match self {
            Self::Found(text) => text,
            Self::Made(text) => text,
        }
    }
}

impl<'v> Value<'v> {
    /// A value of the variables.
    pub(super) fn of(json: &'v Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(yes) => Self::Bool(*yes),
            Json::Number(number) => {
                let whole = number.as_i64().map(i128::from);
                match whole.or_else(|| number.as_u64().map(i128::from)) {
                    Some(whole) => Self::Integer(whole),
                    None => Self::Float(number.as_f64().unwrap_or_default()),
                }
            }
            Json::String(text) => Self::Text(Text::Found(text)),
            Json::Array(list) => Self::Array(list),
            Json::Object(entries) => Self::Object(entries),
        }
    }

    /// A text that was made and paid for.
    pub(super) fn made(text: String) -> Self {
        Self::Text(Text::Made(text.into()))
    }

    /// A list that was made and paid for.
    pub(super) fn list(values: Vec<Self>) -> Result<Self, Fault> {
        let inner = values.iter().map(|value| match value {
            Self::List(list) => list.depth,
            _ => 0,
        });
        let depth = inner.max().unwrap_or(0) + 1;
        if depth > DEEPEST {
            return Err(Fault::Wrong("makes lists in lists that are too deep".into()));
        }
        Ok(Self::List(Rc::new(List { values, depth })))
    }

    pub(super) fn count(count: usize) -> Self {
        Self::Integer(i128::try_from(count).unwrap_or(i128::MAX))
    }

    /// What it is, for errors.
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Missing(_) => "nothing",
            Self::Null => "null",
            Self::Bool(_) => "true or false",
            Self::Integer(_) | Self::Float(_) => "a number",
            Self::Text(_) | Self::Markup(_) => "a text",
            Self::Array(_) | Self::List(_) => "a list",
            Self::Object(_) => "an object",
        }
    }

    /// The value itself, unless it is missing.
    pub(super) fn there(self) -> Result<Self, Fault> {
        match self {
            Self::Missing(path) => Err(Fault::Missing(path)),
            there => Ok(there),
        }
    }

    pub(super) fn as_text(&self) -> Option<&Text<'v>> {
        match self {
            Self::Text(text) | Self::Markup(text) => Some(text),
            _ => None,
        }
    }

    pub(super) const fn as_integer(&self) -> Option<i128> {
        match self {
            Self::Integer(number) => Some(*number),
            _ => None,
        }
    }

    #[allow(clippy::cast_precision_loss, reason = "as near as it gets")]
    pub(super) const fn as_float(&self) -> Option<f64> {
        match self {
            Self::Integer(number) => Some(*number as f64),
            Self::Float(number) => Some(*number),
            _ => None,
        }
    }

    /// Whether a condition on it holds: not for nothing, zero and what is empty.
    pub(super) fn is_true(&self) -> Result<bool, Fault> {
        Ok(match self {
            Self::Missing(path) => return Err(Fault::Missing(Rc::clone(path))),
            Self::Null => false,
            Self::Bool(yes) => *yes,
            Self::Integer(number) => *number != 0,
            Self::Float(number) => *number != 0.0,
            Self::Text(text) | Self::Markup(text) => !text.as_str().is_empty(),
            Self::Array(_) | Self::List(_) | Self::Object(_) => self.len() != Some(0),
        })
    }

    /// How many values it has, if it has any at all.
    pub(super) fn len(&self) -> Option<usize> {
        match self {
            Self::Array(list) => Some(list.len()),
            Self::Object(entries) => Some(entries.len()),
            Self::List(list) => Some(list.values.len()),
            _ => None,
        }
    }

    /// The value at a place of a list.
    pub(super) fn at(&self, index: usize) -> Option<Self> {
        match self {
            Self::Array(list) => list.get(index).map(Self::of),
            Self::List(list) => list.values.get(index).cloned(),
            _ => None,
        }
    }

    /// The value of a key.
    pub(super) fn get(&self, key: &str) -> Option<Self> {
        match self {
            Self::Object(entries) => entries.get(key).map(Self::of),
            _ => None,
        }
    }

    /// It as a list: the keys of an object, nothing for null.
    pub(super) fn into_list(self, meter: &mut Meter) -> Result<Self, Fault> {
        match self {
            Self::Array(_) | Self::List(_) => Ok(self),
            Self::Null => Ok(Self::Array(&[])),
            Self::Object(entries) => {
                meter.values(entries.len())?;
                let keys = entries.keys().map(|key| Self::Text(Text::Found(key)));
                Self::list(keys.collect())
            }
            Self::Missing(path) => Err(Fault::Missing(path)),
            other => Err(Fault::Wrong(format!("needs a list, not {}", other.kind()))),
        }
    }

    /// The values of a list, one after the other.
    pub(super) fn values(&self) -> impl Iterator<Item = Self> {
        (0..self.len().unwrap_or(0)).map_while(|index| self.at(index))
    }
}
