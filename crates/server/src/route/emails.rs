//! Emails: handing them in, watching them, acting on them.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use posthaste_core::lifecycle::Resolution;
use posthaste_core::port::Action;
use posthaste_engine::intake::{Refused, Submitter};
use posthaste_engine::{Caller, EmailRequest};

use super::action::act;
use crate::access::{Admin, Allowed, Read, Send};
use crate::app::App;
use crate::body::{
    AcceptedBody, ActedBody, BatchAnswer, BatchBody, BatchEntry, Delivery, EmailDetail, EmailPage,
    NewEmailBody, ResolveBody, RetryBody,
};
use crate::id::Id;
use crate::json::{self, Json, JsonBytes, MaybeJson, Object};
use crate::openapi::{ActionProblems, BodyProblems, ListProblems, Problems};
use crate::problem::Problem;
use crate::query::{ListParameters, Parameters};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Send an email
///
/// Answered when it is durable. The same `message_key` with the same content again gives the
/// same email, and never a second one. With `delivery` `inline` it is also tried at once: 200 means
/// that the mail server has it; 202 that it is safe here, and `status` says what happens next.
#[utoipa::path(
    post,
    path = "/v1/emails",
    tag = "emails",
    operation_id = "sendEmail",
    params(("Idempotency-Key" = Option<String>, Header, description = "The same as `message_key`.")),
    request_body = NewEmailBody,
    responses(
        (status = 202, description = "Accepted and durable, and not sent yet. Of `inline`: also one that is `dead`", body = AcceptedBody),
        (status = 200, description = "The same was accepted before, and is in this state now; or, without the header, it was `inline` and is `sent`", body = AcceptedBody,
            headers(("Idempotent-Replayed" = String, description = "`true` if the same was accepted before"))),
        BodyProblems
    ),
    security(("key" = ["send"]))
)]
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    caller: Allowed<Send>,
    body: JsonBytes,
) -> Result<Response, Problem> {
    let Object(mut email): Object<NewEmailBody> = body.parse()?;
    agree_on_key(&body.headers, email.message_key_mut())?;
    let (request, delivery) = email
        .into_request(traceparent(&body.headers))
        .map_err(Problem::invalid_fields)?;
    let submitter = submitter(&caller.caller);
    let (accepted, replayed) = match delivery {
        Delivery::Queued => {
            let taken = app.intake.take(&submitter, vec![request]).await.pop();
            AcceptedBody::of(taken.ok_or_else(Problem::internal)??)
        }
        Delivery::Inline => {
            // Apart, so that the many that are queued need no room for it.
            let delivering = Box::pin(app.intake.deliver(&submitter, request));
            AcceptedBody::delivered(delivering.await?)
        }
    };
    // Who looks only at the code must not take for sent what is not.
    let code = if replayed || accepted.is_sent() {
        StatusCode::OK
    } else {
        StatusCode::ACCEPTED
    };
    let mut response = Json(code, accepted).into_response();
    if replayed {
        response
            .headers_mut()
            .insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
    }
    Ok(response)
}

/// Send many emails
///
/// At most 1000 at once. Each stands for itself: one that is wrong spoils no other. The
/// answers are in the order of the emails.
#[utoipa::path(
    post,
    path = "/v1/emails/batch",
    tag = "emails",
    operation_id = "sendEmails",
    request_body = BatchBody,
    responses((status = 202, description = "What became of each", body = BatchAnswer), BodyProblems),
    security(("key" = ["send"]))
)]
pub(crate) async fn create_batch(
    State(app): State<Arc<App>>,
    caller: Allowed<Send>,
    body: JsonBytes,
) -> Result<Json<BatchAnswer>, Problem> {
    if body.headers.contains_key(IDEMPOTENCY_KEY) {
        return Err(Problem::invalid(
            "Idempotency-Key",
            "belongs to one email; give each entry a message_key instead",
        ));
    }
    let Object(batch): Object<BatchBody<'_>> = body.parse()?;
    if batch.emails.0.is_empty() {
        return Err(Problem::invalid("emails", "has no entry"));
    }
    let traceparent = traceparent(&body.headers);
    let mut entries = Vec::with_capacity(batch.emails.0.len());
    let mut requests = Vec::with_capacity(batch.emails.0.len());
    for raw in batch.emails.0 {
        match batch_entry(raw.get(), traceparent.clone()) {
            Ok(request) => {
                entries.push(None);
                requests.push(request);
            }
            Err(error) => entries.push(Some(BatchEntry::Refused { error })),
        }
    }
    let taken = app.intake.take(&submitter(&caller.caller), requests).await;
    // When nothing was kept because the store could not, trying all of it again is best.
    if taken.iter().all(Result::is_err)
        && let Some(error) = taken.iter().find_map(store_error)
    {
        return Err(error.clone().into());
    }
    let mut taken = taken.into_iter();
    let data = entries
        .into_iter()
        .filter_map(|entry| {
            entry.or_else(|| {
                Some(match taken.next()? {
                    Ok(taken) => BatchEntry::Accepted(AcceptedBody::of(taken).0),
                    Err(refused) => BatchEntry::Refused {
                        error: refused.into(),
                    },
                })
            })
        })
        .collect();
    Ok(Json(StatusCode::ACCEPTED, BatchAnswer { data }))
}

/// An email of a batch. Nobody waits for a thousand attempts.
fn batch_entry(raw: &str, traceparent: Option<String>) -> Result<EmailRequest, Problem> {
    let Object(email): Object<NewEmailBody> = json::parse(raw.as_bytes())?;
    let (request, delivery) = email
        .into_request(traceparent)
        .map_err(Problem::invalid_fields)?;
    match delivery {
        Delivery::Queued => Ok(request),
        Delivery::Inline => Err(Problem::invalid(
            "delivery",
            "inline is for one email alone: send it with POST /v1/emails, or leave `delivery` out",
        )),
    }
}

fn store_error<T>(taken: &Result<T, Refused>) -> Option<&posthaste_core::port::StoreError> {
    match taken {
        Err(Refused::Store(error)) => Some(error),
        _ => None,
    }
}

fn submitter(caller: &Caller) -> Submitter {
    Submitter {
        owner: caller.owner.clone(),
        from_addresses: caller.from_addresses.clone(),
    }
}

/// The key may stand in the header or in the body; where it stands in both, it is the same.
fn agree_on_key(headers: &HeaderMap, key: &mut Option<String>) -> Result<(), Problem> {
    for header in headers.get_all(IDEMPOTENCY_KEY) {
        let header = std::str::from_utf8(header.as_bytes())
            .map_err(|_| Problem::invalid("Idempotency-Key", "is not UTF-8"))?;
        match key {
            None => *key = Some(header.to_owned()),
            Some(key) if key == header => {}
            Some(_) => {
                return Err(Problem::invalid(
                    "message_key",
                    "differs from the header Idempotency-Key; give one of them, or the same twice",
                ));
            }
        }
    }
    Ok(())
}

/// The W3C trace context, if it looks like one.
fn traceparent(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(TRACEPARENT)?.to_str().ok()?;
    let looks_right = (55..=256).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    looks_right.then(|| text.to_owned())
}

/// Show an email
///
/// With its state and every attempt so far.
#[utoipa::path(
    get,
    path = "/v1/emails/{id}",
    tag = "emails",
    operation_id = "showEmail",
    params(("id" = uuid::Uuid, Path, description = "Which email")),
    responses((status = 200, description = "The email", body = EmailDetail), Problems),
    security(("key" = ["read"]))
)]
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    caller: Allowed<Read>,
    Id(id): Id,
) -> Result<Json<EmailDetail>, Problem> {
    let found = app.operator.find(id, caller.owner()).await?;
    let email = found.ok_or_else(Problem::no_such_email)?;
    Ok(json::ok(EmailDetail::of(email, &app.operator)))
}

/// List emails
///
/// Newest first, in pages.
#[utoipa::path(
    get,
    path = "/v1/emails",
    tag = "emails",
    operation_id = "listEmails",
    params(
        ("status" = Option<String>, Query, description = "Only in this state; may be given several times or as `a,b`"),
        ListParameters,
    ),
    responses((status = 200, description = "A page of emails", body = EmailPage), ListProblems),
    security(("key" = ["read"]))
)]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Allowed<Read>,
    parameters: Parameters,
) -> Result<Json<EmailPage>, Problem> {
    let filter = parameters.email_filter(caller.owner())?;
    let page = app.operator.list(filter).await?;
    Ok(json::ok(EmailPage::of(page, &app.operator)))
}

/// Withdraw an email
///
/// While it waits. A key with the scope `send` may withdraw its owner's emails.
#[utoipa::path(
    post,
    path = "/v1/emails/{id}/cancel",
    tag = "emails",
    operation_id = "cancelEmail",
    params(("id" = uuid::Uuid, Path, description = "Which email")),
    responses((status = 200, description = "It will not be sent", body = ActedBody), ActionProblems),
    security(("key" = ["send"]))
)]
pub(crate) async fn cancel(
    State(app): State<Arc<App>>,
    caller: Allowed<Send>,
    Id(id): Id,
) -> Result<Json<ActedBody>, Problem> {
    act(&app, &caller.caller, id, Action::Cancel).await
}

/// Try an email again now
///
/// With a fresh budget of attempts. One whose `expires_at` is over only with `even_if_expired`.
#[utoipa::path(
    post,
    path = "/v1/emails/{id}/retry",
    tag = "emails",
    operation_id = "retryEmail",
    params(("id" = uuid::Uuid, Path, description = "Which email")),
    request_body = Option<RetryBody>,
    responses(
        (status = 200, description = "It waits for its next attempt", body = ActedBody),
        ActionProblems,
        BodyProblems
    ),
    security(("key" = ["admin"]))
)]
pub(crate) async fn retry(
    State(app): State<Arc<App>>,
    caller: Allowed<Admin>,
    Id(id): Id,
    body: MaybeJson,
) -> Result<Json<ActedBody>, Problem> {
    let asked: RetryBody = body.parse()?;
    act(&app, &caller.caller, id, asked.action()).await
}

/// Settle an email of unknown fate
#[utoipa::path(
    post,
    path = "/v1/emails/{id}/resolve",
    tag = "emails",
    operation_id = "resolveEmail",
    params(("id" = uuid::Uuid, Path, description = "Which email")),
    request_body = ResolveBody,
    responses(
        (status = 200, description = "It is settled", body = ActedBody),
        ActionProblems,
        BodyProblems
    ),
    security(("key" = ["admin"]))
)]
pub(crate) async fn resolve(
    State(app): State<Arc<App>>,
    caller: Allowed<Admin>,
    Id(id): Id,
    body: JsonBytes,
) -> Result<Json<ActedBody>, Problem> {
    let Object(asked): Object<ResolveBody> = body.parse()?;
    let resolution: Resolution = asked
        .resolution
        .parse()
        .map_err(|error| Problem::invalid("as", format!("{error}")))?;
    act(&app, &caller.caller, id, Action::Resolve(resolution)).await
}

/// Erase the content of an email
///
/// Body and addresses go, counts stay. Only once it is over.
#[utoipa::path(
    delete,
    path = "/v1/emails/{id}/content",
    tag = "emails",
    operation_id = "eraseEmail",
    params(("id" = uuid::Uuid, Path, description = "Which email")),
    responses((status = 200, description = "It is erased", body = ActedBody), ActionProblems),
    security(("key" = ["admin"]))
)]
pub(crate) async fn erase(
    State(app): State<Arc<App>>,
    caller: Allowed<Admin>,
    Id(id): Id,
) -> Result<Json<ActedBody>, Problem> {
    act(&app, &caller.caller, id, Action::Erase).await
}
