-- Every email is written five times or so, and each time SQLite made a temporary table of the values
-- of each CHECK with an IN of three or more. Written with OR the same costs nothing. This changes the
-- text of the constraints and no row, in the way that SQLite describes for that (ALTER TABLE,
-- section 7): the columns and their order stay as they are.
PRAGMA writable_schema = ON;

UPDATE sqlite_schema SET sql = 'CREATE TABLE posthaste_email_log (
    id                 BLOB    NOT NULL PRIMARY KEY,
    status             TEXT    NOT NULL
                           CHECK (status = ''pending'' OR status = ''sending'' OR status = ''sent''
                                  OR status = ''failed'' OR status = ''retry_queued''
                                  OR status = ''unknown'' OR status = ''dead''
                                  OR status = ''discarded'' OR status = ''cancelled''),
    phase              TEXT    NOT NULL
                           CHECK (phase = ''idle'' OR phase = ''preparing''
                                  OR phase = ''committing''),
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
    attempts_pruned_to INTEGER NOT NULL DEFAULT 0,
    inline             INTEGER NOT NULL DEFAULT 0,
    priority           INTEGER NOT NULL DEFAULT 1 CHECK (priority BETWEEN 0 AND 2),
    waiting_for        TEXT    CHECK (waiting_for IS NULL OR status = ''failed''),
    waits_until        INTEGER,
    transport          TEXT,
    bound_to           TEXT,
    tried              TEXT,
    ignores_expiry     INTEGER NOT NULL DEFAULT 0,
    CHECK ((finished_at IS NOT NULL) = (status = ''sent'' OR status = ''dead''
                                        OR status = ''discarded'' OR status = ''cancelled'')),
    CHECK ((dead_reason IS NOT NULL) = (status = ''dead'' OR status = ''discarded'')),
    CHECK (status <> ''sending'' OR locked_until IS NOT NULL)
) STRICT, WITHOUT ROWID'
WHERE type = 'table' AND name = 'posthaste_email_log';

UPDATE sqlite_schema SET sql = 'CREATE TABLE posthaste_email_attempt (
    email_id        BLOB    NOT NULL,
    number          INTEGER NOT NULL,
    started_at      INTEGER NOT NULL,
    finished_at     INTEGER NOT NULL,
    outcome         TEXT    NOT NULL
                        CHECK (outcome = ''sent'' OR outcome = ''transient''
                               OR outcome = ''permanent'' OR outcome = ''unknown''
                               OR outcome = ''lost'' OR outcome = ''cancelled''),
    error_class     TEXT,
    error           TEXT,
    reply           TEXT,
    transport       TEXT,
    worker          TEXT,
    budget          INTEGER,  -- how many might fail at that time
    next_attempt_at INTEGER,
    stage           TEXT,
    provider_id     TEXT,
    is_free         INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (email_id, number)
) STRICT, WITHOUT ROWID'
WHERE type = 'table' AND name = 'posthaste_email_attempt';

-- Reads the schema anew.
PRAGMA writable_schema = RESET;

-- One that is being sent is found by its lease, and need not be in two indexes. Changing an index
-- also tells other connections that the schema is another one.
DROP INDEX posthaste_email_log_waiting;
CREATE INDEX posthaste_email_log_waiting
    ON posthaste_email_log (status, priority, next_attempt_at)
    WHERE (status = 'pending' OR status = 'failed' OR status = 'retry_queued'
           OR status = 'unknown') AND waiting_for IS NULL;
