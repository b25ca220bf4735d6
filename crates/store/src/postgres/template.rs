//! Templates in all their versions.

use deadpool_postgres::ClientWrapper;
use posthaste_core::port::{Actor, StoreResult, TemplateSaved, TemplateVersion};
use posthaste_core::template::{Template, TemplateContent};
use tokio_postgres::Row;

use super::PostgresStore;
use super::email_row::from_json;
use super::error::{Trouble, corrupt};
use super::list::has_nul;
use super::state_row::{get, named};
use crate::template::{DELETED, SAVED, Standing, Verdict, audited, saved};

const COLUMNS: &str =
    "v.name, v.version, v.description, v.mail_from, v.subject, v.html, v.body_text,
     v.priority, v.policy::text, v.sample::text, v.saved_at, v.saved_by, v.route";

/// Those who save wait for each other, also where there is no row yet to lock; nobody waits to read.
const BEGIN: &str = "BEGIN; LOCK TABLE template IN SHARE ROW EXCLUSIVE MODE";

/// Writes a version, makes it the newest and keeps who did it.
const WRITE: &str = "WITH newest AS (
         INSERT INTO template (name, version) VALUES ($1, $2)
         ON CONFLICT (name) DO UPDATE SET version = excluded.version, deleted_at = NULL),
     written AS (
         INSERT INTO template_version (name, version, description, mail_from, subject, html,
             body_text, priority, policy, sample, saved_at, saved_by, route)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9::text::json, $10::text::json, posthaste_now(),
             $11, $14)
         RETURNING name, saved_at, saved_by)
     INSERT INTO audit_log (at, actor, action, subject, result)
     SELECT saved_at, saved_by, $12, name, $13 FROM written RETURNING at";

fn template_of(row: &Row) -> StoreResult<Template> {
    Ok(Template {
        name: get(row, 0)?,
        version: number(row, 1)?,
        content: TemplateContent {
            description: get(row, 2)?,
            from: get(row, 3)?,
            subject: get(row, 4)?,
            html: get(row, 5)?,
            text: get(row, 6)?,
            priority: named(row, 7)?,
            policy: from_json(row, 8)?,
            sample: from_json(row, 9)?,
            route: get(row, 12)?,
        },
        saved_at: get(row, 10)?,
        saved_by: get(row, 11)?,
    })
}

fn number(row: &Row, at: usize) -> StoreResult<u32> {
    u32::try_from(get::<i32>(row, at)?).map_err(corrupt)
}

/// The number as the database writes it; one that is too high for it belongs to no version.
fn stored(version: u32) -> i32 {
    i32::try_from(version).unwrap_or(i32::MAX)
}

/// This version of a template that is not deleted, or its newest.
fn find() -> String {
    format!(
        "SELECT {COLUMNS} FROM template t
         JOIN template_version v ON v.name = t.name AND v.version = coalesce($2, t.version)
         WHERE t.name = $1 AND t.deleted_at IS NULL"
    )
}

async fn standing(client: &ClientWrapper, name: &str) -> Result<Standing, Trouble> {
    let highest = client
        .query_opt("SELECT version FROM template WHERE name = $1", &[&name])
        .await?;
    let current = client.query_opt(&find(), &[&name, &None::<i32>]).await?;
    Ok(Standing {
        highest: highest.map_or(Ok(0), |row| number(&row, 0))?,
        current: current.as_ref().map(template_of).transpose()?,
    })
}

async fn save(
    client: &ClientWrapper,
    name: &str,
    content: TemplateContent,
    based_on: Option<u32>,
    actor: &Actor,
) -> Result<TemplateSaved, Trouble> {
    let version = match standing(client, name).await?.save(&content, based_on) {
        Verdict::Answered(answer) => return Ok(*answer),
        Verdict::Next(version) => version,
    };
    let policy = serde_json::to_string(&content.policy).map_err(corrupt)?;
    let sample = serde_json::to_string(&content.sample).map_err(corrupt)?;
    let row = client
        .query_one(
            WRITE,
            &[
                &name,
                &stored(version),
                &content.description,
                &content.from,
                &content.subject,
                &content.html,
                &content.text,
                &content.priority.as_str(),
                &policy,
                &sample,
                &actor.name,
                &SAVED,
                &audited(version),
                &content.route,
            ],
        )
        .await?;
    Ok(saved(name, version, content, get(&row, 0)?, actor))
}

impl PostgresStore {
    pub(super) async fn insert_template(
        &self,
        name: &str,
        content: TemplateContent,
        based_on: Option<u32>,
        actor: &Actor,
    ) -> StoreResult<TemplateSaved> {
        self.desk
            .transaction(BEGIN, async |client| {
                save(client, name, content, based_on, actor).await
            })
            .await
    }

    pub(super) async fn template_of(
        &self,
        name: &str,
        version: Option<u32>,
    ) -> StoreResult<Option<Template>> {
        if has_nul(name) {
            return Ok(None);
        }
        // Emails wait for it while they are taken in, so it does not wait behind people's queries.
        let rows = self
            .pool
            .query(&find(), &[&name, &version.map(stored)])
            .await?;
        rows.first().map(template_of).transpose()
    }

    pub(super) async fn newest_templates(&self) -> StoreResult<Vec<Template>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM template t
             JOIN template_version v ON v.name = t.name AND v.version = t.version
             WHERE t.deleted_at IS NULL ORDER BY t.name COLLATE \"C\""
        );
        let rows = self.desk.query(&sql, &[]).await?;
        rows.iter().map(template_of).collect()
    }

    pub(super) async fn versions_of(&self, name: &str) -> StoreResult<Vec<TemplateVersion>> {
        if has_nul(name) {
            return Ok(Vec::new());
        }
        let sql = "SELECT v.version, v.saved_at, v.saved_by FROM template t
             JOIN template_version v ON v.name = t.name
             WHERE t.name = $1 AND t.deleted_at IS NULL ORDER BY v.version DESC";
        let rows = self.desk.query(sql, &[&name]).await?;
        rows.iter()
            .map(|row| {
                Ok(TemplateVersion {
                    version: number(row, 0)?,
                    saved_at: get(row, 1)?,
                    saved_by: get(row, 2)?,
                })
            })
            .collect()
    }

    pub(super) async fn remove_template(&self, name: &str, actor: &Actor) -> StoreResult<bool> {
        if has_nul(name) {
            return Ok(false);
        }
        self.desk
            .transaction(BEGIN, async |client| {
                client
                    .execute(
                        "WITH deleted AS (
                             UPDATE template SET deleted_at = posthaste_now()
                             WHERE name = $1 AND deleted_at IS NULL RETURNING name)
                         INSERT INTO audit_log (at, actor, action, subject, result)
                         SELECT posthaste_now(), $2, $3, name, 'deleted' FROM deleted",
                        &[&name, &actor.name, &DELETED],
                    )
                    .await
                    .map(|deleted| deleted > 0)
            })
            .await
    }
}
