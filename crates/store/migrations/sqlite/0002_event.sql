-- What is to be told outside of the store, at least once. Written in the transaction of what it
-- follows from, removed once it was told.
CREATE TABLE posthaste_event (
    seq          INTEGER PRIMARY KEY AUTOINCREMENT,
    kind         TEXT    NOT NULL CHECK (kind IN ('email_dead')),
    email_id     BLOB    NOT NULL,
    at           INTEGER NOT NULL,
    reason       TEXT    NOT NULL,
    error        TEXT,
    attempts     INTEGER NOT NULL,
    locked_until INTEGER
) STRICT;
CREATE INDEX posthaste_event_email ON posthaste_event (email_id);
