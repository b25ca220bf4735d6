//! API keys: only the hash of a secret is kept.

use posthaste_core::port::{Actor, ApiKey, StoreResult};
use tokio_postgres::Row;

use super::PostgresStore;
use super::email_row::from_json;
use super::error::corrupt;
use super::list::has_nul;
use super::state_row::get;

const COLUMNS: &str = "id, name, owner, scopes::text, from_addresses::text, created_at, revoked_at";

fn key_of(row: &Row) -> StoreResult<ApiKey> {
    Ok(ApiKey {
        id: get(row, 0)?,
        name: get(row, 1)?,
        owner: get(row, 2)?,
        scopes: from_json(row, 3)?,
        from_addresses: from_json(row, 4)?,
        created_at: get(row, 5)?,
        revoked_at: get(row, 6)?,
    })
}

impl PostgresStore {
    pub(super) async fn insert_key(
        &self,
        key: ApiKey,
        secret_hash: [u8; 32],
        actor: &Actor,
    ) -> StoreResult<()> {
        let scopes = serde_json::to_string(&key.scopes).map_err(corrupt)?;
        let from_addresses = serde_json::to_string(&key.from_addresses).map_err(corrupt)?;
        self.desk
            .transaction("BEGIN", async |client| {
                client
                    .execute(
                        "WITH created AS (
                             INSERT INTO api_key (id, secret_hash, name, owner, scopes,
                                 from_addresses, created_at)
                             VALUES ($1, $2, $3, $4, $5::text::json, $6::text::json,
                                 posthaste_now())
                             RETURNING id, owner, created_at)
                         INSERT INTO audit_log (at, actor, action, subject, result)
                         SELECT created_at, $7, 'create_key', id, owner FROM created",
                        &[
                            &key.id,
                            &secret_hash.as_slice(),
                            &key.name,
                            &key.owner,
                            &scopes,
                            &from_addresses,
                            &actor.name,
                        ],
                    )
                    .await
                    .map(drop)
            })
            .await
    }

    pub(super) async fn key_by_hash(&self, secret_hash: [u8; 32]) -> StoreResult<Option<ApiKey>> {
        let sql =
            format!("SELECT {COLUMNS} FROM api_key WHERE secret_hash = $1 AND revoked_at IS NULL");
        let rows = self.pool.query(&sql, &[&secret_hash.as_slice()]).await?;
        rows.first().map(key_of).transpose()
    }

    pub(super) async fn all_keys(&self) -> StoreResult<Vec<ApiKey>> {
        let sql = format!("SELECT {COLUMNS} FROM api_key ORDER BY created_at, id");
        let rows = self.desk.query(&sql, &[]).await?;
        rows.iter().map(key_of).collect()
    }

    pub(super) async fn revoke(&self, id: &str, actor: &Actor) -> StoreResult<bool> {
        if has_nul(id) {
            return Ok(false);
        }
        self.desk
            .transaction("BEGIN", async |client| {
                client
                    .execute(
                        "WITH revoked AS (
                             UPDATE api_key SET revoked_at = coalesce(revoked_at, posthaste_now())
                             WHERE id = $1 RETURNING id)
                         INSERT INTO audit_log (at, actor, action, subject, result)
                         SELECT posthaste_now(), $2, 'revoke_key', id, 'revoked' FROM revoked",
                        &[&id, &actor.name],
                    )
                    .await
                    .map(|revoked| revoked > 0)
            })
            .await
    }
}
