//! The dev inbox: mail that was captured instead of sent.

use bytes::Bytes;
use posthaste_core::email::EmailId;
use posthaste_core::port::{Captured, StoreResult};
use tokio_postgres::Row;

use super::PostgresStore;
use super::email_row::from_json;
use super::error::corrupt;
use super::state_row::get;

fn captured_of(row: &Row) -> StoreResult<Captured> {
    Ok(Captured {
        email_id: EmailId(get(row, 0)?),
        captured_at: get(row, 1)?,
        from: get(row, 2)?,
        recipients: from_json(row, 3)?,
        content: get::<Option<&[u8]>>(row, 4)?
            .map(Bytes::copy_from_slice)
            .unwrap_or_default(),
    })
}

impl PostgresStore {
    pub(super) async fn insert_capture(&self, captured: Captured) -> StoreResult<()> {
        let recipients = serde_json::to_string(&captured.recipients).map_err(corrupt)?;
        self.pool
            .transaction("BEGIN", async |client| {
                let insert = client
                    .prepare_cached(
                        "INSERT INTO capture (email_id, captured_at, mail_from, recipients, content)
                         VALUES ($1, $2, $3, $4::text::json, $5)",
                    )
                    .await?;
                client
                    .execute(
                        &insert,
                        &[
                            &captured.email_id.0,
                            &captured.captured_at,
                            &captured.from,
                            &recipients,
                            &&captured.content[..],
                        ],
                    )
                    .await
                    .map(drop)
            })
            .await
    }

    pub(super) async fn newest_captures(&self, most: usize) -> StoreResult<Vec<Captured>> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let rows = self
            .desk
            .query(
                "SELECT email_id, captured_at, mail_from, recipients::text, NULL::bytea
                 FROM capture ORDER BY seq DESC LIMIT $1",
                &[&most],
            )
            .await?;
        rows.iter().map(captured_of).collect()
    }

    pub(super) async fn capture_of(&self, id: EmailId) -> StoreResult<Option<Captured>> {
        let rows = self
            .desk
            .query(
                "SELECT email_id, captured_at, mail_from, recipients::text, content
                 FROM capture WHERE email_id = $1 ORDER BY seq DESC LIMIT 1",
                &[&id.0],
            )
            .await?;
        rows.first().map(captured_of).transpose()
    }
}
