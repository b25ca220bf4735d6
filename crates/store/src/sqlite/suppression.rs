//! Addresses that get nothing any more.

use posthaste_core::email::EmailId;
use posthaste_core::port::{Actor, StoreResult, SuppressionFilter};
use posthaste_core::suppression::Suppression;
use rusqlite::{Row, params};

use super::act::audit;
use super::state_row::named;
use super::writer::Flush;
use super::{SqliteStore, from_micros, micros};
use crate::suppression::{
    Put, SUPPRESSED, UNSUPPRESSED, Wanted, audited, gravity, may_touch, removal_audited,
};

const LIST: &str = "SELECT owner, address, reason, detail, email_id, created_at, created_by
     FROM posthaste_suppression
     WHERE (?1 IS NULL OR owner = ?1) AND (?2 IS NULL OR address >= ?2)
       AND (?3 IS NULL OR address < ?3) AND (?4 IS NULL OR substr(address, -length(?4)) = ?4)
       AND (?5 IS NULL OR (owner, address) > (?5, ?6))
     ORDER BY owner, address LIMIT ?7";

fn suppression_of(row: &Row<'_>) -> rusqlite::Result<Suppression> {
    Ok(Suppression {
        owner: row.get(0)?,
        address: row.get(1)?,
        reason: named(row, 2)?,
        detail: row.get(3)?,
        email_id: row.get::<_, Option<_>>(4)?.map(EmailId),
        created_at: from_micros(row.get(5)?),
        created_by: row.get(6)?,
    })
}

impl SqliteStore {
    pub(super) async fn suppress_all(
        &self,
        suppressions: Vec<Suppression>,
        actor: &Actor,
    ) -> StoreResult<Vec<bool>> {
        let actor = actor.clone();
        self.writer
            .run(move |flush| {
                suppressions
                    .iter()
                    .map(|suppression| suppress(flush, suppression, &actor))
                    .collect()
            })
            .await
    }

    pub(super) async fn delete_suppression(
        &self,
        owner: &str,
        address: &str,
        actor: &Actor,
    ) -> StoreResult<bool> {
        if !may_touch(actor, owner) {
            return Ok(false);
        }
        let (owner, address) = (owner.to_owned(), address.to_lowercase());
        let actor = actor.name.clone();
        self.writer
            .run(move |flush| {
                let removed = flush.execute(
                    "DELETE FROM posthaste_suppression WHERE owner = ?1 AND address = ?2",
                    (&owner, &address),
                )?;
                if removed > 0 {
                    let result = removal_audited(&owner);
                    audit(flush, &actor, UNSUPPRESSED, &address, &result)?;
                }
                Ok(removed > 0)
            })
            .await
    }

    pub(super) async fn list_suppressions(
        &self,
        filter: &SuppressionFilter,
    ) -> StoreResult<Vec<Suppression>> {
        let (filter, wanted) = (filter.clone(), Wanted::of(filter));
        self.desk
            .run(move |connection| {
                let (owner, address) = filter.after.unzip();
                connection
                    .prepare_cached(LIST)?
                    .query_map(
                        params![
                            filter.owner,
                            wanted.from,
                            wanted.before,
                            wanted.end,
                            owner,
                            address,
                            filter.limit
                        ],
                        suppression_of,
                    )?
                    .collect()
            })
            .await
    }
}

/// Puts an address on the list for an operator; whether it is new.
fn suppress(flush: &Flush<'_>, suppression: &Suppression, actor: &Actor) -> rusqlite::Result<bool> {
    if !may_touch(actor, &suppression.owner) {
        return Ok(false);
    }
    let put = put(flush, suppression)?;
    let address = suppression.address.to_lowercase();
    let result = audited(put, suppression);
    audit(flush, &actor.name, SUPPRESSED, &address, &result)?;
    Ok(put == Put::New)
}

/// Puts an address on the list. It has been there since it first was.
pub(super) fn put(flush: &Flush<'_>, suppression: &Suppression) -> rusqlite::Result<Put> {
    let address = suppression.address.to_lowercase();
    let (reason, email) = (
        suppression.reason.as_str(),
        suppression.email_id.map(|id| id.0),
    );
    let Suppression {
        owner,
        detail,
        created_by,
        ..
    } = suppression;
    let inserted = flush
        .prepare_cached(
            "INSERT INTO posthaste_suppression
                 (owner, address, reason, detail, email_id, created_by, created_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO NOTHING",
        )?
        .execute(params![
            owner,
            address,
            reason,
            detail,
            email,
            created_by,
            micros(flush.now())
        ])?;
    if inserted > 0 {
        return Ok(Put::New);
    }
    let changed = flush
        .prepare_cached(&format!(
            "UPDATE posthaste_suppression
             SET reason = ?3, detail = ?4, email_id = ?5, created_by = ?6
             WHERE owner = ?1 AND address = ?2 AND {} < {}",
            gravity("reason"),
            gravity("?3")
        ))?
        .execute(params![owner, address, reason, detail, email, created_by])?;
    Ok(if changed > 0 { Put::Graver } else { Put::Known })
}
