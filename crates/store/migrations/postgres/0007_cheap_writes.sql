-- One that is being sent is found by its lease, and need not be in two indexes: it enters and leaves
-- them with every attempt.
DROP INDEX email_log_waiting;
CREATE INDEX email_log_waiting ON email_log (status, priority, next_attempt_at)
    WHERE status IN ('pending', 'failed', 'retry_queued', 'unknown') AND waiting_for IS NULL;
