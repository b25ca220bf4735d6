-- Times are microseconds since the epoch, by the store's own clock. Ids are UUIDs of version 7.

-- An email as it was accepted. Never updated, except that its content may be erased.
-- `content` stands last, so that lists never read the pages it spills into.
CREATE TABLE posthaste_email (
    id               BLOB    NOT NULL UNIQUE,
    owner            TEXT    NOT NULL,
    message_key      TEXT    NOT NULL,
    payload_hash     BLOB    NOT NULL,
    template         TEXT,
    priority         TEXT    NOT NULL,
    envelope_from    TEXT    NOT NULL,
    recipients       TEXT    NOT NULL,  -- JSON array of addresses
    recipient_count  INTEGER NOT NULL,
    first_recipient  TEXT    NOT NULL,  -- folded, for searching
    header_from      TEXT    NOT NULL,
    header_to        TEXT    NOT NULL,  -- JSON array of mailboxes
    subject          TEXT    NOT NULL,
    metadata         TEXT    NOT NULL,  -- JSON object
    policy           TEXT    NOT NULL,  -- JSON: a name, or a policy of its own
    send_at          INTEGER,
    expires_at       INTEGER,
    traceparent      TEXT,
    created_at       INTEGER NOT NULL,
    erased_at        INTEGER,
    size_bytes       INTEGER NOT NULL,
    content          BLOB    NOT NULL,
    UNIQUE (message_key, owner)         -- in this order it also finds a key of any owner
) STRICT;

CREATE INDEX posthaste_email_first_recipient ON posthaste_email (first_recipient);
CREATE INDEX posthaste_email_many_recipients ON posthaste_email (id) WHERE recipient_count > 1;
CREATE INDEX posthaste_email_subject ON posthaste_email (subject COLLATE NOCASE);
CREATE INDEX posthaste_email_template ON posthaste_email (template) WHERE template IS NOT NULL;

-- The hot row: nothing but state. Its columns are the fields of `lifecycle::State`.
CREATE TABLE posthaste_email_log (
    id                 BLOB    NOT NULL PRIMARY KEY,
    status             TEXT    NOT NULL CHECK (status IN ('pending', 'sending', 'sent', 'failed',
                                   'retry_queued', 'unknown', 'dead', 'discarded', 'cancelled')),
    phase              TEXT    NOT NULL CHECK (phase IN ('idle', 'preparing', 'committing')),
    attempt_number     INTEGER NOT NULL CHECK (attempt_number >= 0),
    attempt_count      INTEGER NOT NULL CHECK (attempt_count >= 0),
    budget_from        INTEGER NOT NULL CHECK (budget_from BETWEEN 0 AND attempt_number),
    max_attempts       INTEGER CHECK (max_attempts > 0),
    next_attempt_at    INTEGER,
    locked_until       INTEGER,
    lease_token        INTEGER NOT NULL CHECK (lease_token >= 0),
    worker             TEXT,
    started_at         INTEGER,
    lost_count         INTEGER NOT NULL,
    unknown_count      INTEGER NOT NULL,
    possible_duplicate INTEGER NOT NULL,
    last_queued_at     INTEGER,
    last_error         TEXT,
    error_class        TEXT,
    dead_reason        TEXT,
    fingerprint        TEXT,
    sent_at            INTEGER,
    finished_at        INTEGER,
    CHECK ((finished_at IS NOT NULL) = (status IN ('sent', 'dead', 'discarded', 'cancelled'))),
    CHECK ((dead_reason IS NOT NULL) = (status IN ('dead', 'discarded'))),
    CHECK (status <> 'sending' OR locked_until IS NOT NULL)
) STRICT, WITHOUT ROWID;

-- Written with OR: SQLite sees that `status = 'failed'` implies this, but not that it implies IN.
CREATE INDEX posthaste_email_log_waiting ON posthaste_email_log (status, next_attempt_at)
    WHERE status = 'pending' OR status = 'sending' OR status = 'failed'
       OR status = 'retry_queued' OR status = 'unknown';
CREATE INDEX posthaste_email_log_lease ON posthaste_email_log (locked_until)
    WHERE locked_until IS NOT NULL;
-- Waits without a ticket: scheduled for later, replayed, or the broker had no room.
CREATE INDEX posthaste_email_log_unqueued ON posthaste_email_log (next_attempt_at)
    WHERE status = 'pending' AND last_queued_at IS NULL;
-- The operator's desk. Sent emails never enter it.
CREATE INDEX posthaste_email_log_desk ON posthaste_email_log (status, id)
    WHERE status = 'dead' OR status = 'discarded' OR status = 'cancelled';

CREATE TABLE posthaste_email_attempt (
    email_id        BLOB    NOT NULL,
    number          INTEGER NOT NULL,
    started_at      INTEGER NOT NULL,
    finished_at     INTEGER NOT NULL,
    outcome         TEXT    NOT NULL CHECK (outcome IN ('sent', 'transient', 'permanent',
                                'unknown', 'lost', 'cancelled')),
    error_class     TEXT,
    error           TEXT,
    reply           TEXT,
    transport       TEXT,
    worker          TEXT,
    budget          INTEGER,  -- how many might fail at that time
    next_attempt_at INTEGER,
    PRIMARY KEY (email_id, number)
) STRICT, WITHOUT ROWID;

-- Where each recipient stands; only for emails whose recipients differ.
CREATE TABLE posthaste_recipient (
    email_id BLOB    NOT NULL,
    position INTEGER NOT NULL,
    address  TEXT    NOT NULL,
    status   TEXT    NOT NULL CHECK (status IN ('waiting', 'accepted', 'dead')),
    detail   TEXT,
    reason   TEXT,
    PRIMARY KEY (email_id, position)
) STRICT, WITHOUT ROWID;

-- Counters, written in the same transactions as the rows: `n` emails went from one state to
-- another in this minute. From '' means accepted, to '' means pruned.
CREATE TABLE posthaste_stat (
    minute      INTEGER NOT NULL,
    from_status TEXT    NOT NULL,
    to_status   TEXT    NOT NULL,
    n           INTEGER NOT NULL,
    PRIMARY KEY (minute, from_status, to_status)
) STRICT, WITHOUT ROWID;

CREATE TABLE posthaste_audit_log (
    seq     INTEGER PRIMARY KEY,
    at      INTEGER NOT NULL,
    actor   TEXT    NOT NULL,
    action  TEXT    NOT NULL,
    subject TEXT    NOT NULL,
    result  TEXT    NOT NULL
) STRICT;

CREATE TABLE posthaste_api_key (
    id             TEXT    NOT NULL PRIMARY KEY,
    secret_hash    BLOB    NOT NULL UNIQUE,
    name           TEXT    NOT NULL,
    owner          TEXT    NOT NULL,
    scopes         TEXT    NOT NULL,  -- JSON array
    from_addresses TEXT    NOT NULL,  -- JSON array
    created_at     INTEGER NOT NULL,
    revoked_at     INTEGER
) STRICT;

-- The dev inbox.
CREATE TABLE posthaste_capture (
    seq         INTEGER PRIMARY KEY,
    email_id    BLOB    NOT NULL,
    captured_at INTEGER NOT NULL,
    mail_from   TEXT    NOT NULL,
    recipients  TEXT    NOT NULL,  -- JSON array
    content     BLOB    NOT NULL
) STRICT;
CREATE INDEX posthaste_capture_email ON posthaste_capture (email_id);
