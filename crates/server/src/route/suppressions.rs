//! Addresses that get nothing any more: listing them, putting them there, taking them off.
//!
//! Each owner has a list of its own. What a key may send, it may also leave unsent, so its scope
//! for both ways is `send`.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use posthaste_core::port::SuppressionFilter;
use posthaste_core::suppression::Suppression;
use posthaste_engine::Caller;
use posthaste_engine::operator::SuppressError;

use crate::access::{Allowed, Read, Send};
use crate::app::App;
use crate::body::{LONGEST_DETAIL, NewSuppressionBody, SuppressionBody, SuppressionPageBody};
use crate::id::Named;
use crate::json::{self, Json, JsonBytes, Object};
use crate::openapi::{BodyProblems, ListProblems, Problems};
use crate::problem::{Kind, Problem};
use crate::query::{Parameters, SuppressionParameters};

/// List addresses that get nothing any more
///
/// By owner and address, in pages. A key sees those of its owner; one with the scope `admin` all.
#[utoipa::path(
    get,
    path = "/v1/suppressions",
    tag = "suppressions",
    operation_id = "listSuppressions",
    params(SuppressionParameters),
    responses((status = 200, description = "A page of addresses", body = SuppressionPageBody), ListProblems),
    security(("key" = ["read"]))
)]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Allowed<Read>,
    parameters: Parameters,
) -> Result<Json<SuppressionPageBody>, Problem> {
    let mut filter = parameters.suppression_filter()?;
    filter.owner = seen(&caller.caller, filter.owner)?;
    let page = app.operator.suppressions(filter).await?;
    Ok(json::ok(page.into()))
}

/// Send nothing to an address any more
///
/// Emails to it are dead at once, without a connection.
#[utoipa::path(
    post,
    path = "/v1/suppressions",
    tag = "suppressions",
    operation_id = "suppressAddress",
    request_body = NewSuppressionBody,
    responses(
        (status = 201, description = "It is on the list now", body = SuppressionBody),
        (status = 200, description = "It was there already, and stays as it was", body = SuppressionBody),
        BodyProblems
    ),
    security(("key" = ["send"]))
)]
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    caller: Allowed<Send>,
    body: JsonBytes,
) -> Result<Json<SuppressionBody>, Problem> {
    let Object(given): Object<NewSuppressionBody> = body.parse()?;
    let owner = owner_for(&caller.caller, given.owner)?;
    let address = given.address.unwrap_or_default();
    let (entry, is_new) = suppress(&app, &caller.caller, &owner, &address, given.detail).await?;
    let status = if is_new {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    Ok(Json(status, entry.into()))
}

/// Send to an address again
#[utoipa::path(
    delete,
    path = "/v1/suppressions/{address}",
    tag = "suppressions",
    operation_id = "unsuppressAddress",
    params(
        ("address" = String, Path, description = "Which address"),
        ("owner" = Option<String>, Query, description = "Off whose list; the key's owner if left out. Another owner only with the scope `admin`"),
    ),
    responses((status = 204, description = "It is off the list"), Problems, ListProblems),
    security(("key" = ["send"]))
)]
pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    caller: Allowed<Send>,
    Named(address): Named,
    parameters: Parameters,
) -> Result<StatusCode, Problem> {
    let owner = owner_for(&caller.caller, parameters.owner()?)?;
    let actor = caller.caller.actor();
    if app.operator.unsuppress(&owner, &address, &actor).await? {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(not_on_the_list())
    }
}

/// Puts an address on the list of an owner: the entry, and whether it is new.
pub(crate) async fn suppress(
    app: &App,
    caller: &Caller,
    owner: &str,
    address: &str,
    detail: Option<String>,
) -> Result<(Suppression, bool), Problem> {
    let detail = detail.map(|detail| detail.trim().to_owned());
    let detail = detail.filter(|detail| !detail.is_empty());
    if detail
        .as_ref()
        .is_some_and(|detail| detail.chars().count() > LONGEST_DETAIL)
    {
        let message = format!("has more than {LONGEST_DETAIL} characters");
        return Err(Problem::invalid("detail", message));
    }
    let actor = caller.actor();
    let added = app.operator.suppress(owner, address, detail, &actor).await;
    let is_new = added.map_err(|error| match error {
        SuppressError::Invalid(wrong) => Problem::invalid("address", wrong.to_string()),
        SuppressError::Store(error) => error.into(),
    })?;
    let folded = crate::query::address_of(address);
    // The shortest of those that begin with it comes first.
    let filter = SuppressionFilter {
        owner: Some(owner.to_owned()),
        q: Some(folded.clone()),
        limit: 1,
        after: None,
    };
    let entries = app.operator.suppressions(filter).await?.entries;
    let entry = entries.into_iter().find(|entry| entry.address == folded);
    // Someone else may have taken it off again.
    Ok((entry.ok_or_else(not_on_the_list)?, is_new))
}

/// Whose list a caller sees: of those who see only their own, theirs.
pub(crate) fn seen(caller: &Caller, asked: Option<String>) -> Result<Option<String>, Problem> {
    match (caller.sees_only(), asked) {
        (None, asked) => Ok(asked),
        (Some(own), Some(asked)) if asked != own => Err(not_yours()),
        (Some(own), _) => Ok(Some(own.to_owned())),
    }
}

/// Whose list a caller changes.
pub(crate) fn owner_for(caller: &Caller, asked: Option<String>) -> Result<String, Problem> {
    match asked {
        Some(asked) if asked != caller.owner && !caller.may("admin") => Err(not_yours()),
        Some(asked) => check_owner(asked),
        None => Ok(caller.owner.clone()),
    }
}

fn check_owner(owner: String) -> Result<String, Problem> {
    if owner.is_empty() || owner.len() > 100 || owner.chars().any(char::is_control) {
        return Err(Problem::invalid("owner", "must have 1 to 100 characters"));
    }
    Ok(owner)
}

fn not_yours() -> Problem {
    let message = "`owner` names another owner than that of the key: this needs the scope `admin`.";
    Problem::new(Kind::Forbidden, message).with_field("owner", "is not the owner of the key")
}

/// The address is on no list, or on another owner's: the answer is the same.
pub(crate) fn not_on_the_list() -> Problem {
    Problem::new(Kind::NotFound, "This address is not on the list.")
}
