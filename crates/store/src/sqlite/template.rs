//! Templates in all their versions.

use posthaste_core::port::{Actor, StoreResult, TemplateSaved, TemplateVersion};
use posthaste_core::template::{Template, TemplateContent};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::accept::json;
use super::act::audit;
use super::email_row::from_json;
use super::state_row::named;
use super::writer::Flush;
use super::{SqliteStore, from_micros, micros};
use crate::template::{DELETED, SAVED, Standing, Verdict, audited, saved};

const COLUMNS: &str =
    "v.name, v.version, v.description, v.mail_from, v.subject, v.html, v.body_text,
     v.priority, v.policy, v.sample, v.saved_at, v.saved_by, v.route";

fn template_of(row: &Row<'_>) -> rusqlite::Result<Template> {
    Ok(Template {
        name: row.get(0)?,
        version: row.get(1)?,
        content: TemplateContent {
            description: row.get(2)?,
            from: row.get(3)?,
            subject: row.get(4)?,
            html: row.get(5)?,
            text: row.get(6)?,
            priority: named(row, 7)?,
            policy: from_json(row, 8)?,
            sample: from_json(row, 9)?,
            route: row.get(12)?,
        },
        saved_at: from_micros(row.get(10)?),
        saved_by: row.get(11)?,
    })
}

/// This version of a template that is not deleted, or its newest.
fn find(
    connection: &Connection,
    name: &str,
    version: Option<u32>,
) -> rusqlite::Result<Option<Template>> {
    connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM posthaste_template t
             JOIN posthaste_template_version v ON v.name = t.name
               AND v.version = coalesce(?2, t.version)
             WHERE t.name = ?1 AND t.deleted_at IS NULL"
        ))?
        .query_row((name, version), template_of)
        .optional()
}

fn standing(flush: &Flush<'_>, name: &str) -> rusqlite::Result<Standing> {
    let highest = flush
        .prepare_cached("SELECT version FROM posthaste_template WHERE name = ?1")?
        .query_row([name], |row| row.get(0))
        .optional()?;
    Ok(Standing {
        highest: highest.unwrap_or(0),
        current: find(flush, name, None)?,
    })
}

/// Writes a version and makes it the newest.
fn write(
    flush: &Flush<'_>,
    name: &str,
    version: u32,
    content: &TemplateContent,
    actor: &str,
) -> rusqlite::Result<()> {
    flush
        .prepare_cached(
            "INSERT INTO posthaste_template (name, version) VALUES (?1, ?2)
             ON CONFLICT (name) DO UPDATE SET version = excluded.version, deleted_at = NULL",
        )?
        .execute((name, version))?;
    flush
        .prepare_cached(
            "INSERT INTO posthaste_template_version
             (name, version, description, mail_from, subject, html,
                 body_text, priority, policy, sample, saved_at, saved_by, route)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        )?
        .execute(params![
            name,
            version,
            content.description,
            content.from,
            content.subject,
            content.html,
            content.text,
            content.priority.as_str(),
            json(&content.policy)?,
            json(&content.sample)?,
            micros(flush.now()),
            actor,
            content.route,
        ])?;
    audit(flush, actor, SAVED, name, &audited(version))
}

impl SqliteStore {
    pub(super) async fn insert_template(
        &self,
        name: &str,
        content: TemplateContent,
        based_on: Option<u32>,
        actor: &Actor,
    ) -> StoreResult<TemplateSaved> {
        let (name, actor) = (name.to_owned(), actor.clone());
        self.writer
            .run(
                move |flush| match standing(flush, &name)?.save(&content, based_on) {
                    Verdict::Answered(answer) => Ok(*answer),
                    Verdict::Next(version) => {
                        write(flush, &name, version, &content, &actor.name)?;
                        let content = content.clone();
                        Ok(saved(&name, version, content, flush.now(), &actor))
                    }
                },
            )
            .await
    }

    pub(super) async fn template_of(
        &self,
        name: &str,
        version: Option<u32>,
    ) -> StoreResult<Option<Template>> {
        let name = name.to_owned();
        self.desk
            .run(move |connection| find(connection, &name, version))
            .await
    }

    pub(super) async fn newest_templates(&self) -> StoreResult<Vec<Template>> {
        self.desk
            .run(|connection| {
                connection
                    .prepare_cached(&format!(
                        "SELECT {COLUMNS} FROM posthaste_template t
                         JOIN posthaste_template_version v ON v.name = t.name
                           AND v.version = t.version
                         WHERE t.deleted_at IS NULL ORDER BY t.name"
                    ))?
                    .query_map([], template_of)?
                    .collect()
            })
            .await
    }

    pub(super) async fn versions_of(&self, name: &str) -> StoreResult<Vec<TemplateVersion>> {
        let name = name.to_owned();
        self.desk
            .run(move |connection| {
                connection
                    .prepare_cached(
                        "SELECT v.version, v.saved_at, v.saved_by FROM posthaste_template t
                         JOIN posthaste_template_version v ON v.name = t.name
                         WHERE t.name = ?1 AND t.deleted_at IS NULL ORDER BY v.version DESC",
                    )?
                    .query_map([name], |row| {
                        Ok(TemplateVersion {
                            version: row.get(0)?,
                            saved_at: from_micros(row.get(1)?),
                            saved_by: row.get(2)?,
                        })
                    })?
                    .collect()
            })
            .await
    }

    pub(super) async fn remove_template(&self, name: &str, actor: &Actor) -> StoreResult<bool> {
        let (name, actor) = (name.to_owned(), actor.name.clone());
        self.writer
            .run(move |flush| {
                let deleted = flush.execute(
                    "UPDATE posthaste_template SET deleted_at = ?2
                     WHERE name = ?1 AND deleted_at IS NULL",
                    (&name, micros(flush.now())),
                )?;
                if deleted > 0 {
                    audit(flush, &actor, DELETED, &name, "deleted")?;
                }
                Ok(deleted > 0)
            })
            .await
    }
}
