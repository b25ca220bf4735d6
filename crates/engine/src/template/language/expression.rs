//! Reads expressions, with the precedence that Jinja gives their operators.

use super::Complaint;
use super::filter::{self, Filter};
use super::parser::Names;
use super::test;
use super::token::{self, Token};
use super::tree::{Choice, Comparison, Expression, Operator, Step, Turn};

/// How deep expressions may stand in each other.
const DEEPEST: usize = 30;

/// Words that are no names.
const RESERVED: [&str; 7] = ["and", "or", "not", "in", "is", "if", "else"];

/// The words of a tag, read one after the other.
pub(super) struct Words<'s> {
    tokens: Vec<(Token<'s>, usize)>,
    /// Which comes next.
    at: usize,
    line: usize,
    depth: usize,
}

type Read = Result<Expression, Complaint>;

impl<'s> Words<'s> {
    pub(super) fn read(source: &'s str, line: usize) -> Result<Self, Complaint> {
        Ok(Self {
            tokens: token::read(source, line)?,
            at: 0,
            line,
            depth: 0,
        })
    }

    /// Nothing may follow.
    pub(super) fn end(&mut self) -> Result<(), Complaint> {
        match self.next() {
            None => Ok(()),
            Some(token) => Err(self.wrong(format!("{} is not expected here", token.shown()))),
        }
    }

    /// Takes a name.
    pub(super) fn name(&mut self, what: &str) -> Result<&'s str, Complaint> {
        match self.next() {
            Some(Token::Name(name)) => Ok(name),
            found => Err(self.expected(what, found.as_ref())),
        }
    }

    /// Takes this word.
    pub(super) fn word(&mut self, word: &str) -> Result<(), Complaint> {
        if self.takes_word(word) {
            return Ok(());
        }
        let found = self.next();
        Err(self.expected(&format!("`{word}`"), found.as_ref()))
    }

    /// Takes this mark.
    pub(super) fn mark(&mut self, mark: &str) -> Result<(), Complaint> {
        if self.takes(mark) {
            return Ok(());
        }
        let found = self.next();
        Err(self.expected(&format!("`{mark}`"), found.as_ref()))
    }

    /// Takes this mark, if it comes next.
    pub(super) fn takes(&mut self, mark: &str) -> bool {
        self.takes_if(|token| matches!(token, Token::Mark(found) if *found == mark))
    }

    /// Takes this word, if it comes next.
    pub(super) fn takes_word(&mut self, word: &str) -> bool {
        self.takes_if(|token| matches!(token, Token::Name(found) if *found == word))
    }

    /// Reads an expression.
    pub(super) fn expression(&mut self, names: &mut Names<'_>) -> Read {
        self.deeper()?;
        let value = self.without_choice(names)?;
        let expression = if self.takes_word("if") {
            let condition = self.without_choice(names)?;
            let otherwise = if self.takes_word("else") {
                self.expression(names)?
            } else {
                Expression::Null
            };
            Expression::Choice(Box::new(Choice {
                condition,
                value,
                otherwise,
            }))
        } else {
            value
        };
        self.depth -= 1;
        Ok(expression)
    }

    /// Reads an expression that an `if` may follow.
    pub(super) fn without_choice(&mut self, names: &mut Names<'_>) -> Read {
        let mut values = vec![self.all(names)?];
        while self.takes_word("or") {
            values.push(self.all(names)?);
        }
        Ok(single(values, Expression::Any))
    }

    fn all(&mut self, names: &mut Names<'_>) -> Read {
        let mut values = vec![self.not(names)?];
        while self.takes_word("and") {
            values.push(self.not(names)?);
        }
        Ok(single(values, Expression::All))
    }

    fn not(&mut self, names: &mut Names<'_>) -> Read {
        if !self.takes_word("not") {
            return self.compared(names);
        }
        self.deeper()?;
        let value = self.not(names)?;
        self.depth -= 1;
        Ok(Expression::Not(Box::new(value)))
    }

    fn compared(&mut self, names: &mut Names<'_>) -> Read {
        let left = self.sum(names)?;
        let Some(comparison) = self.comparison()? else {
            return Ok(left);
        };
        let right = self.sum(names)?;
        if self.comparison()?.is_some() {
            return Err(self.wrong("compares more than two values; join comparisons with `and`"));
        }
        Ok(Expression::Compare(Box::new((left, right)), comparison))
    }

    fn comparison(&mut self) -> Result<Option<Comparison>, Complaint> {
        let comparison = match self.peek(0) {
            Some(Token::Mark("==")) => Comparison::Equal,
            Some(Token::Mark("!=")) => Comparison::NotEqual,
            Some(Token::Mark("<")) => Comparison::Less,
            Some(Token::Mark("<=")) => Comparison::LessOrEqual,
            Some(Token::Mark(">")) => Comparison::Greater,
            Some(Token::Mark(">=")) => Comparison::GreaterOrEqual,
            Some(Token::Name("in")) => Comparison::In,
            Some(Token::Name("not")) => {
                self.next();
                self.word("in")?;
                return Ok(Some(Comparison::NotIn));
            }
            _ => return Ok(None),
        };
        self.next();
        Ok(Some(comparison))
    }

    fn sum(&mut self, names: &mut Names<'_>) -> Read {
        let first = self.concat(names)?;
        let mut more = Vec::new();
        while let Some(operator) =
            self.operator(&[("+", Operator::Plus), ("-", Operator::Minus)])
        {
            more.push((operator, self.concat(names)?));
        }
        Ok(math(first, more))
    }

    fn concat(&mut self, names: &mut Names<'_>) -> Read {
        let mut values = vec![self.product(names)?];
        while self.takes("~") {
            values.push(self.product(names)?);
        }
        Ok(single(values, Expression::Concat))
    }

    fn product(&mut self, names: &mut Names<'_>) -> Read {
        const OPERATORS: [(&str, Operator); 4] = [
            ("*", Operator::Times),
            ("/", Operator::Divided),
            ("//", Operator::Floored),
            ("%", Operator::Remainder),
        ];
        let first = self.unary(names)?;
        let mut more = Vec::new();
        while let Some(operator) = self.operator(&OPERATORS) {
            more.push((operator, self.unary(names)?));
        }
        Ok(math(first, more))
    }

    fn unary(&mut self, names: &mut Names<'_>) -> Read {
        let value = if self.takes("-") {
            let value = self.primary(names)?;
            let value = self.steps(value, false, names)?;
            Expression::Negative(Box::new(value))
        } else {
            self.primary(names)?
        };
        let value = self.steps(value, true, names)?;
        self.tested(value, names)
    }

    fn primary(&mut self, names: &mut Names<'_>) -> Read {
        Ok(match self.next() {
            Some(Token::Text(text)) => Expression::Text(text.into()),
            Some(Token::Integer(number)) => Expression::Integer(number),
            Some(Token::Float(number)) => Expression::Float(number),
            Some(Token::Mark("(")) => {
                let value = self.expression(names)?;
                self.mark(")")?;
                value
            }
            Some(Token::Mark("[")) => Expression::List(self.values("]", names)?),
            Some(Token::Name("true" | "True")) => Expression::Bool(true),
            Some(Token::Name("false" | "False")) => Expression::Bool(false),
            Some(Token::Name("none" | "None" | "null")) => Expression::Null,
            Some(Token::Name("loop")) if names.in_loop() => self.turn(names)?,
            Some(Token::Name(name)) if !RESERVED.contains(&name) => {
                if !self.takes("(") {
                    names.used(name);
                    return Ok(Expression::Name(name.into()));
                }
                if name != "range" {
                    let message = format!("there is no function `{name}`; there is range");
                    return Err(self.wrong(message));
                }
                let values = self.values(")", names)?;
                if !(1..=3).contains(&values.len()) {
                    return Err(self.wrong("`range` takes an end, or a start, an end and a step"));
                }
                Expression::Range(values)
            }
            found => return Err(self.expected("a value", found.as_ref())),
        })
    }

    /// Values up to a closing bracket.
    fn values(
        &mut self,
        close: &str,
        names: &mut Names<'_>,
    ) -> Result<Vec<Expression>, Complaint> {
        let mut values = Vec::new();
        while !self.takes(close) {
            values.push(self.expression(names)?);
            if !self.takes(",") {
                self.mark(close)?;
                break;
            }
        }
        Ok(values)
    }

    /// A property of the loop.
    fn turn(&mut self, names: &mut Names<'_>) -> Read {
        self.mark(".")?;
        Ok(Expression::Turn(match self.name("a property of loop")? {
            "index" => Turn::Index,
            "index0" => Turn::Index0,
            "revindex" => Turn::RevIndex,
            "revindex0" => Turn::RevIndex0,
            "first" => Turn::First,
            "last" => Turn::Last,
            "length" => Turn::Length,
            "cycle" => {
                self.mark("(")?;
                let values = self.values(")", names)?;
                if values.is_empty() {
                    return Err(self.wrong("`loop.cycle` needs values"));
                }
                return Ok(Expression::Cycle(values));
            }
            other => {
                return Err(self.wrong(format!(
                    "there is no `loop.{other}`; there are index, index0, revindex, revindex0, \
                     first, last, length and cycle"
                )));
            }
        }))
    }

    /// What is done with a value.
    fn steps(&mut self, value: Expression, filters: bool, names: &mut Names<'_>) -> Read {
        let mut steps = Vec::new();
        loop {
            if self.takes(".") {
                steps.push(match self.next() {
                    Some(Token::Name(key)) => Step::Key(key.into()),
                    Some(Token::Integer(index)) => Step::Index(Expression::Integer(index)),
                    found => return Err(self.expected("a name", found.as_ref())),
                });
            } else if self.takes("[") {
                steps.push(self.index(names)?);
            } else if filters && self.takes("|") {
                let name = self.name("the name of a filter")?;
                let filter = filter::find(name)
                    .ok_or_else(|| self.wrong(filter::unknown(name)))?;
                let arguments = self.arguments(filter, names)?;
                steps.push(Step::Filter(filter, arguments));
            } else {
                break;
            }
        }
        if steps.is_empty() {
            return Ok(value);
        }
        Ok(Expression::Steps(Box::new(value), steps))
    }

    fn index(&mut self, names: &mut Names<'_>) -> Result<Step, Complaint> {
        let start = match self.takes(":") {
            true => None,
            false => {
                let start = self.expression(names)?;
                if self.takes("]") {
                    return Ok(Step::Index(start));
                }
                self.mark(":")?;
                Some(start)
            }
        };
        if self.takes("]") {
            return Ok(Step::Slice(start, None));
        }
        let end = self.expression(names)?;
        self.mark("]")?;
        Ok(Step::Slice(start, Some(end)))
    }

    /// The arguments of a filter, in the order of its parameters.
    fn arguments(
        &mut self,
        filter: &Filter,
        names: &mut Names<'_>,
    ) -> Result<Vec<Option<Expression>>, Complaint> {
        let mut arguments: Vec<Option<Expression>> =
            filter.parameters.iter().map(|_| None).collect();
        let mut places = 0..arguments.len();
        let mut more = self.takes("(") && !self.takes(")");
        while more {
            let named = match (self.peek(0), self.peek(1)) {
                (Some(Token::Name(name)), Some(Token::Mark("="))) => Some(*name),
                _ => None,
            };
            let place = if let Some(name) = named {
                (self.next(), self.next());
                filter.parameters.iter().position(|one| *one == name)
            } else {
                places.next()
            };
            let value = self.expression(names)?;
            match place.and_then(|place| arguments.get_mut(place)) {
                Some(argument) if argument.is_none() => *argument = Some(value),
                _ => return Err(self.wrong(filter.usage())),
            }
            more = self.takes(",");
            if !more {
                self.mark(")")?;
            }
        }
        if arguments.iter().take(filter.required).any(Option::is_none) {
            return Err(self.wrong(filter.usage()));
        }
        Ok(arguments)
    }

    /// `is` and `is not`.
    fn tested(&mut self, value: Expression, names: &mut Names<'_>) -> Read {
        if !self.takes_word("is") {
            return Ok(value);
        }
        let negated = self.takes_word("not");
        let name = self.name("the name of a test")?;
        let test = test::find(name).ok_or_else(|| self.wrong(test::unknown(name)))?;
        let argument = if test.has_argument {
            self.mark("(")?;
            let argument = self.expression(names)?;
            self.mark(")")?;
            Some(Box::new(argument))
        } else {
            None
        };
        Ok(Expression::Is {
            value: Box::new(value),
            test,
            argument,
            negated,
        })
    }

    fn operator(&mut self, operators: &[(&str, Operator)]) -> Option<Operator> {
        let mut known = operators.iter();
        let (_, operator) = known.find(|(mark, _)| self.takes(mark))?;
        Some(*operator)
    }

    fn peek(&self, further: usize) -> Option<&Token<'s>> {
        self.tokens.get(self.at + further).map(|(token, _)| token)
    }

    fn next(&mut self) -> Option<Token<'s>> {
        let (token, line) = self.tokens.get(self.at)?.clone();
        (self.at, self.line) = (self.at + 1, line);
        Some(token)
    }

    fn takes_if(&mut self, wanted: impl Fn(&Token<'s>) -> bool) -> bool {
        let taken = self.peek(0).is_some_and(wanted);
        if taken {
            self.next();
        }
        taken
    }

    fn deeper(&mut self) -> Result<(), Complaint> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.wrong(format!("more than {DEEPEST} values stand in each other")));
        }
        Ok(())
    }

    fn expected(&self, what: &str, found: Option<&Token<'_>>) -> Complaint {
        let found = found.map_or_else(|| "the end".into(), Token::shown);
        self.wrong(format!("{what} is expected, not {found}"))
    }

    fn wrong(&self, message: impl Into<String>) -> Complaint {
        Complaint::new(self.line, message)
    }
}

/// The only value, or all of them together.
fn single(mut values: Vec<Expression>, all: fn(Vec<Expression>) -> Expression) -> Expression {
    match values.pop() {
        Some(only) if values.is_empty() => only,
        last => {
            values.extend(last);
            all(values)
        }
    }
}

fn math(first: Expression, more: Vec<(Operator, Expression)>) -> Expression {
    if more.is_empty() {
        return first;
    }
    Expression::Math(Box::new(first), more)
}
