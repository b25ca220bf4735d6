//! What a template says, once it was read.

use super::filter::Filter;
use super::test::Test;

/// One thing to do.
pub(super) enum Node {
    /// Write this.
    Text(Box<str>),
    /// Write a value.
    Write(Expression, usize),
    /// Do what stands under the first condition that holds.
    If {
        branches: Vec<Branch>,
        otherwise: Vec<Self>,
    },
    /// Do something for each value of a list.
    For(Box<Loop>),
    /// Give a value a name.
    Set(Box<str>, Expression, usize),
}

/// A condition and what stands under it.
pub(super) struct Branch {
    pub(super) condition: Expression,
    pub(super) body: Vec<Node>,
    pub(super) line: usize,
}

/// `for`.
pub(super) struct Loop {
    /// What each value is called, or the values of each pair.
    pub(super) names: Vec<Box<str>>,
    pub(super) source: Expression,
    pub(super) condition: Option<Expression>,
    pub(super) body: Vec<Node>,
    pub(super) otherwise: Vec<Node>,
    pub(super) line: usize,
}

/// How to get at a value. Chains are flat, so that long ones are not deep ones.
pub(super) enum Expression {
    Null,
    Bool(bool),
    Integer(i128),
    Float(f64),
    Text(Box<str>),
    List(Vec<Self>),
    Name(Box<str>),
    /// A property of the loop.
    Turn(Turn),
    /// `loop.cycle(…)`.
    Cycle(Vec<Self>),
    /// `range(…)`.
    Range(Vec<Self>),
    /// A value, and what is done with it in turn.
    Steps(Box<Self>, Vec<Step>),
    Not(Box<Self>),
    Negative(Box<Self>),
    All(Vec<Self>),
    Any(Vec<Self>),
    Compare(Box<(Self, Self)>, Comparison),
    Is {
        value: Box<Self>,
        test: &'static Test,
        argument: Option<Box<Self>>,
        negated: bool,
    },
    /// Texts in one.
    Concat(Vec<Self>),
    /// Sums or products, from left to right.
    Math(Box<Self>, Vec<(Operator, Self)>),
    /// `a if b else c`.
    Choice(Box<Choice>),
}

/// `a if b else c`.
pub(super) struct Choice {
    pub(super) condition: Expression,
    pub(super) value: Expression,
    pub(super) otherwise: Expression,
}

/// What is done with a value.
pub(super) enum Step {
    /// `.key`
    Key(Box<str>),
    /// `[…]`
    Index(Expression),
    /// `[…:…]`
    Slice(Option<Expression>, Option<Expression>),
    /// `|filter(…)`, with an argument for each parameter.
    Filter(&'static Filter, Vec<Option<Expression>>),
}

/// What is known about the turn of a loop.
#[derive(Clone, Copy)]
pub(super) enum Turn {
    Index,
    Index0,
    RevIndex,
    RevIndex0,
    First,
    Last,
    Length,
}

/// How two values are compared.
#[derive(Clone, Copy)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    NotIn,
}

/// How two numbers are put together.
#[derive(Clone, Copy)]
pub(super) enum Operator {
    Plus,
    Minus,
    Times,
    Divided,
    Floored,
    Remainder,
}
