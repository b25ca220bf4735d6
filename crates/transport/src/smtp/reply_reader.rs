//! Reads replies out of whatever bytes a server sends.
//!
//! It does no I/O and must never panic, nor keep more than a bounded number of bytes, whatever
//! comes in. What is not a reply is refused; the connection is of no use after that.

use posthaste_core::reply::{Enhanced, Reply};

/// The longest line in octets. RFC 5321 says 512; servers say more.
const LONGEST_LINE: usize = 4 * 1024;
/// The longest reply in octets.
const LONGEST_REPLY: usize = 64 * 1024;
/// The most lines of a reply.
const MOST_LINES: usize = 128;
/// Room for the longest line, and for many short replies at once.
const BUFFER: usize = 2 * LONGEST_LINE;
/// How much of a line that is no reply is repeated to people, in characters.
const LONGEST_EXCERPT: usize = 60;

/// A reply with its lines, without the codes in front of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RawReply {
    /// The three-digit code.
    pub(super) code: u16,
    /// The lines, separated by LF.
    text: String,
}

impl RawReply {
    /// 2xx.
    pub(super) fn is_positive(&self) -> bool {
        self.code / 100 == 2
    }

    /// 4xx or 5xx.
    pub(super) fn is_negative(&self) -> bool {
        matches!(self.code / 100, 4 | 5)
    }

    /// The server will close the connection.
    pub(super) fn is_closing(&self) -> bool {
        self.code == 421
    }

    /// The lines.
    pub(super) fn lines(&self) -> impl Iterator<Item = &str> {
        self.text.split('\n')
    }

    /// The reply as it is kept: in one line. Servers that give an enhanced code repeat it in
    /// every line; once is enough.
    pub(super) fn to_reply(&self) -> Reply {
        if !self.text.contains('\n') {
            return Reply::new(self.code, &self.text);
        }
        let first = self.lines().next().and_then(Enhanced::parse_prefix);
        let first = first.map(|(code, _)| code);
        let mut joined = String::with_capacity(self.text.len());
        for (index, line) in self.lines().enumerate() {
            let line = match Enhanced::parse_prefix(line) {
                Some((code, rest)) if index > 0 && Some(code) == first => rest,
                _ => line,
            };
            if index > 0 {
                joined.push(' ');
            }
            joined.push_str(line);
        }
        Reply::new(self.code, &joined)
    }
}

/// Collects bytes and gives out replies.
pub(super) struct ReplyReader {
    buffer: Box<[u8]>,
    /// What is not used yet: `buffer[start..end]`.
    start: usize,
    end: usize,
    /// There is no LF before this position.
    searched: usize,
    /// The lines of an unfinished reply.
    partial: Option<Partial>,
}

struct Partial {
    reply: RawReply,
    lines: usize,
    octets: usize,
}

impl ReplyReader {
    pub(super) fn new() -> Self {
        Self {
            buffer: vec![0; BUFFER].into_boxed_slice(),
            start: 0,
            end: 0,
            searched: 0,
            partial: None,
        }
    }

    /// Whether there is nothing left over: no byte came that was not asked for.
    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end && self.partial.is_none()
    }

    /// Room for more bytes; never empty as long as [`Self::next`] is asked in between.
    pub(super) fn room(&mut self) -> &mut [u8] {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.searched -= self.start;
            self.start = 0;
        }
        &mut self.buffer[self.end..]
    }

    /// Says how many bytes were put into the room.
    pub(super) fn filled(&mut self, count: usize) {
        self.end = (self.end + count).min(self.buffer.len());
    }

    /// The next whole reply, if it is there. The error says how the protocol was broken.
    pub(super) fn next(&mut self) -> Result<Option<RawReply>, String> {
        loop {
            let unsearched = &self.buffer[self.searched..self.end];
            let Some(position) = unsearched.iter().position(|&byte| byte == b'\n') else {
                self.searched = self.end;
                if self.end - self.start >= LONGEST_LINE {
                    return Err(format!("a line of more than {LONGEST_LINE} octets"));
                }
                return Ok(None);
            };
            let newline = self.searched + position;
            let start = std::mem::replace(&mut self.start, newline + 1);
            self.searched = self.start;
            if self.start - start > LONGEST_LINE {
                return Err(format!("a line of more than {LONGEST_LINE} octets"));
            }
            let line = &self.buffer[start..newline];
            if let Some(reply) = take_line(&mut self.partial, line)? {
                return Ok(Some(reply));
            }
        }
    }
}

/// Adds a line to the reply; the reply, if that was the last one.
fn take_line(partial: &mut Option<Partial>, line: &[u8]) -> Result<Option<RawReply>, String> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let (code, is_last, text) = split_line(line).ok_or_else(|| {
        let text = String::from_utf8_lossy(line);
        let excerpt = text.escape_debug().take(LONGEST_EXCERPT);
        format!("`{}` is not a reply", excerpt.collect::<String>())
    })?;
    let text = String::from_utf8_lossy(text);
    let Some(mut unfinished) = partial.take() else {
        let reply = RawReply {
            code,
            text: text.into_owned(),
        };
        if is_last {
            return Ok(Some(reply));
        }
        *partial = Some(Partial {
            reply,
            lines: 1,
            octets: line.len(),
        });
        return Ok(None);
    };
    let before = unfinished.reply.code;
    if code != before {
        return Err(format!(
            "a reply that begins as {before} and goes on as {code}"
        ));
    }
    unfinished.lines += 1;
    unfinished.octets += line.len();
    if unfinished.lines > MOST_LINES || unfinished.octets > LONGEST_REPLY {
        return Err(format!(
            "a reply of more than {MOST_LINES} lines or {LONGEST_REPLY} octets"
        ));
    }
    unfinished.reply.text.push('\n');
    unfinished.reply.text.push_str(&text);
    if is_last {
        return Ok(Some(unfinished.reply));
    }
    *partial = Some(unfinished);
    Ok(None)
}

/// Takes `250-text` apart: code, whether it is the last line, text.
fn split_line(line: &[u8]) -> Option<(u16, bool, &[u8])> {
    let (digits, rest) = line.split_first_chunk::<3>()?;
    if !(b'2'..=b'5').contains(&digits[0]) || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let code = digits
        .iter()
        .fold(0, |code, digit| code * 10 + u16::from(digit - b'0'));
    match rest {
        [] => Some((code, true, rest)),
        [b' ', text @ ..] => Some((code, true, text)),
        [b'-', text @ ..] => Some((code, false, text)),
        _ => None,
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
