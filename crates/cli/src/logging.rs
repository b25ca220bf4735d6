//! Log lines: text for people on a terminal, JSON for programs, always on stderr.

use std::io::IsTerminal as _;

use crate::config::{LogFormat, Settings};

/// Starts logging as configured.
pub(crate) fn start(settings: &Settings) -> anyhow::Result<()> {
    let filter = settings.log.filter()?;
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
