//! Addresses that get nothing any more.

use posthaste_core::port::SuppressionFilter;
use posthaste_core::suppression::Suppression;
use posthaste_engine::operator::SuppressError;
use serde_json::json;

use crate::arguments::{Global, SuppressionsCommand};
use crate::exit::{Exit, UsageError};
use crate::{output, wiring};

pub(crate) async fn run(global: &Global, command: SuppressionsCommand) -> anyhow::Result<Exit> {
    let desk = wiring::open_desk(global).await?;
    match command {
        SuppressionsCommand::List {
            owner,
            q,
            limit,
            after,
        } => {
            let after = after.map(|text| match text.split_once('/') {
                Some((owner, address)) => (owner.to_owned(), address.to_owned()),
                None => (owner.clone().unwrap_or_default(), text),
            });
            let filter = SuppressionFilter {
                owner,
                q: q.map(|text| text.to_lowercase()),
                limit,
                after,
            };
            let page = desk.operator.suppressions(filter).await?;
            if global.json {
                page.entries
                    .iter()
                    .for_each(|one| output::json(&entry(one)));
            } else {
                table(&page.entries);
            }
            if let Some((owner, address)) = page.next {
                output::error(&format!("There are more: --after {owner}/{address}"));
            }
            Ok(Exit::Ok)
        }
        SuppressionsCommand::Add {
            address,
            owner,
            detail,
        } => {
            let added = desk
                .operator
                .suppress(&owner, &address, detail, &desk.actor)
                .await
                .map_err(|error| match error {
                    SuppressError::Invalid(error) => {
                        anyhow::Error::from(UsageError(format!("`{address}`: {error}")))
                    }
                    SuppressError::Store(error) => error.into(),
                })?;
            let (result, text) = if added {
                ("added", "gets nothing any more")
            } else {
                ("unchanged", "was on the list already")
            };
            tell(global, &address, &owner, result, text);
            Ok(Exit::Ok)
        }
        SuppressionsCommand::Remove { address, owner } => {
            let removed = desk
                .operator
                .unsuppress(&owner, &address, &desk.actor)
                .await?;
            if !removed {
                output::error(&format!(
                    "{address} is not on the list of {owner}; `posthaste suppressions list` shows it."
                ));
                return Ok(Exit::NotFound);
            }
            tell(global, &address, &owner, "removed", "gets mail again");
            Ok(Exit::Ok)
        }
    }
}

fn tell(global: &Global, address: &str, owner: &str, result: &str, text: &str) {
    if global.json {
        output::json(&json!({"address": address, "owner": owner, "result": result}));
    } else {
        output::line(&format!("{address} {text} from {owner}."));
    }
}

fn entry(one: &Suppression) -> serde_json::Value {
    json!({
        "owner": one.owner, "address": one.address, "reason": one.reason, "detail": one.detail,
        "email_id": one.email_id, "created_at": one.created_at, "created_by": one.created_by,
    })
}

fn table(entries: &[Suppression]) {
    let row = |one: &Suppression| {
        vec![
            one.owner.clone(),
            one.address.clone(),
            one.reason.to_string(),
            format!("{:.0}", one.created_at),
            one.created_by.clone(),
            output::short(one.detail.as_deref().unwrap_or_default(), 50),
        ]
    };
    let rows: Vec<_> = entries.iter().map(row).collect();
    output::table(
        &["OWNER", "ADDRESS", "REASON", "SINCE", "BY", "DETAIL"],
        &rows,
    );
}
