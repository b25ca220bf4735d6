//! API keys.

use posthaste_engine::access::NewKey;
use serde_json::json;

use crate::arguments::{Global, KeysCommand};
use crate::exit::{Exit, UsageError};
use crate::{output, wiring};

pub(crate) async fn run(global: &Global, command: KeysCommand) -> anyhow::Result<Exit> {
    let desk = match &command {
        KeysCommand::Create { .. } => wiring::open_or_create_desk(global).await?,
        _ => wiring::open_desk(global).await?,
    };
    match command {
        KeysCommand::Create {
            name,
            owner,
            scopes,
            from_addresses,
        } => {
            let new = NewKey {
                name,
                owner,
                scopes,
                from_addresses,
            };
            let (key, secret) = desk
                .access
                .create(new, &desk.actor)
                .await
                .map_err(|error| match error {
                    posthaste_engine::access::KeyError::Store(error) => anyhow::Error::from(error),
                    error => UsageError(error.to_string()).into(),
                })?;
            if global.json {
                output::json(
                    &json!({"id": key.id, "key": secret, "owner": key.owner, "scopes": key.scopes}),
                );
            } else {
                output::line(&secret);
                output::error(&format!(
                    "This is key {} of {} ({}). It is shown only now: keep it safe. From now on requests need \
                     `Authorization: Bearer …`, and the dashboard a login: `posthaste admin create NAME`.",
                    key.id,
                    key.owner,
                    key.scopes.join(", ")
                ));
            }
        }
        KeysCommand::List => list(global, desk.access.keys().await?),
        KeysCommand::Revoke { id } => {
            if !desk.access.revoke(&id, &desk.actor).await? {
                output::error(&format!(
                    "There is no key {id}; `posthaste keys list` shows all."
                ));
                return Ok(Exit::NotFound);
            }
            if global.json {
                output::json(&json!({"id": id, "result": "revoked"}));
            } else {
                output::line(&format!("Key {id} is revoked."));
            }
        }
    }
    Ok(Exit::Ok)
}

fn list(global: &Global, keys: Vec<posthaste_core::port::ApiKey>) {
    if global.json {
        for key in keys {
            output::json(&json!({
                "id": key.id, "name": key.name, "owner": key.owner, "scopes": key.scopes,
                "from_addresses": key.from_addresses, "created_at": key.created_at, "revoked_at": key.revoked_at,
            }));
        }
        return;
    }
    let rows: Vec<_> = keys
        .into_iter()
        .map(|key| {
            let state = key
                .revoked_at
                .map_or_else(|| "active".to_owned(), |at| format!("revoked {at:.0}"));
            vec![
                key.id,
                key.name,
                key.owner,
                key.scopes.join(","),
                format!("{:.0}", key.created_at),
                state,
            ]
        })
        .collect();
    output::table(
        &["ID", "NAME", "OWNER", "SCOPES", "CREATED", "STATE"],
        &rows,
    );
}
