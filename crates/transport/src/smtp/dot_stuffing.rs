//! Makes a message safe to end with a dot, without copying it.
//!
//! A line that begins with a dot gets a second one (RFC 5321 §4.5.2). Only CRLF ends a line: a
//! dot after a bare LF or CR stays alone, because the receiver takes off only what belongs there.
//! Nothing else is touched: every byte arrives as it was given.

use memchr::memchr_iter;

const LINE_END: &[u8] = b"\r\n";

/// The pieces of the stuffed message, in order. They overlap by the dot that is to be doubled.
/// Together they end in CRLF: one is added if the content has none.
pub(super) fn stuffed(content: &[u8]) -> Pieces<'_> {
    Pieces {
        content,
        start: 0,
        searched: 0,
        end_is_due: !content.ends_with(LINE_END),
    }
}

/// The size of the message in octets, as SIZE counts it: with its line ends, without stuffing.
pub(super) fn size_of(content: &[u8]) -> u64 {
    let end = if content.ends_with(LINE_END) { 0 } else { 2 };
    content.len() as u64 + end
}

/// See [`stuffed`].
pub(super) struct Pieces<'a> {
    content: &'a [u8],
    /// Where the next piece begins.
    start: usize,
    /// Dots before this position are dealt with.
    searched: usize,
    /// Whether a CRLF must be added at the end.
    end_is_due: bool,
}

impl<'a> Iterator for Pieces<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if let Some(dot) = self.next_dot() {
            let piece = &self.content[self.start..=dot];
            // The dot ends this piece and begins the next: that doubles it.
            self.start = dot;
            self.searched = dot + 1;
            return Some(piece);
        }
        if self.start < self.content.len() {
            let piece = &self.content[self.start..];
            self.start = self.content.len();
            self.searched = self.start;
            return Some(piece);
        }
        std::mem::take(&mut self.end_is_due).then_some(LINE_END)
    }
}

impl Pieces<'_> {
    /// The next dot that begins a line. This looks at every byte of every message, and finds one in
    /// hardly any.
    fn next_dot(&self) -> Option<usize> {
        let rest = self.content.get(self.searched..)?;
        let begins_line = |&dot: &usize| dot == 0 || self.content[..dot].ends_with(LINE_END);
        memchr_iter(b'.', rest)
            .map(|at| self.searched + at)
            .find(begins_line)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stuff(content: &[u8]) -> Vec<u8> {
        stuffed(content).collect::<Vec<_>>().concat()
    }

    /// What RFC 5321 tells a receiver to do, written apart from the sender: it reads line by
    /// line, and takes off the first of a line's dots.
    fn received(mut wire: &[u8]) -> (Vec<u8>, usize) {
        let total = wire.len();
        let mut message = Vec::new();
        loop {
            let end = wire.windows(2).position(|pair| pair == b"\r\n").unwrap() + 2;
            let (line, rest) = wire.split_at(end);
            wire = rest;
            match line {
                b".\r\n" => return (message, total - wire.len()),
                [b'.', line @ ..] => message.extend_from_slice(line),
                line => message.extend_from_slice(line),
            }
        }
    }

    fn assert_arrives(content: &[u8]) {
        let mut wire = stuff(content);
        wire.extend_from_slice(b".\r\n");
        let mut expected = content.to_vec();
        if !content.ends_with(b"\r\n") {
            expected.extend_from_slice(b"\r\n");
        }
        let (message, used) = received(&wire);
        assert_eq!(message, expected, "{}", content.escape_ascii());
        // The end is where we put it, and not before.
        assert_eq!(used, wire.len(), "{}", content.escape_ascii());
        let ends = wire.windows(5).filter(|five| five == b"\r\n.\r\n");
        assert_eq!(ends.count(), 1, "{}", content.escape_ascii());
        assert!(wire.ends_with(b"\r\n.\r\n"));
        assert_eq!(size_of(content), expected.len() as u64);
    }

    #[test]
    fn every_short_mixture_of_dots_and_line_ends_arrives_byte_for_byte() {
        for length in 0..=8_u32 {
            for number in 0..4_u32.pow(length) {
                let content: Vec<u8> = (0..length)
                    .map(|place| b"\r\n.x"[(number >> (2 * place) & 3) as usize])
                    .collect();
                assert_arrives(&content);
            }
        }
    }

    #[test]
    fn a_message_without_dots_at_line_starts_is_one_piece_of_the_original() {
        let content = b"Subject: x.\r\n\r\nend of line.\r\na.b\n.c\r\n".repeat(100);
        let pieces: Vec<&[u8]> = stuffed(&content).collect();
        assert_eq!(pieces.len(), 1);
        assert_eq!(pieces[0].as_ptr(), content.as_ptr());
    }

    #[test]
    fn a_dot_at_any_place_of_a_block_is_found() {
        for before in 0..200 {
            let mut content = vec![b'x'; before];
            content.extend_from_slice(b"\r\n.y");
            content.extend_from_slice(&[b'z'; 100]);
            assert_arrives(&content);
            assert_eq!(stuffed(&content).count(), 3);
        }
    }

    proptest! {
        #[test]
        fn any_content_arrives_byte_for_byte(
            content in proptest::collection::vec(
                prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'.'), any::<u8>()], 0..600,
            )
        ) {
            assert_arrives(&content);
        }
    }
}
