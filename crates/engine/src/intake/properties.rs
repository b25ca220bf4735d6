//! Any request, through the checks and into MIME: what is taken is read back by a parser that is
//! not ours as it was handed in, and nothing else is; what is not taken is refused by name.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use mail_parser::decoders::quoted_printable::quoted_printable_decode;
use mail_parser::{Address, Encoding, Message, MessageParser, MessagePart, MimeHeaders as _};
use posthaste_core::Timestamp;
use posthaste_core::address::Mailbox;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::mime::lines;
use super::{AttachmentRequest, EmailRequest, Refused, Submitter};
use crate::Policies;

/// The longest line of a message without its end (RFC 5322 §2.1.1).
const LONGEST_LINE: usize = 998;

/// Headers that every message has, or may have. None of them can be asked for.
const OWN_HEADERS: [&str; 9] = [
    "Message-ID",
    "Date",
    "From",
    "Subject",
    "To",
    "Cc",
    "Reply-To",
    "MIME-Version",
    "Content-Type",
];

/// Content and errors: the MIME message, or the fields that are wrong.
fn built(request: &EmailRequest) -> Result<Vec<u8>, Vec<String>> {
    let submitter = Submitter {
        owner: "owner".into(),
        from_addresses: Vec::new(),
    };
    let checked = request.clone().check(
        &submitter,
        &Policies::default(),
        None,
        Timestamp::UNIX_EPOCH,
    );
    match checked.map_err(|rejected| rejected.into_refused()) {
        Ok(email) => Ok(email.content.to_vec()),
        Err(Refused::Invalid(errors)) => Err(errors.into_iter().map(|one| one.field).collect()),
        Err(other) => panic!("{other}"),
    }
}

/// A line of text, of everything that a header may hold.
fn a_line() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~]{0,60}",
        "\\PC{0,60}",
        "[ -~]{60,300}",
        "<https://[a-z/]{70,300}>, <mailto:[a-z@]{1,90}>",
        "\\PC{60,300}",
        "[\"\\\\(),.:;<>@=?_ aé]{0,40}",
    ]
}

/// A body: ends of lines of all kinds, dots, blanks, long lines, any script.
fn a_body() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[\r\n. \tx]{0,12}",
        "\\PC{0,40}",
        "[a-z ]{0,120}",
        "x{990,1010}",
        "ü{500,520}",
        Just("\u{1b}\u{7f}\u{85}\u{2028}".to_owned()),
        Just("--=_boundary\r\nBcc: eve@example.org\r\n".to_owned()),
    ];
    vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

fn a_name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~]{0,40}",
        "\\PC{0,40}",
        "[a-z]{100,250}",
        "[ü日]{50,250}"
    ]
    .prop_map(|name| name.replace(['<', '>'], "").replace("=?", ""))
}

fn a_mailbox() -> impl Strategy<Value = String> {
    let domain = "[a-z]{1,20}(\\.[a-z]{1,20}){0,3}";
    (a_name(), "[a-z0-9+]{1,8}(\\.[a-z0-9+]{1,8}){0,2}", domain).prop_map(
        |(name, local, domain)| {
            let name = name.replace('\\', "\\\\").replace('"', "\\\"");
            format!("\"{name}\" <{local}@{domain}>")
        },
    )
}

prop_compose! {
    fn a_file()(
        filename in "[^\\p{Cc}\\s]{1,80}",
        content_type in option::of(select(&[
            "text/plain", "Text/Plain", "text/html; charset=utf-16", "text/calendar", "image/png",
            "message/rfc822", "application/x; name=\"a\"", "application/octet-stream",
        ][..])),
        content in prop_oneof![
            vec(any::<u8>(), 0..300),
            "[\r\n. \tx]{0,30}".prop_map(String::into_bytes),
            "[a-z\n]{0,3000}".prop_map(String::into_bytes),
        ],
        content_id in option::of("[a-z0-9@.(),]{1,30}"),
    ) -> AttachmentRequest {
        AttachmentRequest {
            filename,
            content_type: content_type.map(str::to_owned),
            content: BASE64.encode(content),
            content_id,
        }
    }
}

fn a_header() -> impl Strategy<Value = BTreeMap<String, String>> {
    btree_map("X-[A-Za-z0-9-]{1,30}", a_line(), 0..4)
}

prop_compose! {
    /// A request that is in order.
    fn a_request()(
        from in a_mailbox(),
        to in vec(a_mailbox(), 1..4),
        cc in vec(a_mailbox(), 0..3),
        reply_to in vec(a_mailbox(), 0..2),
        subject in a_line(),
        text in option::of(a_body()),
        html in a_body(),
        headers in a_header(),
        attachments in vec(a_file(), 0..3),
    ) -> EmailRequest {
        EmailRequest {
            from,
            to,
            cc,
            reply_to,
            bcc: vec!["hidden@hidden.example".into()],
            subject,
            html: (text.is_none() || html.len() % 2 == 0).then_some(html),
            text,
            headers,
            attachments,
            ..EmailRequest::default()
        }
    }
}

/// A text that would like to be more than that.
fn a_forgery() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[\r\n\0\t ]{0,2}Bcc: eve@example\\.org[\r\n]{0,4}",
        "=\\?utf-8\\?[qb]\\?[a-z=0]{0,9}\\?=",
        "[\"<>@\\\\();:,=?a\r\n\0]{0,20}",
        "[a-z]{900,2100}",
        Just("text/plain".to_owned()),
        a_mailbox(),
    ]
}

prop_compose! {
    /// A request in which one field or two are not in order.
    fn a_hostile_request()(
        mut request in a_request(),
        places in vec(0..11, 1..3),
        texts in (a_forgery(), a_forgery()),
    ) -> EmailRequest {
        let (text, other) = texts;
        for place in places {
            let text = text.clone();
            let file = AttachmentRequest { filename: "a".into(), ..AttachmentRequest::default() };
            match place {
                0 => request.from = text,
                1 => request.to.push(text),
                2 => request.cc.push(text),
                3 => request.reply_to.push(text),
                4 => request.subject = text,
                5 => drop(request.headers.insert(text, other.clone())),
                6 => drop(request.headers.insert("X-Hostile".into(), text)),
                7 => request.attachments.push(AttachmentRequest { filename: text, ..file }),
                8 => request.attachments.push(AttachmentRequest { content_type: Some(text), ..file }),
                9 => request.attachments.push(AttachmentRequest { content_id: Some(text), ..file }),
                _ => request.attachments.push(AttachmentRequest { content: text, ..file }),
            }
        }
        request
    }
}

/// No line is too long, CR and LF only come together, and only the headers that were asked for
/// and our own are there.
fn assert_legal(request: &EmailRequest, bytes: &[u8]) {
    assert!(bytes.ends_with(b"\r\n"));
    let text = String::from_utf8_lossy(bytes);
    let (header, _) = text.split_once("\r\n\r\n").unwrap();
    for line in bytes[..bytes.len() - 2].split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        assert!(line.len() <= LONGEST_LINE, "{}", line.escape_ascii());
        assert!(!line.contains(&b'\r'), "{}", line.escape_ascii());
    }
    let ends = bytes.windows(2).filter(|pair| pair == b"\r\n").count();
    assert_eq!(bytes.iter().filter(|byte| **byte == b'\n').count(), ends);

    let is_folded = |line: &&str| line.starts_with([' ', '\t']);
    let mut names: Vec<&str> = header
        .split("\r\n")
        .filter(|line| !is_folded(line))
        .map(|line| line.split_once(':').unwrap().0)
        .filter(|name| *name != "Content-Transfer-Encoding")
        .collect();
    names.sort_unstable();
    let is_there = |name: &&str| match *name {
        "Cc" => !request.cc.is_empty(),
        "Reply-To" => !request.reply_to.is_empty(),
        _ => true,
    };
    let asked = request.headers.keys().map(String::as_str);
    let mut expected: Vec<&str> = OWN_HEADERS
        .into_iter()
        .filter(is_there)
        .chain(asked)
        .collect();
    expected.sort_unstable();
    assert_eq!(names, expected);
    assert!(!text.contains("hidden.example"), "bcc never shows");
}

/// What a part holds, decoded by its own encoding and no charset.
fn octets(message: &Message<'_>, part: &MessagePart<'_>) -> Vec<u8> {
    let raw =
        &message.raw_message()[part.raw_body_offset() as usize..part.raw_end_offset() as usize];
    match part.encoding {
        Encoding::None => raw.to_vec(),
        Encoding::QuotedPrintable => quoted_printable_decode(raw).unwrap(),
        Encoding::Base64 => {
            let is_content = |byte: &u8| !byte.is_ascii_whitespace();
            BASE64
                .decode(raw.iter().copied().filter(is_content).collect::<Vec<_>>())
                .unwrap()
        }
    }
}

/// Blanks around a header's text do not belong to it, and where there are several in a fold, the
/// parser leaves one.
fn words_of(text: &str) -> String {
    let words = text
        .split([' ', '\t', '\r', '\n'])
        .filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
}

fn assert_mailboxes(read: Option<&Address<'_>>, given: &[String]) {
    let read = read.into_iter().flat_map(Address::iter);
    let read: Vec<_> = read.map(|one| (one.name(), one.address())).collect();
    let given: Vec<_> = given
        .iter()
        .map(|text| Mailbox::parse(text).unwrap())
        .collect();
    let expected: Vec<_> = given
        .iter()
        .map(|one| (one.name.as_deref(), Some(one.address.as_str())))
        .collect();
    assert_eq!(read, expected);
}

fn assert_read_as_given(request: &EmailRequest, bytes: &[u8]) {
    let parser = MessageParser::new().with_minimal_headers();
    let parser = parser.default_header_text();
    let message = parser.parse(bytes).unwrap();
    assert_mailboxes(message.from(), std::slice::from_ref(&request.from));
    assert_mailboxes(message.to(), &request.to);
    assert_mailboxes(message.cc(), &request.cc);
    assert_mailboxes(message.reply_to(), &request.reply_to);
    assert_eq!(
        words_of(message.subject().unwrap_or_default()),
        words_of(&request.subject)
    );
    for (name, value) in &request.headers {
        let read = message
            .header(name.as_str())
            .and_then(|value| value.as_text());
        assert_eq!(
            words_of(read.unwrap_or_default()),
            words_of(value),
            "{name}"
        );
        let is_plain = |word: &str| !word.is_empty() && word.len() <= 900 && word.is_ascii();
        if value.split(' ').all(is_plain) {
            let raw = message.header_raw(name.as_str()).unwrap_or_default();
            assert_eq!(words_of(raw), *value, "it needs no encoding");
        }
    }

    let (files, bodies): (Vec<_>, Vec<_>) = message
        .parts
        .iter()
        .filter(|part| part.sub_parts().is_none())
        .partition(|part| part.content_disposition().is_some());
    let given = [("plain", &request.text), ("html", &request.html)];
    let given: Vec<_> = given
        .into_iter()
        .filter_map(|(kind, body)| Some((kind, body.as_ref()?)))
        .collect();
    assert_eq!(bodies.len(), given.len());
    for (part, (kind, body)) in bodies.into_iter().zip(given) {
        assert_eq!(part.content_type().unwrap().subtype(), Some(kind));
        let read = String::from_utf8(octets(&message, part)).unwrap();
        let body = lines(body);
        // A message ends with its last line, and so does a body that is all of it.
        let is_same = read == body || read.strip_suffix("\r\n") == Some(&*body);
        assert!(is_same, "{read:?} of {body:?}");
    }

    let has_html = request.html.is_some();
    let is_inline = |file: &&AttachmentRequest| has_html && file.content_id.is_some();
    let inline = request.attachments.iter().filter(is_inline);
    let attached = request.attachments.iter().filter(|file| !is_inline(file));
    let given: Vec<_> = inline.chain(attached).collect();
    assert_eq!(files.len(), given.len());
    for (part, file) in files.into_iter().zip(given) {
        let content = BASE64.decode(file.content.trim()).unwrap();
        assert_eq!(octets(&message, part), content, "{file:?}");
        assert_eq!(part.content_id(), file.content_id.as_deref());
        if !is_inline(&file) {
            assert_eq!(part.attachment_name(), Some(file.filename.as_str()));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn a_message_is_read_as_it_was_handed_in(request in a_request()) {
        let bytes = built(&request).unwrap();
        assert_legal(&request, &bytes);
        assert_read_as_given(&request, &bytes);
    }

    #[test]
    fn no_text_becomes_more_than_a_text(request in a_hostile_request()) {
        match built(&request) {
            Ok(bytes) => {
                assert_legal(&request, &bytes);
                assert_read_as_given(&request, &bytes);
            }
            Err(fields) => prop_assert!(fields.iter().all(|field| !field.is_empty())),
        }
    }
}
