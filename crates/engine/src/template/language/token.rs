//! The words of a tag.

use super::Complaint;

/// A word.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token<'s> {
    Name(&'s str),
    Text(String),
    Integer(i128),
    Float(f64),
    /// An operator or a bracket.
    Mark(&'static str),
}

impl Token<'_> {
    /// How it is shown in errors.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Name(name) => format!("`{name}`"),
            Self::Text(_) => "a text".into(),
            Self::Integer(_) | Self::Float(_) => "a number".into(),
            Self::Mark(mark) => format!("`{mark}`"),
        }
    }
}

/// Longer ones first.
const MARKS: [&str; 24] = [
    "==", "!=", "<=", ">=", "//", "**", "<", ">", "=", "+", "-", "*", "/", "%", "~", "|", ".", ",",
    ":", "(", ")", "[", "]", "{",
];

/// Reads the words of a tag.
pub(super) fn read(source: &str, first_line: usize) -> Result<Vec<(Token<'_>, usize)>, Complaint> {
    let mut tokens = Vec::new();
    let mut line = first_line;
    let mut rest = source;
    loop {
        let trimmed = rest.trim_start();
        line += rest[..rest.len() - trimmed.len()].matches('\n').count();
        rest = trimmed;
        let Some(first) = rest.chars().next() else {
            return Ok(tokens);
        };
        let (token, length) = if first == '_' || first.is_alphabetic() {
            let length = rest
                .find(|c: char| c != '_' && !c.is_alphanumeric())
                .unwrap_or(rest.len());
            (Token::Name(&rest[..length]), length)
        } else if first.is_ascii_digit() {
            number(rest).ok_or_else(|| Complaint::new(line, "has a number that is too large"))?
        } else if matches!(first, '"' | '\'') {
            text(rest, first)
                .ok_or_else(|| Complaint::new(line, "has a text without its closing quote"))?
        } else {
            let mark = MARKS.iter().find(|mark| rest.starts_with(**mark));
            let mark = mark
                .ok_or_else(|| Complaint::new(line, format!("`{first}` is not expected here")))?;
            (Token::Mark(mark), mark.len())
        };
        tokens.push((token, line));
        line += rest[..length].matches('\n').count();
        rest = &rest[length..];
    }
}

fn number(source: &str) -> Option<(Token<'static>, usize)> {
    let digits = |from: usize| {
        source[from..]
            .find(|c: char| !c.is_ascii_digit())
            .map_or(source.len(), |length| from + length)
    };
    let whole = digits(0);
    let is_float = source[whole..].starts_with('.')
        && source[whole + 1..].starts_with(|c: char| c.is_ascii_digit());
    if is_float {
        let end = digits(whole + 1);
        return Some((Token::Float(source[..end].parse().ok()?), end));
    }
    Some((Token::Integer(source[..whole].parse().ok()?), whole))
}

fn text(source: &str, quote: char) -> Option<(Token<'static>, usize)> {
    let mut text = String::new();
    let mut characters = source.char_indices().skip(1);
    while let Some((at, character)) = characters.next() {
        if character == quote {
            return Some((Token::Text(text), at + 1));
        }
        text.push(match character {
            '\\' => match characters.next()?.1 {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                other => other,
            },
            other => other,
        });
    }
    None
}
