//! Splits a template into text, values to write and tags.
//!
//! A line that holds nothing but a tag leaves no empty line behind; `-` at the edge of a tag takes
//! all blanks there with it, `+` none.

use super::Complaint;

/// A piece of a template.
pub(super) struct Piece<'s> {
    pub(super) kind: Kind,
    pub(super) text: &'s str,
    /// Where it begins.
    pub(super) line: usize,
}

/// What a piece is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Text, to be written as it is.
    Text,
    /// The inside of `{{ … }}`.
    Write,
    /// The inside of `{% … %}`.
    Tag,
}

/// How a piece of code begins and ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Code {
    Write,
    Tag,
    Comment,
}

impl Code {
    const fn marks(self) -> (&'static str, &'static str) {
        match self {
            Self::Write => ("{{", "}}"),
            Self::Tag => ("{%", "%}"),
            Self::Comment => ("{#", "#}"),
        }
    }
}

/// What happens to the blanks at an edge.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Edge {
    Usual,
    TakeAll,
    TakeNone,
}

impl Edge {
    const fn of(mark: Option<u8>) -> Self {
        match mark {
            Some(b'-') => Self::TakeAll,
            Some(b'+') => Self::TakeNone,
            _ => Self::Usual,
        }
    }
}

/// Splits a template.
pub(super) fn split(source: &str) -> Result<Vec<Piece<'_>>, Complaint> {
    let mut splitter = Splitter {
        source,
        at: 0,
        line: 1,
        pieces: Vec::new(),
    };
    while let Some((open, code)) = splitter.next_code() {
        splitter.take(open, code)?;
    }
    splitter.push(Kind::Text, splitter.at, source.len());
    Ok(splitter.pieces)
}

struct Splitter<'s> {
    source: &'s str,
    /// Up to here everything is split.
    at: usize,
    line: usize,
    pieces: Vec<Piece<'s>>,
}

impl<'s> Splitter<'s> {
    /// Where code begins next, and which.
    fn next_code(&self) -> Option<(usize, Code)> {
        let mut from = self.at;
        loop {
            let open = from + self.source[from..].find('{')?;
            let code = match self.source.as_bytes().get(open + 1) {
                Some(b'{') => Code::Write,
                Some(b'%') => Code::Tag,
                Some(b'#') => Code::Comment,
                _ => {
                    from = open + 1;
                    continue;
                }
            };
            return Some((open, code));
        }
    }

    /// Takes the text before a piece of code, and the code.
    fn take(&mut self, open: usize, code: Code) -> Result<(), Complaint> {
        let text_end = self.before(self.at, open, code);
        self.push(Kind::Text, self.at, text_end);
        self.go_to(open);
        let (inside, end) = self.inside(open, code)?;
        match code {
            Code::Write => self.push_text(Kind::Write, inside),
            Code::Tag if inside == "raw" => {
                let line = self.line;
                self.after(end, code);
                return self.take_raw(line);
            }
            Code::Tag => self.push_text(Kind::Tag, inside),
            Code::Comment => {}
        }
        self.after(end, code);
        Ok(())
    }

    /// Takes text up to `{% endraw %}` as it is.
    fn take_raw(&mut self, line: usize) -> Result<(), Complaint> {
        let start = self.at;
        let mut from = start;
        while let Some(found) = self.source[from..].find("{%") {
            let open = from + found;
            if let Some(rest) = after_endraw(&self.source[open + 2..]) {
                let end = self.source.len() - rest.len();
                self.push(Kind::Text, start, self.before(start, open, Code::Tag));
                self.after(end, Code::Tag);
                return Ok(());
            }
            from = open + 2;
        }
        Err(Complaint::new(line, "`{% raw %}` needs an `{% endraw %}`"))
    }

    /// What stands inside of the code that opens here, and where the code ends.
    fn inside(&self, open: usize, code: Code) -> Result<(&'s str, usize), Complaint> {
        let (begin, end) = code.marks();
        let rest = &self.source[open + 2..];
        let close = match code {
            Code::Comment => rest.find(end),
            Code::Write | Code::Tag => find_outside_of_quotes(rest, end),
        };
        let close = close.ok_or_else(|| {
            Complaint::new(self.line, format!("`{begin}` is not closed by `{end}`"))
        })?;
        let inside = rest[..close]
            .strip_prefix(['-', '+'])
            .unwrap_or(&rest[..close]);
        let inside = inside.strip_suffix(['-', '+']).unwrap_or(inside);
        Ok((inside.trim(), open + 2 + close + 2))
    }

    /// Where the text ends that stands before code.
    fn before(&self, start: usize, open: usize, code: Code) -> usize {
        let text = &self.source[start..open];
        let kept = match Edge::of(self.source.as_bytes().get(open + 2).copied()) {
            Edge::TakeAll => text.trim_end(),
            Edge::Usual if code != Code::Write => {
                let kept = text.trim_end_matches([' ', '\t']);
                let begins_line = start == 0 || self.source[..start].ends_with('\n');
                let is_alone = kept.ends_with('\n') || (kept.is_empty() && begins_line);
                if is_alone { kept } else { text }
            }
            _ => text,
        };
        start + kept.len()
    }

    /// Goes on after code that ends here.
    fn after(&mut self, end: usize, code: Code) {
        let rest = &self.source[end..];
        let left = match Edge::of(self.source.as_bytes().get(end - 3).copied()) {
            Edge::TakeAll => rest.trim_start(),
            Edge::Usual if code != Code::Write => {
                let without_cr = rest.strip_prefix('\r').unwrap_or(rest);
                without_cr.strip_prefix('\n').unwrap_or(rest)
            }
            _ => rest,
        };
        self.go_to(self.source.len() - left.len());
    }

    fn push(&mut self, kind: Kind, start: usize, end: usize) {
        if start < end {
            self.push_text(kind, &self.source[start..end]);
        }
    }

    fn push_text(&mut self, kind: Kind, text: &'s str) {
        let line = self.line;
        self.pieces.push(Piece { kind, text, line });
    }

    fn go_to(&mut self, at: usize) {
        let passed = &self.source.as_bytes()[self.at..at];
        self.line += passed.iter().filter(|byte| **byte == b'\n').count();
        self.at = at;
    }
}

/// What follows on the rest of an `{% endraw %}`, if it is one.
fn after_endraw(rest: &str) -> Option<&str> {
    let rest = rest.strip_prefix(['-', '+']).unwrap_or(rest).trim_start();
    let rest = rest.strip_prefix("endraw")?.trim_start();
    rest.strip_prefix(['-', '+'])
        .unwrap_or(rest)
        .strip_prefix("%}")
}

fn find_outside_of_quotes(text: &str, mark: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut quote = None;
    let mut at = 0;
    while at < bytes.len() {
        match (quote, bytes[at]) {
            (Some(_), b'\\') => at += 1,
            (Some(open), byte) if open == byte => quote = None,
            (None, byte @ (b'\'' | b'"')) => quote = Some(byte),
            (None, _) if bytes[at..].starts_with(mark.as_bytes()) => return Some(at),
            _ => {}
        }
        at += 1;
    }
    None
}
