-- The store's time: the database's, so that a step of another host's clock has no effect. The
-- offset of a session is for tests, which move time without waiting.
CREATE FUNCTION posthaste_now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
    RETURN statement_timestamp()
        + coalesce(nullif(current_setting('posthaste.clock_offset', true), ''), '0')::interval;

-- An email as it was accepted. Never updated, except that its content may be erased.
CREATE TABLE email (
    id               uuid        PRIMARY KEY,
    owner            text        NOT NULL,
    message_key      text        NOT NULL,
    payload_hash     bytea       NOT NULL,
    template         text,
    priority         text        NOT NULL,
    envelope_from    text        NOT NULL,
    recipients       jsonb       NOT NULL,  -- array of addresses
    recipient_count  integer     NOT NULL,
    first_recipient  text        NOT NULL,  -- folded, for searching
    header_from      text        NOT NULL,
    header_to        json        NOT NULL,  -- array of mailboxes
    subject          text        NOT NULL,
    metadata         json        NOT NULL,  -- object; json keeps what jsonb would refuse
    policy           json        NOT NULL,  -- a name, or a policy of its own
    send_at          timestamptz,
    expires_at       timestamptz,
    traceparent      text,
    created_at       timestamptz NOT NULL,
    erased_at        timestamptz,
    size_bytes       bigint      NOT NULL,
    content          bytea       NOT NULL,
    UNIQUE (message_key, owner)             -- in this order it also finds a key of any owner
);
-- Mail is mostly text: lz4 packs it at a third of the cost of the default. A server without lz4
-- keeps it as it is, which is cheaper still.
DO $$
BEGIN
    ALTER TABLE email ALTER COLUMN content SET COMPRESSION lz4;
EXCEPTION WHEN OTHERS THEN
    ALTER TABLE email ALTER COLUMN content SET STORAGE EXTERNAL;
END $$;

CREATE INDEX email_first_recipient ON email (first_recipient);
CREATE INDEX email_many_recipients ON email USING gin ((lower(recipients::text)::jsonb))
    WHERE recipient_count > 1;
-- The start of a subject, ASCII letters folded. Whole subjects may be longer than an index entry.
CREATE INDEX email_subject ON email (left(lower(subject COLLATE "C"), 200));
CREATE INDEX email_template ON email (template) WHERE template IS NOT NULL;

-- The hot row: nothing but state. Its columns are the fields of `lifecycle::State`. Each email
-- updates it a few times and then never again: room on the page for the new versions, and
-- autovacuum that comes early and does not dawdle.
CREATE TABLE email_log (
    id                 uuid    PRIMARY KEY,
    status             text    NOT NULL CHECK (status IN ('pending', 'sending', 'sent', 'failed',
                                   'retry_queued', 'unknown', 'dead', 'discarded', 'cancelled')),
    phase              text    NOT NULL CHECK (phase IN ('idle', 'preparing', 'committing')),
    attempt_number     integer NOT NULL CHECK (attempt_number >= 0),
    attempt_count      integer NOT NULL CHECK (attempt_count >= 0),
    budget_from        integer NOT NULL CHECK (budget_from BETWEEN 0 AND attempt_number),
    max_attempts       integer CHECK (max_attempts > 0),
    next_attempt_at    timestamptz,
    locked_until       timestamptz,
    lease_token        bigint  NOT NULL CHECK (lease_token >= 0),
    worker             text,
    started_at         timestamptz,
    lost_count         integer NOT NULL,
    unknown_count      integer NOT NULL,
    possible_duplicate boolean NOT NULL,
    last_queued_at     timestamptz,
    last_error         text,
    error_class        text,
    dead_reason        text,
    fingerprint        text,
    sent_at            timestamptz,
    finished_at        timestamptz,
    CHECK ((finished_at IS NOT NULL) = (status IN ('sent', 'dead', 'discarded', 'cancelled'))),
    CHECK ((dead_reason IS NOT NULL) = (status IN ('dead', 'discarded'))),
    CHECK (status <> 'sending' OR locked_until IS NOT NULL)
) WITH (
    fillfactor = 60,
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.02,
    autovacuum_vacuum_cost_delay = 0
);

CREATE INDEX email_log_waiting ON email_log (status, next_attempt_at)
    WHERE status IN ('pending', 'sending', 'failed', 'retry_queued', 'unknown');
CREATE INDEX email_log_lease ON email_log (locked_until) WHERE locked_until IS NOT NULL;
-- Waits without a ticket: scheduled for later, replayed, or the broker had no room.
CREATE INDEX email_log_unqueued ON email_log (next_attempt_at)
    WHERE status = 'pending' AND last_queued_at IS NULL;
-- The operator's desk. Sent emails never enter it.
CREATE INDEX email_log_desk ON email_log (status, id)
    WHERE status IN ('dead', 'discarded', 'cancelled');

CREATE TABLE email_attempt (
    email_id        uuid        NOT NULL,
    number          integer     NOT NULL,
    started_at      timestamptz NOT NULL,
    finished_at     timestamptz NOT NULL,
    outcome         text        NOT NULL CHECK (outcome IN ('sent', 'transient', 'permanent',
                                    'unknown', 'lost', 'cancelled')),
    error_class     text,
    error           text,
    reply           text,
    transport       text,
    worker          text,
    budget          integer,  -- how many might fail at that time
    next_attempt_at timestamptz,
    PRIMARY KEY (email_id, number)
);

-- Where each recipient stands; only for emails whose recipients differ.
CREATE TABLE recipient (
    email_id uuid    NOT NULL,
    position integer NOT NULL,
    address  text    NOT NULL,
    status   text    NOT NULL CHECK (status IN ('waiting', 'accepted', 'dead')),
    detail   text,
    reason   text,
    PRIMARY KEY (email_id, position)
);

-- Counters, written in the same transactions as the rows: `n` emails went from one state to
-- another in this minute. From '' means accepted, to '' means pruned. Each connection that
-- writes has a slot of its own, so that counting is never what writers wait for.
CREATE TABLE stat (
    minute      bigint  NOT NULL,
    from_status text    NOT NULL,
    to_status   text    NOT NULL,
    slot        integer NOT NULL DEFAULT 0,
    n           bigint  NOT NULL,
    PRIMARY KEY (minute, from_status, to_status, slot)
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0
);

CREATE TABLE audit_log (
    seq     bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      timestamptz NOT NULL,
    actor   text        NOT NULL,
    action  text        NOT NULL,
    subject text        NOT NULL,
    result  text        NOT NULL
);

CREATE TABLE api_key (
    id             text        PRIMARY KEY,
    secret_hash    bytea       NOT NULL UNIQUE,
    name           text        NOT NULL,
    owner          text        NOT NULL,
    scopes         json        NOT NULL,
    from_addresses json        NOT NULL,
    created_at     timestamptz NOT NULL,
    revoked_at     timestamptz
);

-- The dev inbox.
CREATE TABLE capture (
    seq         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    email_id    uuid        NOT NULL,
    captured_at timestamptz NOT NULL,
    mail_from   text        NOT NULL,
    recipients  json        NOT NULL,
    content     bytea       NOT NULL
);
CREATE INDEX capture_email ON capture (email_id);
