//! Sends the steps of emails and messages to an OpenTelemetry collector, as OTLP over HTTP.
//!
//! Steps are gathered and sent by a thread of their own; a collector that is away costs nothing
//! but its own picture.

use std::time::Duration;

use opentelemetry::propagation::{Extractor, TextMapPropagator as _};
use opentelemetry::trace::{
    Span as _, SpanKind as OtelKind, Status, Tracer as _, TracerProvider as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracer, SdkTracerProvider, Span as SdkSpan,
};
use posthaste_core::port::{Span, SpanKind, SpanValue, Tracer};

/// How many steps wait to be sent; further ones are dropped.
const MOST_WAITING: usize = 65_536;

/// How many are sent together, and how often at least.
const BATCH: usize = 4096;
const PACE: Duration = Duration::from_secs(1);

/// How long the collector may take to answer.
const DEADLINE: Duration = Duration::from_secs(5);

/// How steps are sent.
#[derive(Debug, Clone)]
pub struct OtlpOptions {
    /// The collector, such as `http://127.0.0.1:4318`; the path is added.
    pub endpoint: String,
    /// The name of this service.
    pub service_name: String,
    /// Its version.
    pub version: &'static str,
    /// How many of the traces that begin here are recorded, from 0 to 1. Those that come from
    /// elsewhere follow whoever began them.
    pub sample_ratio: f64,
}

/// The options make no sense.
#[derive(Debug, thiserror::Error)]
#[error("traces cannot be sent: {0}")]
pub struct OtlpError(String);

/// Sends steps to a collector.
pub struct OtlpTracer {
    tracer: SdkTracer,
    provider: SdkTracerProvider,
    propagator: TraceContextPropagator,
}

impl OtlpTracer {
    /// A tracer that sends in the background.
    ///
    /// # Errors
    ///
    /// If the endpoint is no URL. That nobody answers there is no error.
    pub fn start(options: &OtlpOptions) -> Result<Self, OtlpError> {
        let endpoint = format!("{}/v1/traces", options.endpoint.trim_end_matches('/'));
        let exporter = SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(endpoint)
            .with_timeout(DEADLINE)
            .build()
            .map_err(|error| OtlpError(error.to_string()))?;
        let resource = Resource::builder()
            .with_service_name(options.service_name.clone())
            .with_attribute(KeyValue::new("service.version", options.version))
            .build();
        let ratio = Sampler::TraceIdRatioBased(options.sample_ratio);
        let batches = BatchConfigBuilder::default()
            .with_max_queue_size(MOST_WAITING)
            .with_max_export_batch_size(BATCH)
            .with_scheduled_delay(PACE)
            .build();
        let processor = BatchSpanProcessor::builder(exporter)
            .with_batch_config(batches)
            .build();
        let provider = SdkTracerProvider::builder()
            .with_span_processor(processor)
            .with_sampler(Sampler::ParentBased(Box::new(ratio)))
            .with_resource(resource)
            .build();
        Ok(Self {
            tracer: provider.tracer("posthaste"),
            provider,
            propagator: TraceContextPropagator::new(),
        })
    }
}

/// One header.
struct Parent<'a>(&'a str);

impl Extractor for Parent<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        (key == "traceparent").then_some(self.0)
    }

    fn keys(&self) -> Vec<&str> {
        vec!["traceparent"]
    }
}

impl Tracer for OtlpTracer {
    fn begin(&self, name: &'static str, kind: SpanKind, parent: Option<&str>) -> Box<dyn Span> {
        let nothing = Context::new();
        let context = match parent {
            Some(parent) => self
                .propagator
                .extract_with_context(&nothing, &Parent(parent)),
            None => nothing,
        };
        let kind = match kind {
            SpanKind::Server => OtelKind::Server,
            SpanKind::Client => OtelKind::Client,
            SpanKind::Producer => OtelKind::Producer,
            SpanKind::Consumer => OtelKind::Consumer,
        };
        let builder = self.tracer.span_builder(name).with_kind(kind);
        Box::new(OtlpSpan(builder.start_with_context(&self.tracer, &context)))
    }

    fn stop(&self) {
        if let Err(error) = self.provider.shutdown_with_timeout(DEADLINE) {
            tracing::warn!(%error, "the last traces could not be sent");
        }
    }
}

struct OtlpSpan(SdkSpan);

impl Span for OtlpSpan {
    fn traceparent(&self) -> Option<String> {
        let context = self.0.span_context();
        let (trace, span) = (context.trace_id(), context.span_id());
        let flags = context.trace_flags().to_u8();
        context
            .is_valid()
            .then(|| format!("00-{trace}-{span}-{flags:02x}"))
    }

    fn set(&mut self, key: &'static str, value: SpanValue<'_>) {
        self.0.set_attribute(match value {
            SpanValue::Text(text) => KeyValue::new(key, text.to_owned()),
            SpanValue::Id(id) => KeyValue::new(key, id.to_string()),
            SpanValue::Number(number) => KeyValue::new(key, number),
        });
    }

    fn fail(&mut self, reason: &str) {
        self.0.set_status(Status::error(reason.to_owned()));
    }
}
