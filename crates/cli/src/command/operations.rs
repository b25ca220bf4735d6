//! See and steer operations over many dead letters.

use posthaste_core::operation::{Operation, OperationChange, OperationId};
use posthaste_core::port::OperationChanged;
use posthaste_server::OperationBody;

use super::follow;
use crate::arguments::{Global, OperationsCommand};
use crate::exit::{Exit, NotFound};
use crate::output;
use crate::wiring::{self, Desk};

pub(crate) async fn run(global: &Global, command: OperationsCommand) -> anyhow::Result<Exit> {
    let desk = wiring::open_desk(global).await?;
    match command {
        OperationsCommand::List { limit } => list(global, &desk, limit).await,
        OperationsCommand::Show { id } => show(global, &desk, id).await,
        OperationsCommand::Pause { id } => change(global, &desk, id, OperationChange::Pause).await,
        OperationsCommand::Cancel { id } => {
            change(global, &desk, id, OperationChange::Cancel).await
        }
        OperationsCommand::Resume { id } => {
            match changed(&desk, id, OperationChange::Resume).await? {
                Ok(operation) => follow::until_over(global, &desk, operation).await,
                Err(operation) => Ok(refused(&operation)),
            }
        }
    }
}

async fn list(global: &Global, desk: &Desk, limit: usize) -> anyhow::Result<Exit> {
    let operations = desk.operator.operations(limit, None).await?;
    if global.json {
        for operation in operations {
            output::json(&OperationBody::from(operation));
        }
    } else {
        table(&operations);
    }
    Ok(Exit::Ok)
}

fn table(operations: &[Operation]) {
    let rows: Vec<_> = operations
        .iter()
        .map(|operation| {
            vec![
                operation.id.to_string(),
                format!("{:.0}", operation.created_at),
                operation.action.to_string(),
                operation.status.to_string(),
                operation.total.to_string(),
                operation.done.to_string(),
                operation.skipped.to_string(),
                output::short(&filter_text(operation), 60),
            ]
        })
        .collect();
    output::table(
        &[
            "ID", "MADE", "ACTION", "STATUS", "TOTAL", "DONE", "SKIPPED", "FILTER",
        ],
        &rows,
    );
}

fn filter_text(operation: &Operation) -> String {
    serde_json::to_string(&operation.filter).unwrap_or_default()
}

async fn show(global: &Global, desk: &Desk, id: OperationId) -> anyhow::Result<Exit> {
    let found = desk.operator.operation(id, None).await?;
    let operation = found.ok_or_else(|| not_there(id))?;
    tell(global, operation);
    Ok(Exit::Ok)
}

/// Shows an operation as it is.
pub(crate) fn tell(global: &Global, operation: Operation) {
    if global.json {
        output::json(&OperationBody::from(operation));
        return;
    }
    let field = |name: &str, value: &str| {
        output::line(&format!("{name:<12}{}", output::short(value, 400)));
    };
    let pace = operation.rate_per_second.map_or_else(
        || "as fast as it goes".to_owned(),
        |rate| format!("{rate} per second"),
    );
    field("Id", &operation.id.to_string());
    field("Action", operation.action.as_str());
    field("Filter", &filter_text(&operation));
    field("Status", operation.status.as_str());
    field("Pace", &pace);
    field("Total", &operation.total.to_string());
    field("Done", &operation.done.to_string());
    field("Skipped", &operation.skipped.to_string());
    field("Remaining", &operation.remaining().to_string());
    field("Made by", &operation.actor);
    field("Made", &format!("{:.3}", operation.created_at));
    if let Some(at) = operation.finished_at {
        field("Finished", &format!("{at:.3}"));
    }
}

async fn change(
    global: &Global,
    desk: &Desk,
    id: OperationId,
    change: OperationChange,
) -> anyhow::Result<Exit> {
    match changed(desk, id, change).await? {
        Ok(operation) => {
            tell(global, operation);
            Ok(Exit::Ok)
        }
        Err(operation) => Ok(refused(&operation)),
    }
}

/// Changes an operation that is there; an error is one that is over.
async fn changed(
    desk: &Desk,
    id: OperationId,
    change: OperationChange,
) -> anyhow::Result<Result<Operation, Operation>> {
    let changed = desk.operator.change_operation(id, change, &desk.actor);
    match changed.await? {
        OperationChanged::Done(operation) => Ok(Ok(*operation)),
        OperationChanged::Refused(_) => {
            let found = desk.operator.operation(id, None).await?;
            Ok(Err(found.ok_or_else(|| not_there(id))?))
        }
        OperationChanged::NotFound => Err(not_there(id).into()),
    }
}

fn refused(operation: &Operation) -> Exit {
    output::error(&format!(
        "The operation is {} already. For what is still dead, make a new one: posthaste dead {}",
        operation.status, operation.action
    ));
    Exit::Failure
}

fn not_there(id: OperationId) -> NotFound {
    NotFound(format!(
        "there is no operation {id}; `posthaste operations list` shows those that there are"
    ))
}
