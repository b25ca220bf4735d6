//! Log lines: text for people on a terminal, JSON for programs, always on stderr.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

use crate::config::{LogFormat, Settings};
use crate::exit::UsageError;

/// Starts logging as configured.
pub(crate) fn start(settings: &Settings) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&settings.log.level).map_err(|error| {
        UsageError(format!(
            "log.level: `{}` is not a filter: {error}",
            settings.log.level
        ))
    })?;
    let json = match settings.log.format {
        LogFormat::Json => true,
        LogFormat::Text => false,
        LogFormat::Auto => !std::io::stderr().is_terminal(),
    };
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    if json {
        lines
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(false)
            .init();
    } else {
        lines.with_target(false).init();
    }
    Ok(())
}
