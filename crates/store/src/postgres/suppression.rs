//! Addresses that get nothing any more.

use deadpool_postgres::ClientWrapper;
use posthaste_core::email::EmailId;
use posthaste_core::port::{Actor, StoreResult, SuppressionFilter};
use posthaste_core::suppression::Suppression;
use tokio_postgres::{Error, Row};
use uuid::Uuid;

use super::PostgresStore;
use super::list::has_nul;
use super::pool::Values;
use super::state_row::{get, named};
use crate::suppression::{
    Put, SUPPRESSED, UNSUPPRESSED, Wanted, audited, gravity, may_touch, removal_audited,
};

const LIST: &str = "SELECT owner, address, reason, detail, email_id, created_at, created_by
     FROM suppression
     WHERE ($1::text IS NULL OR owner = $1) AND ($2::text IS NULL OR address >= $2)
       AND ($3::text IS NULL OR address < $3)
       AND ($4::text IS NULL OR right(address, length($4)) = $4)
       AND ($5::text IS NULL OR (owner, address) > ($5, $6::text))
     ORDER BY owner, address LIMIT $7";

const INSERT: &str = "INSERT INTO suppression
         (owner, address, reason, detail, email_id, created_by, created_at)
     VALUES ($1, $2, $3, $4, $5, $6, posthaste_now()) ON CONFLICT DO NOTHING";

fn make_graver() -> String {
    format!(
        "UPDATE suppression SET reason = $3, detail = $4, email_id = $5, created_by = $6
         WHERE owner = $1 AND address = $2 AND {} < {}",
        gravity("reason"),
        gravity("$3")
    )
}

const AUDIT: &str = "INSERT INTO audit_log (at, actor, action, subject, result)
     VALUES (posthaste_now(), $1, $2, $3, $4)";

fn suppression_of(row: &Row) -> StoreResult<Suppression> {
    Ok(Suppression {
        owner: get(row, 0)?,
        address: get(row, 1)?,
        reason: named(row, 2)?,
        detail: get(row, 3)?,
        email_id: get::<Option<Uuid>>(row, 4)?.map(EmailId),
        created_at: get(row, 5)?,
        created_by: get(row, 6)?,
    })
}

impl PostgresStore {
    pub(super) async fn suppress_all(
        &self,
        suppressions: Vec<Suppression>,
        actor: &Actor,
    ) -> StoreResult<Vec<bool>> {
        // In the order of the key, so that two who write several never wait for each other in a
        // circle.
        let mut order: Vec<usize> = (0..suppressions.len()).collect();
        order.sort_by_cached_key(|at| {
            let one = &suppressions[*at];
            (one.owner.clone(), one.address.to_lowercase())
        });
        let put_all = async |client: &ClientWrapper| -> Result<Vec<bool>, Error> {
            let mut are_new = vec![false; suppressions.len()];
            for at in &order {
                let suppression = &suppressions[*at];
                if may_touch(actor, &suppression.owner) {
                    let put = put(client, suppression).await?;
                    are_new[*at] = put == Put::New;
                    let address = suppression.address.to_lowercase();
                    let result = audited(put, suppression);
                    audit(client, actor, SUPPRESSED, &address, &result).await?;
                }
            }
            Ok(are_new)
        };
        self.desk.transaction("BEGIN", put_all).await
    }

    pub(super) async fn delete_suppression(
        &self,
        owner: &str,
        address: &str,
        actor: &Actor,
    ) -> StoreResult<bool> {
        if !may_touch(actor, owner) || has_nul(owner) || has_nul(address) {
            return Ok(false);
        }
        let address = address.to_lowercase();
        self.desk
            .transaction("BEGIN", async |client| {
                let sql = "DELETE FROM suppression WHERE owner = $1 AND address = $2";
                let removed = client.execute(sql, &[&owner, &address]).await?;
                if removed > 0 {
                    let result = removal_audited(owner);
                    audit(client, actor, UNSUPPRESSED, &address, &result).await?;
                }
                Ok::<_, Error>(removed > 0)
            })
            .await
    }

    pub(super) async fn list_suppressions(
        &self,
        filter: &SuppressionFilter,
    ) -> StoreResult<Vec<Suppression>> {
        let Wanted { from, before, end } = Wanted::of(filter);
        let (owner, address) = filter.after.clone().unzip();
        let texts = [&filter.owner, &filter.q, &owner, &address];
        if texts.into_iter().flatten().any(|text| has_nul(text)) {
            return Ok(Vec::new());
        }
        let most = i64::try_from(filter.limit).unwrap_or(i64::MAX);
        let values: Values<'_> = &[&filter.owner, &from, &before, &end, &owner, &address, &most];
        let rows = self.desk.query(LIST, values).await?;
        rows.iter().map(suppression_of).collect()
    }
}

async fn audit(
    client: &ClientWrapper,
    actor: &Actor,
    action: &str,
    subject: &str,
    result: &str,
) -> Result<(), Error> {
    let statement = client.prepare_cached(AUDIT).await?;
    let values: Values<'_> = &[&actor.name, &action, &subject, &result];
    client.execute(&statement, values).await.map(drop)
}

/// Puts an address on the list. It has been there since it first was.
pub(super) async fn put(client: &ClientWrapper, suppression: &Suppression) -> Result<Put, Error> {
    let (address, reason) = (
        suppression.address.to_lowercase(),
        suppression.reason.as_str(),
    );
    let email = suppression.email_id.map(|id| id.0);
    let values: Values<'_> = &[
        &suppression.owner,
        &address,
        &reason,
        &suppression.detail,
        &email,
        &suppression.created_by,
    ];
    let statement = client.prepare_cached(INSERT).await?;
    if client.execute(&statement, values).await? > 0 {
        return Ok(Put::New);
    }
    let statement = client.prepare_cached(&make_graver()).await?;
    match client.execute(&statement, values).await? {
        0 => Ok(Put::Known),
        _ => Ok(Put::Graver),
    }
}
