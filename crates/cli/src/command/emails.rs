//! See and treat emails.

use posthaste_core::email::EmailId;
use posthaste_core::port::{Acted, Action, EmailFilter};
use posthaste_core::status::Status;

use crate::arguments::{EmailsCommand, Global, ListArguments};
use crate::exit::Exit;
use crate::wiring::{self, Desk};
use crate::{output, view};

/// How many emails are treated in one transaction.
const CHUNK: usize = 500;

pub(crate) async fn run(global: &Global, command: EmailsCommand) -> anyhow::Result<Exit> {
    let desk = wiring::open_desk(global).await?;
    match command {
        EmailsCommand::List { status, filter } => {
            list(global, &desk, filter_of(filter, status)).await
        }
        EmailsCommand::Show { id } => show(global, &desk, id).await,
        EmailsCommand::Cancel { ids } => act(global, &desk, ids, Action::Cancel).await,
        EmailsCommand::Retry {
            ids,
            even_if_expired,
        } => {
            let action = if even_if_expired {
                Action::RetryExpired
            } else {
                Action::Retry
            };
            act(global, &desk, ids, action).await
        }
        EmailsCommand::Resolve { id, resolution } => {
            act(global, &desk, vec![id], Action::Resolve(resolution)).await
        }
        EmailsCommand::Erase { ids } => act(global, &desk, ids, Action::Erase).await,
    }
}

/// The filter that the flags describe.
pub(crate) fn filter_of(arguments: ListArguments, statuses: Vec<Status>) -> EmailFilter {
    let ListArguments {
        to,
        template,
        q,
        since,
        limit,
        after,
    } = arguments;
    EmailFilter {
        statuses,
        to,
        template,
        q,
        since,
        limit,
        after,
        ..EmailFilter::default()
    }
}

/// Lists emails.
pub(crate) async fn list(
    global: &Global,
    desk: &Desk,
    filter: EmailFilter,
) -> anyhow::Result<Exit> {
    let page = desk.operator.list(filter).await?;
    if global.json {
        for email in &page.emails {
            output::json(&view::entry(&desk.operator, email));
        }
    } else {
        view::table(&desk.operator, &page.emails);
    }
    if let Some(next) = page.next {
        output::error(&format!("There are more: --after {next}"));
    }
    Ok(Exit::Ok)
}

/// Shows one email.
pub(crate) async fn show(global: &Global, desk: &Desk, id: EmailId) -> anyhow::Result<Exit> {
    let Some(email) = desk.operator.find(id, None).await? else {
        output::error(&format!("There is no email {id}."));
        return Ok(Exit::NotFound);
    };
    if global.json {
        output::json(&view::json(&desk.operator, &email));
    } else {
        view::show(&desk.operator, &email);
    }
    Ok(Exit::Ok)
}

/// Acts on emails and tells what came of each.
pub(crate) async fn act(
    global: &Global,
    desk: &Desk,
    ids: Vec<EmailId>,
    action: Action,
) -> anyhow::Result<Exit> {
    let mut failed = 0;
    let mut missing = 0;
    // In small transactions, so that the server beside us is not held up; each is told as it
    // is done.
    for some in ids.chunks(CHUNK) {
        let acted = desk
            .operator
            .act_on(some.to_vec(), action, &desk.actor)
            .await?;
        for (id, acted) in some.iter().zip(&acted) {
            tell(global, *id, action, acted);
            failed += usize::from(matches!(
                acted,
                Acted::Refused(..) | Acted::Erased | Acted::Expired
            ));
            missing += usize::from(*acted == Acted::NotFound);
        }
    }
    Ok(Exit::of_action(ids.len(), failed, missing))
}

fn tell(global: &Global, id: EmailId, action: Action, acted: &Acted) {
    let (result, text) = match acted {
        Acted::Done(_) if action == Action::Erase => ("done", "is erased".to_owned()),
        Acted::Done(status) => ("done", format!("is {status} now")),
        Acted::Unchanged(status) => ("unchanged", format!("was {status} already")),
        Acted::Refused(refusal, _) => ("refused", format!("is left as it is: {refusal}")),
        Acted::Erased => ("erased", "was erased and cannot be sent again".to_owned()),
        Acted::Expired => (
            "expired",
            "has expired; --even-if-expired sends it all the same".to_owned(),
        ),
        Acted::NotFound => ("not_found", "is not there".to_owned()),
    };
    if global.json {
        output::json(&serde_json::json!({"id": id, "action": action.name(), "result": result}));
    } else {
        output::line(&format!("{id} {text}"));
    }
}
