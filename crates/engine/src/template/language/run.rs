//! Does what a template says.

use std::rc::Rc;

use super::meter::Meter;
use super::tree::{Branch, Loop, Node};
use super::value::Value;
use super::{Fault, LARGEST_OUTPUT_BYTES, Trouble, Variables, write};

/// How many missing variables are named at once.
const MOST_MISSING: usize = 20;

/// One rendering.
pub(super) struct Run<'v> {
    pub(super) variables: &'v Variables<'v>,
    pub(super) meter: Meter,
    /// Names that the template gives itself, the newest last.
    pub(super) given: Vec<Given<'v>>,
    /// The loops it is in, the innermost last.
    pub(super) turns: Vec<Turns>,
    escaped: bool,
    output: String,
    missing: Vec<String>,
}

/// A name that the template gives to a value.
pub(super) struct Given<'v> {
    pub(super) name: &'v str,
    pub(super) value: Value<'v>,
    /// The path of the list that it comes from, and the place there.
    pub(super) origin: Option<(Rc<str>, usize)>,
}

/// How far a loop is.
pub(super) struct Turns {
    pub(super) index: usize,
    pub(super) length: usize,
}

impl<'v> Run<'v> {
    pub(super) fn new(variables: &'v Variables<'v>, escaped: bool) -> Self {
        Self {
            variables,
            meter: Meter::new(),
            given: Vec::new(),
            turns: Vec::new(),
            escaped,
            output: String::new(),
            missing: Vec::new(),
        }
    }

    /// Does all of it.
    pub(super) fn render(mut self, nodes: &'v [Node]) -> Result<String, Vec<Trouble>> {
        let done = self.all(nodes);
        if !self.missing.is_empty() {
            // What else goes wrong may be due to it.
            return Err(self.missing.into_iter().map(Trouble::Missing).collect());
        }
        match done {
            Ok(()) => Ok(self.output),
            Err(trouble) => Err(vec![Trouble::Failed(trouble)]),
        }
    }

    fn all(&mut self, nodes: &'v [Node]) -> Result<(), String> {
        nodes.iter().try_for_each(|node| self.one(node))
    }

    fn one(&mut self, node: &'v Node) -> Result<(), String> {
        match node {
            Node::Text(text) => {
                let written = self.write_as_is(text);
                self.noted(written, 0).map(drop)
            }
            Node::Write(value, line) => {
                let written = self.value(value).and_then(|value| self.write(&value));
                self.noted(written, *line).map(drop)
            }
            Node::If {
                branches,
                otherwise,
            } => {
                for Branch {
                    condition,
                    body,
                    line,
                } in branches
                {
                    let holds = self.value(condition).and_then(|value| value.is_true());
                    if self.noted(holds, *line)? == Some(true) {
                        return self.all(body);
                    }
                }
                self.all(otherwise)
            }
            Node::For(each) => self.each(each),
            Node::Set(name, value, line) => {
                let value = self.there(value);
                let value = self.noted(value, *line)?.unwrap_or(Value::Null);
                self.give(name, value, None);
                Ok(())
            }
        }
    }

    fn each(&mut self, each: &'v Loop) -> Result<(), String> {
        let line = each.line;
        let listed = self.listed(each);
        let Some(list) = self.noted(listed, line)? else {
            return Ok(());
        };
        let length = list.len().unwrap_or(0);
        if length == 0 {
            return self.all(&each.otherwise);
        }
        let origin = self.path(&each.source, &[]);
        let origin = self.noted(origin, line)?.flatten();
        let origin = origin.filter(|_| each.condition.is_none());
        let before = self.given.len();
        self.turns.push(Turns { index: 0, length });
        for index in 0..length {
            let begun = self.begin(each, &list, index, origin.as_ref());
            let begun = self.noted(begun, line)?;
            if begun.is_some() {
                self.all(&each.body)?;
            }
            self.given.truncate(before);
        }
        self.turns.pop();
        Ok(())
    }

    /// The values that a loop goes over.
    fn listed(&mut self, each: &'v Loop) -> Result<Value<'v>, Fault> {
        let list = self.value(&each.source)?.into_list(&mut self.meter)?;
        let Some(condition) = &each.condition else {
            return Ok(list);
        };
        let before = self.given.len();
        let mut kept = Vec::new();
        for index in 0..list.len().unwrap_or(0) {
            self.unpack(each, &list, index, None)?;
            let holds = self.value(condition)?.is_true()?;
            self.given.truncate(before);
            if holds {
                self.meter.values(1)?;
                kept.extend(list.at(index));
            }
        }
        Value::list(kept)
    }

    fn begin(
        &mut self,
        each: &'v Loop,
        list: &Value<'v>,
        index: usize,
        origin: Option<&Rc<str>>,
    ) -> Result<(), Fault> {
        if let Some(turn) = self.turns.last_mut() {
            turn.index = index;
        }
        self.unpack(each, list, index, origin)
    }

    /// Gives the next value its name, or the values of the next pair theirs.
    fn unpack(
        &mut self,
        each: &'v Loop,
        list: &Value<'v>,
        index: usize,
        origin: Option<&Rc<str>>,
    ) -> Result<(), Fault> {
        self.meter.step()?;
        let value = list.at(index).unwrap_or(Value::Null);
        if let [name] = &each.names[..] {
            let origin = origin.map(|origin| (Rc::clone(origin), index));
            self.give(name, value, origin);
            return Ok(());
        }
        let values = value.into_list(&mut self.meter)?;
        if values.len() != Some(each.names.len()) {
            return Err(Fault::Wrong(format!(
                "`for` has {} names, but the values are {}; `|items` gives keys and values",
                each.names.len(),
                values.len().unwrap_or(0),
            )));
        }
        for (place, name) in each.names.iter().enumerate() {
            self.meter.step()?;
            let value = values.at(place).unwrap_or(Value::Null);
            self.give(name, value, None);
        }
        Ok(())
    }

    fn give(&mut self, name: &'v str, value: Value<'v>, origin: Option<(Rc<str>, usize)>) {
        self.given.push(Given {
            name,
            value,
            origin,
        });
    }

    /// Writes a value, escaped if need be.
    fn write(&mut self, value: &Value<'v>) -> Result<(), Fault> {
        if let (Value::Text(text), true) = (value, self.escaped) {
            self.meter.octets(text.as_str().len())?;
            return write::append_escaped(&mut self.output, text.as_str(), LARGEST_OUTPUT_BYTES);
        }
        let text = write::text_of(value, &mut self.meter)?;
        if self.escaped && !matches!(value, Value::Markup(_)) {
            return write::append_escaped(&mut self.output, text.as_str(), LARGEST_OUTPUT_BYTES);
        }
        self.write_as_is(text.as_str())
    }

    fn write_as_is(&mut self, text: &str) -> Result<(), Fault> {
        self.meter.step()?;
        if self.output.len() + text.len() > LARGEST_OUTPUT_BYTES {
            return Err(Fault::TooLarge);
        }
        write::add(&mut self.output, text, &mut self.meter)
    }

    /// Goes on without what is missing, to find all that is; anything else ends the rendering.
    fn noted<T>(&mut self, result: Result<T, Fault>, line: usize) -> Result<Option<T>, String> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(Fault::Missing(path)) => {
                if !self.missing.iter().any(|known| *known == *path) {
                    self.missing.push(path.to_string());
                }
                if self.missing.len() < MOST_MISSING {
                    return Ok(None);
                }
                Err(String::new())
            }
            Err(Fault::TooMuch) => Err("takes too much work to render; shorten its loops, or the \
                                        lists and texts they go over"
                .into()),
            Err(Fault::TooLarge) => Err(format!(
                "comes to more than {} MiB; shorten its loops, or the lists they go over",
                LARGEST_OUTPUT_BYTES / 1024 / 1024
            )),
            Err(Fault::Wrong(message)) => Err(format!("line {line}: {message}")),
        }
    }
}
