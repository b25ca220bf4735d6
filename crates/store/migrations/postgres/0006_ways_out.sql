-- Which route an email takes; NULL for the default one.
ALTER TABLE email ADD COLUMN route text;
ALTER TABLE template_version ADD COLUMN route text;

-- Which emails go first (0 high, 1 normal, 2 low), and where one waits that cannot leave now.
ALTER TABLE email_log
    ADD COLUMN priority       smallint NOT NULL DEFAULT 1 CHECK (priority BETWEEN 0 AND 2),
    ADD COLUMN waiting_for    text CHECK (waiting_for IS NULL OR status = 'failed'),
    ADD COLUMN waits_until    timestamptz,
    ADD COLUMN transport      text,
    ADD COLUMN bound_to       text,
    ADD COLUMN tried          text,
    ADD COLUMN ignores_expiry boolean NOT NULL DEFAULT false;
-- What was sent or withdrawn is never sent again, and may be very much.
UPDATE email_log l SET priority = CASE e.priority WHEN 'high' THEN 0 ELSE 2 END
    FROM email e
    WHERE e.id = l.id AND e.priority <> 'normal' AND l.status NOT IN ('sent', 'cancelled');
-- Those that may have been sent keep to their way out.
UPDATE email_log l SET bound_to = (
        SELECT a.transport FROM email_attempt a
        WHERE a.email_id = l.id AND a.outcome = 'unknown' AND a.number > l.budget_from
          AND a.transport IS NOT NULL
        ORDER BY a.number LIMIT 1)
    WHERE l.unknown_count > 0 AND l.finished_at IS NULL;

-- What is parked is in nobody's way.
DROP INDEX email_log_waiting;
CREATE INDEX email_log_waiting ON email_log (status, priority, next_attempt_at)
    WHERE status IN ('pending', 'sending', 'failed', 'retry_queued', 'unknown')
      AND waiting_for IS NULL;
DROP INDEX email_log_unqueued;
CREATE INDEX email_log_unqueued ON email_log (priority, next_attempt_at)
    WHERE status = 'pending' AND last_queued_at IS NULL;
CREATE INDEX email_log_parked ON email_log (waiting_for, priority, next_attempt_at)
    WHERE waiting_for IS NOT NULL;
CREATE INDEX email_log_parked_until ON email_log (waits_until) WHERE waits_until IS NOT NULL;

-- What the provider calls the message that it took, and whether the attempt spent nothing.
ALTER TABLE email_attempt
    ADD COLUMN provider_id text,
    ADD COLUMN is_free     boolean NOT NULL DEFAULT false;
CREATE INDEX email_attempt_provider ON email_attempt (provider_id) WHERE provider_id IS NOT NULL;

-- How the ways out do, of which there is something to say. Its columns are the fields of
-- `way::Way`.
CREATE TABLE way (
    name          text        PRIMARY KEY,
    condition     text        NOT NULL
                      CHECK (condition IN ('flowing', 'stopped', 'probing', 'ramping')),
    since         timestamptz NOT NULL,
    paused_by     text,
    faults        json        NOT NULL,  -- array of {email, attempt}
    faults_since  timestamptz,
    last_error    text,
    next_probe_at timestamptz,
    probe_rest_ms bigint      NOT NULL,
    probe         uuid,
    probe_until   timestamptz
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- Who sends: limits are shared by so many.
CREATE TABLE sender (
    name          text        PRIMARY KEY,
    present_until timestamptz NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- Addresses that get nothing any more from an owner.
CREATE TABLE suppression (
    owner      text        COLLATE "C" NOT NULL,
    address    text        COLLATE "C" NOT NULL,     -- folded
    reason     text        NOT NULL,
    detail     text,
    email_id   uuid,
    created_at timestamptz NOT NULL,
    created_by text        NOT NULL,
    PRIMARY KEY (owner, address)
);
