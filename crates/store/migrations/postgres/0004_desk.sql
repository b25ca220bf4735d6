-- How far the conversation had got when an attempt failed.
ALTER TABLE email_attempt ADD COLUMN stage text;

-- What an operator's action was meant for, where it was for many.
ALTER TABLE audit_log ADD COLUMN filter text, ADD COLUMN count bigint;
CREATE INDEX audit_log_subject ON audit_log (subject, seq);
CREATE INDEX audit_log_actor ON audit_log (actor, seq);
CREATE INDEX audit_log_action ON audit_log (action, seq);
-- What was written stays as it was written; only its retention removes it.
CREATE FUNCTION posthaste_audit_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit log is append-only';
END $$;
CREATE TRIGGER audit_log_append_only BEFORE UPDATE ON audit_log
    FOR EACH ROW EXECUTE FUNCTION posthaste_audit_is_append_only();

-- Dead letters by what they died of. Groups are counted in the first, which keeps equal values
-- once and so stays tiny; their first and last are found in the second.
CREATE INDEX email_log_dead ON email_log (fingerprint, dead_reason) WHERE status = 'dead';
CREATE INDEX email_log_dead_time ON email_log (fingerprint, dead_reason, finished_at)
    WHERE status = 'dead';

-- One action over many dead letters. `position`: how many of its items are behind it.
CREATE TABLE operation (
    id              uuid        PRIMARY KEY,
    action          text        NOT NULL CHECK (action IN ('retry', 'discard')),
    filter          json        NOT NULL,
    owner           text,                 -- only emails of this owner
    rate_per_second integer     CHECK (rate_per_second > 0),
    status          text        NOT NULL CHECK (status IN ('running', 'paused', 'cancelled', 'done')),
    actor           text        NOT NULL,
    total           bigint      NOT NULL,
    done            bigint      NOT NULL DEFAULT 0,
    skipped         bigint      NOT NULL DEFAULT 0,
    next_step_at    timestamptz NOT NULL,
    created_at      timestamptz NOT NULL,
    finished_at     timestamptz,
    CHECK (done + skipped <= total),
    CHECK ((finished_at IS NOT NULL) = (status IN ('cancelled', 'done')))
);
CREATE INDEX operation_running ON operation (next_step_at) WHERE status = 'running';

-- The emails that were dead when it was made, and the death that was meant: an email that was tried
-- since has another token. Removed when the operation is over.
CREATE TABLE operation_item (
    operation_id uuid   NOT NULL,
    position     bigint NOT NULL,         -- 0, 1, 2 … in the order of treatment
    email_id     uuid   NOT NULL,
    lease_token  bigint NOT NULL,
    PRIMARY KEY (operation_id, position)
);

-- Templates. A deleted one keeps its versions: emails were made from them.
CREATE TABLE template (
    name       text        PRIMARY KEY,
    version    integer     NOT NULL CHECK (version > 0),
    deleted_at timestamptz
);
CREATE TABLE template_version (
    name        text        NOT NULL REFERENCES template,
    version     integer     NOT NULL CHECK (version > 0),
    description text        NOT NULL,
    mail_from   text,
    subject     text        NOT NULL,
    html        text,
    body_text   text,
    priority    text        NOT NULL,
    policy      json        NOT NULL,     -- a name, or a policy of its own
    sample      json        NOT NULL,     -- object
    saved_at    timestamptz NOT NULL,
    saved_by    text        NOT NULL,
    PRIMARY KEY (name, version)
);

-- The newest emails of a template are found without sorting all of them.
DROP INDEX email_template;
CREATE INDEX email_template ON email (template, id) WHERE template IS NOT NULL;

-- People who may use the dashboard.
CREATE TABLE admin (
    name          text        PRIMARY KEY,
    role          text        NOT NULL CHECK (role IN ('viewer', 'operator')),
    password_hash text        NOT NULL,
    created_at    timestamptz NOT NULL
);
CREATE TABLE admin_session (
    secret_hash bytea       PRIMARY KEY,
    name        text        NOT NULL REFERENCES admin ON DELETE CASCADE,
    created_at  timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL
);
CREATE INDEX admin_session_name ON admin_session (name);

-- Deaths that no alert counts yet. Written in the transaction in which the email died.
CREATE TABLE death (
    seq         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    email_id    uuid        NOT NULL,
    at          timestamptz NOT NULL,
    reason      text        NOT NULL,
    fingerprint text        NOT NULL,
    error       text
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX death_email ON death (email_id);

-- What each channel has to tell. What is being told stays as it is until it was told; what dies
-- meanwhile waits beside it.
CREATE TABLE alert_group (
    channel     text        NOT NULL,
    taken       boolean     NOT NULL DEFAULT false, -- whether it is being told
    fingerprint text        NOT NULL,
    reason      text        NOT NULL,
    n           bigint      NOT NULL CHECK (n > 0),
    first_at    timestamptz NOT NULL,
    last_at     timestamptz NOT NULL,
    gathered_at timestamptz NOT NULL,     -- since when it waits to be told
    sample      text,
    email_id    uuid        NOT NULL,
    PRIMARY KEY (channel, taken, fingerprint)
);
CREATE INDEX alert_group_email ON alert_group (email_id);

-- When each channel may speak again.
CREATE TABLE alert_channel (
    name         text        PRIMARY KEY,
    rests_until  timestamptz NOT NULL,    -- it says nothing before
    locked_until timestamptz,
    digest_id    text,                    -- of what is being told, until it was told
    failures     integer     NOT NULL DEFAULT 0,
    streak       integer     NOT NULL DEFAULT 0,
    last_told_at timestamptz,
    last_error   text
);

-- Up to which number its attempts were removed after their retention, while the email stays.
ALTER TABLE email_log ADD COLUMN attempts_pruned_to integer NOT NULL DEFAULT 0;
