//! See and treat dead letters.

use posthaste_core::email::EmailId;
use posthaste_core::port::{Action, EmailFilter};
use posthaste_core::status::Status;
use serde_json::json;

use super::emails;
use crate::arguments::{DeadCommand, Global, Which};
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
        DeadCommand::Retry { which } => act(global, &desk, which, Action::Retry).await,
        DeadCommand::Discard { which } => act(global, &desk, which, Action::Discard).await,
        DeadCommand::Restore { ids } => emails::act(global, &desk, ids, Action::Restore).await,
    }
}

async fn act(global: &Global, desk: &Desk, which: Which, action: Action) -> anyhow::Result<Exit> {
    let ids = if which.ids.is_empty() {
        matching(desk, which.fingerprint).await?
    } else {
        which.ids
    };
    if ids.is_empty() {
        output::error("There are no such dead letters.");
        return Ok(Exit::Ok);
    }
    emails::act(global, desk, ids, action).await
}

/// All that are dead now; what dies meanwhile is left alone.
async fn matching(desk: &Desk, fingerprint: Option<String>) -> anyhow::Result<Vec<EmailId>> {
    let mut filter = EmailFilter {
        statuses: vec![Status::Dead],
        fingerprint,
        limit: posthaste_engine::operator::LONGEST_LIST,
        ..EmailFilter::default()
    };
    let mut ids = Vec::new();
    loop {
        let page = desk.operator.list(filter.clone()).await?;
        ids.extend(page.emails.iter().map(|email| email.id));
        if page.next.is_none() {
            return Ok(ids);
        }
        filter.after = page.next;
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
