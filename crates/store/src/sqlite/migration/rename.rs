//! Carries over a file of the time when our tables had plain names and their version stood in
//! `user_version`. Nothing is lost, and the file ends up like a new one.

use rusqlite::Connection;

use crate::sqlite::PREFIX;

/// The newest version that such a file can have.
const NEWEST: usize = 4;

/// The tables that such a file can have.
const TABLES: [&str; 20] = [
    "admin",
    "admin_session",
    "alert_channel",
    "alert_group",
    "api_key",
    "audit_log",
    "capture",
    "death",
    "email",
    "email_attempt",
    "email_log",
    "event",
    "message_count",
    "operation",
    "operation_item",
    "recipient",
    "retry_queue",
    "stat",
    "template",
    "template_version",
];

/// Gives everything its present name and says how many migrations the file has seen.
pub(super) fn carry_over(connection: &Connection) -> rusqlite::Result<usize> {
    let seen = seen(connection)?;
    if seen == 0 {
        return Ok(0);
    }
    for table in tables(connection)? {
        let sql = format!("ALTER TABLE {table} RENAME TO {PREFIX}{table}");
        connection.execute_batch(&sql)?;
    }
    // These have followed their tables, but nothing renames them: they are made anew.
    for (kind, name, sql) in attached(connection)? {
        let renamed = sql.replacen(&name, &format!("{PREFIX}{name}"), 1);
        connection.execute_batch(&format!("DROP {kind} \"{name}\"; {renamed}"))?;
    }
    // An older posthaste would take the file for a new one. It leaves alone what is newer.
    connection.pragma_update(None, "user_version", NEWEST + 1)?;
    Ok(seen)
}

/// How many migrations the file has seen: none if it is no file of ours. An application may have a
/// table `email_log` and a version of its own, but not our leases.
pub(super) fn seen(connection: &Connection) -> rusqlite::Result<usize> {
    let sql = "SELECT EXISTS (SELECT 1 FROM pragma_table_info('email_log')
                   WHERE name = 'lease_token')";
    if !connection.query_row(sql, [], |row| row.get(0))? {
        return Ok(0);
    }
    let seen = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    Ok(if seen <= NEWEST { seen } else { 0 })
}

/// Those of our tables that the file has.
fn tables(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut names: Vec<String> = connection
        .prepare("SELECT name FROM sqlite_master WHERE type = 'table'")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    names.retain(|name| TABLES.contains(&name.as_str()));
    Ok(names)
}

/// The indexes and triggers of our tables: kind, name, and the statement that makes them. Those that
/// SQLite makes for a constraint have none, and go by the table's name.
fn attached(connection: &Connection) -> rusqlite::Result<Vec<(String, String, String)>> {
    connection
        .prepare(
            "SELECT type, name, sql FROM sqlite_master
             WHERE type IN ('index', 'trigger') AND sql IS NOT NULL
               AND substr(tbl_name, 1, length(?1)) = ?1",
        )?
        .query_map([PREFIX], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
        .collect()
}
