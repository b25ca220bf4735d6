//! An SMTP server for trying things out.

use anyhow::Context as _;
use posthaste_sink::{Sink, SinkConfig, behaviours};

use crate::arguments::{Global, SinkArguments};
use crate::exit::Exit;
use crate::output;

pub(crate) async fn run(global: &Global, arguments: SinkArguments) -> anyhow::Result<Exit> {
    if arguments.help_recipients {
        let rows: Vec<_> = behaviours()
            .iter()
            .map(|behaviour| {
                vec![
                    format!("{}@", behaviour.pattern),
                    behaviour.description.to_owned(),
                ]
            })
            .collect();
        output::table(&["RECIPIENT", "WHAT HAPPENS"], &rows);
        return Ok(Exit::Ok);
    }
    let config = SinkConfig {
        listen: arguments.listen,
        delay: arguments.delay.0,
        greylist_after: arguments.greylist.0,
        ..SinkConfig::default()
    };
    let sink = Sink::start(config).await.with_context(|| {
        let address = arguments.listen;
        format!("cannot listen on {address}: choose another with --listen 127.0.0.1:PORT")
    })?;
    output::error(&format!(
        "The sink listens on {}. Recipients such as tempfail@, reject@ or flaky30@ make it misbehave\n\
         (`posthaste sink --help-recipients` lists them). Ctrl-C prints what arrived, as JSON.",
        sink.url()
    ));
    match arguments.count {
        Some(count) => {
            tokio::select! {
                () = sink.wait_for(count) => {}
                () = super::serve::ended_by_signal() => {}
            }
        }
        None => super::serve::ended_by_signal().await,
    }
    sink.stop().await;
    let report = sink.report();
    if global.json {
        output::json(&report);
    } else {
        output::line(&serde_json::to_string_pretty(&report)?);
    }
    Ok(Exit::Ok)
}
