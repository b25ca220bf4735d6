//! Invitations in emails: the whole message, to the octet and to a reader that is not ours.

use std::sync::Arc;

use posthaste::calendar::Calendar;
use posthaste_core::port::SharedStore;
use posthaste_engine::intake::{CalendarRequest, EmailRequest, Submitter, Taken};
use posthaste_engine::metrics::Source;
use posthaste_engine::{Intake, Policies};
use posthaste_store::{SqliteOptions, SqliteStore};
use posthaste_testkit::ManualClock;
use serde_json::json;
use tokio::sync::Notify;

use crate::calendar::a_booking;
use crate::golden;
use crate::invitation_reader::read_message;

fn an_email(calendar: Calendar) -> EmailRequest {
    let Calendar { content, method } = calendar;
    EmailRequest {
        from: "Studio <studio@studio.example>".into(),
        to: vec!["Ada <ada@example.org>".into()],
        subject: "Pottery for beginners, with coffee ☕".into(),
        text: Some("See you on Friday!\n".into()),
        html: Some("<p>See you on <b>Friday</b>!</p>\n".into()),
        calendar: Some(CalendarRequest { content, method }),
        ..EmailRequest::default()
    }
}

/// The message as it is kept to be sent. Its id and its boundaries, which differ each time, are
/// replaced by words of the same kind.
async fn message_of(email: EmailRequest) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut options = SqliteOptions::new(folder.path().join("posthaste.db"));
    options.clock = Arc::new(ManualClock::default());
    let store: SharedStore = Arc::new(SqliteStore::open(options).unwrap());
    let intake = Arc::new(Intake::new(
        Arc::clone(&store),
        None,
        Arc::new(Policies::default()),
        None,
        Arc::new(Notify::new()),
        Source::Api,
    ));
    let submitter = Submitter {
        owner: "default".into(),
        from_addresses: Vec::new(),
    };
    let taken = intake.take(&submitter, vec![email]).await.pop().unwrap();
    let Ok(Taken::Accepted { id, .. }) = taken else {
        panic!("not accepted: {taken:?}");
    };
    let content = store.content(id).await.unwrap().unwrap();
    let mut message = String::from_utf8(content.to_vec()).unwrap();
    message = message.replace(&id.to_string(), "ID");
    let boundaries: Vec<_> = message.split("boundary=\"").skip(1).collect();
    let boundaries = boundaries
        .iter()
        .map(|rest| rest.split('"').next().unwrap());
    let boundaries: Vec<_> = boundaries.map(str::to_owned).collect();
    for (index, boundary) in boundaries.iter().enumerate() {
        message = message.replace(boundary, &format!("BOUNDARY-{index}"));
    }
    message
}

#[tokio::test]
async fn messages_are_as_they_were() {
    let (request, cancel) = (
        a_booking().request().unwrap(),
        a_booking().cancel().unwrap(),
    );
    golden::compare("request.eml", &message_of(an_email(request)).await);
    golden::compare("cancel.eml", &message_of(an_email(cancel)).await);
}

#[tokio::test]
async fn a_reader_that_is_not_ours_finds_the_invitation_twice() {
    for (calendar, filename) in [
        (a_booking().request().unwrap(), "invite.ics"),
        (a_booking().cancel().unwrap(), "cancel.ics"),
    ] {
        let method = calendar.method.clone();
        let message = message_of(an_email(calendar)).await;
        let mut read = read_message(message.as_bytes());
        let object = read["object"].take();
        assert_eq!(
            read,
            json!({
                "defects": [],
                "subject": "Pottery for beginners, with coffee ☕",
                "structure": {"multipart/mixed": [
                    {"multipart/alternative": ["text/plain", "text/html", "text/calendar"]},
                    "application/ics",
                ]},
                "text": "See you on Friday!\r\n",
                "invitation": {"method": method, "charset": "utf-8", "disposition": null},
                "file": {
                    "name": filename, "filename": filename,
                    "disposition": "attachment", "is_same": true,
                },
                "object": null,
            })
        );
        assert_eq!(object["method"], method);
        assert_eq!(object["uid"], "booking-4711@studio.example");
        assert_eq!(object["start"]["at"], "2026-11-20T17:30:00Z");
        assert_eq!(
            object["description"],
            "Bring an apron.\nThe door is open from 18:00."
        );
    }
}
