//! The steps of messages as a collector of OpenTelemetry traces sees them.

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable};
use posthaste_testkit::process::Posthaste;
use posthaste_testkit::{CollectedSpan, Collector};
use uuid::Uuid;

use crate::backend::{Backend, on_both_stores};
use crate::messages_support::{
    a_failure, a_service, assert_copy, hand_in_with, quick, start_lane, take_one,
};

on_both_stores! {
    a_message_goes_on_with_the_trace_that_it_came_with,
    a_message_that_came_with_no_trace_begins_one,
    a_message_that_goes_to_review_goes_on_with_its_trace,
    without_a_collector_the_trace_of_a_message_passes_through,
}

/// The trace and the step that a test comes with, and both as a header.
pub(crate) struct Caller {
    pub(crate) trace_id: String,
    pub(crate) span_id: String,
    pub(crate) traceparent: String,
}

pub(crate) fn a_caller() -> Caller {
    let trace_id = Uuid::now_v7().simple().to_string();
    let span_id = trace_id[16..].to_owned();
    let traceparent = format!("00-{trace_id}-{span_id}-01");
    Caller {
        trace_id,
        span_id,
        traceparent,
    }
}

/// Properties with this header.
fn with_header(name: &str, value: &str) -> BasicProperties {
    let mut headers = FieldTable::default();
    let value = AMQPValue::LongString(value.into());
    headers.insert(name.into(), value);
    BasicProperties::default().with_headers(headers)
}

/// The one span with this name.
pub(crate) fn named<'a>(spans: &'a [CollectedSpan], name: &str) -> &'a CollectedSpan {
    let mut named = spans.iter().filter(|span| span.name == name);
    let span = named.next();
    let span = span.unwrap_or_else(|| panic!("no {name}: {spans:#?}"));
    assert_eq!(named.next(), None, "{name} twice");
    span
}

/// What the header says while this span is the last step.
pub(crate) fn traceparent_of(span: &CollectedSpan) -> String {
    format!("00-{}-{}-01", span.trace_id, span.span_id)
}

/// Ends a process, which sends its last spans, and gives so many.
async fn spans_of(lane: &mut Posthaste, collector: &Collector, count: usize) -> Vec<CollectedSpan> {
    assert_eq!(lane.terminate().await, Some(0));
    let spans = collector.wait_for(|spans| spans.len() >= count).await;
    assert_eq!(spans.len(), count, "{spans:#?}");
    spans
}

async fn a_message_goes_on_with_the_trace_that_it_came_with(backend: &Backend) {
    let queue = a_service(backend).await;
    let collector = Collector::start().await;
    let lane = quick(backend)
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint())
        .env("SERVICE_NAME", "the-lane");
    let mut lane = start_lane(lane).await;
    let (failure, caller) = (a_failure(&queue), a_caller());
    let properties = with_header("traceparent", &caller.traceparent);
    hand_in_with(backend, &failure, properties).await;

    let copy = take_one(backend, &queue).await;

    assert_copy(&copy, &failure, 1);
    backend
        .until_message_is(&failure.message_id, "retried")
        .await;
    let spans = spans_of(&mut lane, &collector, 2).await;
    let scheduled = named(&spans, "message schedule");
    let republished = named(&spans, "message republish");
    assert_eq!(scheduled.parent_id, caller.span_id);
    assert_eq!(republished.parent_id, scheduled.span_id);
    assert_eq!(copy.headers["traceparent"], traceparent_of(republished));
    for span in &spans {
        assert_eq!(span.trace_id, caller.trace_id);
        assert_eq!(span.service, "the-lane");
        assert_eq!(span.error, None);
        assert_eq!(span.attributes["messaging.message.id"], failure.message_id);
        assert_eq!(span.attributes["posthaste.original_queue"], queue);
        assert_eq!(span.attributes["posthaste.retry_count"], "0");
    }
}

async fn a_message_that_came_with_no_trace_begins_one(backend: &Backend) {
    let queue = a_service(backend).await;
    let collector = Collector::start().await;
    let lane = quick(backend).env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint());
    let mut lane = start_lane(lane).await;
    // A header that is no trace is none.
    let properties = with_header("traceparent", "00-no-trace-01");
    hand_in_with(backend, &a_failure(&queue), properties).await;

    let copy = take_one(backend, &queue).await;

    let spans = spans_of(&mut lane, &collector, 2).await;
    let scheduled = named(&spans, "message schedule");
    let republished = named(&spans, "message republish");
    assert_eq!(scheduled.parent_id, "");
    assert_eq!(republished.parent_id, scheduled.span_id);
    assert_eq!(republished.trace_id, scheduled.trace_id);
    assert_eq!(copy.headers["traceparent"], traceparent_of(republished));
}

async fn a_message_that_goes_to_review_goes_on_with_its_trace(backend: &Backend) {
    let queue = a_service(backend).await;
    let collector = Collector::start().await;
    let lane = quick(backend).env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint());
    let mut lane = start_lane(lane).await;
    let caller = a_caller();
    let mut failure = a_failure(&queue);
    failure.retry_count = 3;
    // The field goes before the header around it.
    let trace = ("traceparent".to_owned(), caller.traceparent.clone());
    failure.headers.extend([trace]);
    let properties = with_header("traceparent", &a_caller().traceparent);
    hand_in_with(backend, &failure, properties).await;

    let aside = take_one(backend, &backend.queues().review()).await;

    let spans = spans_of(&mut lane, &collector, 2).await;
    let scheduled = named(&spans, "message schedule");
    let reviewed = named(&spans, "message review");
    assert_eq!(scheduled.trace_id, caller.trace_id);
    assert_eq!(scheduled.parent_id, caller.span_id);
    assert_eq!(reviewed.parent_id, scheduled.span_id);
    assert_eq!(aside.headers["traceparent"], traceparent_of(reviewed));
}

async fn without_a_collector_the_trace_of_a_message_passes_through(backend: &Backend) {
    let queue = a_service(backend).await;
    let _lane = start_lane(quick(backend)).await;
    let traceparent = a_caller().traceparent;
    let properties = with_header("traceparent", &traceparent);
    hand_in_with(backend, &a_failure(&queue), properties).await;
    let copy = take_one(backend, &queue).await;
    assert_eq!(copy.headers["traceparent"], traceparent);

    hand_in_with(backend, &a_failure(&queue), BasicProperties::default()).await;
    let copy = take_one(backend, &queue).await;
    assert!(!copy.headers.contains_key("traceparent"), "{copy:?}");
}

#[tokio::test]
async fn a_message_that_cannot_be_put_back_says_why_in_its_trace() {
    let backend = Backend::postgres_and_rabbitmq().await;
    a_service(&backend).await;
    let missing = backend.queues().of_service("missing");
    let collector = Collector::start().await;
    let lane = quick(&backend)
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint())
        .env("POSTHASTE_MESSAGES__MAX_PUBLISH_FAILURES", "1");
    let mut lane = start_lane(lane).await;
    let caller = a_caller();
    let properties = with_header("traceparent", &caller.traceparent);
    hand_in_with(&backend, &a_failure(&missing), properties).await;
    take_one(&backend, &backend.queues().review()).await;

    let spans = spans_of(&mut lane, &collector, 3).await;

    let failed = named(&spans, "message republish");
    let reason = format!("its queue `{missing}` is not there");
    assert_eq!(failed.error, Some(reason));
    assert_eq!(named(&spans, "message review").error, None);
    assert!(spans.iter().all(|span| span.trace_id == caller.trace_id));
}
