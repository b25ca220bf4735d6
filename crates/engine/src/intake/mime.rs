//! Builds the MIME message, once. The same bytes leave at every attempt.

use std::borrow::Cow;
use std::collections::BTreeMap;

use mail_builder::MessageBuilder;
use mail_builder::headers::HeaderType;
use mail_builder::headers::address::Address as HeaderAddress;
use mail_builder::headers::content_type::ContentType;
use mail_builder::headers::raw::Raw;
use mail_builder::headers::text::Text;
use mail_builder::mime::MimePart;
use memchr::{memchr, memchr_iter, memchr2};
use posthaste_core::Timestamp;
use posthaste_core::address::Mailbox;
use posthaste_core::email::EmailId;

use super::calendar::Calendar;

/// The longest line of a text that goes as it is, without its end (RFC 5322 §2.1.1).
const LONGEST_LINE: usize = 78;
/// The longest word of a header that goes as it is: with the header's name, which is before it in
/// the same line, it is below the 998 octets that a line may have.
const LONGEST_WORD: usize = 900;
/// The one character of ASCII above the printable ones.
const DELETE: u8 = 0x7f;

/// A file that goes along.
pub(super) struct Attachment {
    pub(super) filename: String,
    pub(super) content_type: String,
    pub(super) content: Vec<u8>,
    pub(super) content_id: Option<String>,
}

/// Everything a message is made of, already checked.
pub(super) struct Parts<'a> {
    pub(super) id: EmailId,
    pub(super) now: Timestamp,
    pub(super) from: &'a Mailbox,
    pub(super) to: &'a [Mailbox],
    pub(super) cc: &'a [Mailbox],
    pub(super) reply_to: &'a [Mailbox],
    pub(super) subject: &'a str,
    pub(super) text: Option<&'a str>,
    pub(super) html: Option<&'a str>,
    pub(super) headers: &'a BTreeMap<String, String>,
    pub(super) attachments: &'a [Attachment],
    pub(super) calendar: Option<&'a Calendar>,
}

/// Headers that Posthaste sets itself, or that only a mail server may set.
pub(super) fn is_owned_header(name: &str) -> bool {
    const OWNED: [&str; 16] = [
        "from",
        "to",
        "cc",
        "bcc",
        "sender",
        "reply-to",
        "subject",
        "date",
        "message-id",
        "mime-version",
        "dkim-signature",
        "return-path",
        "received",
        "authentication-results",
        "errors-to",
        "delivered-to",
    ];
    let name = name.to_ascii_lowercase();
    OWNED.contains(&name.as_str())
        || ["content-", "resent-", "arc-", "x-posthaste-"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
}

/// Whether a text is a media type, perhaps with parameters.
pub(super) fn is_content_type(text: &str) -> bool {
    let token = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&b))
    };
    let (media, parameters) = text.split_once(';').unwrap_or((text, ""));
    let is_media = media
        .trim()
        .split_once('/')
        .is_some_and(|(kind, sub)| token(kind) && token(sub));
    let plain = parameters.bytes().all(|b| (b' '..=b'~').contains(&b));
    is_media
        && plain
        && text.len() <= 255
        && !media.trim().to_ascii_lowercase().starts_with("multipart/")
}

fn addresses(mailboxes: &[Mailbox]) -> HeaderAddress<'_> {
    HeaderAddress::new_list(mailboxes.iter().map(address).collect())
}

fn address(mailbox: &Mailbox) -> HeaderAddress<'_> {
    HeaderAddress::new_address(mailbox.name.as_deref(), mailbox.address.as_str())
}

/// A further header. What is plain goes as it is, folded between its words: encoded, a link or an
/// address in it, as in List-Unsubscribe, would be lost on those who read it.
fn header_of(value: &str) -> HeaderType<'_> {
    let is_plain = |word: &str| {
        // Without one, there are blanks in a row, of which readers leave only one in a fold.
        !word.is_empty() && word.len() <= LONGEST_WORD && word.bytes().all(|b| b.is_ascii_graphic())
    };
    if value.split(' ').all(is_plain) {
        Raw::new(value).into()
    } else {
        Text::new(value).into()
    }
}

/// Every line ends in CR LF, whatever the caller's platform does: bare ones are not allowed in
/// mail, and some servers take them for the end of the message.
pub(super) fn lines(text: &str) -> Cow<'_, str> {
    if has_clean_ends(text.as_bytes()) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len() + text.len() / 16);
    let mut rest = text;
    while let Some(at) = memchr2(b'\r', b'\n', rest.as_bytes()) {
        let (line, end) = rest.split_at(at);
        clean.push_str(line);
        clean.push_str("\r\n");
        rest = end.strip_prefix("\r\n").unwrap_or(&end[1..]);
    }
    clean.push_str(rest);
    Cow::Owned(clean)
}

/// Whether CR and LF only come together: each LF follows a CR, and there are no more of these.
fn has_clean_ends(text: &[u8]) -> bool {
    let mut ends = 0;
    let follows_cr = |at: usize| {
        ends += 1;
        at > 0 && text[at - 1] == b'\r'
    };
    memchr_iter(b'\n', text).all(follows_cr) && memchr_iter(b'\r', text).count() == ends
}

/// Whether a text may go as it is: with clean ends of lines, in ASCII, no line too long, and no
/// blanks at an end of a line, where relays drop them.
fn is_plain(text: &[u8]) -> bool {
    let fits =
        |line: &[u8]| line.len() <= LONGEST_LINE && !matches!(line.last(), Some(b' ' | b'\t'));
    let (mut from, mut ends) = (0, 0);
    let line_fits = |at: usize| {
        let line = text[from..at].strip_suffix(b"\r");
        (from, ends) = (at + 1, ends + 1);
        line.is_some_and(fits)
    };
    text.is_ascii()
        && memchr(DELETE, text).is_none()
        && memchr_iter(b'\n', text).all(line_fits)
        && fits(&text[from..])
        && memchr_iter(b'\r', text).count() == ends
}

/// A text of this type. What is plain goes as it is; the rest is encoded as suits it.
fn text_part<'a>(kind: &'static str, text: &'a str) -> MimePart<'a> {
    // Most are plain as they come: then one look at each line is enough.
    let is_plain_already = is_plain(text.as_bytes());
    let text = match is_plain_already {
        true => Cow::Borrowed(text),
        false => lines(text),
    };
    let is_plain = is_plain_already || is_plain(text.as_bytes());
    let part = MimePart::new(kind, text);
    if is_plain {
        part.header("Content-Transfer-Encoding", Raw::new("7bit"))
    } else {
        part
    }
}

/// The finished message.
pub(super) fn build(parts: &Parts<'_>) -> Vec<u8> {
    let domain = parts.from.address.domain();
    let mut message = MessageBuilder::new()
        .message_id(format!("{}@{domain}", parts.id))
        .date(parts.now.as_second())
        .from(address(parts.from))
        .subject(parts.subject);
    if !parts.to.is_empty() {
        message = message.to(addresses(parts.to));
    }
    if !parts.cc.is_empty() {
        message = message.cc(addresses(parts.cc));
    }
    if parts.to.is_empty() && parts.cc.is_empty() {
        message = message.header("To", Raw::new("undisclosed-recipients:;"));
    }
    if !parts.reply_to.is_empty() {
        message = message.reply_to(addresses(parts.reply_to));
    }
    for (name, value) in parts.headers {
        message = message.header(name.as_str(), header_of(value));
    }
    let mut bytes = message.body(body(parts)).write_to_vec().unwrap_or_default();
    if !bytes.ends_with(b"\r\n") {
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// mixed( alternative( text, related( html, inline files ), calendar ), files, calendar file ),
/// without the levels that hold only one part.
fn body<'a>(parts: &'a Parts<'_>) -> MimePart<'a> {
    let (inline, attached): (Vec<_>, Vec<_>) = parts
        .attachments
        .iter()
        .partition(|file| file.content_id.is_some() && parts.html.is_some());
    let mut alternatives = Vec::new();
    if let Some(text) = parts.text {
        alternatives.push(text_part("text/plain", text));
    }
    if let Some(html) = parts.html {
        let html = text_part("text/html", html);
        let files = inline.into_iter().map(|file| part_of(file).inline());
        alternatives.push(wrap(
            "multipart/related",
            std::iter::once(html).chain(files).collect(),
        ));
    }
    if let Some(calendar) = parts.calendar {
        if alternatives.is_empty() {
            alternatives.push(MimePart::new("text/plain", stand_in(parts, calendar)));
        }
        alternatives.push(invitation(calendar));
    }
    let mut mixed = vec![wrap("multipart/alternative", alternatives)];
    mixed.extend(
        attached
            .into_iter()
            .map(|file| part_of(file).attachment(file.filename.as_str())),
    );
    if let Some(calendar) = parts.calendar {
        mixed.push(invitation_file(calendar));
    }
    wrap("multipart/mixed", mixed)
}

/// The calendar object where readers look for an invitation to answer: the last alternative. They
/// are picky. The method stands without quotes, as in all examples of RFC 6047. There is no
/// Content-Disposition: with one, some show a file instead. And base64, as Exchange does it, so
/// that no relay changes an octet of the object.
fn invitation(calendar: &Calendar) -> MimePart<'_> {
    let kind = format!("text/calendar; method={}; charset=utf-8", calendar.method);
    MimePart::raw(calendar.content.as_bytes()).header("Content-Type", Raw::new(kind))
}

/// The same object as a file, for readers that do not look at alternatives. Not as
/// `text/calendar`: some would take it for a second invitation.
fn invitation_file(calendar: &Calendar) -> MimePart<'_> {
    let name = calendar.filename();
    let kind = ContentType::new("application/ics").attribute("name", name);
    MimePart::new(kind, calendar.content.as_bytes()).attachment(name)
}

/// What those read who cannot read a calendar, if the caller said nothing: without it, some
/// readers show the object's source.
fn stand_in<'a>(parts: &Parts<'a>, calendar: &Calendar) -> &'a str {
    match parts.subject.trim() {
        "" => calendar.filename(),
        subject => subject,
    }
}

/// A file, always in base64: as a text, its ends of lines would be changed or break ours.
fn part_of(file: &Attachment) -> MimePart<'_> {
    let kind = Raw::new(file.content_type.as_str());
    let part = MimePart::raw(file.content.as_slice()).header("Content-Type", kind);
    match &file.content_id {
        Some(id) => part.cid(id.as_str()),
        None => part,
    }
}

/// A multipart of these, or the only one as it is.
fn wrap<'a>(kind: &'static str, mut parts: Vec<MimePart<'a>>) -> MimePart<'a> {
    match (parts.len(), parts.pop()) {
        (1, Some(only)) => only,
        (_, Some(last)) => {
            parts.push(last);
            MimePart::new(kind, parts)
        }
        (_, None) => MimePart::new("text/plain", ""),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_what_every_relay_leaves_alone_goes_as_it_is() {
        let longest = "x".repeat(LONGEST_LINE);
        for text in ["", "a", "a\r\n\r\nb\r\n", &longest] {
            assert!(is_plain(text.as_bytes()), "{text:?}");
        }
        let long = format!("a\r\n{longest}x\r\nb");
        for text in ["ä", "a \r\nb", "a\t", "a\r\nb ", "\u{7f}", &long] {
            assert!(!is_plain(text.as_bytes()), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn every_line_ends_in_cr_lf(text in "[ab\r\n]{0,40}") {
            let one_by_one = text
                .replace("\r\n", "\n")
                .replace('\r', "\n")
                .replace('\n', "\r\n");
            prop_assert_eq!(lines(&text), one_by_one);
        }
    }
}
