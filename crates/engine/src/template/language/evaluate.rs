//! Gets at the value of an expression.

use std::rc::Rc;

use super::Fault;
use super::filter::Arguments;
use super::operator::{arithmetic, calculate, holds};
use super::run::Run;
use super::tree::{Expression, Operator, Step, Turn};
use super::value::{Text, Value};
use super::write;

type Made<'v> = Result<Value<'v>, Fault>;

impl<'v> Run<'v> {
    /// The value of an expression; what is missing may still be given a value by `default`.
    pub(super) fn value(&mut self, expression: &'v Expression) -> Made<'v> {
        self.meter.step()?;
        Ok(match expression {
            Expression::Null => Value::Null,
            Expression::Bool(yes) => Value::Bool(*yes),
            Expression::Integer(number) => Value::Integer(*number),
            Expression::Float(number) => Value::Float(*number),
            Expression::Text(text) => Value::Text(Text::Found(text)),
            Expression::Name(name) => self.named(name)?,
            Expression::List(values) => self.list(values)?,
            Expression::Turn(turn) => self.turn(*turn),
            Expression::Cycle(values) => {
                let index = self.turns.last().map_or(0, |turn| turn.index);
                self.value(&values[index % values.len()])?
            }
            Expression::Range(values) => self.range(values)?,
            Expression::Steps(value, steps) => self.stepped(value, steps)?,
            Expression::Not(value) => Value::Bool(!self.value(value)?.is_true()?),
            Expression::Negative(value) => {
                let value = self.there(value)?;
                arithmetic(&Value::Integer(0), Operator::Minus, &value)?
            }
            Expression::All(values) => self.first_that(values, false)?,
            Expression::Any(values) => self.first_that(values, true)?,
            Expression::Compare(sides, comparison) => {
                let (left, right) = (self.there(&sides.0)?, self.there(&sides.1)?);
                Value::Bool(holds(*comparison, &left, &right, &mut self.meter)?)
            }
            Expression::Is {
                value,
                test,
                argument,
                negated,
            } => {
                let value = self.value(value)?;
                let argument = match argument {
                    Some(argument) => Some(self.there(argument)?),
                    None => None,
                };
                Value::Bool(test.holds(&value, argument.as_ref())? != *negated)
            }
            Expression::Concat(values) => {
                let mut text = String::new();
                for value in values {
                    let value = self.value(value)?;
                    write::append(&mut text, &value, &mut self.meter)?;
                }
                Value::made(text)
            }
            Expression::Math(first, more) => {
                let mut result = self.there(first)?;
                for (operator, value) in more {
                    let value = self.there(value)?;
                    result = calculate(&result, *operator, &value, &mut self.meter)?;
                }
                result
            }
            Expression::Choice(choice) => {
                if self.value(&choice.condition)?.is_true()? {
                    self.value(&choice.value)?
                } else {
                    self.value(&choice.otherwise)?
                }
            }
        })
    }

    /// The value of an expression that must not be missing.
    pub(super) fn there(&mut self, expression: &'v Expression) -> Made<'v> {
        self.value(expression)?.there()
    }

    fn named(&mut self, name: &str) -> Made<'v> {
        self.meter.octets(self.given.len() + name.len())?;
        if let Some(given) = self.given.iter().rev().find(|given| given.name == name) {
            return Ok(given.value.clone());
        }
        let variable = self.variables.get(name).copied().map(Value::of);
        Ok(variable.unwrap_or_else(|| Value::Missing(name.into())))
    }

    fn list(&mut self, values: &'v [Expression]) -> Made<'v> {
        let mut list = Vec::with_capacity(values.len());
        for value in values {
            list.push(self.there(value)?);
        }
        Value::list(list)
    }

    /// The first value that is true (or that is not), or the last.
    fn first_that(&mut self, values: &'v [Expression], wanted: bool) -> Made<'v> {
        let mut last = Value::Bool(!wanted);
        for value in values {
            last = self.value(value)?;
            if last.is_true()? == wanted {
                break;
            }
        }
        Ok(last)
    }

    fn turn(&self, turn: Turn) -> Value<'v> {
        let Some(now) = self.turns.last() else {
            return Value::Null;
        };
        match turn {
            Turn::Index => Value::count(now.index + 1),
            Turn::Index0 => Value::count(now.index),
            Turn::RevIndex => Value::count(now.length - now.index),
            Turn::RevIndex0 => Value::count(now.length - now.index - 1),
            Turn::First => Value::Bool(now.index == 0),
            Turn::Last => Value::Bool(now.index + 1 == now.length),
            Turn::Length => Value::count(now.length),
        }
    }

    fn range(&mut self, values: &'v [Expression]) -> Made<'v> {
        let mut numbers = Vec::with_capacity(values.len());
        for value in values {
            let number = self.there(value)?.as_integer();
            let message = || Fault::Wrong("`range` needs whole numbers".into());
            numbers.push(number.ok_or_else(message)?);
        }
        let (mut next, end, step) = match numbers[..] {
            [start, end, step] => (start, end, step),
            [start, end] => (start, end, 1),
            [end] => (0, end, 1),
            _ => return Ok(Value::Null),
        };
        if step == 0 {
            return Err(Fault::Wrong("`range` needs a step that is not 0".into()));
        }
        let mut list = Vec::new();
        while if step > 0 { next < end } else { next > end } {
            self.meter.values(1)?;
            list.push(Value::Integer(next));
            next = next.saturating_add(step);
        }
        Value::list(list)
    }

    fn stepped(&mut self, first: &'v Expression, steps: &'v [Step]) -> Made<'v> {
        let mut value = self.value(first)?;
        for (place, step) in steps.iter().enumerate() {
            self.meter.step()?;
            let missing = matches!(value, Value::Missing(_));
            value = match step {
                Step::Filter(filter, given) => {
                    let mut arguments = Vec::with_capacity(given.len());
                    for argument in given {
                        let argument = argument.as_ref();
                        arguments.push(argument.map(|one| self.there(one)).transpose()?);
                    }
                    filter.apply(value, &Arguments(arguments), &mut self.meter)?
                }
                // What is in something that is missing is missing because of that.
                _ if missing => value,
                Step::Slice(start, end) => {
                    let start = self.place(start.as_ref())?;
                    let end = self.place(end.as_ref())?;
                    self.slice(&value, start, end)?
                }
                Step::Key(key) => {
                    self.meter.octets(key.len())?;
                    match value.get(key) {
                        Some(found) => found,
                        None => self.missing(first, &steps[..=place])?,
                    }
                }
                Step::Index(index) => {
                    let index = self.there(index)?;
                    match self.indexed(&value, &index)? {
                        Some(found) => found,
                        None => self.missing(first, &steps[..=place])?,
                    }
                }
            };
        }
        Ok(value)
    }

    fn indexed(
        &mut self,
        value: &Value<'v>,
        index: &Value<'v>,
    ) -> Result<Option<Value<'v>>, Fault> {
        if let Some(key) = index.as_text() {
            self.meter.octets(key.as_str().len())?;
            return Ok(value.get(key.as_str()));
        }
        let Some(index) = index.as_integer() else {
            return Err(Fault::Wrong(format!("`[]` cannot take {}", index.kind())));
        };
        let length = value.len().unwrap_or(0);
        let (place, _) = bounds(Some(index), None, length);
        Ok(if index < 0 && index.unsigned_abs() > length as u128 {
            None
        } else {
            value.at(place)
        })
    }

    fn place(&mut self, expression: Option<&'v Expression>) -> Result<Option<i128>, Fault> {
        let Some(expression) = expression else {
            return Ok(None);
        };
        match self.there(expression)?.as_integer() {
            Some(place) => Ok(Some(place)),
            None => Err(Fault::Wrong("`[:]` needs whole numbers".into())),
        }
    }

    /// A part of a text or of a list.
    fn slice(&mut self, value: &Value<'v>, start: Option<i128>, end: Option<i128>) -> Made<'v> {
        if let Some(text) = value.as_text() {
            let whole = text.as_str();
            self.meter.octets(whole.len())?;
            let (start, end) = bounds(start, end, whole.chars().count());
            let part = whole.chars().skip(start).take(end.saturating_sub(start));
            return Ok(Value::made(part.collect()));
        }
        let Some(length) = value.len() else {
            return Err(Fault::Wrong(format!("`[:]` cannot take {}", value.kind())));
        };
        let (start, end) = bounds(start, end, length);
        if let Value::Array(list) = value {
            return Ok(Value::Array(list.get(start..end).unwrap_or(&[])));
        }
        self.meter.values(end.saturating_sub(start))?;
        Value::list((start..end).map_while(|index| value.at(index)).collect())
    }

    /// What is missing, by its path.
    fn missing(&mut self, first: &'v Expression, steps: &'v [Step]) -> Made<'v> {
        let path = self.path(first, steps)?;
        Ok(Value::Missing(path.unwrap_or_else(|| "value".into())))
    }

    /// Where in the variables a value comes from, as far as that can be said.
    pub(super) fn path(
        &mut self,
        first: &'v Expression,
        steps: &'v [Step],
    ) -> Result<Option<Rc<str>>, Fault> {
        let mut path = match first {
            Expression::Name(name) => {
                let given = self.given.iter().rev().find(|given| *given.name == **name);
                match given.and_then(|given| given.origin.as_ref()) {
                    Some((list, index)) => format!("{list}[{index}]"),
                    None => name.to_string(),
                }
            }
            Expression::Steps(first, inner) => match self.path(first, inner)? {
                Some(path) => path.to_string(),
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        for step in steps {
            match step {
                Step::Key(key) => {
                    path.push('.');
                    path.push_str(key);
                }
                Step::Index(Expression::Integer(index)) => path.push_str(&format!("[{index}]")),
                Step::Index(Expression::Text(key)) => {
                    path.push('.');
                    path.push_str(key);
                }
                Step::Index(_) | Step::Slice(..) | Step::Filter(..) => {}
            }
        }
        self.meter.octets(path.len())?;
        Ok(Some(path.into()))
    }
}

/// From where to where, counted from the end where negative.
fn bounds(start: Option<i128>, end: Option<i128>, length: usize) -> (usize, usize) {
    let place = |place: i128| {
        let whole = i128::try_from(length).unwrap_or(i128::MAX);
        let from_start = if place < 0 { place.saturating_add(whole) } else { place };
        usize::try_from(from_start.clamp(0, whole)).unwrap_or(length)
    };
    (start.map_or(0, place), end.map_or(length, place))
}
