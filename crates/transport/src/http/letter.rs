//! Our own MIME message, taken apart into what providers ask for one by one.
//!
//! Files are taken over byte for byte: their encoding is undone, their character set is not.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use mail_parser::decoders::quoted_printable::quoted_printable_decode;
use mail_parser::{
    Address, ContentType, Encoding, HeaderForm, HeaderValue, Message, MessageParser, MessagePart,
    MimeHeaders, PartType,
};

use super::person::Person;

/// What goes out, by its parts.
#[derive(Debug, Default)]
pub(super) struct Letter {
    pub(super) from: Option<Person>,
    pub(super) reply_to: Vec<Person>,
    pub(super) subject: String,
    pub(super) text: Option<String>,
    pub(super) html: Option<String>,
    pub(super) calendar: Option<Calendar>,
    /// Attachments and inline files.
    pub(super) files: Vec<File>,
    /// Headers of the caller's own, decoded.
    pub(super) headers: Vec<(String, String)>,
    /// With its angle brackets.
    pub(super) message_id: Option<String>,
}

/// An invitation where readers look for one.
#[derive(Debug)]
pub(super) struct Calendar {
    pub(super) method: Option<String>,
    pub(super) content: String,
    base64: String,
}

/// A file that goes along.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct File {
    pub(super) name: String,
    /// Type and subtype.
    pub(super) kind: String,
    /// What else the type says, such as `; charset=utf-8`.
    pub(super) parameters: String,
    pub(super) base64: String,
    /// Without angle brackets; only if the file stands inside the HTML body.
    pub(super) content_id: Option<String>,
}

impl File {
    /// The type with its parameters.
    pub(super) fn whole_kind(&self) -> String {
        format!("{}{}", self.kind, self.parameters)
    }
}

/// Headers that providers set themselves or take in fields of their own.
fn is_field(name: &str) -> bool {
    const FIELDS: [&str; 13] = [
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
        "return-path",
        "received",
        "dkim-signature",
    ];
    let name = name.to_ascii_lowercase();
    FIELDS.contains(&name.as_str()) || name.starts_with("content-")
}

/// The people in an address header.
pub(super) fn people(header: Option<&Address<'_>>) -> Vec<Person> {
    let addresses = header.into_iter().flat_map(Address::iter);
    let person = |known: &mail_parser::Addr<'_>| {
        Some(Person {
            name: known.name().map(str::to_owned),
            address: known.address()?.to_owned(),
        })
    };
    addresses.filter_map(person).collect()
}

impl Letter {
    /// Takes a message apart; `None` if it is none.
    pub(super) fn read(content: &[u8]) -> Option<Self> {
        let message = MessageParser::default().parse(content)?;
        let mut letter = Self {
            from: people(message.from()).into_iter().next(),
            reply_to: people(message.reply_to()),
            subject: message.subject().unwrap_or_default().to_owned(),
            message_id: message.message_id().map(|id| format!("<{id}>")),
            headers: headers(&message),
            ..Self::default()
        };
        for part in &message.parts {
            letter.take(&message, part);
        }
        Some(letter)
    }

    fn take(&mut self, message: &Message<'_>, part: &MessagePart<'_>) {
        if matches!(part.body, PartType::Multipart(_)) {
            return;
        }
        let kind = part.content_type().map_or_else(plain_text, kind_of);
        let is_file = part
            .content_disposition()
            .is_some_and(|disposition| disposition.is_attachment());
        match (kind.as_str(), &part.body) {
            ("text/plain", PartType::Text(text)) if !is_file && self.text.is_none() => {
                self.text = Some(text.to_string());
            }
            ("text/html", PartType::Html(html)) if !is_file && self.html.is_none() => {
                self.html = Some(html.to_string());
            }
            ("text/calendar", PartType::Text(content)) if !is_file && self.calendar.is_none() => {
                let method = part
                    .content_type()
                    .and_then(|kind| kind.attribute("method"));
                self.calendar = Some(Calendar {
                    method: method.map(str::to_owned),
                    content: content.to_string(),
                    base64: base64_of(message, part),
                });
            }
            _ => {
                let file = File {
                    name: part
                        .attachment_name()
                        .map_or_else(|| made_up_name(&kind, self.files.len() + 1), str::to_owned),
                    parameters: part.content_type().map_or_else(String::new, parameters_of),
                    base64: base64_of(message, part),
                    content_id: part.content_id().map(bare).filter(|_| !is_file),
                    kind,
                };
                self.files.push(file);
            }
        }
    }

    /// The files for a provider that takes no further alternative of the body: the invitation goes
    /// along as a file whose type says what it is. The copy that our message has for simple
    /// readers is then one too many.
    pub(super) fn files_with_invitation(&self) -> Vec<File> {
        let mut files = self.files.clone();
        let Some(calendar) = &self.calendar else {
            return files;
        };
        let copy = files
            .iter()
            .position(|file| file.kind == "application/ics" && file.base64 == calendar.base64);
        let name = copy.map_or_else(|| "invite.ics".to_owned(), |at| files.remove(at).name);
        let method = calendar.method.as_deref();
        files.push(File {
            name,
            kind: "text/calendar".to_owned(),
            parameters: format!(
                "; charset=utf-8{}",
                method.map_or_else(String::new, |method| format!("; method={method}"))
            ),
            base64: calendar.base64.clone(),
            content_id: None,
        });
        files
    }

    /// The text, where a provider insists on a body and the message has none.
    pub(super) fn text_or_blank(&self) -> Option<&str> {
        let is_filled = |body: &Option<String>| body.as_ref().is_some_and(|text| !text.is_empty());
        match (is_filled(&self.text), is_filled(&self.html)) {
            (true, _) => self.text.as_deref(),
            (false, true) => None,
            (false, false) => Some(" "),
        }
    }

    /// The HTML, if there is any.
    pub(super) fn html(&self) -> Option<&str> {
        self.html.as_deref().filter(|html| !html.is_empty())
    }
}

fn headers(message: &Message<'_>) -> Vec<(String, String)> {
    let mut headers: Vec<(String, String)> = Vec::new();
    for header in message.headers() {
        let name = header.name();
        let is_known = |(known, _): &(String, String)| known.eq_ignore_ascii_case(name);
        if is_field(name) || headers.iter().any(is_known) {
            continue;
        }
        let values = message.header_as(header.name.clone(), HeaderForm::Text);
        if let Some(HeaderValue::Text(value)) = values.into_iter().next() {
            headers.push((name.to_owned(), value.into_owned()));
        }
    }
    headers
}

fn plain_text() -> String {
    "text/plain".to_owned()
}

fn kind_of(kind: &ContentType<'_>) -> String {
    let subtype = kind.subtype().unwrap_or("octet-stream");
    format!("{}/{subtype}", kind.ctype()).to_ascii_lowercase()
}

fn parameters_of(kind: &ContentType<'_>) -> String {
    let attributes = kind.attributes().unwrap_or_default().iter();
    attributes
        .filter(|attribute| attribute.name != "name")
        .map(|attribute| format!("; {}={}", attribute.name, attribute.value))
        .collect()
}

/// A name for a file that has none, with an ending that programs recognise.
fn made_up_name(kind: &str, number: usize) -> String {
    let (family, subtype) = kind.split_once('/').unwrap_or(("file", "bin"));
    let ending = subtype.split('+').next().unwrap_or(subtype);
    let ending = match ending {
        "plain" => "txt",
        "rfc822" => "eml",
        ending if ending.len() <= 5 => ending,
        _ => "bin",
    };
    format!("{family}-{number}.{ending}")
}

fn bare(id: &str) -> String {
    id.trim_start_matches('<').trim_end_matches('>').to_owned()
}

/// The part's content in base64, without line ends.
fn base64_of(message: &Message<'_>, part: &MessagePart<'_>) -> String {
    let from = part.raw_body_offset() as usize;
    let to = part.raw_end_offset() as usize;
    let raw = message.raw_message().get(from..to).unwrap_or_default();
    match part.encoding {
        Encoding::Base64 => raw
            .iter()
            .filter(|byte| !byte.is_ascii_whitespace())
            .map(|&byte| char::from(byte))
            .collect(),
        Encoding::QuotedPrintable => {
            BASE64.encode(quoted_printable_decode(raw).unwrap_or_else(|| raw.to_vec()))
        }
        Encoding::None => BASE64.encode(raw),
    }
}
