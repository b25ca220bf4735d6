//! Makes, lists, changes and removes people who may use the dashboard.

use posthaste_core::admin::{Admin, LastOperator, Role};
use posthaste_engine::admin::AdminError;
use serde_json::json;

use crate::arguments::{AdminCommand, Global};
use crate::exit::{Exit, NotFound, UsageError};
use crate::password::new_password;
use crate::{output, wiring};

pub(crate) async fn run(global: &Global, command: AdminCommand) -> anyhow::Result<Exit> {
    let desk = match &command {
        AdminCommand::Create { .. } => wiring::open_or_create_desk(global).await?,
        _ => wiring::open_desk(global).await?,
    };
    let (admins, actor) = (&desk.admins, &desk.actor);
    match command {
        AdminCommand::Create {
            name,
            role,
            password_file,
        } => {
            if admins.find(&name).await?.is_some() {
                return Err(explained(AdminError::Exists(name)));
            }
            if !desk.access.has_credentials().await? {
                output::error(
                    "This is the first login: from then on the dashboard needs one, and the API a key. \
                     Make a key for each program that sends mail:\n  posthaste keys create --name NAME",
                );
            }
            let password = new_password(&name, password_file.as_deref()).await?;
            let created = admins.create(&name, role, &password, actor).await;
            let admin = created.map_err(explained)?;
            if global.json {
                output::json(&shown(&admin));
            } else {
                output::line(&format!(
                    "{} can log in at /admin/login and {}.",
                    admin.name,
                    may(role)
                ));
            }
        }
        AdminCommand::List => list(global, &admins.all().await?),
        AdminCommand::Remove { name } => {
            let removed = admins.remove(&name, LastOperator::MayGo, actor).await;
            removed.map_err(explained)?;
            done(global, &name, "removed", "is removed and logged out");
        }
        AdminCommand::Role { name, role } => {
            let last = LastOperator::MayGo;
            let changed = admins.change_role(&name, role, last, actor).await;
            changed.map_err(explained)?;
            done(global, &name, role.as_str(), may(role));
        }
        AdminCommand::Password {
            name,
            password_file,
        } => {
            if admins.find(&name).await?.is_none() {
                return Err(explained(AdminError::NotFound(name)));
            }
            let password = new_password(&name, password_file.as_deref()).await?;
            let changed = admins.change_password(&name, &password, actor).await;
            changed.map_err(explained)?;
            done(
                global,
                &name,
                "changed",
                "has a new password and is logged out everywhere",
            );
        }
    }
    Ok(Exit::Ok)
}

const fn may(role: Role) -> &'static str {
    match role {
        Role::Viewer => "may see everything and change nothing",
        Role::Operator => "may see and do everything",
    }
}

fn done(global: &Global, name: &str, result: &str, words: &str) {
    if global.json {
        output::json(&json!({"name": name, "result": result}));
    } else {
        output::line(&format!("{name} {words}."));
    }
}

/// The error with its exit code, and with what to do.
fn explained(error: AdminError) -> anyhow::Error {
    match error {
        AdminError::Store(error) => error.into(),
        AdminError::NotFound(_) => {
            NotFound(format!("{error}; `posthaste admin list` shows all")).into()
        }
        AdminError::Exists(_) => UsageError(format!(
            "{error}; `posthaste admin password` and `posthaste admin role` change them"
        ))
        .into(),
        error => UsageError(error.to_string()).into(),
    }
}

fn shown(admin: &Admin) -> serde_json::Value {
    json!({"name": admin.name, "role": admin.role.as_str(), "created_at": admin.created_at})
}

fn list(global: &Global, admins: &[Admin]) {
    if global.json {
        admins.iter().for_each(|admin| output::json(&shown(admin)));
        return;
    }
    let rows: Vec<_> = admins
        .iter()
        .map(|admin| {
            vec![
                admin.name.clone(),
                admin.role.to_string(),
                format!("{:.0}", admin.created_at),
            ]
        })
        .collect();
    output::table(&["NAME", "ROLE", "CREATED"], &rows);
}
