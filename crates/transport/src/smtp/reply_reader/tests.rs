//! Replies as servers give them, and what only looks like one.

use super::properties::read_in_pieces;
use super::*;

/// Everything that comes out of `bytes` when they arrive in pieces of `size`.
fn read(bytes: &[u8], size: usize) -> Vec<Result<RawReply, String>> {
    read_in_pieces(bytes, &[size])
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
