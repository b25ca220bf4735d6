//! The variables of one rendering, which notice what was looked for in vain.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use minijinja::value::{Enumerator, Object, ObjectExt as _, Value};
use serde_json::{Number, Value as Json};

/// The path that was looked for last and is not there.
type Missed = Arc<Mutex<Option<String>>>;

/// The variables of one rendering.
pub(super) struct Variables {
    root: Value,
    missed: Missed,
}

impl Variables {
    /// These values by name, and empty ones for what is assumed.
    pub(super) fn new<'a>(
        values: impl Iterator<Item = (&'a String, &'a Json)>,
        assumed: &BTreeSet<String>,
    ) -> Self {
        let missed = Missed::default();
        let empty = assumed.iter().map(|name| (name.clone(), Value::from("")));
        let given = values.map(|(name, value)| {
            let value = value_of(name.clone(), value, &missed);
            (name.clone(), value)
        });
        let root = Value::from_object(Node {
            path: String::new(),
            entries: empty.chain(given).collect(),
            missed: Arc::clone(&missed),
        });
        Self { root, missed }
    }

    /// What a template looks names up in.
    pub(super) fn root(&self) -> Value {
        self.root.clone()
    }

    /// What was looked for last in vain: where rendering stopped for want of it.
    pub(super) fn missed(&self) -> Option<String> {
        let missed = self.missed.lock();
        missed.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// An object, and where in the variables it is.
#[derive(Debug)]
struct Node {
    path: String,
    entries: BTreeMap<String, Value>,
    missed: Missed,
}

impl Object for Node {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.get_value_by_str(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        let found = self.entries.get(key).cloned();
        if found.is_none() {
            let mut missed = self.missed.lock().unwrap_or_else(PoisonError::into_inner);
            *missed = Some(inside(&self.path, key));
        }
        found
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        self.mapped_enumerator(|node| {
            Box::new(node.entries.keys().map(|key| Value::from(&key[..])))
        })
    }
}

fn inside(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

fn value_of(path: String, value: &Json, missed: &Missed) -> Value {
    match value {
        Json::Object(entries) => Value::from_object(Node {
            entries: entries
                .iter()
                .map(|(key, value)| (key.clone(), value_of(inside(&path, key), value, missed)))
                .collect(),
            path,
            missed: Arc::clone(missed),
        }),
        Json::Array(list) => list
            .iter()
            .enumerate()
            .map(|(index, value)| value_of(format!("{path}[{index}]"), value, missed))
            .collect::<Vec<_>>()
            .into(),
        Json::String(text) => Value::from(&text[..]),
        Json::Number(number) => number_of(number),
        Json::Bool(yes) => Value::from(*yes),
        Json::Null => Value::from(()),
    }
}

fn number_of(number: &Number) -> Value {
    let whole = number.as_i64().map(Value::from);
    let whole = whole.or_else(|| number.as_u64().map(Value::from));
    whole.unwrap_or_else(|| Value::from(number.as_f64().unwrap_or_default()))
}
