//! See and treat dead letters.

use posthaste_core::operation::{BulkAction, DeadFilter, NewOperation, OperationId};
use posthaste_core::port::{Action, EmailFilter};
use posthaste_core::status::Status;
use serde_json::json;

use super::{emails, follow};
use crate::arguments::{DeadCommand, Global, Many, Which};
use crate::exit::Exit;
use crate::output;
use crate::wiring::{self, Desk};

pub(crate) async fn run(global: &Global, command: DeadCommand) -> anyhow::Result<Exit> {
    let desk = wiring::open_desk(global).await?;
    match command {
        DeadCommand::List {
            fingerprint,
            filter,
        } => {
            let filter = EmailFilter {
                fingerprint,
                ..emails::filter_of(filter, vec![Status::Dead])
            };
            emails::list(global, &desk, filter).await
        }
        DeadCommand::Show { id } => emails::show(global, &desk, id).await,
        DeadCommand::Groups => groups(global, &desk).await,
        DeadCommand::Retry { many } => treat(global, &desk, many, BulkAction::Retry).await,
        DeadCommand::Discard { many } => treat(global, &desk, many, BulkAction::Discard).await,
        DeadCommand::Restore { ids } => emails::act(global, &desk, ids, Action::Restore).await,
    }
}

/// Makes an operation over what is dead now, and follows it.
async fn treat(
    global: &Global,
    desk: &Desk,
    many: Many,
    action: BulkAction,
) -> anyhow::Result<Exit> {
    let filter = filter_of(many.which);
    let named = filter.ids.len();
    let count = desk.operator.count_dead(&filter, None).await?;
    if many.dry_run {
        if global.json {
            output::json(&json!({"dry_run": true, "action": action.as_str(), "count": count}));
        } else {
            output::line(&format!("{count} dead letters match. Nothing was changed."));
        }
        return Ok(Exit::Ok);
    }
    let missing = named.saturating_sub(usize::try_from(count).unwrap_or(usize::MAX));
    if missing > 0 {
        output::error(&format!("{missing} of {named} are no dead letters."));
    }
    if count == 0 {
        output::error("No dead letter matches.");
        return Ok(Exit::of_action(named, 0, missing));
    }
    let new = NewOperation {
        id: OperationId::generate(),
        action,
        filter,
        rate_per_second: many.rate,
    };
    let operation = desk.operator.begin_operation(new, &desk.actor).await?;
    let exit = follow::until_over(global, desk, operation).await?;
    Ok(if exit == Exit::Ok && missing > 0 {
        Exit::PartlyDone
    } else {
        exit
    })
}

fn filter_of(which: Which) -> DeadFilter {
    let Which {
        mut ids,
        fingerprint,
        template,
        to,
        q,
        since,
        all: _,
    } = which;
    ids.sort_unstable();
    ids.dedup();
    DeadFilter {
        ids,
        fingerprint,
        template,
        to,
        q,
        since,
    }
}

async fn groups(global: &Global, desk: &Desk) -> anyhow::Result<Exit> {
    let groups = desk.operator.dead_groups(None).await?;
    if global.json {
        for group in groups {
            output::json(&json!({
                "fingerprint": group.fingerprint, "count": group.count, "first_seen": group.first_seen,
                "last_seen": group.last_seen, "sample": group.sample,
            }));
        }
        return Ok(Exit::Ok);
    }
    let rows: Vec<_> = groups
        .into_iter()
        .map(|group| {
            let last = format!("{:.0}", group.last_seen);
            vec![
                group.count.to_string(),
                last,
                group.fingerprint,
                output::short(&group.sample, 70),
            ]
        })
        .collect();
    output::table(&["COUNT", "LAST SEEN", "FINGERPRINT", "SAMPLE"], &rows);
    Ok(Exit::Ok)
}
