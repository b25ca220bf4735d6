//! Emails as Posthaste builds them, and transports to send them with.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use mail_builder::MessageBuilder;
use mail_builder::headers::address::Address;
use mail_builder::headers::content_type::ContentType;
use mail_builder::headers::raw::Raw;
use mail_builder::headers::text::Text;
use mail_builder::mime::MimePart;
use posthaste_core::answer::{Answer, Provider};
use posthaste_core::attempt::{Cause, Failure, Stage};
use posthaste_core::decision::{Receipt, RecipientResult};
use posthaste_core::port::Outgoing;
use posthaste_transport::{HttpConfig, HttpTransport, ProviderConfig};

use crate::fixture::email_with;
use crate::http::server::Server;

/// Every octet there is, so that nothing in between may touch one.
pub(crate) fn octets() -> Vec<u8> {
    (0..=255).collect()
}

/// A text that is no UTF-8.
pub(crate) const LATIN: &[u8] = b"Stra\xdfe;1\r\n";
pub(crate) const PICTURE: &[u8] = b"\x89PNG picture";
pub(crate) const TEXT: &str = "Grüße,\r\nZoë\r\n";
pub(crate) const HTML: &str = "<p>Grüße <img src=\"cid:logo@example.org\"></p>\r\n";
pub(crate) const ICS: &str =
    "BEGIN:VCALENDAR\r\nMETHOD:REQUEST\r\nSUMMARY:Grüße\r\nEND:VCALENDAR\r\n";

pub(crate) fn base64(bytes: impl AsRef<[u8]>) -> String {
    BASE64.encode(bytes)
}

/// A message with everything: names that need quotes and encoding, both bodies, a picture inside,
/// two files, an invitation as Posthaste attaches it, headers of its own.
pub(crate) fn everything() -> Vec<u8> {
    let html = MimePart::new(
        "multipart/related",
        vec![
            MimePart::new("text/html", HTML),
            MimePart::new("image/png", PICTURE)
                .cid("logo@example.org")
                .inline(),
        ],
    );
    let invitation = MimePart::raw(ICS.as_bytes()).header(
        "Content-Type",
        Raw::new("text/calendar; method=REQUEST; charset=utf-8"),
    );
    let alternatives = vec![MimePart::new("text/plain", TEXT), html, invitation];
    let kind = ContentType::new("application/ics").attribute("name", "invite.ics");
    let body = MimePart::new(
        "multipart/mixed",
        vec![
            MimePart::new("multipart/alternative", alternatives),
            MimePart::new("application/pdf", octets()).attachment("Übersicht.pdf"),
            MimePart::new("text/csv; charset=iso-8859-1", LATIN).attachment("list.csv"),
            MimePart::new(kind, ICS.as_bytes()).attachment("invite.ics"),
        ],
    );
    MessageBuilder::new()
        .message_id("id-1@example.org")
        .date(1_794_052_860_i64)
        .from(("Zoë, from the shop", "zoe@example.org"))
        .to(Address::new_list(vec![
            ("Doe, Jane", "jane@example.org").into(),
            ("Bob", "bob@example.org").into(),
        ]))
        .cc(Address::new_list(vec![("Çağrı", "cc@example.org").into()]))
        .reply_to(("Desk", "desk@example.org"))
        .subject("Grüße ✓")
        .header("X-Trip", Text::new("Zürich"))
        .header("List-Unsubscribe", Text::new("<https://example.org/u?a=1>"))
        .body(body)
        .write_to_vec()
        .unwrap()
}

/// A short message to these in To.
pub(crate) fn simple(to: &[&str], cc: &[&str]) -> Vec<u8> {
    let list = |addresses: &[&str]| {
        let addresses = addresses.iter().map(|text| Address::from(text.to_string()));
        Address::new_list(addresses.collect())
    };
    let mut message = MessageBuilder::new()
        .message_id("id-2@example.org")
        .from("ann@example.org")
        .subject("hello")
        .text_body("Hello.\r\n");
    if !to.is_empty() {
        message = message.to(list(to));
    }
    if !cc.is_empty() {
        message = message.cc(list(cc));
    }
    if to.is_empty() && cc.is_empty() {
        message = message.header("To", Raw::new("undisclosed-recipients:;"));
    }
    message.write_to_vec().unwrap()
}

/// A short email to Bob.
pub(crate) fn to_bob() -> Outgoing {
    email_with(&["bob@example.org"], &simple(&["bob@example.org"], &[]))
}

/// The email that has everything, to everybody it names and one more.
pub(crate) fn to_all() -> Outgoing {
    email_with(
        &[
            "jane@example.org",
            "bob@example.org",
            "cc@example.org",
            "hidden@example.org",
        ],
        &everything(),
    )
}

pub(crate) fn transport(provider: ProviderConfig) -> HttpTransport {
    HttpTransport::new(HttpConfig::new("api", provider)).unwrap()
}

/// One that waits for an answer no longer than it must, but long enough to have asked.
pub(crate) fn hasty(provider: ProviderConfig) -> HttpTransport {
    let mut config = HttpConfig::new("api", provider);
    config.connect_timeout = Duration::from_millis(1400);
    config.request_timeout = Duration::from_millis(1500);
    HttpTransport::new(config).unwrap()
}

pub(crate) fn resend(server: &Server) -> ProviderConfig {
    ProviderConfig::Resend {
        api_key: "re_secret-key".into(),
        base_url: Some(server.url()),
    }
}

pub(crate) fn accepted(text: &str, id: Option<&str>) -> RecipientResult {
    RecipientResult::Accepted(Receipt {
        text: text.to_owned(),
        provider_id: id.map(str::to_owned),
    })
}

pub(crate) fn refused(
    provider: Provider,
    status: u16,
    name: Option<&str>,
    text: &str,
) -> RecipientResult {
    let answer = Answer::new(provider, status, name, text);
    RecipientResult::Failed(Failure::new(Stage::Request, Cause::Answer(answer)))
}

/// The answer among what became of a recipient.
pub(crate) fn answer_in(result: &RecipientResult) -> &Answer {
    match result {
        RecipientResult::Failed(failure) => failure.answer().unwrap(),
        RecipientResult::Accepted(receipt) => panic!("{receipt:?}"),
    }
}
