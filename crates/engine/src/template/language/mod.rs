//! The language of templates: what mail needs of Jinja, and nothing that could get out of hand.
//!
//! There are `{{ values }}`, `if`, `for`, `set`, `raw`, comments, filters and tests. There is
//! nothing that reaches beyond the variables, and no recursion. Every step, and every octet that is
//! made or read through, is paid for from a budget (see [`meter`]): whatever a template and its
//! variables say, rendering ends soon and takes little memory. That is why the language is our own;
//! engines that are made for trusted templates count their steps, but not what a step costs.

mod evaluate;
mod expression;
mod filter;
mod filter_number;
mod filter_text;
mod meter;
mod operator;
mod parser;
mod run;
mod source;
mod test;
#[cfg(test)]
mod tests;
mod token;
mod tree;
mod value;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use serde_json::Value as Json;

use self::run::Run;
use self::tree::Node;

/// The most that one part may come to.
pub(super) const LARGEST_OUTPUT_BYTES: usize = 5 * 1024 * 1024;

/// The variables by name.
pub(super) type Variables<'v> = BTreeMap<&'v str, &'v Json>;

/// What is wrong with a template, and in which line.
#[derive(Debug)]
pub(super) struct Complaint {
    line: usize,
    message: String,
}

impl Complaint {
    fn new(line: usize, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { line, message }
    }
}

impl std::fmt::Display for Complaint {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "line {}: {}", self.line, self.message)
    }
}

/// Why something could not be rendered.
#[derive(Debug)]
enum Fault {
    /// The variable of this path is missing.
    Missing(Rc<str>),
    /// The budget is spent.
    TooMuch,
    /// The output is larger than allowed.
    TooLarge,
    /// Anything else.
    Wrong(String),
}

/// Why a template could not be rendered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trouble {
    /// A variable is missing: its path, such as `order.number`.
    Missing(String),
    /// Anything else.
    Failed(String),
}

/// A template that was read once and can be rendered many times.
pub(super) struct Program {
    nodes: Vec<Node>,
    variables: BTreeSet<String>,
}

impl Program {
    /// Reads a template, or says what is wrong with it and in which line.
    pub(super) fn read(source: &str) -> Result<Self, Complaint> {
        let (nodes, variables) = parser::read(source)?;
        Ok(Self { nodes, variables })
    }

    /// The variables it needs or may need, by their first names.
    pub(super) const fn variables(&self) -> &BTreeSet<String> {
        &self.variables
    }

    /// Renders it, `escaped` for HTML or as it is, or says all that is missing or what went wrong.
    pub(super) fn render(
        &self,
        variables: &Variables<'_>,
        escaped: bool,
    ) -> Result<String, Vec<Trouble>> {
        Run::new(variables, escaped).render(&self.nodes)
    }
}
