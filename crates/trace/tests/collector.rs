//! What a collector sees of us.

#![allow(clippy::unwrap_used)]

use posthaste_core::port::{SpanKind, Tracer};
use posthaste_testkit::Collector;
use posthaste_trace::{OtlpOptions, OtlpTracer};

fn options(endpoint: &str, sample_ratio: f64) -> OtlpOptions {
    OtlpOptions {
        endpoint: endpoint.to_owned(),
        service_name: "shop".to_owned(),
        version: "1.2.3",
        sample_ratio,
    }
}

async fn stop(tracer: OtlpTracer) {
    tokio::task::spawn_blocking(move || tracer.stop())
        .await
        .unwrap();
}

#[tokio::test]
async fn steps_follow_from_one_another() {
    let collector = Collector::start().await;
    let tracer = OtlpTracer::start(&options(collector.endpoint(), 1.0)).unwrap();
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let mut first = tracer.begin("first", SpanKind::Server, Some(parent));
    first.set("text", "word".into());
    first.set("number", 7u32.into());
    let carried = first.traceparent().unwrap();
    let mut second = tracer.begin("second", SpanKind::Producer, Some(&carried));
    second.fail("no way");
    drop((first, second));
    stop(tracer).await;

    let spans = collector.wait_for(|spans| spans.len() == 2).await;
    let named = |name: &str| spans.iter().find(|span| span.name == name).unwrap();
    let (first, second) = (named("first"), named("second"));
    assert_eq!(first.service, "shop");
    assert_eq!(first.trace_id, "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(first.parent_id, "b7ad6b7169203331");
    assert_eq!(first.attributes["text"], "word");
    assert_eq!(first.attributes["number"], "7");
    assert_eq!(first.error, None);
    assert_eq!(second.trace_id, first.trace_id);
    assert_eq!(second.parent_id, first.span_id);
    assert_eq!(second.error.as_deref(), Some("no way"));
    assert_eq!(
        carried,
        format!("00-{}-{}-01", first.trace_id, first.span_id)
    );
}

#[tokio::test]
async fn whoever_began_a_trace_decides_whether_it_is_recorded() {
    let collector = Collector::start().await;
    let tracer = OtlpTracer::start(&options(collector.endpoint(), 0.0)).unwrap();
    drop(tracer.begin("ours", SpanKind::Server, None));
    let unsampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
    let span = tracer.begin("unwanted", SpanKind::Server, Some(unsampled));
    assert!(
        span.traceparent().unwrap().ends_with("-00"),
        "still handed on"
    );
    drop(span);
    let sampled = "00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    drop(tracer.begin("wanted", SpanKind::Server, Some(sampled)));
    stop(tracer).await;
    let spans = collector.wait_for(|spans| !spans.is_empty()).await;
    let names: Vec<_> = spans.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["wanted"]);
}

#[tokio::test]
async fn what_is_no_traceparent_begins_a_new_trace() {
    let collector = Collector::start().await;
    let tracer = OtlpTracer::start(&options(collector.endpoint(), 1.0)).unwrap();
    drop(tracer.begin("alone", SpanKind::Consumer, Some("nonsense")));
    stop(tracer).await;
    let spans = collector.wait_for(|spans| !spans.is_empty()).await;
    assert_eq!(spans[0].parent_id, "");
    assert_eq!(spans[0].trace_id.len(), 32);
}

#[tokio::test]
async fn a_collector_that_is_away_stops_nobody() {
    let tracer = OtlpTracer::start(&options("http://127.0.0.1:1", 1.0)).unwrap();
    drop(tracer.begin("lost", SpanKind::Server, None));
    stop(tracer).await;
}

#[test]
fn an_endpoint_that_is_no_url_is_refused() {
    assert!(OtlpTracer::start(&options("not a url", 1.0)).is_err());
}
