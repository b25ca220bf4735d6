//! Whatever a server sends, in whatever pieces it arrives.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use super::*;

/// Everything that comes out of `bytes` when they arrive in pieces of these sizes, over and over.
/// It looks on the way that the reader never keeps more than it may.
pub(super) fn read_in_pieces(bytes: &[u8], sizes: &[usize]) -> Vec<Result<RawReply, String>> {
    let mut reader = ReplyReader::new();
    let mut sizes = sizes.iter().cycle();
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
        assert_bounded(&reader);
        if rest.is_empty() {
            return out;
        }
        let room = reader.room();
        let size = sizes.next().copied().unwrap_or(usize::MAX);
        let count = rest.len().min(size).min(room.len());
        assert!(count > 0, "the reader has no room left");
        room[..count].copy_from_slice(&rest[..count]);
        reader.filled(count);
        rest = &rest[count..];
    }
}

fn assert_bounded(reader: &ReplyReader) {
    assert_eq!(reader.buffer.len(), BUFFER);
    if let Some(partial) = &reader.partial {
        // A byte that is not UTF-8 becomes a character of three.
        assert!(partial.reply.text.len() <= 3 * LONGEST_REPLY + MOST_LINES);
    }
}

/// A reply as a server would give it.
#[derive(Debug, Clone)]
struct Given {
    code: u16,
    lines: Vec<String>,
    line_end: &'static str,
}

impl Given {
    fn wire_lines(&self) -> Vec<String> {
        let last = self.lines.len() - 1;
        let lines = self.lines.iter().enumerate();
        let line = |(index, text): (usize, &String)| {
            let mark = if index < last { '-' } else { ' ' };
            format!("{}{mark}{text}{}", self.code, self.line_end)
        };
        lines.map(line).collect()
    }

    fn wire(&self) -> String {
        self.wire_lines().concat()
    }

    fn raw(&self) -> RawReply {
        RawReply {
            code: self.code,
            text: self.lines.join("\n"),
        }
    }
}

fn wire_of(replies: &[Given]) -> String {
    replies.iter().map(Given::wire).collect()
}

fn a_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[^\r\n]{0,40}",
        "[245]\\.[0-9]{1,3}\\.[0-9]{1,3} [a-z ]{0,20}"
    ]
}

fn a_reply() -> impl Strategy<Value = Given> {
    let line_end = prop_oneof![4 => Just("\r\n"), 1 => Just("\n")];
    (200_u16..600, vec(a_text(), 1..6), line_end).prop_map(|(code, lines, line_end)| Given {
        code,
        lines,
        line_end,
    })
}

/// Sizes of packets.
fn sizes() -> impl Strategy<Value = Vec<usize>> {
    let mixed = vec(prop_oneof![4 => 1_usize..20, 1 => 1_usize..9000], 1..12);
    prop_oneof![1 => Just(vec![1]), 3 => mixed]
}

/// A piece of what a server may send: replies, what resembles them, lines about as long as is
/// allowed, and anything.
fn a_piece() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => a_reply().prop_map(|reply| reply.wire().into_bytes()),
        4 => "[1-6]?[0-9]{2,4}[ -]?[a-z.0-9]{0,8}\r?\n?".prop_map(String::into_bytes),
        2 => vec(any::<u8>(), 0..60),
        1 => (LONGEST_LINE - 9..LONGEST_LINE + 9, any::<bool>()).prop_map(|(length, is_last)| {
            let mut line = if is_last { b"250 ".to_vec() } else { b"250-".to_vec() };
            line.resize(length, b'x');
            line.extend_from_slice(b"\r\n");
            line
        }),
    ]
}

/// Makes one line of a reply such that it is none any more.
#[derive(Debug, Clone)]
enum Damage {
    FirstDigit(char),
    NoDigit(char),
    Mark(char),
    OtherCode(u16),
    Cut(usize),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        "[016-9]".prop_map(|digit| Damage::FirstDigit(first(&digit))),
        "[^0-9\r\n]".prop_map(|character| Damage::NoDigit(first(&character))),
        "[^ \\-\r\n]".prop_map(|character| Damage::Mark(first(&character))),
        (1_u16..400).prop_map(Damage::OtherCode),
        (0_usize..3).prop_map(Damage::Cut),
    ]
}

fn first(text: &str) -> char {
    text.chars().next().unwrap()
}

impl Damage {
    /// The line with its damage; none if it cannot have this one: a reply of a single line may
    /// have any code.
    fn done_to(&self, line: &str, reply: &Given) -> Option<String> {
        match self {
            Self::FirstDigit(digit) => Some(format!("{digit}{}", &line[1..])),
            Self::NoDigit(character) => Some(format!("{}{character}{}", &line[..1], &line[2..])),
            Self::Mark(mark) => Some(format!("{}{mark}{}", &line[..3], &line[4..])),
            Self::OtherCode(by) => {
                let other = 200 + (reply.code - 200 + by) % 400;
                (reply.lines.len() > 1).then(|| format!("{other}{}", &line[3..]))
            }
            Self::Cut(length) => Some(format!("{}{}", &line[..*length], reply.line_end)),
        }
    }
}

proptest! {
    #[test]
    fn replies_are_read_as_they_were_given(replies in vec(a_reply(), 0..6), sizes in sizes()) {
        let expected: Vec<_> = replies.iter().map(|reply| Ok(reply.raw())).collect();
        prop_assert_eq!(read_in_pieces(wire_of(&replies).as_bytes(), &sizes), expected);
    }

    /// The codes decide what is tried again and what is given up, so one that is wrong in a single
    /// place is not taken for another.
    #[test]
    fn a_damaged_reply_is_refused_and_those_before_it_are_not(
        before in vec(a_reply(), 0..3),
        reply in a_reply(),
        at in any::<Index>(),
        damage in damage(),
        sizes in sizes(),
    ) {
        let mut lines = reply.wire_lines();
        let at = at.index(lines.len());
        let Some(damaged) = damage.done_to(&lines[at], &reply) else {
            return Ok(());
        };
        lines[at] = damaged;
        let mut read = read_in_pieces((wire_of(&before) + &lines.concat()).as_bytes(), &sizes);
        let last = read.pop();
        prop_assert!(matches!(last, Some(Err(_))), "{:?}: {:?}", lines, last);
        let expected: Vec<_> = before.iter().map(|reply| Ok(reply.raw())).collect();
        prop_assert_eq!(read, expected);
    }

    #[test]
    fn whatever_comes_is_read_the_same_however_it_is_cut(
        pieces in vec(a_piece(), 0..12),
        sizes in sizes(),
    ) {
        let bytes = pieces.concat();
        let read = read_in_pieces(&bytes, &sizes);
        prop_assert_eq!(&read, &read_in_pieces(&bytes, &[usize::MAX]));
        for reply in read {
            let shown = match reply {
                Ok(reply) => {
                    prop_assert!((200..600).contains(&reply.code));
                    reply.to_reply().to_string()
                }
                Err(error) => error,
            };
            prop_assert!(!shown.chars().any(char::is_control), "{:?}", shown);
            prop_assert!(shown.chars().count() <= 520, "{:?}", shown);
        }
    }

    #[test]
    fn a_reply_is_refused_exactly_where_it_is_over_a_limit(
        lengths in prop_oneof![
            vec(0..50_usize, 100..160),
            vec(prop_oneof![3000..LONGEST_LINE, LONGEST_LINE - 9..LONGEST_LINE], 1..24),
        ],
        sizes in sizes(),
    ) {
        let reply = Given {
            code: 250,
            lines: lengths.iter().map(|length| "x".repeat(*length)).collect(),
            line_end: "\r\n",
        };
        let lines = reply.wire_lines();
        let octets: usize = lines.iter().map(|line| line.len() - 2).sum();
        let fits = lines.len() <= MOST_LINES
            && (lines.len() == 1 || octets <= LONGEST_REPLY)
            && lines.iter().all(|line| line.len() <= LONGEST_LINE);
        let read = read_in_pieces(reply.wire().as_bytes(), &sizes);
        prop_assert_eq!(read.len(), 1);
        prop_assert_eq!(read[0].is_ok(), fits);
    }
}
