-- Messages of other services that wait for their next retry. The columns from `status` on are the
-- fields of `message::MessageState`; the payload stands last, so that lists never read the pages it
-- spills into.
CREATE TABLE posthaste_retry_queue (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,
    message_id       BLOB    NOT NULL UNIQUE,
    original_queue   TEXT    NOT NULL,
    error_reason     TEXT,
    properties       TEXT    NOT NULL,  -- JSON
    created_at       INTEGER NOT NULL,
    status           TEXT    NOT NULL
                         CHECK (status IN ('pending', 'retried', 'failed', 'discarded')),
    retry_count      INTEGER NOT NULL CHECK (retry_count >= 0),
    max_retries      INTEGER NOT NULL CHECK (max_retries >= 0),
    next_retry_at    INTEGER NOT NULL,
    publish_failures INTEGER NOT NULL CHECK (publish_failures >= 0),
    repeats          INTEGER NOT NULL CHECK (repeats >= 0),
    token            INTEGER NOT NULL CHECK (token >= 0),
    locked_until     INTEGER,
    last_error       TEXT,
    finished_at      INTEGER,
    delivery         BLOB    NOT NULL,
    payload_bytes    INTEGER NOT NULL,
    original_payload BLOB    NOT NULL
) STRICT;

-- What waits, claimed or not.
CREATE INDEX posthaste_idx_retry_next_retry ON posthaste_retry_queue (next_retry_at)
    WHERE status = 'pending';
-- The operator's desk. Republished messages never enter it.
CREATE INDEX posthaste_retry_queue_desk ON posthaste_retry_queue (status, id)
    WHERE status = 'failed' OR status = 'discarded';
-- For pruning.
CREATE INDEX posthaste_retry_queue_over ON posthaste_retry_queue (status, finished_at)
    WHERE finished_at IS NOT NULL;

-- How many messages are in each state, written in the same transactions as the rows.
CREATE TABLE posthaste_message_count (
    status TEXT    NOT NULL PRIMARY KEY,
    n      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO posthaste_message_count (status, n)
VALUES ('pending', 0), ('retried', 0), ('failed', 0), ('discarded', 0);
