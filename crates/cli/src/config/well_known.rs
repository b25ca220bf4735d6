//! Names of environment variables that work as they are.

/// Each name, and the option it stands for.
pub(super) const WELL_KNOWN: [(&str, &str, Shape); 16] = [
    ("DATABASE_URL", "store.url", Shape::Plain),
    ("RABBITMQ_URL", "broker.url", Shape::Plain),
    ("SMTP_URL", "smtp.url", Shape::Plain),
    ("HTTP_PORT", "server.port", Shape::Plain),
    ("RETRY_INTERVAL_SECONDS", "retry.interval", Shape::Seconds),
    ("MAX_ATTEMPTS", "retry.max_attempts", Shape::Plain),
    ("BACKOFF_SCHEDULE", "retry.schedule", Shape::Plain),
    ("LEASE_SECONDS", "sender.lease", Shape::Seconds),
    ("SERVICE_NAME", "service.name", Shape::Plain),
    (
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "trace.endpoint",
        Shape::Plain,
    ),
    ("RETRY_QUEUE", "messages.queue", Shape::Plain),
    ("MANUAL_REVIEW_QUEUE", "broker.review_queue", Shape::Plain),
    ("DEFAULT_MAX_RETRIES", "messages.max_retries", Shape::Plain),
    ("BASE_DELAY_MS", "messages.base_delay", Shape::Milliseconds),
    ("MAX_DELAY_MS", "messages.max_delay", Shape::Milliseconds),
    (
        "RETRY_POLL_INTERVAL_MS",
        "messages.poll_interval",
        Shape::Milliseconds,
    ),
];

/// How a value is written under such a name.
#[derive(Clone, Copy)]
pub(super) enum Shape {
    /// As the option itself is written.
    Plain,
    /// A number of seconds.
    Seconds,
    /// A number of milliseconds.
    Milliseconds,
}

impl Shape {
    /// The value as the option itself is written, or what is wrong with it.
    pub(super) fn written(self, text: &str) -> Result<String, String> {
        let (unit, name) = match self {
            Self::Plain => return Ok(text.to_owned()),
            Self::Seconds => ("s", "seconds"),
            Self::Milliseconds => ("ms", "milliseconds"),
        };
        let text = text.trim();
        if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
            return Err(format!("`{text}` is not a whole number of {name}"));
        }
        Ok(format!("{text}{unit}"))
    }
}
