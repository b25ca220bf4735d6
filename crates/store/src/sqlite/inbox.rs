//! The dev inbox: mail that was captured instead of sent.

use bytes::Bytes;
use posthaste_core::email::EmailId;
use posthaste_core::port::{Captured, StoreResult};
use rusqlite::{OptionalExtension, Row, params};

use super::accept::json;
use super::email_row::from_json;
use super::{SqliteStore, from_micros, micros};

fn captured_of(row: &Row<'_>) -> rusqlite::Result<Captured> {
    Ok(Captured {
        email_id: EmailId(row.get(0)?),
        captured_at: from_micros(row.get(1)?),
        from: row.get(2)?,
        recipients: from_json(row, 3)?,
        content: row
            .get::<_, Option<Vec<u8>>>(4)?
            .map(Bytes::from)
            .unwrap_or_default(),
    })
}

impl SqliteStore {
    pub(super) async fn insert_capture(&self, captured: Captured) -> StoreResult<()> {
        self.writer
            .run(move |flush| {
                flush
                    .prepare_cached(
                        "INSERT INTO posthaste_capture
                         (email_id, captured_at, mail_from, recipients, content)
                         VALUES (?1, ?2, ?3, ?4, ?5)",
                    )?
                    .execute(params![
                        captured.email_id.0,
                        micros(captured.captured_at),
                        captured.from,
                        json(&captured.recipients)?,
                        &captured.content[..],
                    ])
                    .map(drop)
            })
            .await
    }

    pub(super) async fn newest_captures(&self, most: usize) -> StoreResult<Vec<Captured>> {
        self.desk
            .run(move |connection| {
                connection
                    .prepare_cached(
                        "SELECT email_id, captured_at, mail_from, recipients, NULL
                         FROM posthaste_capture
                         ORDER BY seq DESC LIMIT ?1",
                    )?
                    .query_map([most], captured_of)?
                    .collect()
            })
            .await
    }

    pub(super) async fn capture_of(&self, id: EmailId) -> StoreResult<Option<Captured>> {
        self.desk
            .run(move |connection| {
                connection
                    .prepare_cached(
                        "SELECT email_id, captured_at, mail_from, recipients, content
                         FROM posthaste_capture
                         WHERE email_id = ?1 ORDER BY seq DESC LIMIT 1",
                    )?
                    .query_row([id.0], captured_of)
                    .optional()
            })
            .await
    }
}
