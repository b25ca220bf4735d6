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
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Everything that comes out of `bytes` when they arrive in pieces of `size`.
    fn read(bytes: &[u8], size: usize) -> Vec<Result<RawReply, String>> {
        let mut reader = ReplyReader::new();
        let mut out = Vec::new();
        let mut rest = bytes;
        loop {
            loop {
                match reader.next() {
                    Ok(Some(reply)) => out.push(Ok(reply)),
                    Ok(None) => break,
                    Err(error) => {
                        out.push(Err(error));
                        return out;
                    }
                }
            }
            if rest.is_empty() {
                return out;
            }
            let room = reader.room();
            let count = rest.len().min(size).min(room.len());
            assert!(count > 0, "the reader has no room left");
            room[..count].copy_from_slice(&rest[..count]);
            reader.filled(count);
            rest = &rest[count..];
        }
    }

    fn read_one(bytes: &[u8]) -> Reply {
        let replies = read(bytes, usize::MAX);
        assert_eq!(replies.len(), 1, "{replies:?}");
        replies[0].as_ref().unwrap().to_reply()
    }

    #[test]
    fn replies_of_one_line_and_of_several_are_read() {
        assert_eq!(
            read_one(b"250 2.1.0 Sender ok\r\n"),
            Reply::new(250, "2.1.0 Sender ok")
        );
        assert_eq!(read_one(b"354\r\n"), Reply::new(354, ""));
        assert_eq!(read_one(b"250 bare LF\n"), Reply::new(250, "bare LF"));
        assert_eq!(
            read_one(b"550-5.1.1 No such user\r\n550-5.1.1 at this\r\n550 5.1.1 host\r\n"),
            Reply::new(550, "5.1.1 No such user at this host")
        );
        assert_eq!(
            read_one(b"250-mx.example.org\r\n250-SIZE 100\r\n250 PIPELINING\r\n"),
            Reply::new(250, "mx.example.org SIZE 100 PIPELINING")
        );
    }

    #[test]
    fn several_replies_in_one_packet_come_one_by_one() {
        let codes: Vec<u16> = read(b"250 a\r\n250-b\r\n250 c\r\n354 d\r\n", usize::MAX)
            .into_iter()
            .map(|reply| reply.unwrap().code)
            .collect();
        assert_eq!(codes, [250, 250, 354]);
    }

    #[test]
    fn what_is_not_a_reply_is_refused() {
        for bytes in [
            &b"\r\n"[..],
            b"hello\r\n",
            b"25 x\r\n",
            b"150 x\r\n",
            b"650 x\r\n",
            b"2500 x\r\n",
            b"250_x\r\n",
            b"250-a\r\n251 b\r\n",
            b"250-a\r\nb\r\n",
            b"\x00\xff\xfe\r\n",
        ] {
            let replies = read(bytes, usize::MAX);
            assert!(replies[0].is_err(), "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn an_error_does_not_carry_control_characters() {
        let error = read(b"\x1b[31mred\r\n", usize::MAX).remove(0).unwrap_err();
        assert_eq!(error, "`\\u{1b}[31mred` is not a reply");
    }

    #[test]
    fn a_line_without_end_is_refused_after_4_kib() {
        let mut line = b"250 ".to_vec();
        line.resize(10_000_000, b'x');
        for size in [1, 1000, usize::MAX] {
            assert!(read(&line, size)[0].is_err());
        }
        // Even if its end comes with the same packet.
        line.truncate(LONGEST_LINE + 1);
        line.push(b'\n');
        assert!(read(&line, usize::MAX)[0].is_err());
    }

    #[test]
    fn a_reply_without_end_is_refused() {
        assert!(read(&b"250-x\r\n".repeat(129), usize::MAX)[0].is_err());
        let long = [b"250-", &[b'x'; 4000][..], b"\r\n"].concat();
        assert!(read(&long.repeat(17), usize::MAX)[0].is_err());
        let enough = [&b"250-x\r\n".repeat(127)[..], b"250 x\r\n"].concat();
        assert!(read(&enough, usize::MAX)[0].is_ok());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic_however_they_are_cut(
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
            size in 1_usize..20,
        ) {
            prop_assert_eq!(read(&bytes, size), read(&bytes, usize::MAX));
        }

        #[test]
        fn what_looks_like_replies_never_panics_however_it_is_cut(
            text in "([2-5][0-9]{2}[ -]?[a-z.0-9]{0,8}\r?\n){0,12}",
            size in 1_usize..20,
        ) {
            for reply in read(text.as_bytes(), size).into_iter().flatten() {
                let _ = reply.to_reply();
            }
            prop_assert_eq!(read(text.as_bytes(), size), read(text.as_bytes(), usize::MAX));
        }
    }
}
