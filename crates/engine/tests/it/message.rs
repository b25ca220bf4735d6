//! The MIME message: what callers hand in is what readers see, and nothing else.

use mail_parser::{MessageParser, MimeHeaders as _};
use posthaste_engine::intake::{AttachmentRequest, CalendarRequest, EmailRequest, Refused};

use crate::world::{World, a_request};

async fn built(request: EmailRequest) -> Vec<u8> {
    let world = World::new();
    let id = world.accept(request).await;
    let content = world.store.content(id).await.unwrap().unwrap();
    content.to_vec()
}

fn lines_are_legal(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for line in text.split("\r\n") {
        assert!(line.len() <= 998, "a line of {} octets", line.len());
        assert!(
            !line.contains('\n') && !line.contains('\r'),
            "a bare line end in {line:?}"
        );
    }
    assert!(bytes.ends_with(b"\r\n"));
}

#[tokio::test]
async fn names_subjects_and_bodies_survive_in_any_script() {
    let request = EmailRequest {
        from: "Jörg Müller <joerg@example.org>".into(),
        to: vec![
            "\"Doe, Ann\" <ann@example.org>".into(),
            "山田 <yamada@bücher.example>".into(),
        ],
        bcc: vec!["secret@example.org".into()],
        subject: "Grüße – 日本語 🎉".into(),
        text: Some("Zeile 1\nZeile 2 mit Ümlauten\r\n.\r\n..zwei Punkte\n".into()),
        html: Some("<p>Grüße</p>".into()),
        ..EmailRequest::default()
    };
    let bytes = built(request).await;
    lines_are_legal(&bytes);
    assert!(
        !String::from_utf8_lossy(&bytes).contains("secret@"),
        "bcc never shows"
    );
    let message = MessageParser::default().parse(&bytes).unwrap();
    assert_eq!(message.subject(), Some("Grüße – 日本語 🎉"));
    assert_eq!(
        message.from().unwrap().first().unwrap().name(),
        Some("Jörg Müller")
    );
    let to = message.to().unwrap().as_list().unwrap();
    assert_eq!(
        (to[0].name(), to[0].address()),
        (Some("Doe, Ann"), Some("ann@example.org"))
    );
    assert_eq!(
        (to[1].name(), to[1].address()),
        (Some("山田"), Some("yamada@xn--bcher-kva.example"))
    );
    let text = message.body_text(0).unwrap();
    assert_eq!(
        text.trim_end(),
        "Zeile 1\r\nZeile 2 mit Ümlauten\r\n.\r\n..zwei Punkte"
            .replace("\r\n", "\n")
            .trim_end()
            .replace('\n', "\r\n")
    );
    assert_eq!(message.body_html(0).unwrap().trim_end(), "<p>Grüße</p>");
    assert!(message.message_id().unwrap().ends_with("@example.org"));
    assert!(message.date().is_some());
}

#[tokio::test]
async fn a_body_with_a_lone_dot_arrives_as_it_was() {
    let body = "before\r\n.\r\n.hidden\r\n..\r\nafter\r\n";
    let bytes = built(EmailRequest {
        text: Some(body.into()),
        ..a_request()
    })
    .await;
    lines_are_legal(&bytes);
    let message = MessageParser::default().parse(&bytes).unwrap();
    assert_eq!(message.body_text(0).unwrap().trim_end(), body.trim_end());
}

#[tokio::test]
async fn a_line_of_ten_thousand_octets_is_encoded() {
    let body = "x".repeat(10_000);
    let bytes = built(EmailRequest {
        text: Some(body.clone()),
        ..a_request()
    })
    .await;
    lines_are_legal(&bytes);
    let message = MessageParser::default().parse(&bytes).unwrap();
    assert_eq!(message.body_text(0).unwrap().trim_end(), body);
}

#[tokio::test]
async fn files_and_inline_pictures_arrive_byte_for_byte() {
    let bytes: Vec<u8> = (0..=255).collect();
    let encoded = {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.encode(&bytes)
    };
    let request = EmailRequest {
        html: Some("<img src=\"cid:logo\">".into()),
        attachments: vec![
            AttachmentRequest {
                filename: "Rechnung – März.pdf".into(),
                content_type: Some("application/pdf".into()),
                content: encoded.clone(),
                content_id: None,
            },
            AttachmentRequest {
                filename: "logo.png".into(),
                content_type: Some("image/png".into()),
                content: encoded,
                content_id: Some("logo".into()),
            },
        ],
        ..a_request()
    };
    let message_bytes = built(request).await;
    lines_are_legal(&message_bytes);
    let message = MessageParser::default().parse(&message_bytes).unwrap();
    let files: Vec<_> = message.attachments().collect();
    assert!(
        files
            .iter()
            .any(|part| part.attachment_name() == Some("Rechnung – März.pdf")
                && part.contents() == bytes)
    );
    assert!(
        files
            .iter()
            .any(|part| part.content_id() == Some("logo") && part.contents() == bytes)
    );
}

#[tokio::test]
async fn a_text_file_keeps_its_own_ends_of_lines() {
    let content = b"one\rtwo\nthree\r\nfour";
    let encoded = {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.encode(content)
    };
    let file = |content_id: Option<&str>| AttachmentRequest {
        filename: "notes.txt".into(),
        content_type: Some("text/plain".into()),
        content: encoded.clone(),
        content_id: content_id.map(str::to_owned),
    };
    let bytes = built(EmailRequest {
        html: Some("<p>x</p>".into()),
        attachments: vec![file(None), file(Some("notes"))],
        ..a_request()
    })
    .await;
    lines_are_legal(&bytes);
    let message = MessageParser::default().parse(&bytes).unwrap();
    let files: Vec<_> = message.attachments().map(|part| part.contents()).collect();
    assert_eq!(files, [content, content]);
}

#[tokio::test]
async fn a_long_link_in_a_header_is_not_encoded() {
    let link = format!("<https://example.org/unsubscribe/{}>", "x".repeat(100));
    let value = format!("{link}, <mailto:unsubscribe@example.org>");
    let mut request = a_request();
    request.headers.insert("List-Unsubscribe".into(), value);
    let bytes = built(request).await;
    lines_are_legal(&bytes);
    let text = String::from_utf8_lossy(&bytes);
    let header = format!("List-Unsubscribe: {link},\r\n <mailto:unsubscribe@example.org>\r\n");
    assert!(text.contains(&header), "{text}");
}

/// A calendar object of this method, with a text that no relay may touch: blanks at the end of a
/// line, a folded line, a line that mail would take for its end.
fn a_calendar(method: &str) -> CalendarRequest {
    let content = format!(
        "BEGIN:VCALENDAR\nPRODID:-//test//EN\nVERSION:2.0\nMETHOD:{method}\nBEGIN:VEVENT\nUID:1\n\
         SUMMARY:Grüße – 日本語 \n .\n X-B:folded\nEND:VEVENT\nEND:VCALENDAR\n"
    );
    CalendarRequest {
        content,
        method: method.to_lowercase(),
    }
}

/// The content types of a message, nested as its parts are.
fn structure(message: &mail_parser::Message<'_>, part: u32) -> String {
    let part = message.part(part).unwrap();
    let kind = part.content_type().unwrap();
    let name = format!("{}/{}", kind.ctype(), kind.subtype().unwrap());
    match part.sub_parts() {
        Some(parts) => {
            let inner: Vec<_> = parts.iter().map(|part| structure(message, *part)).collect();
            format!("{name}({})", inner.join(", "))
        }
        None => name,
    }
}

#[tokio::test]
async fn an_invitation_is_the_last_alternative_and_a_file() {
    for (method, filename) in [("REQUEST", "invite.ics"), ("CANCEL", "cancel.ics")] {
        let calendar = a_calendar(method);
        let object = calendar.content.replace('\n', "\r\n");
        let bytes = built(EmailRequest {
            html: Some("<p>Come</p>".into()),
            calendar: Some(calendar),
            ..a_request()
        })
        .await;
        lines_are_legal(&bytes);
        let text = String::from_utf8_lossy(&bytes);
        let kind = format!("\r\nContent-Type: text/calendar; method={method}; charset=utf-8\r\n");
        assert!(text.contains(&kind), "{text}");

        let message = MessageParser::default().parse(&bytes).unwrap();
        assert_eq!(
            structure(&message, 0),
            "multipart/mixed(multipart/alternative(text/plain, text/html, text/calendar), \
             application/ics)"
        );
        let part = |subtype: &str| {
            let is_it = |part: &&mail_parser::MessagePart<'_>| {
                part.content_type().and_then(|kind| kind.subtype()) == Some(subtype)
            };
            message.parts.iter().find(is_it).unwrap()
        };
        let (invitation, file) = (part("calendar"), part("ics"));
        assert!(invitation.content_disposition().is_none());
        assert_eq!(String::from_utf8_lossy(invitation.contents()), object);
        assert_eq!(String::from_utf8_lossy(file.contents()), object);
        assert_eq!(
            file.content_type().unwrap().attribute("name"),
            Some(filename)
        );
        let disposition = file.content_disposition().unwrap();
        assert_eq!(
            (disposition.ctype(), disposition.attribute("filename")),
            ("attachment", Some(filename))
        );
    }
}

#[tokio::test]
async fn an_invitation_without_words_has_its_subject_for_those_who_read_no_calendar() {
    for (subject, shown) in [("Lunch on Friday", "Lunch on Friday"), ("", "invite.ics")] {
        let bytes = built(EmailRequest {
            subject: subject.into(),
            text: None,
            calendar: Some(a_calendar("REQUEST")),
            ..a_request()
        })
        .await;
        let message = MessageParser::default().parse(&bytes).unwrap();
        assert_eq!(
            structure(&message, 0),
            "multipart/mixed(multipart/alternative(text/plain, text/calendar), application/ics)"
        );
        assert_eq!(message.body_text(0).unwrap().trim_end(), shown);
    }
}

#[tokio::test]
async fn what_would_forge_a_header_is_refused_by_name() {
    let world = World::new();
    let with = |change: fn(&mut EmailRequest)| {
        let mut request = a_request();
        change(&mut request);
        request
    };
    let cases: Vec<(EmailRequest, &str)> = vec![
        (
            with(|r| r.subject = "a\r\nBcc: eve@example.org".into()),
            "subject",
        ),
        (
            with(|r| r.subject = "=?utf-8?q?a=0d=0aBcc:_eve?=".into()),
            "subject",
        ),
        (
            with(|r| r.from = "Ann\r\n <ann@example.org>".into()),
            "from",
        ),
        (
            with(|r| r.to = vec!["ann@example.org\nBcc: eve@example.org".into()]),
            "to[0]",
        ),
        (with(|r| r.reply_to = vec!["x".into()]), "reply_to[0]"),
        (
            with(|r| drop(r.headers.insert("X-A\r\nBcc".into(), "x".into()))),
            "headers.X-A\\r\\nBcc",
        ),
        (
            with(|r| drop(r.headers.insert("X-A".into(), "x\r\nBcc: eve".into()))),
            "headers.X-A",
        ),
        (
            with(|r| drop(r.headers.insert("Content-Type".into(), "text/html".into()))),
            "headers.Content-Type",
        ),
        (
            with(|r| drop(r.headers.insert("DKIM-Signature".into(), "x".into()))),
            "headers.DKIM-Signature",
        ),
        (
            with(|r| {
                r.attachments = vec![AttachmentRequest {
                    filename: "a\r\n.pdf".into(),
                    content: "eA==".into(),
                    ..AttachmentRequest::default()
                }];
            }),
            "attachments[0].filename",
        ),
        (
            with(|r| {
                r.attachments = vec![AttachmentRequest {
                    filename: "a.png".into(),
                    content: "eA==".into(),
                    content_id: Some("x".repeat(1000)),
                    ..AttachmentRequest::default()
                }];
            }),
            "attachments[0].content_id",
        ),
    ];
    for (request, field) in cases {
        match world.try_accept(request).await {
            Err(Refused::Invalid(errors)) => {
                assert!(
                    errors.iter().any(|error| error.field == field),
                    "{field}: {errors:?}"
                );
            }
            other => panic!("{field}: {other:?}"),
        }
    }
    assert_eq!(world.store.statistics().await.unwrap().accepted, 0);
}
