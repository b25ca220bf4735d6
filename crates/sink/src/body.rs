//! Receiving a message: the end of the data, dot-unstuffing and the size limit, in
//! whatever pieces it arrives.
//!
//! Only CRLF ends a line. `LF.LF`, `CR.CR` and their mixtures are content and never
//! end the message (RFC 5321 §4.1.1.4): a server that is lenient here lets one message
//! smuggle in another.

use crate::wire::find_newline;

/// Enough to find a Message-ID when the message itself is not kept.
const HEADER_BYTES: usize = 64 * 1024;

/// The message being received.
pub(crate) struct Body {
    /// The unstuffed bytes, as far as they are kept.
    pub(crate) bytes: Vec<u8>,
    /// The size of the whole unstuffed message.
    pub(crate) size_bytes: usize,
    keep_bytes: usize,
    /// Everything so far ended with CRLF: a dot would be the first of its line.
    at_line_start: bool,
}

/// What [`Body::consume`] did.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    /// How many bytes were used. The rest (at most two, if not complete) must be
    /// offered again with what follows.
    pub(crate) consumed: usize,
    /// The final dot was found.
    pub(crate) complete: bool,
}

impl Body {
    /// An empty body. `keep_whole` keeps all of it up to `max_size`, else only enough
    /// for the header.
    pub(crate) fn new(keep_whole: bool, max_size: usize) -> Self {
        Self {
            bytes: Vec::new(),
            size_bytes: 0,
            keep_bytes: if keep_whole { max_size } else { HEADER_BYTES },
            at_line_start: true,
        }
    }

    /// Makes it ready for the next message, keeping the allocation.
    pub(crate) fn reset(&mut self) {
        self.bytes.clear();
        self.size_bytes = 0;
        self.at_line_start = true;
    }

    /// Takes what it can use of `input`.
    pub(crate) fn consume(&mut self, input: &[u8]) -> Progress {
        // `input[run..position]` is content that is checked but not yet appended.
        let mut run = 0;
        let mut position = 0;
        loop {
            if self.at_line_start && input.get(position) == Some(&b'.') {
                match &input[position + 1..] {
                    [b'\r', b'\n', ..] => {
                        self.append(&input[run..position]);
                        return Progress {
                            consumed: position + 3,
                            complete: true,
                        };
                    }
                    [] | [b'\r'] => {
                        self.append(&input[run..position]);
                        return Progress {
                            consumed: position,
                            complete: false,
                        };
                    }
                    _ => {
                        self.append(&input[run..position]);
                        position += 1;
                        run = position;
                        self.at_line_start = false;
                    }
                }
            }
            let Some(newline) = find_newline(&input[position..]) else {
                break;
            };
            // A CR never stays behind in an earlier piece (see below), so looking
            // back within this line is enough.
            self.at_line_start = newline > 0 && input[position + newline - 1] == b'\r';
            position += newline + 1;
        }
        // A CR at the end waits for what follows it.
        let rest = &input[position..];
        let held = usize::from(rest.ends_with(b"\r"));
        if rest.len() > held {
            self.at_line_start = false;
        }
        let end = input.len() - held;
        self.append(&input[run..end]);
        Progress {
            consumed: end,
            complete: false,
        }
    }

    fn append(&mut self, content: &[u8]) {
        self.size_bytes += content.len();
        let room = self.keep_bytes.saturating_sub(self.bytes.len());
        self.bytes
            .extend_from_slice(&content[..content.len().min(room)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `input` in two pieces, as the wire would; gives the body and what is left.
    fn receive(input: &[u8], split: usize) -> Option<(Vec<u8>, Vec<u8>)> {
        let mut body = Body::new(true, 1000);
        let first = body.consume(&input[..split]);
        if first.complete {
            return Some((body.bytes, input[first.consumed..].to_vec()));
        }
        assert!(split - first.consumed <= 2, "at most two bytes wait");
        let rest = &input[first.consumed..];
        let second = body.consume(rest);
        second
            .complete
            .then(|| (body.bytes, rest[second.consumed..].to_vec()))
    }

    #[test]
    fn the_body_is_the_same_wherever_the_packets_are_cut() {
        let cases: &[(&[u8], &[u8])] = &[
            (b".\r\n", b""),
            (b"a\r\n.\r\n", b"a\r\n"),
            (b"..\r\n.\r\n", b".\r\n"),
            (b"...a\r\n.\r\n", b"..a\r\n"),
            (b".a\r\n..b\r\n.\r\n", b"a\r\n.b\r\n"),
            (b"a\n.\n.\r\nb\r\n.\r\n", b"a\n.\n.\r\nb\r\n"),
            (b"a\n.\r\nb\r\n.\r\n", b"a\n.\r\nb\r\n"),
            (b"a\r.\r\nb\r\n.\r\n", b"a\r.\r\nb\r\n"),
            (b"a\r\n.\nb\r\n.\r\n", b"a\r\n\nb\r\n"),
            (b"a\r\n.\rb\r\n.\r\n", b"a\r\n\rb\r\n"),
            (b"\r\r\n\r\n\n\r\n.\r\n", b"\r\r\n\r\n\n\r\n"),
            (b"a.\r\n.b.\r\n.\r\n", b"a.\r\nb.\r\n"),
        ];
        for (input, expected) in cases {
            for split in 0..=input.len() {
                let mut pipelined = input.to_vec();
                pipelined.extend_from_slice(b"QUIT\r\n");
                let (body, rest) = receive(&pipelined, split).expect("the dot is found");
                let context = format!("{:?} cut at {split}", input.escape_ascii().to_string());
                assert_eq!(body, *expected, "{context}");
                assert_eq!(rest, b"QUIT\r\n", "{context}");
            }
        }
    }

    /// What RFC 5321 §4.5.2 tells a sender to do, line by line: one more dot before a dot. Only
    /// CRLF ends a line, so CR and LF that stand alone are content like any other octet.
    fn sent(content: &[u8]) -> Vec<u8> {
        let mut wire = Vec::new();
        let mut rest = content;
        while !rest.is_empty() {
            let end = rest.windows(2).position(|pair| pair == b"\r\n");
            let (line, after) = rest.split_at(end.map_or(rest.len(), |end| end + 2));
            if line.starts_with(b".") {
                wire.push(b'.');
            }
            wire.extend_from_slice(line);
            rest = after;
        }
        if !content.ends_with(b"\r\n") {
            wire.extend_from_slice(b"\r\n");
        }
        wire.extend_from_slice(b".\r\n");
        wire
    }

    #[test]
    fn every_short_mixture_of_dots_and_line_ends_arrives_byte_for_byte() {
        for number in 0..4_usize.pow(8) {
            let content: Vec<u8> = (0..8)
                .map(|place| b"\r\n.x"[number >> (2 * place) & 3])
                .collect();
            let wire = sent(&content);
            let mut expected = content.clone();
            if !content.ends_with(b"\r\n") {
                expected.extend_from_slice(b"\r\n");
            }
            // Whole, and cut where it changes with the content.
            for split in [wire.len(), number % wire.len()] {
                let received = receive(&wire, split);
                let expected = Some((expected.clone(), Vec::new()));
                assert_eq!(received, expected, "{} at {split}", content.escape_ascii());
            }
        }
    }

    #[test]
    fn nothing_but_a_dot_between_two_crlf_ends_the_data() {
        let cases: &[&[u8]] = &[
            b"a\n.\n",
            b"a\r\n.\n",
            b"a\n.\r\n",
            b"a\r.\r",
            b"a\r\n.\r",
            b"a\r\n.",
            b"a\r\n..\r\n",
            b"a\r\n. \r\n",
            b"a.\r\n",
        ];
        for input in cases {
            for split in 0..=input.len() {
                assert_eq!(receive(input, split), None, "{}", input.escape_ascii());
            }
        }
    }

    #[test]
    fn the_whole_size_is_counted_when_only_a_part_is_kept() {
        let mut body = Body::new(true, 4);
        assert!(body.consume(b"123456\r\n.\r\n").complete);
        assert_eq!(body.size_bytes, 8);
        assert_eq!(body.bytes, b"1234");
    }
}
