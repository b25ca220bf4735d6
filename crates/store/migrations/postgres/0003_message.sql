-- Messages of other services that wait for their next retry: the fields of `message::MessageState`
-- and of `message::Failure`, those of a fixed width first.
CREATE TABLE retry_queue (
    id               bigint       GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    message_id       uuid         NOT NULL UNIQUE,
    created_at       timestamptz  NOT NULL,
    next_retry_at    timestamptz  NOT NULL,
    locked_until     timestamptz,
    finished_at      timestamptz,
    token            bigint       NOT NULL DEFAULT 0 CHECK (token >= 0),
    retry_count      integer      NOT NULL DEFAULT 0 CHECK (retry_count >= 0),
    max_retries      integer      NOT NULL DEFAULT 3 CHECK (max_retries >= 0),
    publish_failures integer      NOT NULL DEFAULT 0 CHECK (publish_failures >= 0),
    repeats          integer      NOT NULL DEFAULT 0 CHECK (repeats >= 0),
    status           text         NOT NULL DEFAULT 'pending'
                         CHECK (status IN ('pending', 'retried', 'failed', 'discarded')),
    delivery         bytea        NOT NULL,
    last_error       text,
    original_queue   varchar(255) NOT NULL,
    error_reason     text,
    properties       text         NOT NULL,  -- JSON; text, because jsonb refuses a NUL in a text
    original_payload bytea        NOT NULL
) WITH (
    -- Each row is claimed and settled once or twice and then rests. With half a page to spare a
    -- claim touches no index at all (a HOT update).
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.02,
    autovacuum_vacuum_cost_delay = 0
);
-- A payload that is packed or stands outside of its row is not written again with the row.
-- Measured at 4 KiB: lz4 costs a third less than the default in all; a server without lz4 keeps
-- payloads as they are, which is the second best.
DO $$
BEGIN
    ALTER TABLE retry_queue ALTER COLUMN original_payload SET COMPRESSION lz4;
EXCEPTION WHEN OTHERS THEN
    ALTER TABLE retry_queue ALTER COLUMN original_payload SET STORAGE EXTERNAL;
END $$;

-- What waits, claimed or not. Claims are few and soon over: passing by them costs less than an
-- index of its own for `locked_until`, which every claim would have to write.
CREATE INDEX idx_retry_next_retry ON retry_queue (next_retry_at) WHERE status = 'pending';
-- The operator's desk. Republished messages never enter it.
CREATE INDEX retry_queue_desk ON retry_queue (status, id) WHERE status IN ('failed', 'discarded');
-- For pruning. Messages that are settled together end at the same moment, and republished ones come
-- last in this order: they enter it at its end, many in one entry. In the order of ids, old messages
-- that are kept longer would stand in the way of those that are not.
CREATE INDEX retry_queue_over ON retry_queue (status, finished_at) WHERE finished_at IS NOT NULL;

-- How many messages are in each state: the sum over all slots. Written in the same transactions as
-- the rows; each connection has a slot of its own, so that counting is never what writers wait for.
CREATE TABLE message_count (
    slot   integer NOT NULL,
    status text    NOT NULL,
    n      bigint  NOT NULL,
    PRIMARY KEY (slot, status)
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0
);
