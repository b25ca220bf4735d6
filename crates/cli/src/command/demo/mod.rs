//! The whole product at work, to look at: a mail server that misbehaves, a steady stream of mail,
//! and an outage now and then. It needs nothing and leaves nothing behind but what is in a folder that
//! the user named.

mod folder;
mod mail;
mod status;

use std::time::Duration;

use anyhow::Context as _;
use posthaste_engine::Roles;
use posthaste_sink::{Mode, Sink, SinkConfig};
use tokio::time::{Instant, MissedTickBehavior};

use self::folder::Folder;
use self::mail::Mail;
use self::status::StatusLine;
use super::ended_by_signal;
use crate::arguments::{DemoArguments, Global};
use crate::exit::{Exit, UsageError};
use crate::serving::Serving;
use crate::{logging, output};

/// The fastest stream of mail.
const FASTEST: f64 = 1000.0;
/// How long greylisted mail is put off.
const GREYLISTED: Duration = Duration::from_secs(5);
/// When the mail server is away for the first time, for how long, and how often.
const FIRST_OUTAGE: Duration = Duration::from_secs(20);
const OUTAGE: Duration = Duration::from_secs(8);
const BETWEEN_OUTAGES: Duration = Duration::from_secs(60);

pub(crate) async fn run(global: &Global, arguments: DemoArguments) -> anyhow::Result<Exit> {
    if !(arguments.rate > 0.0 && arguments.rate <= FASTEST) {
        let message =
            format!("--rate: must be more than 0 and at most {FASTEST} emails per second");
        return Err(UsageError(message).into());
    }
    let ended = ended_by_signal();
    let sink = Sink::start(SinkConfig {
        greylist_after: GREYLISTED,
        ..SinkConfig::default()
    })
    .await
    .context("cannot start the mail server of the demo")?;
    let folder = Folder::prepare(global.data_dir.as_deref())?;
    let loaded = folder.configure(&sink.url(), arguments.listen)?;
    logging::start(&loaded.settings)?;
    let serving = Serving::start(&loaded, Roles::ALL).await?;
    let mail = Mail::prepare(&serving.engine).await?;
    let url = format!("http://{}/admin", serving.address);
    if global.json {
        output::json(&serde_json::json!({"dashboard": url, "folder": folder.path()}));
    } else {
        output::announce(&introduction(&url, &folder));
    }
    let ended = play(&serving, &sink, &mail, arguments.rate, global.json, ended).await;
    if !global.json {
        output::announce("\nStopping …");
    }
    // Whatever is under way ends well only if the mail server is there.
    sink.set_mode(Mode::Normal);
    let stopped = serving.stop().await;
    sink.stop().await;
    ended?;
    stopped
}

/// Sends mail, takes the mail server away and gives it back, and says how things are, until the
/// signal.
async fn play(
    serving: &Serving,
    sink: &Sink,
    mail: &Mail,
    rate: f64,
    json: bool,
    ended: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let mut ended = std::pin::pin!(ended);
    let mut next_email = tokio::time::interval(Duration::from_secs_f64(1.0 / rate));
    next_email.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut status = StatusLine::new(json);
    let mut next_status = tokio::time::interval(status.interval());
    let mut turn = Instant::now() + FIRST_OUTAGE;
    let mut away = false;
    loop {
        tokio::select! {
            () = &mut ended => break,
            _ = next_email.tick() => mail.send_next().await,
            _ = next_status.tick() => status.show(&serving.engine.operator, away).await?,
            () = tokio::time::sleep_until(turn) => {
                away = !away;
                sink.set_mode(if away { Mode::RefuseConnections } else { Mode::Normal });
                turn += if away { OUTAGE } else { BETWEEN_OUTAGES };
            }
        }
    }
    status.end();
    Ok(())
}

fn introduction(url: &str, folder: &Folder) -> String {
    format!(
        "The demo is running: a steady stream of mail to a mail server that misbehaves.

  Dashboard  {url}

What to look at, within the first minute:

  Overview       mail comes in and is sent; about every third email meets trouble
  Emails         \"Retrying (attempt 2 of 4)\": greylisted, flaky and dropped mail arrives later by itself
  Dead letters   no such user, mailbox full, spam …: one group each. Retry the groups \"Try again later\"
                 and, after the outage, \"closed the connection (at banner)\": now the server takes
                 them. Discard those of users that do not exist.
  Uncertain      the server took an email and vanished before it said so: you decide
  Templates      what these emails are made from, with the times of their retries
  An outage      of {outage} s after {first} s, and again every minute: mail waits, then catches up

The command line works, too:  posthaste --config {config} dead groups
Ctrl-C ends the demo{end}.
",
        outage = OUTAGE.as_secs(),
        first = FIRST_OUTAGE.as_secs(),
        config = folder.config_file().display(),
        end = if folder.is_temporary() {
            " and removes what it has written".to_owned()
        } else {
            format!("; what it has written stays in {}", folder.path().display())
        },
    )
}
