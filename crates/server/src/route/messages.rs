//! Failed messages of other services: watching them, acting on them.
//!
//! They belong to no owner and may hold anyone's data, so all of it needs the scope `admin`.

use std::sync::Arc;

use axum::extract::State;
use posthaste_core::message::{MessageAction, MessageId, MessageRefusal, MessageStatus};
use posthaste_core::port::MessageActed;
use posthaste_engine::Caller;

use crate::access::{Admin, Allowed};
use crate::app::App;
use crate::body::{ActedBody, MessageDetail, MessagePage};
use crate::id::Id;
use crate::json::{self, Json};
use crate::openapi::{ListProblems, MessageProblems, Problems};
use crate::problem::{Kind, Problem};
use crate::query::{MessageParameters, Parameters};

/// List messages
///
/// Newest first, in pages.
#[utoipa::path(
    get,
    path = "/v1/messages",
    tag = "messages",
    operation_id = "listMessages",
    params(MessageParameters),
    responses((status = 200, description = "A page of messages", body = MessagePage), ListProblems),
    security(("key" = ["admin"]))
)]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    _caller: Allowed<Admin>,
    parameters: Parameters,
) -> Result<Json<MessagePage>, Problem> {
    let filter = parameters.message_filter()?;
    let page = app.message_desk.list(filter).await?;
    Ok(json::ok(MessagePage::of(page, app.message_desk.now())))
}

/// Show a message
///
/// With its payload and what it says about itself.
#[utoipa::path(
    get,
    path = "/v1/messages/{id}",
    tag = "messages",
    operation_id = "showMessage",
    params(("id" = uuid::Uuid, Path, description = "Which message")),
    responses((status = 200, description = "The message", body = MessageDetail), Problems),
    security(("key" = ["admin"]))
)]
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    _caller: Allowed<Admin>,
    Id(id): Id<MessageId>,
) -> Result<Json<MessageDetail>, Problem> {
    let found = app.message_desk.find(id).await?;
    let message = found.ok_or_else(Problem::no_such_message)?;
    Ok(json::ok(MessageDetail::of(message, app.message_desk.now())))
}

/// Put a message back into its queue now
///
/// With a fresh budget of retries if that was spent.
#[utoipa::path(
    post,
    path = "/v1/messages/{id}/retry",
    tag = "messages",
    operation_id = "retryMessage",
    params(("id" = uuid::Uuid, Path, description = "Which message")),
    responses((status = 200, description = "It is due", body = ActedBody), MessageProblems),
    security(("key" = ["admin"]))
)]
pub(crate) async fn retry(
    State(app): State<Arc<App>>,
    caller: Allowed<Admin>,
    Id(id): Id<MessageId>,
) -> Result<Json<ActedBody>, Problem> {
    act(&app, &caller.caller, id, MessageAction::Retry).await
}

/// Give up on a message
///
/// It is not put back any more, unless it is retried or fails again.
#[utoipa::path(
    post,
    path = "/v1/messages/{id}/discard",
    tag = "messages",
    operation_id = "discardMessage",
    params(("id" = uuid::Uuid, Path, description = "Which message")),
    responses((status = 200, description = "It is discarded", body = ActedBody), MessageProblems),
    security(("key" = ["admin"]))
)]
pub(crate) async fn discard(
    State(app): State<Arc<App>>,
    caller: Allowed<Admin>,
    Id(id): Id<MessageId>,
) -> Result<Json<ActedBody>, Problem> {
    act(&app, &caller.caller, id, MessageAction::Discard).await
}

/// Acts on one message for this caller.
pub(crate) async fn act(
    app: &App,
    caller: &Caller,
    id: MessageId,
    action: MessageAction,
) -> Result<Json<ActedBody>, Problem> {
    let acted =
        |status: MessageStatus, changed| json::ok(ActedBody::new(id.0, status.as_str(), changed));
    match app.message_desk.act(id, action, &caller.actor()).await? {
        MessageActed::Done(status) => Ok(acted(status, true)),
        MessageActed::Unchanged(status) => Ok(acted(status, false)),
        MessageActed::Refused(refusal, status) => {
            Err(Problem::new(Kind::Conflict, advice(refusal, status)))
        }
        MessageActed::NotFound => Err(Problem::no_such_message()),
    }
}

/// Why the state does not allow it, and what to do instead.
fn advice(refusal: MessageRefusal, status: MessageStatus) -> String {
    let advice = match refusal {
        MessageRefusal::Republished => {
            "It is in its queue again, and what becomes of it is up to its service. It comes back here if it fails again."
        }
        MessageRefusal::Claimed => "It is being put back right now. Look again in a moment.",
    };
    format!("The message is `{status}`. {advice}")
}
