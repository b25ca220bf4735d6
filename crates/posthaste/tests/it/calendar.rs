//! Invitations from fields: what they say, to the octet and to a reader that is not ours.

use posthaste::calendar::jiff::civil::date;
use posthaste::calendar::jiff::tz::TimeZone;
use posthaste::calendar::jiff::{Timestamp, ToSpan as _, Zoned};
use posthaste::calendar::{Attendee, Calendar, Event};
use proptest::prelude::*;
use serde_json::json;

use crate::golden;
use crate::invitation_reader::read_objects;

/// An event at this time with everything it needs.
fn an_event_at(start: Zoned, end: Zoned) -> Event {
    Event::new("booking-4711@studio.example", start, end)
        .stamp("2026-11-16T10:00:00Z".parse().unwrap())
        .summary("Pottery for beginners")
        .organizer("Studio <studio@studio.example>")
        .attendee("Ada <ada@example.org>")
}

fn an_event(start: &str, end: &str) -> Event {
    an_event_at(start.parse().unwrap(), end.parse().unwrap())
}

/// An ordinary booking.
pub(crate) fn a_booking() -> Event {
    an_event(
        "2026-11-20T18:30[Europe/Berlin]",
        "2026-11-20T19:30[Europe/Berlin]",
    )
    .location("Studio, Hauptstraße 1")
    .description("Bring an apron.\nThe door is open from 18:00.")
}

/// What has to be escaped, encoded and folded.
fn a_talkative_event() -> Event {
    a_booking()
        .summary("Töpfern; für \\ Anfänger, „mit Kaffee“ ☕ und 🎂 – und noch viel mehr, was in keine Zeile passt")
        .location("日本語の長い住所、".repeat(12))
        .description("Zeile 1\r\nZeile 2: a,b;c\\n\\\r\n\r\n\tEnde\n".repeat(4))
        .organizer("\"Müller, Jörg: \\\"Töpfer\\\" ^n\" <jörg+töpfe@bücher.example>")
        .attendee(Attendee::new("Björk <b%j?r=k@example.org>").rsvp(false))
        .attendee(Attendee::new("eve@example.org").optional())
}

fn lines_are_legal(content: &str) {
    let lines: Vec<_> = content.split("\r\n").collect();
    assert_eq!(lines.last(), Some(&""), "the last line ends, too");
    for line in lines {
        assert!(line.len() <= 75, "{} octets: {line}", line.len());
        let is_wrong = |c: char| c.is_control() && c != '\t';
        assert!(!line.chars().any(is_wrong), "{line:?}");
    }
}

/// The names of the lines of an object, without those of its time zones.
fn names(content: &str) -> Vec<String> {
    let unfolded = content.replace("\r\n ", "");
    let (before, rest) = unfolded.split_once("BEGIN:VTIMEZONE").unwrap();
    let (_, after) = rest.split_once("END:VTIMEZONE\r\n").unwrap();
    let name = |line: &str| line.split([':', ';']).next().unwrap().to_owned();
    before.lines().chain(after.lines()).map(name).collect()
}

#[test]
fn objects_are_as_they_were() {
    let object = |made: Result<Calendar, _>| made.unwrap().content;
    let cases = [
        ("request.ics", object(a_booking().request())),
        (
            "request_updated.ics",
            object(a_booking().location("Garden").sequence(1).request()),
        ),
        ("cancel.ics", object(a_booking().sequence(1).cancel())),
        ("texts.ics", object(a_talkative_event().request())),
        (
            "across_clock_change.ics",
            object(
                an_event(
                    "2027-03-28T00:30[Europe/Berlin]",
                    "2027-03-28T04:30[Europe/Berlin]",
                )
                .request(),
            ),
        ),
        (
            "utc.ics",
            object(an_event("2026-11-20T17:30[Etc/UTC]", "2026-11-20T18:30[Etc/UTC]").request()),
        ),
        (
            "two_zones.ics",
            object(
                an_event(
                    "2026-07-01T18:00[America/New_York]",
                    "2026-07-02T12:30[Asia/Kolkata]",
                )
                .request(),
            ),
        ),
        (
            "changes_without_rule.ics",
            object(
                an_event(
                    "2026-07-01T18:00[Asia/Jerusalem]",
                    "2026-07-01T19:00[Asia/Jerusalem]",
                )
                .request(),
            ),
        ),
    ];
    for (file, content) in cases {
        lines_are_legal(&content);
        golden::compare(file, &content);
    }
}

#[test]
fn a_reader_that_is_not_ours_finds_every_field() {
    let event = a_talkative_event().sequence(7);
    let objects = [event.request().unwrap(), event.cancel().unwrap()];
    let read = read_objects(&objects.map(|object| object.content));
    let attendee = |address: &str, name: Option<&str>, role: &str, rsvp: &str| {
        json!({
            "address": address, "name": name, "ROLE": role, "RSVP": rsvp,
            "CUTYPE": "INDIVIDUAL", "PARTSTAT": "NEEDS-ACTION",
        })
    };
    let expected = |method: &str, status: &str, sequence: u32| {
        json!({
            "errors": [],
            "method": method,
            "uid": "booking-4711@studio.example",
            "sequence": sequence,
            "status": status,
            "stamp": "2026-11-16T10:00:00+00:00",
            "start": {"zone": "Europe/Berlin", "wall": "2026-11-20T18:30:00", "at": "2026-11-20T17:30:00Z"},
            "end": {"zone": "Europe/Berlin", "wall": "2026-11-20T19:30:00", "at": "2026-11-20T18:30:00Z"},
            "summary": "Töpfern; für \\ Anfänger, „mit Kaffee“ ☕ und 🎂 – und noch viel mehr, was in keine Zeile passt",
            "location": "日本語の長い住所、".repeat(12),
            "description": "Zeile 1\nZeile 2: a,b;c\\n\\\n\n\tEnde\n".repeat(4),
            "organizer": {
                "address": "mailto:j%C3%B6rg+t%C3%B6pfe@xn--bcher-kva.example",
                "name": "Müller, Jörg: 'Töpfer' ^n",
            },
            "attendees": [
                attendee("mailto:ada@example.org", Some("Ada"), "REQ-PARTICIPANT", "TRUE"),
                attendee("mailto:b%25j%3Fr%3Dk@example.org", Some("Björk"), "REQ-PARTICIPANT", "FALSE"),
                attendee("mailto:eve@example.org", None, "OPT-PARTICIPANT", "TRUE"),
            ],
        })
    };
    assert_eq!(read[0], expected("REQUEST", "CONFIRMED", 7));
    assert_eq!(read[1], expected("CANCEL", "CANCELLED", 8));
}

/// Zones of every kind: rules of the north and of the south, half hours, clocks that change by no
/// weekday of a month, by the moon, by half an hour, no more, or backwards in summer by law.
const ZONES: [&str; 20] = [
    "Africa/Cairo",
    "Africa/Casablanca",
    "America/Havana",
    "America/New_York",
    "America/Nuuk",
    "America/Santiago",
    "America/Sao_Paulo",
    "America/St_Johns",
    "Antarctica/Troll",
    "Asia/Gaza",
    "Asia/Jerusalem",
    "Asia/Kathmandu",
    "Asia/Kolkata",
    "Asia/Tehran",
    "Australia/Lord_Howe",
    "Europe/Dublin",
    "Europe/London",
    "Pacific/Auckland",
    "Pacific/Chatham",
    "Pacific/Kiritimati",
];

#[test]
fn a_reader_that_is_not_ours_finds_the_moment_by_the_zone_that_goes_along() {
    let mut objects = Vec::new();
    let mut expected = Vec::new();
    for name in ZONES {
        let zone = TimeZone::get(name).unwrap();
        // Every twentieth day of three years, and the hours around each change of the clocks.
        let first = date(2025, 1, 1)
            .at(12, 0, 0, 0)
            .to_zoned(zone.clone())
            .unwrap();
        let days = (0..55).map(|n| first.checked_add((20 * n).days()).unwrap());
        let changes = zone.following(first.timestamp()).take(6);
        let around = changes.flat_map(|change| {
            let near = |hours: i64| change.timestamp() + hours.hours();
            [-2, -1, 0, 1, 2].map(|hours| near(hours).to_zoned(zone.clone()))
        });
        for start in days.chain(around) {
            let end = start.checked_add(5.hours()).unwrap();
            expected.push((name, start.timestamp(), end.timestamp()));
            objects.push(an_event_at(start, end).request().unwrap().content);
        }
    }
    let read = read_objects(&objects);
    let moment = |text: &serde_json::Value| text.as_str().unwrap().parse::<Timestamp>().unwrap();
    for (index, (name, start, end)) in expected.into_iter().enumerate() {
        let (found, object) = (&read[index], &objects[index]);
        assert_eq!(moment(&found["start"]["at"]), start, "{name} in\n{object}");
        assert_eq!(moment(&found["end"]["at"]), end, "{name} in\n{object}");
    }
}

#[test]
fn a_zone_has_the_shape_that_outlook_reads() {
    let observances_in = |year: u16, zone: &str| {
        let start = format!("{year}-07-01T18:00[{zone}]");
        let end = format!("{year}-07-01T19:00[{zone}]");
        let content = an_event(&start, &end).request().unwrap().content;
        let count = |text: &str| content.matches(text).count();
        (
            count("BEGIN:DAYLIGHT\r\n"),
            count("BEGIN:STANDARD\r\n"),
            count("RRULE:"),
        )
    };
    let observances = |zone: &str| observances_in(2026, zone);
    for zone in [
        "Europe/Berlin",
        "America/New_York",
        "Pacific/Auckland",
        "Europe/Dublin",
    ] {
        assert_eq!(observances(zone), (1, 1, 2), "{zone}");
    }
    for zone in ["Asia/Kolkata", "America/Sao_Paulo", "Africa/Abidjan"] {
        assert_eq!(observances(zone), (0, 1, 0), "{zone}");
    }
    for zone in ["Asia/Jerusalem", "Africa/Casablanca"] {
        assert_eq!(observances(zone), (1, 1, 0), "{zone}");
    }
    // Summer ended in September then, and soon after in October.
    assert_eq!(observances_in(1990, "Europe/Berlin"), (1, 1, 0));
    for zone in ["UTC", "Etc/UTC", "Etc/Zulu", "GMT", "+02:00"] {
        assert_eq!(observances(zone), (0, 0, 0), "{zone}");
    }
}

#[test]
fn an_hour_that_comes_twice_is_the_one_that_was_meant() {
    let first = "2026-10-25T02:30+02:00[Europe/Berlin]";
    let second = "2026-10-25T02:30+01:00[Europe/Berlin]";
    let content = an_event(first, second).request().unwrap().content;
    assert!(content.contains("DTSTART;TZID=Europe/Berlin:20261025T023000\r\n"));
    // A local time would mean the first of the two.
    assert!(content.contains("DTEND:20261025T013000Z\r\n"));
}

#[test]
fn everything_that_is_wrong_is_named_at_once() {
    let time = "2026-11-20T18:30[Europe/Berlin]";
    let nothing = Event::new("", time.parse().unwrap(), time.parse().unwrap());
    let fields = |event: &Event| {
        let error = event.request().unwrap_err();
        assert_eq!(event.cancel(), Err(error.clone()));
        let fields = error.errors().iter().map(|error| error.field.clone());
        fields.collect::<Vec<_>>()
    };
    assert_eq!(
        fields(&nothing),
        ["uid", "summary", "end", "attendee", "organizer"]
    );
    let error = nothing.request().unwrap_err().to_string();
    assert!(
        error.contains("organizer is missing; say who invites"),
        "{error}"
    );

    let forged = "x\r\nATTENDEE:mailto:eve@example.org";
    let cases = [
        ("summary", a_booking().summary(forged)),
        ("location", a_booking().location(forged)),
        ("description", a_booking().description("a\0b")),
        ("description", a_booking().description("x".repeat(40_000))),
        ("organizer", a_booking().organizer(forged)),
        ("organizer", a_booking().organizer("Studio <studio>")),
        ("attendee[1]", a_booking().attendee(forged)),
        ("sequence", a_booking().sequence(u32::MAX)),
    ];
    for (field, event) in cases {
        assert_eq!(fields(&event), [field]);
    }
}

/// Any text, or one of characters that mean something in a calendar.
fn a_text() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>(), "[ \\r\\n\\t:;,=\"^\\\\BENDaß日🎂]{0,200}"]
}

proptest! {
    #[test]
    fn no_text_can_add_a_line(
        uid in "\\PC{1,80}",
        summary in a_text(),
        location in a_text(),
        description in a_text(),
        name in a_text(),
    ) {
        let booking = a_booking();
        let expected = names(&booking.request().unwrap().content);
        let (start, end) = ("2026-11-20T18:30[Europe/Berlin]", "2026-11-20T19:30[Europe/Berlin]");
        let event = Event::new(uid, start.parse().unwrap(), end.parse().unwrap())
            .summary(summary)
            .location(location)
            .description(description)
            .organizer(format!("{name} <studio@studio.example>"))
            .attendee(format!("\"{name}\" <ada@example.org>"));
        if let Ok(made) = event.request() {
            lines_are_legal(&made.content);
            prop_assert_eq!(names(&made.content), expected);
        }
    }
}
