-- How far the conversation had got when an attempt failed.
ALTER TABLE posthaste_email_attempt ADD COLUMN stage TEXT;

-- What an operator's action was meant for, where it was for many.
ALTER TABLE posthaste_audit_log ADD COLUMN filter TEXT;
ALTER TABLE posthaste_audit_log ADD COLUMN count INTEGER;
CREATE INDEX posthaste_audit_log_subject ON posthaste_audit_log (subject, seq);
CREATE INDEX posthaste_audit_log_actor ON posthaste_audit_log (actor, seq);
CREATE INDEX posthaste_audit_log_action ON posthaste_audit_log (action, seq);
-- What was written stays as it was written; only its retention removes it.
CREATE TRIGGER posthaste_audit_log_append_only BEFORE UPDATE ON posthaste_audit_log
BEGIN
    SELECT RAISE(ABORT, 'the audit log is append-only');
END;

-- Dead letters by what they died of. Groups are counted in the first, and their first and last
-- found; the second lists the emails of one.
CREATE INDEX posthaste_email_log_dead ON posthaste_email_log (fingerprint, dead_reason, finished_at)
    WHERE status = 'dead';
CREATE INDEX posthaste_email_log_dead_list ON posthaste_email_log (fingerprint, id)
    WHERE status = 'dead';

-- One action over many dead letters. `position`: how many of its items are behind it.
CREATE TABLE posthaste_operation (
    id              BLOB    NOT NULL PRIMARY KEY,
    action          TEXT    NOT NULL CHECK (action IN ('retry', 'discard')),
    filter          TEXT    NOT NULL,
    owner           TEXT,                 -- only emails of this owner
    rate_per_second INTEGER CHECK (rate_per_second > 0),
    status          TEXT    NOT NULL CHECK (status IN ('running', 'paused', 'cancelled', 'done')),
    actor           TEXT    NOT NULL,
    total           INTEGER NOT NULL,
    done            INTEGER NOT NULL DEFAULT 0,
    skipped         INTEGER NOT NULL DEFAULT 0,
    next_step_at    INTEGER NOT NULL,
    created_at      INTEGER NOT NULL,
    finished_at     INTEGER,
    CHECK (done + skipped <= total),
    CHECK ((finished_at IS NOT NULL) = (status IN ('cancelled', 'done')))
) STRICT, WITHOUT ROWID;
CREATE INDEX posthaste_operation_running ON posthaste_operation (next_step_at)
    WHERE status = 'running';

-- The emails that were dead when it was made, and the death that was meant: an email that was tried
-- since has another token. Removed when the operation is over.
CREATE TABLE posthaste_operation_item (
    operation_id BLOB    NOT NULL,
    position     INTEGER NOT NULL,         -- 0, 1, 2 … in the order of treatment
    email_id     BLOB    NOT NULL,
    lease_token  INTEGER NOT NULL,
    PRIMARY KEY (operation_id, position)
) STRICT, WITHOUT ROWID;

-- Templates. A deleted one keeps its versions: emails were made from them.
CREATE TABLE posthaste_template (
    name       TEXT    NOT NULL PRIMARY KEY,
    version    INTEGER NOT NULL CHECK (version > 0),
    deleted_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE TABLE posthaste_template_version (
    name        TEXT    NOT NULL REFERENCES posthaste_template,
    version     INTEGER NOT NULL CHECK (version > 0),
    description TEXT    NOT NULL,
    mail_from   TEXT,
    subject     TEXT    NOT NULL,
    html        TEXT,
    body_text   TEXT,
    priority    TEXT    NOT NULL,
    policy      TEXT    NOT NULL,     -- a name, or a policy of its own
    sample      TEXT    NOT NULL,     -- object
    saved_at    INTEGER NOT NULL,
    saved_by    TEXT    NOT NULL,
    PRIMARY KEY (name, version)
) STRICT, WITHOUT ROWID;

-- The newest emails of a template are found without sorting all of them.
DROP INDEX posthaste_email_template;
CREATE INDEX posthaste_email_template ON posthaste_email (template, id) WHERE template IS NOT NULL;

-- People who may use the dashboard.
CREATE TABLE posthaste_admin (
    name          TEXT    NOT NULL PRIMARY KEY,
    role          TEXT    NOT NULL CHECK (role IN ('viewer', 'operator')),
    password_hash TEXT    NOT NULL,
    created_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE posthaste_admin_session (
    secret_hash BLOB    NOT NULL PRIMARY KEY,
    name        TEXT    NOT NULL REFERENCES posthaste_admin ON DELETE CASCADE,
    created_at  INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX posthaste_admin_session_name ON posthaste_admin_session (name);

-- Deaths that no alert counts yet. Written in the transaction in which the email died.
CREATE TABLE posthaste_death (
    seq         INTEGER PRIMARY KEY,
    email_id    BLOB    NOT NULL,
    at          INTEGER NOT NULL,
    reason      TEXT    NOT NULL,
    fingerprint TEXT    NOT NULL,
    error       TEXT
) STRICT;
CREATE INDEX posthaste_death_email ON posthaste_death (email_id);

-- What each channel has to tell. What is being told stays as it is until it was told; what dies
-- meanwhile waits beside it.
CREATE TABLE posthaste_alert_group (
    channel     TEXT    NOT NULL,
    taken       INTEGER NOT NULL DEFAULT 0, -- whether it is being told
    fingerprint TEXT    NOT NULL,
    reason      TEXT    NOT NULL,
    n           INTEGER NOT NULL CHECK (n > 0),
    first_at    INTEGER NOT NULL,
    last_at     INTEGER NOT NULL,
    gathered_at INTEGER NOT NULL,     -- since when it waits to be told
    sample      TEXT,
    email_id    BLOB    NOT NULL,
    PRIMARY KEY (channel, taken, fingerprint)
) STRICT, WITHOUT ROWID;
CREATE INDEX posthaste_alert_group_email ON posthaste_alert_group (email_id);

-- When each channel may speak again.
CREATE TABLE posthaste_alert_channel (
    name         TEXT    NOT NULL PRIMARY KEY,
    rests_until  INTEGER NOT NULL,        -- it says nothing before
    locked_until INTEGER,
    digest_id    TEXT,                    -- of what is being told, until it was told
    failures     INTEGER NOT NULL DEFAULT 0,
    streak       INTEGER NOT NULL DEFAULT 0,
    last_told_at INTEGER,
    last_error   TEXT
) STRICT, WITHOUT ROWID;

-- Up to which number its attempts were removed after their retention, while the email stays.
ALTER TABLE posthaste_email_log ADD COLUMN attempts_pruned_to INTEGER NOT NULL DEFAULT 0;
