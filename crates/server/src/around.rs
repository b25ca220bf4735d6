//! What happens around every request: a limit on how many, a limit on how long, a net for
//! panics, and a measurement. One layer, because each costs every request something.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt as _;
use posthaste_engine::Metrics;
use posthaste_engine::metrics::HttpLabels;

use crate::app::App;
use crate::page;
use crate::problem::{Kind, Problem};

/// Answered even when there is no room for more: overload is when they are needed.
const ALWAYS: [&str; 4] = ["/livez", "/readyz", "/healthz", "/metrics"];

/// Surrounds a request.
pub(crate) async fn around(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let method = method_label(request.method());
    let route = request.extensions().get::<MatchedPath>().cloned();
    let wish = Wish::of(request.uri().path(), request.headers());

    let is_exempt = route.as_ref().is_some_and(|r| ALWAYS.contains(&r.as_str()));
    let response = match app.in_flight.try_acquire() {
        Err(_) if !is_exempt => overloaded(),
        _permit => answered(app.limits.longest_request(), next.run(request)).await,
    };
    let response = wish.shape(response, app.serves_api);

    let labels = HttpLabels {
        route: route.map_or_else(|| "unmatched".to_owned(), |r| r.as_str().to_owned()),
        method: method.to_owned(),
        status: response.status().as_u16(),
    };
    app.metrics
        .http_request_duration
        .get_or_create(&labels)
        .observe(started.elapsed().as_secs_f64());
    response
}

/// Makes the metric visible before the first request.
pub(crate) fn start_at_zero(metrics: &Metrics) {
    drop(metrics.http_request_duration.get_or_create(&HttpLabels {
        route: "/v1/emails".to_owned(),
        method: "POST".to_owned(),
        status: 202,
    }));
}

fn overloaded() -> Response {
    Problem::new(
        Kind::Unavailable,
        "Too many requests are under way. Nothing was changed; try again.",
    )
    .into_response()
}

/// Whatever happens, there is an answer, and soon enough.
async fn answered(most: Duration, answer: impl Future<Output = Response>) -> Response {
    let answer = AssertUnwindSafe(answer).catch_unwind();
    match tokio::time::timeout(most, answer).await {
        Ok(Ok(response)) => response,
        // The panic hook has logged what it was.
        Ok(Err(_)) => Problem::internal().into_response(),
        Err(_) => too_slow(most),
    }
}

fn too_slow(most: Duration) -> Response {
    tracing::warn!(?most, "a request was given up");
    Problem::new(
        Kind::Unavailable,
        "It took too long. What was asked for may have happened: look, or ask again with the same message_key.",
    )
    .into_response()
}

/// Made-up methods must not make up labels.
fn method_label(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

/// How the client wants to be told of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    Problem,
    Json,
    Page,
}

impl Wish {
    fn of(path: &str, headers: &HeaderMap) -> Self {
        let mut json = false;
        let mut problem = false;
        let mut html = false;
        let accepted = headers.get_all(ACCEPT).iter();
        for accepted in accepted.filter_map(|value| value.to_str().ok()) {
            for range in accepted.split(',') {
                match range.split(';').next().unwrap_or_default().trim() {
                    "application/json" => json = true,
                    "text/html" => html = true,
                    "application/problem+json" | "application/*" | "*/*" => problem = true,
                    _ => {}
                }
            }
        }
        if html && path.starts_with("/admin") {
            Self::Page
        } else if json && !problem {
            Self::Json
        } else {
            Self::Problem
        }
    }

    /// Gives a problem the shape that is wished for.
    fn shape(self, mut response: Response, has_api: bool) -> Response {
        match self {
            Self::Problem => {}
            Self::Json => {
                if response.extensions().get::<Problem>().is_some() {
                    let json = HeaderValue::from_static("application/json");
                    response.headers_mut().insert(CONTENT_TYPE, json);
                }
            }
            Self::Page => {
                if let Some(problem) = response.extensions_mut().remove::<Problem>() {
                    let mut page = page::of_problem(&problem, has_api);
                    let headers = response.headers_mut();
                    headers.remove(CONTENT_TYPE);
                    for (name, value) in headers.drain().filter_map(|(n, v)| Some((n?, v))) {
                        page.headers_mut().entry(name).or_insert(value);
                    }
                    return page;
                }
            }
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_becomes_a_500_that_does_not_tell_what_it_was() {
        let response = answered(Duration::from_secs(60), async {
            panic!("the secret is 42")
        })
        .await;
        assert_eq!(response.status(), 500);
        let body = axum::body::to_bytes(response.into_body(), 10_000)
            .await
            .unwrap();
        assert!(!String::from_utf8_lossy(&body).contains("42"));
    }

    #[tokio::test]
    async fn what_takes_too_long_becomes_a_503() {
        let response = answered(Duration::ZERO, std::future::pending()).await;
        assert_eq!(response.status(), 503);
        assert!(response.headers().contains_key("retry-after"));
    }
}
