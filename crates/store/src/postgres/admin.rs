//! People who may use the dashboard, and their logins.

use std::time::Duration;

use deadpool_postgres::ClientWrapper;
use posthaste_core::admin::{Admin, LastOperator, Role, Session};
use posthaste_core::port::{Actor, AdminChanged, StoreResult};
use tokio_postgres::{Error, Row};

use super::PostgresStore;
use super::list::has_nul;
use super::state_row::{get, named};

fn admin_of(row: &Row) -> StoreResult<Admin> {
    Ok(Admin {
        name: get(row, 0)?,
        role: named(row, 1)?,
        created_at: get(row, 2)?,
    })
}

/// Whether an admin is the last operator, who must not go. All operators are held, so that of two
/// who leave at once the second one sees that the first has gone.
async fn must_stay(client: &ClientWrapper, name: &str, last: LastOperator) -> Result<bool, Error> {
    if last == LastOperator::MayGo {
        return Ok(false);
    }
    let operators = "SELECT name FROM admin WHERE role = 'operator' ORDER BY name FOR UPDATE";
    let operators = client.query(operators, &[]).await?;
    match &operators[..] {
        [only] => Ok(only.try_get::<_, &str>(0)? == name),
        _ => Ok(false),
    }
}

/// Whether there was someone to change.
const fn done_if(changed: u64) -> AdminChanged {
    if changed > 0 {
        AdminChanged::Done
    } else {
        AdminChanged::NotFound
    }
}

impl PostgresStore {
    pub(super) async fn insert_admin(
        &self,
        name: &str,
        role: Role,
        password_hash: &str,
        actor: &Actor,
    ) -> StoreResult<Option<Admin>> {
        let rows = self
            .desk
            .transaction("BEGIN", async |client| {
                client
                    .query(
                        "WITH created AS (
                             INSERT INTO admin (name, role, password_hash, created_at)
                             VALUES ($1, $2, $3, posthaste_now())
                             ON CONFLICT DO NOTHING RETURNING name, role, created_at),
                         audited AS (
                             INSERT INTO audit_log (at, actor, action, subject, result)
                             SELECT created_at, $4, 'create_admin', name, role FROM created)
                         SELECT name, role, created_at FROM created",
                        &[&name, &role.as_str(), &password_hash, &actor.name],
                    )
                    .await
            })
            .await?;
        rows.first().map(admin_of).transpose()
    }

    pub(super) async fn update_password(
        &self,
        name: &str,
        password_hash: &str,
        actor: &Actor,
    ) -> StoreResult<bool> {
        if has_nul(name) {
            return Ok(false);
        }
        self.desk
            .transaction("BEGIN", async |client| {
                let changed = client
                    .execute(
                        "WITH changed AS (
                             UPDATE admin SET password_hash = $2 WHERE name = $1 RETURNING name)
                         INSERT INTO audit_log (at, actor, action, subject, result)
                         SELECT posthaste_now(), $3, 'change_password', name, 'changed'
                         FROM changed",
                        &[&name, &password_hash, &actor.name],
                    )
                    .await?;
                // A statement of its own: it sees the session of a login that held the row
                // before.
                client
                    .execute("DELETE FROM admin_session WHERE name = $1", &[&name])
                    .await?;
                Ok::<_, tokio_postgres::Error>(changed > 0)
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
        if has_nul(name) {
            return Ok(AdminChanged::NotFound);
        }
        self.desk
            .transaction("BEGIN", async |client| {
                if role != Role::Operator && must_stay(client, name, last).await? {
                    return Ok(AdminChanged::LastOperator);
                }
                let changed = client
                    .execute(
                        "WITH changed AS (
                             UPDATE admin SET role = $2 WHERE name = $1 RETURNING name, role)
                         INSERT INTO audit_log (at, actor, action, subject, result)
                         SELECT posthaste_now(), $3, 'change_role', name, role FROM changed",
                        &[&name, &role.as_str(), &actor.name],
                    )
                    .await;
                changed.map(done_if)
            })
            .await
    }

    pub(super) async fn admin_of(&self, name: &str) -> StoreResult<Option<(Admin, String)>> {
        if has_nul(name) {
            return Ok(None);
        }
        let sql = "SELECT name, role, created_at, password_hash FROM admin WHERE name = $1";
        let rows = self.desk.query(sql, &[&name]).await?;
        rows.first()
            .map(|row| Ok((admin_of(row)?, get(row, 3)?)))
            .transpose()
    }

    pub(super) async fn all_admins(&self) -> StoreResult<Vec<Admin>> {
        // By the bytes of their names, as SQLite sorts.
        let sql = "SELECT name, role, created_at FROM admin ORDER BY name COLLATE \"C\"";
        let rows = self.desk.query(sql, &[]).await?;
        rows.iter().map(admin_of).collect()
    }

    pub(super) async fn delete_admin(
        &self,
        name: &str,
        last: LastOperator,
        actor: &Actor,
    ) -> StoreResult<AdminChanged> {
        if has_nul(name) {
            return Ok(AdminChanged::NotFound);
        }
        self.desk
            .transaction("BEGIN", async |client| {
                if must_stay(client, name, last).await? {
                    return Ok(AdminChanged::LastOperator);
                }
                // Their sessions go with them.
                let removed = client
                    .execute(
                        "WITH removed AS (DELETE FROM admin WHERE name = $1 RETURNING name)
                         INSERT INTO audit_log (at, actor, action, subject, result)
                         SELECT posthaste_now(), $2, 'remove_admin', name, 'removed'
                         FROM removed",
                        &[&name, &actor.name],
                    )
                    .await;
                removed.map(done_if)
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
        if has_nul(name) {
            return Ok(false);
        }
        let seconds = lifetime.as_secs_f64();
        self.desk
            .transaction("BEGIN", async |client| {
                // The row is held, so that a change of the password comes before or after.
                client
                    .execute(
                        "WITH holder AS MATERIALIZED (
                             SELECT name, posthaste_now() AS at FROM admin
                             WHERE name = $1 AND password_hash = $2 FOR SHARE),
                         begun AS (
                             INSERT INTO admin_session (secret_hash, name, created_at, expires_at)
                             SELECT $3, name, at, at + make_interval(secs => $4) FROM holder)
                         INSERT INTO audit_log (at, actor, action, subject, result)
                         SELECT at, 'admin:' || name, 'login', name, 'logged in' FROM holder",
                        &[&name, &password_hash, &secret_hash.as_slice(), &seconds],
                    )
                    .await
                    .map(|begun| begun > 0)
            })
            .await
    }

    pub(super) async fn session_of(&self, secret_hash: [u8; 32]) -> StoreResult<Option<Session>> {
        let sql = "SELECT a.name, a.role, a.created_at, s.created_at, s.expires_at
             FROM admin_session s JOIN admin a ON a.name = s.name
             WHERE s.secret_hash = $1 AND s.expires_at > posthaste_now()";
        let rows = self.desk.query(sql, &[&secret_hash.as_slice()]).await?;
        let session = |row: &Row| {
            Ok(Session {
                admin: admin_of(row)?,
                created_at: get(row, 3)?,
                expires_at: get(row, 4)?,
            })
        };
        rows.first().map(session).transpose()
    }

    pub(super) async fn delete_session(&self, secret_hash: [u8; 32]) -> StoreResult<()> {
        self.desk
            .transaction("BEGIN", async |client| {
                client
                    .execute(
                        "WITH ended AS (
                             DELETE FROM admin_session WHERE secret_hash = $1 RETURNING name)
                         INSERT INTO audit_log (at, actor, action, subject, result)
                         SELECT posthaste_now(), 'admin:' || name, 'logout', name, 'logged out'
                         FROM ended",
                        &[&secret_hash.as_slice()],
                    )
                    .await
                    .map(drop)
            })
            .await
    }
}
