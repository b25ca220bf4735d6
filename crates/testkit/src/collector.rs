//! An OpenTelemetry collector that decodes what arrives and remembers it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use tokio::net::TcpListener;
use tokio::sync::Notify;

/// When to give up waiting for steps.
const DEADLINE: Duration = Duration::from_secs(60);

/// A step of a trace as it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectedSpan {
    /// The service that it belongs to.
    pub service: String,
    /// Its name.
    pub name: String,
    /// The trace, in hex.
    pub trace_id: String,
    /// Its own id, in hex.
    pub span_id: String,
    /// The id of the step before, in hex; empty if there is none.
    pub parent_id: String,
    /// Its attributes as text.
    pub attributes: BTreeMap<String, String>,
    /// Why it failed, if it did.
    pub error: Option<String>,
}

#[derive(Default)]
struct Collected {
    spans: Mutex<Vec<CollectedSpan>>,
    arrived: Notify,
}

impl Collected {
    fn spans(&self) -> MutexGuard<'_, Vec<CollectedSpan>> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A collector on a free port of this machine.
pub struct Collector {
    address: String,
    collected: Arc<Collected>,
}

impl Collector {
    /// Starts to listen.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("its address");
        let collected = Arc::new(Collected::default());
        let router = Router::new()
            .route("/v1/traces", post(take))
            .with_state(Arc::clone(&collected));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self {
            address: format!("http://{address}"),
            collected,
        }
    }

    /// What `OTEL_EXPORTER_OTLP_ENDPOINT` is set to.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.address
    }

    /// Waits until the spans that arrived so far are those that are waited for, and gives them.
    pub async fn wait_for(
        &self,
        is_complete: impl Fn(&[CollectedSpan]) -> bool,
    ) -> Vec<CollectedSpan> {
        let waiting = async {
            loop {
                let arrived = self.collected.arrived.notified();
                let spans = self.collected.spans().clone();
                if is_complete(&spans) {
                    return spans;
                }
                arrived.await;
            }
        };
        let waited = tokio::time::timeout(DEADLINE, waiting).await;
        waited.unwrap_or_else(|_| panic!("these are not all: {:#?}", self.collected.spans()))
    }
}

async fn take(State(collected): State<Arc<Collected>>, body: Bytes) -> StatusCode {
    let Ok(request) = ExportTraceServiceRequest::decode(body) else {
        return StatusCode::BAD_REQUEST;
    };
    for group in request.resource_spans {
        let attributes = group.resource.map(|of| of.attributes).unwrap_or_default();
        let service = attributes_of(attributes).remove("service.name");
        let spans = group.scope_spans.into_iter().flat_map(|scope| scope.spans);
        let spans = spans.map(|span| span_of(service.clone().unwrap_or_default(), span));
        collected.spans().extend(spans);
    }
    collected.arrived.notify_waiters();
    StatusCode::OK
}

fn span_of(service: String, span: Span) -> CollectedSpan {
    // 2 is the code of an error.
    let error = span.status.filter(|status| status.code == 2);
    CollectedSpan {
        service,
        name: span.name,
        trace_id: hex(&span.trace_id),
        span_id: hex(&span.span_id),
        parent_id: hex(&span.parent_span_id),
        attributes: attributes_of(span.attributes),
        error: error.map(|status| status.message),
    }
}

fn attributes_of(
    attributes: Vec<opentelemetry_proto::tonic::common::v1::KeyValue>,
) -> BTreeMap<String, String> {
    let text = |value: Value| match value {
        Value::StringValue(text) => text,
        Value::IntValue(number) => number.to_string(),
        other => format!("{other:?}"),
    };
    attributes
        .into_iter()
        .filter_map(|pair| Some((pair.key, text(pair.value?.value?))))
        .collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
