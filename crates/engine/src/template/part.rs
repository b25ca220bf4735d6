//! One part of a template, compiled: its subject, its HTML or its text.

use std::collections::BTreeSet;
use std::io;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Value;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior};

use super::variables::Variables;
use super::{filter, grammar};

/// What rendering one part may cost, in steps: enough for tables of thousands of rows, and over in a
/// moment.
const FUEL: u64 = 50_000;
/// The most that one part may come to.
pub(super) const LARGEST_OUTPUT_BYTES: usize = 5 * 1024 * 1024;

/// Why a part could not be rendered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trouble {
    /// A variable is missing: its path, such as `order.number`.
    Missing(String),
    /// It names a filter, test, function or template that does not exist.
    Unknown(String),
    /// Anything else.
    Failed(String),
}

/// A part that can be rendered.
pub(super) struct Part {
    name: &'static str,
    environment: Environment<'static>,
}

impl Part {
    /// Compiles a part, or says what is wrong with it and in which line.
    pub(super) fn compile(
        environment: &Environment<'static>,
        name: &'static str,
        source: &str,
    ) -> Result<Self, String> {
        grammar::check(source)?;
        let mut environment = environment.clone();
        environment
            .add_template_owned(name, source.to_owned())
            .map_err(|error| described(&error))?;
        Ok(Self { name, environment })
    }

    /// Which part it is.
    pub(super) const fn name(&self) -> &'static str {
        self.name
    }

    /// Renders it.
    pub(super) fn render(&self, variables: &Variables) -> Result<String, Trouble> {
        let mut output = Bounded(Vec::new());
        let rendered = self.environment.get_template(self.name).and_then(|part| {
            part.render_captured_to(variables.root(), &mut output)
                .map(drop)
        });
        rendered.map_err(|error| trouble(&error, variables))?;
        String::from_utf8(output.0).map_err(|error| Trouble::Failed(error.to_string()))
    }

    /// The variables it needs or may need, by their first names.
    pub(super) fn variables(&self) -> BTreeSet<String> {
        let Ok(part) = self.environment.get_template(self.name) else {
            return BTreeSet::new();
        };
        part.undeclared_variables(false).into_iter().collect()
    }
}

/// What all parts of all templates have in common.
pub(super) fn environment() -> Environment<'static> {
    let mut environment = Environment::empty();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(FUEL));
    environment.set_auto_escape_callback(|name| match name {
        super::render::HTML => AutoEscape::Html,
        _ => AutoEscape::None,
    });
    // Lines are kept as they are written, also the end of the last one. Where a tag is to leave
    // nothing behind, it says so: `{%-` and `-%}`.
    if let Ok(syntax) = SyntaxConfig::builder().keep_trailing_newline(true).build() {
        environment.set_syntax(syntax);
    }
    filter::add_all(&mut environment);
    environment
}

fn trouble(error: &Error, variables: &Variables) -> Trouble {
    match error.kind() {
        ErrorKind::UndefinedError => match variables.missed() {
            Some(path) => Trouble::Missing(path),
            None => Trouble::Failed(described(error)),
        },
        ErrorKind::UnknownFilter
        | ErrorKind::UnknownTest
        | ErrorKind::UnknownFunction
        | ErrorKind::UnknownMethod
        | ErrorKind::TemplateNotFound
        | ErrorKind::BadInclude => Trouble::Unknown(described(error)),
        ErrorKind::OutOfFuel => Trouble::Failed(
            "takes too many steps to render; shorten its loops, or the lists they go over".into(),
        ),
        ErrorKind::WriteFailure => Trouble::Failed(filter::too_large()),
        _ => Trouble::Failed(described(error)),
    }
}

/// What is wrong, and in which line.
fn described(error: &Error) -> String {
    let what = error
        .detail()
        .map_or_else(|| error.kind().to_string(), str::to_owned);
    match error.line() {
        Some(line) => format!("line {line}: {what}"),
        None => what,
    }
}

/// Takes what is written, up to a limit.
struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > LARGEST_OUTPUT_BYTES {
            return Err(io::Error::other("too large"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// How much was written so far, also by what is kept in a variable first.
#[derive(Default)]
struct Written(usize);

/// Writes a value, escaped where it goes into HTML. Nothing at all is written for null.
pub(super) fn write_value(
    out: &mut minijinja::Output<'_>,
    state: &mut minijinja::State<'_, '_>,
    value: &Value,
) -> Result<(), Error> {
    if value.is_none() {
        return Ok(());
    }
    // Lists and objects are written as text of a length that is not known before.
    let text = value
        .as_object()
        .is_some()
        .then(|| Value::from(value.to_string()));
    let value = text.as_ref().unwrap_or(value);
    let written = state.get_or_insert_extension(Written::default());
    written.0 += value.as_str().map_or(1, str::len);
    if written.0 > LARGEST_OUTPUT_BYTES {
        return Err(ErrorKind::WriteFailure.into());
    }
    minijinja::escape_formatter(out, state, value)
}
