//! What happens around every request: a limit on how many, a limit on how long, a net for
//! panics, and a measurement. One layer, because each costs every request something.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request};
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, Method};
use axum::response::{IntoResponse, Response};
use axum::routing::Route;
use futures_util::FutureExt as _;
use posthaste_engine::Metrics;
use posthaste_engine::metrics::HttpLabels;
use prometheus_client::metrics::histogram::Histogram;
use tower::Service;

use crate::app::App;
use crate::page;
use crate::problem::{Kind, Problem};

/// Answered even when there is no room for more: overload is when they are needed.
const ALWAYS: [&str; 4] = ["/livez", "/readyz", "/healthz", "/metrics"];

/// Surrounds every request of a route. Written out because axum's own way to do it makes three
/// more allocations per request.
#[derive(Clone)]
pub(crate) struct Around<S = Route> {
    app: Arc<App>,
    /// The measurement of the route's first kind of answer, which is nearly always the next, too.
    usual: Arc<OnceLock<(HttpLabels, Histogram)>>,
    inner: S,
}

impl<S> Around<S> {
    pub(crate) fn new(app: Arc<App>, inner: S) -> Self {
        let usual = Arc::default();
        Self { app, usual, inner }
    }
}

impl<S> Service<Request> for Around<S>
where
    S: Service<Request, Response = Response, Error = Infallible, Future: Send + 'static>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let started = Instant::now();
        let method = method_label(request.method());
        let route = request.extensions().get::<MatchedPath>().cloned();
        let wish = Wish::of(request.uri().path(), request.headers());
        let (app, usual) = (Arc::clone(&self.app), Arc::clone(&self.usual));
        // Nothing of it happens until it is awaited.
        let answer = self.inner.call(request);

        Box::pin(async move {
            let route = route.as_ref().map_or("unmatched", MatchedPath::as_str);
            let response = match app.in_flight.try_acquire() {
                Err(_) if !ALWAYS.contains(&route) => overloaded(),
                _permit => answered(app.limits.longest_request(), answer).await,
            };
            let response = wish.shape(response, app.serves_api);
            let took = started.elapsed().as_secs_f64();
            measure(&app.metrics, &usual, (route, method, &response), took);
            Ok(response)
        })
    }
}

fn measure(
    metrics: &Metrics,
    usual: &OnceLock<(HttpLabels, Histogram)>,
    (route, method, response): (&str, &str, &Response),
    seconds: f64,
) {
    let durations = &metrics.http_request_duration;
    let status = response.status().as_u16();
    let labels = || HttpLabels {
        route: route.to_owned(),
        method: method.to_owned(),
        status,
    };
    let first = || {
        let labels = labels();
        let duration = durations.get_or_create(&labels).clone();
        (labels, duration)
    };
    match usual.get_or_init(first) {
        (known, duration)
            if known.status == status && known.method == method && known.route == route =>
        {
            duration.observe(seconds);
        }
        _ => durations.get_or_create(&labels()).observe(seconds),
    }
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
async fn answered(
    most: Duration,
    answer: impl Future<Output = Result<Response, Infallible>>,
) -> Response {
    let answer = AssertUnwindSafe(answer).catch_unwind();
    match tokio::time::timeout(most, answer).await {
        Ok(Ok(Ok(response))) => response,
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
