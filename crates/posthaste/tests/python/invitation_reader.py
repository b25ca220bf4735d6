"""A reader of invitations as another team might write it: Python's own email package, icalendar and
nothing of ours.

It knows the standards only. Each command answers with JSON on standard output.

    message  reads an email from standard input: its parts, and the invitation in it
    objects  reads a JSON list of iCalendar objects, and says what each means
"""

from __future__ import annotations

import json
import sys
from datetime import datetime, timezone
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

from icalendar import Calendar, Event, vCalAddress

# Values as they are in JSON.
Json = Any


def structure(part: EmailMessage) -> Json:
    """The content type of a part, with those of its own parts inside."""
    if part.is_multipart():
        return {part.get_content_type(): [structure(inner) for inner in part.iter_parts()]}
    return part.get_content_type()


def described_message(source: bytes) -> Json:
    """What there is in a message, and what its invitation says."""
    message = message_from_bytes(source, policy=policy.default)
    parts = {part.get_content_type(): part for part in message.walk()}
    invitation, file = parts["text/calendar"], parts["application/ics"]
    content = invitation.get_payload(decode=True)
    return {
        "defects": [str(defect) for part in message.walk() for defect in part.defects],
        "subject": message["Subject"],
        "structure": structure(message),
        "text": parts["text/plain"].get_content() if "text/plain" in parts else None,
        "invitation": {
            "method": invitation.get_param("method"),
            "charset": invitation.get_param("charset"),
            "disposition": invitation.get_content_disposition(),
        },
        "file": {
            "name": file.get_param("name"),
            "filename": file.get_filename(),
            "disposition": file.get_content_disposition(),
            "is_same": file.get_payload(decode=True) == content,
        },
        "object": described_object(content.decode("utf-8")),
    }


def described_object(source: str) -> Json:
    """What an iCalendar object means."""
    calendar = Calendar.from_ical(source)
    (event,) = calendar.walk("VEVENT")
    attendees = event.get("ATTENDEE", [])
    if not isinstance(attendees, list):
        attendees = [attendees]
    return {
        "errors": [str(error) for part in calendar.walk() for error in part.errors],
        "method": calendar["METHOD"],
        "uid": event["UID"],
        "sequence": event["SEQUENCE"],
        "status": event["STATUS"],
        "stamp": event["DTSTAMP"].dt.isoformat(),
        "start": described_time(calendar, event, "DTSTART"),
        "end": described_time(calendar, event, "DTEND"),
        "summary": event["SUMMARY"],
        "location": event.get("LOCATION"),
        "description": event.get("DESCRIPTION"),
        "organizer": described_person(event["ORGANIZER"]),
        "attendees": [described_person(attendee) for attendee in attendees],
    }


def described_time(calendar: Calendar, event: Event, name: str) -> Json:
    """The moment of a property. The zone is what the object says of it, and not what Python knows
    under its name."""
    value = event[name]
    zone = value.params.get("TZID")
    if zone is None:
        return {"zone": None, "wall": None, "at": written(value.dt)}
    (definition,) = [one for one in calendar.walk("VTIMEZONE") if one["TZID"] == zone]
    wall = value.dt.replace(tzinfo=None)
    at = wall.replace(tzinfo=definition.to_tz(lookup_tzid=False))
    return {"zone": zone, "wall": wall.isoformat(), "at": written(at)}


def written(at: datetime) -> str:
    """A moment by UTC."""
    return at.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")


def described_person(person: vCalAddress) -> Json:
    """An organizer or an attendee."""
    parameters = {key: value for key, value in person.params.items() if key != "CN"}
    return {"address": str(person), "name": person.params.get("CN"), **parameters}


def main() -> None:
    """Reads standard input and answers."""
    source = sys.stdin.buffer.read()
    match sys.argv[1:]:
        case ["message"]:
            answer = described_message(source)
        case ["objects"]:
            answer = [described_object(one) for one in json.loads(source)]
        case _:
            sys.exit(__doc__)
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
