-- Which route an email takes; NULL for the default one.
ALTER TABLE posthaste_email ADD COLUMN route TEXT;
ALTER TABLE posthaste_template_version ADD COLUMN route TEXT;

-- Which emails go first (0 high, 1 normal, 2 low), and where one waits that cannot leave now.
ALTER TABLE posthaste_email_log ADD COLUMN priority INTEGER NOT NULL DEFAULT 1
    CHECK (priority BETWEEN 0 AND 2);
ALTER TABLE posthaste_email_log ADD COLUMN waiting_for TEXT
    CHECK (waiting_for IS NULL OR status = 'failed');
ALTER TABLE posthaste_email_log ADD COLUMN waits_until INTEGER;
ALTER TABLE posthaste_email_log ADD COLUMN transport TEXT;
ALTER TABLE posthaste_email_log ADD COLUMN bound_to TEXT;
ALTER TABLE posthaste_email_log ADD COLUMN tried TEXT;
ALTER TABLE posthaste_email_log ADD COLUMN ignores_expiry INTEGER NOT NULL DEFAULT 0;
-- What was sent or withdrawn is never sent again, and may be very much.
UPDATE posthaste_email_log SET priority = CASE e.priority WHEN 'high' THEN 0 ELSE 2 END
    FROM posthaste_email e
    WHERE e.id = posthaste_email_log.id AND e.priority <> 'normal'
      AND posthaste_email_log.status NOT IN ('sent', 'cancelled');
-- Those that may have been sent keep to their way out.
UPDATE posthaste_email_log SET bound_to = (
        SELECT a.transport FROM posthaste_email_attempt a
        WHERE a.email_id = posthaste_email_log.id AND a.outcome = 'unknown'
          AND a.number > posthaste_email_log.budget_from AND a.transport IS NOT NULL
        ORDER BY a.number LIMIT 1)
    WHERE unknown_count > 0 AND finished_at IS NULL;

-- What is parked is in nobody's way.
DROP INDEX posthaste_email_log_waiting;
CREATE INDEX posthaste_email_log_waiting
    ON posthaste_email_log (status, priority, next_attempt_at)
    WHERE (status = 'pending' OR status = 'sending' OR status = 'failed'
           OR status = 'retry_queued' OR status = 'unknown') AND waiting_for IS NULL;
DROP INDEX posthaste_email_log_unqueued;
CREATE INDEX posthaste_email_log_unqueued ON posthaste_email_log (priority, next_attempt_at)
    WHERE status = 'pending' AND last_queued_at IS NULL;
CREATE INDEX posthaste_email_log_parked
    ON posthaste_email_log (waiting_for, priority, next_attempt_at)
    WHERE waiting_for IS NOT NULL;
CREATE INDEX posthaste_email_log_parked_until ON posthaste_email_log (waits_until)
    WHERE waits_until IS NOT NULL;

-- What the provider calls the message that it took, and whether the attempt spent nothing.
ALTER TABLE posthaste_email_attempt ADD COLUMN provider_id TEXT;
ALTER TABLE posthaste_email_attempt ADD COLUMN is_free INTEGER NOT NULL DEFAULT 0;
CREATE INDEX posthaste_email_attempt_provider ON posthaste_email_attempt (provider_id)
    WHERE provider_id IS NOT NULL;

-- How the ways out do, of which there is something to say. Its columns are the fields of
-- `way::Way`.
CREATE TABLE posthaste_way (
    name          TEXT    PRIMARY KEY,
    condition     TEXT    NOT NULL
                      CHECK (condition IN ('flowing', 'stopped', 'probing', 'ramping')),
    since         INTEGER NOT NULL,
    paused_by     TEXT,
    faults        TEXT    NOT NULL,  -- JSON array of {email, attempt}
    faults_since  INTEGER,
    last_error    TEXT,
    next_probe_at INTEGER,
    probe_rest_ms INTEGER NOT NULL,
    probe         BLOB,
    probe_until   INTEGER
) STRICT, WITHOUT ROWID;

-- Who sends: limits are shared by so many.
CREATE TABLE posthaste_sender (
    name          TEXT    PRIMARY KEY,
    present_until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Addresses that get nothing any more from an owner.
CREATE TABLE posthaste_suppression (
    owner      TEXT    NOT NULL,
    address    TEXT    NOT NULL,     -- folded
    reason     TEXT    NOT NULL,
    detail     TEXT,
    email_id   BLOB,
    created_at INTEGER NOT NULL,
    created_by TEXT    NOT NULL,
    PRIMARY KEY (owner, address)
) STRICT, WITHOUT ROWID;
