-- What is to be told outside of the store, at least once. Written in the transaction of what it
-- follows from, removed once it was told.
CREATE TABLE event (
    seq          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind         text        NOT NULL CHECK (kind IN ('email_dead')),
    email_id     uuid        NOT NULL,
    at           timestamptz NOT NULL,
    reason       text        NOT NULL,
    error        text,
    attempts     integer     NOT NULL,
    locked_until timestamptz
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX event_email ON event (email_id);
