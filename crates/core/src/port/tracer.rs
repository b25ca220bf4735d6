//! Where the steps of an email or a message are recorded, so that people can follow it through
//! several services. What is carried from one to the next is a W3C `traceparent`.

use uuid::Uuid;

/// What a step does, as OpenTelemetry sorts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// Answers someone's request.
    Server,
    /// Asks another service.
    Client,
    /// Hands something on.
    Producer,
    /// Takes something in.
    Consumer,
}

/// The value of an attribute. It is put into words only if it is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanValue<'a> {
    /// A text.
    Text(&'a str),
    /// An id.
    Id(Uuid),
    /// A number.
    Number(i64),
}

impl<'a> From<&'a str> for SpanValue<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl From<Uuid> for SpanValue<'_> {
    fn from(id: Uuid) -> Self {
        Self::Id(id)
    }
}

impl From<u32> for SpanValue<'_> {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

/// One step under way. It ends when it is dropped.
pub trait Span: Send {
    /// What the next step is to be told, if anything.
    fn traceparent(&self) -> Option<String>;

    /// Adds an attribute.
    fn set(&mut self, key: &'static str, value: SpanValue<'_>);

    /// Says that the step failed, and why.
    fn fail(&mut self, reason: &str);
}

/// Records steps.
pub trait Tracer: Send + Sync {
    /// Begins a step. `parent` is the `traceparent` of the step before, if there is one.
    fn begin(&self, name: &'static str, kind: SpanKind, parent: Option<&str>) -> Box<dyn Span>;

    /// Lets go of what is not recorded yet. May block for a while.
    fn stop(&self) {}
}

/// Records nothing, and hands on what came in.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoTracer;

struct NoSpan(Option<String>);

impl Tracer for NoTracer {
    fn begin(&self, _: &'static str, _: SpanKind, parent: Option<&str>) -> Box<dyn Span> {
        Box::new(NoSpan(parent.map(str::to_owned)))
    }
}

impl Span for NoSpan {
    fn traceparent(&self) -> Option<String> {
        self.0.clone()
    }

    fn set(&mut self, _: &'static str, _: SpanValue<'_>) {}

    fn fail(&mut self, _: &str) {}
}
