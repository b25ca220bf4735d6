CREATE TABLE booking (
    id        TEXT PRIMARY KEY,
    name      TEXT NOT NULL,
    email     TEXT NOT NULL,
    -- By the clock on the studio's wall: 2026-11-20T18:00:00.
    slot      TEXT NOT NULL,
    -- What calendars know the event by, and how often it was changed since the invitation.
    uid       TEXT NOT NULL UNIQUE,
    sequence  INTEGER NOT NULL,
    cancelled INTEGER NOT NULL DEFAULT 0 CHECK (cancelled IN (0, 1))
) STRICT;

-- Nobody shares the wheel. A cancelled booking makes room for another one.
CREATE UNIQUE INDEX booking_slot ON booking (slot) WHERE cancelled = 0;
