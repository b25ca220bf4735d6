//! Reads a template: its texts, values and tags.

use std::collections::{BTreeSet, HashSet};

use super::Complaint;
use super::expression::Words;
use super::source::{Kind, Piece, split};
use super::tree::{Branch, Loop, Node};

/// How deep tags may stand in each other.
const DEEPEST: usize = 20;

/// Reads a template: what to do, and the variables that it needs or may need.
pub(super) fn read(source: &str) -> Result<(Vec<Node>, BTreeSet<String>), Complaint> {
    let mut parser = Parser {
        pieces: split(source)?.into_iter(),
        names: Names::default(),
        depth: 0,
    };
    match parser.nodes(&[])? {
        (nodes, None) => Ok((nodes, parser.names.needed)),
        (_, Some(end)) => Err(Complaint::new(
            end.line,
            format!("`{}` ends nothing that was begun", end.word),
        )),
    }
}

/// Which names stand for variables.
pub(super) struct Names<'s> {
    needed: BTreeSet<String>,
    /// Names that the template gives itself, by loop.
    own: Vec<HashSet<&'s str>>,
}

impl Default for Names<'_> {
    fn default() -> Self {
        Self {
            needed: BTreeSet::new(),
            own: vec![HashSet::new()],
        }
    }
}

impl<'s> Names<'s> {
    /// Notes that a name is used.
    pub(super) fn used(&mut self, name: &str) {
        if !self.own.iter().any(|own| own.contains(name)) {
            self.needed.insert(name.to_owned());
        }
    }

    /// Whether this stands in a loop.
    pub(super) fn in_loop(&self) -> bool {
        self.own.len() > 1
    }

    fn gives(&mut self, name: &'s str) {
        if let Some(own) = self.own.last_mut() {
            own.insert(name);
        }
    }
}

/// The tag at which a body ends.
struct End<'s> {
    word: &'s str,
    rest: Words<'s>,
    line: usize,
}

struct Parser<'s> {
    pieces: std::vec::IntoIter<Piece<'s>>,
    names: Names<'s>,
    depth: usize,
}

impl<'s> Parser<'s> {
    /// Reads up to one of these tags, or to the end.
    fn nodes(&mut self, ends: &[&str]) -> Result<(Vec<Node>, Option<End<'s>>), Complaint> {
        let mut nodes = Vec::new();
        while let Some(Piece { kind, text, line }) = self.pieces.next() {
            match kind {
                Kind::Text => nodes.push(Node::Text(text.into())),
                Kind::Write => {
                    let mut words = Words::read(text, line)?;
                    let value = words.expression(&mut self.names)?;
                    words.end()?;
                    nodes.push(Node::Write(value, line));
                }
                Kind::Tag => {
                    let mut rest = Words::read(text, line)?;
                    let word = rest.name("the name of a tag")?;
                    if matches!(word, "elif" | "else") || word.starts_with("end") {
                        let end = End { word, rest, line };
                        return if ends.contains(&word) || ends.is_empty() {
                            Ok((nodes, Some(end)))
                        } else {
                            Err(Complaint::new(
                                line,
                                format!("`{word}` stands where {} is expected", either(ends)),
                            ))
                        };
                    }
                    nodes.push(self.tag(word, rest, line)?);
                }
            }
        }
        Ok((nodes, None))
    }

    /// Reads up to one of these tags, which must come.
    fn body(
        &mut self,
        ends: &[&str],
        tag: &str,
        line: usize,
    ) -> Result<(Vec<Node>, End<'s>), Complaint> {
        match self.nodes(ends)? {
            (nodes, Some(end)) => Ok((nodes, end)),
            (_, None) => Err(Complaint::new(
                line,
                format!("`{tag}` is not ended; it needs {}", either(ends)),
            )),
        }
    }

    fn tag(&mut self, word: &str, words: Words<'s>, line: usize) -> Result<Node, Complaint> {
        self.depth += 1;
        if self.depth > DEEPEST {
            let message = format!("more than {DEEPEST} tags stand in each other");
            return Err(Complaint::new(line, message));
        }
        let node = match word {
            "if" => self.tag_if(words, line),
            "for" => self.tag_for(words, line),
            "set" => self.tag_set(words, line),
            _ => Err(Complaint::new(
                line,
                format!("there is no tag `{word}`; there are if, for, set and raw"),
            )),
        }?;
        self.depth -= 1;
        Ok(node)
    }

    fn tag_if(&mut self, mut words: Words<'s>, mut line: usize) -> Result<Node, Complaint> {
        let mut branches = Vec::new();
        loop {
            let condition = words.expression(&mut self.names)?;
            words.end()?;
            let (body, mut end) = self.body(&["elif", "else", "endif"], "if", line)?;
            branches.push(Branch {
                condition,
                body,
                line,
            });
            match end.word {
                "elif" => (words, line) = (end.rest, end.line),
                "else" => {
                    end.rest.end()?;
                    let (otherwise, mut end) = self.body(&["endif"], "else", end.line)?;
                    end.rest.end()?;
                    return Ok(Node::If {
                        branches,
                        otherwise,
                    });
                }
                _ => {
                    end.rest.end()?;
                    let otherwise = Vec::new();
                    return Ok(Node::If {
                        branches,
                        otherwise,
                    });
                }
            }
        }
    }

    fn tag_for(&mut self, mut words: Words<'s>, line: usize) -> Result<Node, Complaint> {
        let mut own = vec![words.name("a name for each value")?];
        while words.takes(",") {
            own.push(words.name("a name for each value")?);
        }
        words.word("in")?;
        let source = words.without_choice(&mut self.names)?;
        self.names.own.push(own.iter().copied().collect());
        let condition = if words.takes_word("if") {
            Some(words.expression(&mut self.names)?)
        } else {
            None
        };
        words.end()?;
        let (body, mut end) = self.body(&["else", "endfor"], "for", line)?;
        self.names.own.pop();
        end.rest.end()?;
        let mut otherwise = Vec::new();
        if end.word == "else" {
            (otherwise, end) = self.body(&["endfor"], "else", end.line)?;
            end.rest.end()?;
        }
        Ok(Node::For(Box::new(Loop {
            names: own.into_iter().map(Into::into).collect(),
            source,
            condition,
            body,
            otherwise,
            line,
        })))
    }

    fn tag_set(&mut self, mut words: Words<'s>, line: usize) -> Result<Node, Complaint> {
        let name = words.name("a name")?;
        words.mark("=")?;
        let value = words.expression(&mut self.names)?;
        words.end()?;
        self.names.gives(name);
        Ok(Node::Set(name.into(), value, line))
    }
}

fn either(words: &[&str]) -> String {
    let quoted: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
    quoted.join(" or ")
}
