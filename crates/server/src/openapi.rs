//! The description of the API (OpenAPI 3.1), made from the code.

use std::collections::BTreeMap;

use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{ContentBuilder, Ref, RefOr, Response, ResponseBuilder};
use utoipa::{IntoResponses, Modify, OpenApi};

use crate::problem::{FieldProblem, Kind, Problem};

/// The OpenAPI 3.1 document as JSON.
#[must_use]
pub fn openapi() -> String {
    let openapi = crate::route::described().into_openapi();
    openapi.to_pretty_json().unwrap_or_default()
}

/// What the routes do not say themselves.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Posthaste",
        description = "Durable email delivery: accepted means on disk, and delivered once.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")
    ),
    components(schemas(Problem, FieldProblem)),
    modifiers(&BearerKey),
    tags(
        (name = "emails", description = "Hand in emails, watch and withdraw them."),
        (name = "dead letters", description = "Emails that were given up."),
        (name = "messages", description = "Failed messages of other services, on their way back into the queues they came from."),
        (name = "templates", description = "What emails are made from, and how they are retried."),
        (name = "transports", description = "The ways out: how they do, what waits for them, and what their providers say later."),
        (name = "suppressions", description = "Addresses that get nothing any more."),
        (name = "numbers", description = "Statistics, the audit log and metrics."),
        (name = "health", description = "For load balancers and supervisors."),
    )
)]
pub(crate) struct Description;

struct BearerKey;

impl Modify for BearerKey {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        let scheme = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some(
                "An API key: `posthaste keys create`. Its scopes are `send`, `read` and `admin`, \
                 which may do everything. While no key was ever made, programs on the server \
                 itself are answered without one.",
            ))
            .build();
        if let Some(components) = &mut openapi.components {
            components.add_security_scheme("key", SecurityScheme::Http(scheme));
        }
    }
}

/// Problems that every route can answer for which one may need a key.
pub(crate) struct AccessProblems;
/// Problems that routes with an id can answer.
pub(crate) struct Problems;
/// Problems that routes with a body can answer.
pub(crate) struct BodyProblems;
/// Problems that routes with parameters, such as lists, can answer.
pub(crate) struct ListProblems;
/// Problems that actions on emails can answer.
pub(crate) struct ActionProblems;
/// Problems that actions on messages can answer.
pub(crate) struct MessageProblems;

/// Problems that posts of providers can be answered with.
pub(crate) struct FeedbackProblems;

const ALWAYS: [Kind; 4] = [
    Kind::Unauthorized,
    Kind::Forbidden,
    Kind::Internal,
    Kind::Unavailable,
];

impl IntoResponses for AccessProblems {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        problems(&[])
    }
}

impl IntoResponses for Problems {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        problems(&[Kind::NotFound])
    }
}

impl IntoResponses for BodyProblems {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        problems(&[
            Kind::Malformed,
            Kind::Timeout,
            Kind::TooLarge,
            Kind::UnsupportedMediaType,
            Kind::Invalid,
        ])
    }
}

impl IntoResponses for ListProblems {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        problems(&[Kind::Invalid])
    }
}

impl IntoResponses for ActionProblems {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        problems(&[Kind::NotFound, Kind::Conflict, Kind::Gone])
    }
}

impl IntoResponses for MessageProblems {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        problems(&[Kind::NotFound, Kind::Conflict])
    }
}

impl IntoResponses for FeedbackProblems {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        described(&[
            Kind::NotBelieved,
            Kind::NotFound,
            Kind::Timeout,
            Kind::TooLarge,
            Kind::Invalid,
            Kind::Internal,
            Kind::Unavailable,
        ])
    }
}

/// What every route can answer for which one may need a key, and these.
fn problems(kinds: &[Kind]) -> BTreeMap<String, RefOr<Response>> {
    described(&[&ALWAYS[..], kinds].concat())
}

fn described(kinds: &[Kind]) -> BTreeMap<String, RefOr<Response>> {
    let response = |kind: &Kind| {
        let (status, _, title) = kind.parts();
        let content = ContentBuilder::new()
            .schema(Some(Ref::from_schema_name("Problem")))
            .build();
        let response = ResponseBuilder::new()
            .description(title)
            .content("application/problem+json", content)
            .build();
        (status.as_u16().to_string(), RefOr::T(response))
    };
    kinds.iter().map(response).collect()
}
