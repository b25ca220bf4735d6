//! People who may use the dashboard, and their logins.

use std::time::Duration;

use posthaste_core::admin::{Admin, LastOperator, Role, Session};
use posthaste_core::port::{Actor, AdminChanged, StoreResult};
use rusqlite::{OptionalExtension, Row};

use super::act::audit;
use super::state_row::named;
use super::writer::Flush;
use super::{SqliteStore, from_micros, micros};

fn admin_of(row: &Row<'_>) -> rusqlite::Result<Admin> {
    Ok(Admin {
        name: row.get(0)?,
        role: named(row, 1)?,
        created_at: from_micros(row.get(2)?),
    })
}

/// Whether an admin is the last operator, who must not go.
fn must_stay(flush: &Flush<'_>, name: &str, last: LastOperator) -> rusqlite::Result<bool> {
    let operators = "SELECT count(*) = 1 AND max(name) = ?1
                     FROM posthaste_admin WHERE role = 'operator'";
    Ok(last == LastOperator::Stays && flush.query_row(operators, [name], |row| row.get(0))?)
}

impl SqliteStore {
    pub(super) async fn insert_admin(
        &self,
        name: &str,
        role: Role,
        password_hash: &str,
        actor: &Actor,
    ) -> StoreResult<Option<Admin>> {
        let (name, password_hash) = (name.to_owned(), password_hash.to_owned());
        let actor = actor.name.clone();
        self.writer
            .run(move |flush| {
                let created = flush.execute(
                    "INSERT INTO posthaste_admin (name, role, password_hash, created_at)
                     VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING",
                    (&name, role.as_str(), &password_hash, micros(flush.now())),
                )?;
                if created == 0 {
                    return Ok(None);
                }
                audit(flush, &actor, "create_admin", &name, role.as_str())?;
                Ok(Some(Admin {
                    name: name.clone(),
                    role,
                    created_at: flush.now(),
                }))
            })
            .await
    }

    pub(super) async fn update_password(
        &self,
        name: &str,
        password_hash: &str,
        actor: &Actor,
    ) -> StoreResult<bool> {
        let (name, password_hash) = (name.to_owned(), password_hash.to_owned());
        let actor = actor.name.clone();
        self.writer
            .run(move |flush| {
                let changed = flush.execute(
                    "UPDATE posthaste_admin SET password_hash = ?2 WHERE name = ?1",
                    (&name, &password_hash),
                )?;
                if changed > 0 {
                    flush.execute(
                        "DELETE FROM posthaste_admin_session WHERE name = ?1",
                        [&name],
                    )?;
                    audit(flush, &actor, "change_password", &name, "changed")?;
                }
                Ok(changed > 0)
            })
            .await
    }

    pub(super) async fn update_role(
        &self,
        name: &str,
        role: Role,
        last: LastOperator,
        actor: &Actor,
    ) -> StoreResult<AdminChanged> {
        let (name, actor) = (name.to_owned(), actor.name.clone());
        self.writer
            .run(move |flush| {
                if role != Role::Operator && must_stay(flush, &name, last)? {
                    return Ok(AdminChanged::LastOperator);
                }
                let changed = flush.execute(
                    "UPDATE posthaste_admin SET role = ?2 WHERE name = ?1",
                    (&name, role.as_str()),
                )?;
                if changed == 0 {
                    return Ok(AdminChanged::NotFound);
                }
                audit(flush, &actor, "change_role", &name, role.as_str())?;
                Ok(AdminChanged::Done)
            })
            .await
    }

    pub(super) async fn admin_of(&self, name: &str) -> StoreResult<Option<(Admin, String)>> {
        let name = name.to_owned();
        self.desk
            .run(move |connection| {
                connection
                    .prepare_cached(
                        "SELECT name, role, created_at, password_hash
                         FROM posthaste_admin WHERE name = ?1",
                    )?
                    .query_row([name], |row| Ok((admin_of(row)?, row.get(3)?)))
                    .optional()
            })
            .await
    }

    pub(super) async fn all_admins(&self) -> StoreResult<Vec<Admin>> {
        self.desk
            .run(|connection| {
                connection
                    .prepare_cached(
                        "SELECT name, role, created_at FROM posthaste_admin ORDER BY name",
                    )?
                    .query_map([], admin_of)?
                    .collect()
            })
            .await
    }

    pub(super) async fn delete_admin(
        &self,
        name: &str,
        last: LastOperator,
        actor: &Actor,
    ) -> StoreResult<AdminChanged> {
        let (name, actor) = (name.to_owned(), actor.name.clone());
        self.writer
            .run(move |flush| {
                if must_stay(flush, &name, last)? {
                    return Ok(AdminChanged::LastOperator);
                }
                // Their sessions go with them.
                let sql = "DELETE FROM posthaste_admin WHERE name = ?1";
                let removed = flush.execute(sql, [&name])?;
                if removed == 0 {
                    return Ok(AdminChanged::NotFound);
                }
                audit(flush, &actor, "remove_admin", &name, "removed")?;
                Ok(AdminChanged::Done)
            })
            .await
    }

    pub(super) async fn insert_session(
        &self,
        name: &str,
        password_hash: &str,
        secret_hash: [u8; 32],
        lifetime: Duration,
    ) -> StoreResult<bool> {
        let (name, password_hash) = (name.to_owned(), password_hash.to_owned());
        let lifetime = i64::try_from(lifetime.as_micros()).unwrap_or(i64::MAX);
        self.writer
            .run(move |flush| {
                let now = micros(flush.now());
                let begun = flush.execute(
                    "INSERT INTO posthaste_admin_session (secret_hash, name, created_at, expires_at)
                     SELECT ?3, name, ?4, ?5 FROM posthaste_admin
                     WHERE name = ?1 AND password_hash = ?2",
                    (
                        &name,
                        &password_hash,
                        secret_hash.as_slice(),
                        now,
                        now.saturating_add(lifetime),
                    ),
                )?;
                if begun > 0 {
                    audit(flush, &format!("admin:{name}"), "login", &name, "logged in")?;
                }
                Ok(begun > 0)
            })
            .await
    }

    pub(super) async fn session_of(&self, secret_hash: [u8; 32]) -> StoreResult<Option<Session>> {
        let now = micros(self.clock.now());
        self.desk
            .run(move |connection| {
                connection
                    .prepare_cached(
                        "SELECT a.name, a.role, a.created_at, s.created_at, s.expires_at
                         FROM posthaste_admin_session s JOIN posthaste_admin a ON a.name = s.name
                         WHERE s.secret_hash = ?1 AND s.expires_at > ?2",
                    )?
                    .query_row((secret_hash.as_slice(), now), |row| {
                        Ok(Session {
                            admin: admin_of(row)?,
                            created_at: from_micros(row.get(3)?),
                            expires_at: from_micros(row.get(4)?),
                        })
                    })
                    .optional()
            })
            .await
    }

    pub(super) async fn delete_session(&self, secret_hash: [u8; 32]) -> StoreResult<()> {
        self.writer
            .run(move |flush| {
                let name: Option<String> = flush
                    .query_row(
                        "DELETE FROM posthaste_admin_session WHERE secret_hash = ?1 RETURNING name",
                        [secret_hash.as_slice()],
                        |row| row.get(0),
                    )
                    .optional()?;
                match name {
                    Some(name) => audit(
                        flush,
                        &format!("admin:{name}"),
                        "logout",
                        &name,
                        "logged out",
                    ),
                    None => Ok(()),
                }
            })
            .await
    }
}
