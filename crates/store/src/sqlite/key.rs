//! API keys: only the hash of a secret is kept.

use posthaste_core::port::{Actor, ApiKey, StoreResult};
use rusqlite::{OptionalExtension, Row, params};

use super::accept::json;
use super::act::audit;
use super::email_row::from_json;
use super::state_row::optional_time;
use super::{SqliteStore, from_micros, micros};

const COLUMNS: &str = "id, name, owner, scopes, from_addresses, created_at, revoked_at";

fn key_of(row: &Row<'_>) -> rusqlite::Result<ApiKey> {
    Ok(ApiKey {
        id: row.get(0)?,
        name: row.get(1)?,
        owner: row.get(2)?,
        scopes: from_json(row, 3)?,
        from_addresses: from_json(row, 4)?,
        created_at: from_micros(row.get(5)?),
        revoked_at: optional_time(row, 6)?,
    })
}

impl SqliteStore {
    pub(super) async fn insert_key(
        &self,
        key: ApiKey,
        secret_hash: [u8; 32],
        actor: &Actor,
    ) -> StoreResult<()> {
        let actor = actor.name.clone();
        self.writer
            .run(move |flush| {
                flush.execute(
                    "INSERT INTO posthaste_api_key
                     (id, secret_hash, name, owner, scopes, from_addresses, created_at)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                    params![
                        key.id,
                        secret_hash.as_slice(),
                        key.name,
                        key.owner,
                        json(&key.scopes)?,
                        json(&key.from_addresses)?,
                        micros(flush.now()),
                    ],
                )?;
                audit(flush, &actor, "create_key", &key.id, &key.owner)
            })
            .await
    }

    pub(super) async fn key_by_hash(&self, secret_hash: [u8; 32]) -> StoreResult<Option<ApiKey>> {
        self.desk
            .run(move |connection| {
                connection
                    .prepare_cached(&format!(
                        "SELECT {COLUMNS} FROM posthaste_api_key
                         WHERE secret_hash = ?1 AND revoked_at IS NULL"
                    ))?
                    .query_row([secret_hash.as_slice()], key_of)
                    .optional()
            })
            .await
    }

    pub(super) async fn all_keys(&self) -> StoreResult<Vec<ApiKey>> {
        self.desk
            .run(|connection| {
                connection
                    .prepare_cached(&format!(
                        "SELECT {COLUMNS} FROM posthaste_api_key ORDER BY created_at, id"
                    ))?
                    .query_map([], key_of)?
                    .collect()
            })
            .await
    }

    pub(super) async fn revoke(&self, id: &str, actor: &Actor) -> StoreResult<bool> {
        let (id, actor) = (id.to_owned(), actor.name.clone());
        self.writer
            .run(move |flush| {
                let changed = flush.execute(
                    "UPDATE posthaste_api_key SET revoked_at = coalesce(revoked_at, ?2)
                     WHERE id = ?1",
                    (&id, micros(flush.now())),
                )?;
                if changed > 0 {
                    audit(flush, &actor, "revoke_key", &id, "revoked")?;
                }
                Ok(changed > 0)
            })
            .await
    }
}
