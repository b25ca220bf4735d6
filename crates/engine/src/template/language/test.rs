//! What can be asked about a value with `is`.

use super::Fault;
use super::value::Value;

/// A test.
pub(super) struct Test {
    name: &'static str,
    /// Whether it is asked with a value in brackets.
    pub(super) has_argument: bool,
    run: fn(&Value<'_>, Option<&Value<'_>>) -> Result<bool, Fault>,
}

impl Test {
    /// Whether it is true of a value.
    pub(super) fn holds(
        &self,
        value: &Value<'_>,
        argument: Option<&Value<'_>>,
    ) -> Result<bool, Fault> {
        (self.run)(value, argument)
    }
}

macro_rules! tests {
    ($($name:literal: $run:expr),* $(,)?) => {
        [$(Test { name: $name, has_argument: false, run: $run }),*]
    };
}

static PLAIN: [Test; 11] = tests! {
    "defined": |value, _| Ok(!matches!(value, Value::Missing(_))),
    "undefined": |value, _| Ok(matches!(value, Value::Missing(_))),
    "none": |value, _| Ok(matches!(value, Value::Null)),
    "boolean": |value, _| Ok(matches!(value, Value::Bool(_))),
    "integer": |value, _| Ok(value.as_integer().is_some()),
    "number": |value, _| Ok(value.as_float().is_some()),
    "string": |value, _| Ok(value.as_text().is_some()),
    "mapping": |value, _| Ok(matches!(value, Value::Object(_))),
    "sequence": |value, _| Ok(matches!(value, Value::Array(_) | Value::List(_))),
    "odd": |value, _| Ok(whole(value)? % 2 != 0),
    "even": |value, _| Ok(whole(value)? % 2 == 0),
};

static DIVISIBLE: Test = Test {
    name: "divisibleby",
    has_argument: true,
    run: |value, by| {
        let by = whole(by.unwrap_or(&Value::Null))?;
        let rest = whole(value)?.checked_rem(by);
        Ok(rest.ok_or_else(|| Fault::Wrong("cannot divide by zero".into()))? == 0)
    },
};

fn all() -> impl Iterator<Item = &'static Test> {
    PLAIN.iter().chain([&DIVISIBLE])
}

/// The test of this name.
pub(super) fn find(name: &str) -> Option<&'static Test> {
    all().find(|test| test.name == name)
}

/// What to say about a name that no test has.
pub(super) fn unknown(name: &str) -> String {
    let names: Vec<_> = all().map(|test| test.name).collect();
    format!("there is no test `{name}`; there are {}", names.join(", "))
}

fn whole(value: &Value<'_>) -> Result<i128, Fault> {
    match value {
        Value::Missing(path) => Err(Fault::Missing(path.clone())),
        value => value
            .as_integer()
            .ok_or_else(|| Fault::Wrong(format!("needs a whole number, not {}", value.kind()))),
    }
}
