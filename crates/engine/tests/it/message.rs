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
async fn an_invitation_is_an_alternative_and_a_file() {
    let ics = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nMETHOD:REQUEST\r\nEND:VCALENDAR\r\n";
    let request = EmailRequest {
        calendar: Some(CalendarRequest {
            content: ics.into(),
            method: "request".into(),
        }),
        ..a_request()
    };
    let bytes = built(request).await;
    let text = String::from_utf8_lossy(&bytes);
    assert!(
        text.contains("text/calendar") && text.contains("method=\"REQUEST\""),
        "{text}"
    );
    assert!(text.contains("invite.ics"));
    lines_are_legal(&bytes);
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
