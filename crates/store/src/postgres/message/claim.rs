//! Messages that are due: each is claimed once, however many instances ask.

use std::time::{Duration, Instant};

use posthaste_core::Timestamp;
use posthaste_core::port::{ClaimedMessage, StoreResult};
use tokio_postgres::Row;

use super::super::PostgresStore;
use super::super::state_row::get;
use super::row::{RECORD_WIDTH, record_columns, record_of, state_names};

/// Claims the most overdue: `$1` messages, or fewer once they have `$2` bytes, for `$3` seconds.
/// It does what `MessageState::is_due` and `MessageState::claimed` say.
pub(in crate::postgres) const CLAIM: &str = concat!(
    "WITH due AS MATERIALIZED (
         SELECT id, next_retry_at, octet_length(original_payload) AS size,
             locked_until IS NOT NULL AS is_repeat
         FROM retry_queue
         WHERE status = 'pending' AND next_retry_at <= posthaste_now()
           AND (locked_until IS NULL OR locked_until <= posthaste_now())
         ORDER BY next_retry_at LIMIT $1 FOR UPDATE SKIP LOCKED),
     measured AS (
         SELECT id, is_repeat, row_number() OVER before AS place,
             sum(size) OVER before - size AS bytes_before
         FROM due WINDOW before AS (ORDER BY next_retry_at, id ROWS UNBOUNDED PRECEDING))
     UPDATE retry_queue q SET token = q.token + 1,
         repeats = q.repeats + m.is_repeat::int4,
         locked_until = posthaste_now() + make_interval(secs => $3)
     FROM measured m WHERE q.id = m.id AND (m.place = 1 OR m.bytes_before < $2)
     RETURNING ",
    record_columns!(),
    ", q.original_payload, m.is_repeat"
);

/// When the next is due or, if none is, the next claim runs out. Only what is due is claimed, so
/// the second question is about as many rows as there are claims.
pub(in crate::postgres) const NEXT_DUE: &str = "SELECT
         CASE WHEN free.due <= posthaste_now() THEN free.due ELSE least(free.due,
             (SELECT min(locked_until) FROM retry_queue
              WHERE status = 'pending' AND next_retry_at <= posthaste_now())) END,
         posthaste_now()
     FROM (SELECT (SELECT next_retry_at FROM retry_queue
             WHERE status = 'pending' AND locked_until IS NULL
             ORDER BY next_retry_at LIMIT 1) AS due OFFSET 0) AS free";

impl PostgresStore {
    pub(in crate::postgres) async fn claim_due_messages(
        &self,
        most: usize,
        most_bytes: usize,
        lease: Duration,
    ) -> StoreResult<Vec<ClaimedMessage>> {
        if most == 0 {
            return Ok(Vec::new());
        }
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let most_bytes = i64::try_from(most_bytes).unwrap_or(i64::MAX);
        let seconds = lease.as_secs_f64();
        let asked = Instant::now();
        // Whatever a lost answer was about is claimed again when its claim runs out.
        let rows = self.ask(CLAIM, &[&most, &most_bytes, &seconds]).await?;
        let readable = rows.iter().filter_map(|row| match claimed_of(row) {
            Ok(claimed) => Some(claimed),
            Err(error) => {
                // The others must not suffer. It is tried again when its claim runs out.
                tracing::error!(%error, "a message cannot be read");
                None
            }
        });
        let mut claimed: Vec<_> = readable.collect();
        claimed.sort_unstable_by_key(|of| (of.message.state.next_retry_at, of.message.number));
        let until = claimed.first().and_then(|of| of.message.state.locked_until);
        if let Some(now) = until.and_then(|until| until.checked_sub(lease).ok()) {
            self.clock.learn(now, asked);
        }
        Ok(claimed)
    }

    pub(in crate::postgres) async fn next_message_due_at(&self) -> StoreResult<Option<Timestamp>> {
        let asked = Instant::now();
        let rows = self.messages.query(NEXT_DUE, &[]).await?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        self.clock.learn(get(row, 1)?, asked);
        get(row, 0)
    }
}

fn claimed_of(row: &Row) -> StoreResult<ClaimedMessage> {
    Ok(ClaimedMessage {
        message: record_of(row)?,
        is_repeat: get(row, RECORD_WIDTH)?,
    })
}
