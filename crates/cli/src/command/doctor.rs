//! Finds out what is wrong.

use posthaste_core::attempt::{Cause, Failure, Stage};
use posthaste_core::classification::Classifier;
use posthaste_core::email::EmailId;
use posthaste_core::port::{ChannelState, Clock as _, SharedStore, SystemClock};
use posthaste_core::reply::Reply;
use posthaste_core::status::Outcome;
use serde_json::json;

use crate::arguments::{DoctorArguments, Global};
use crate::config::{CAPTURE, Database, Settings};
use crate::exit::{Exit, UsageError};
use crate::output;
use crate::wiring::{self, Opener};

pub(crate) async fn run(global: &Global, arguments: &DoctorArguments) -> anyhow::Result<Exit> {
    let loaded = wiring::load_config(global, None)?;
    if let Some(reply) = &arguments.classify {
        let classifier = Classifier::new(loaded.settings.classification.rules.clone());
        return classify(global, &classifier, reply, &arguments.stage);
    }
    let mut findings = Findings {
        json: global.json,
        healthy: true,
    };
    let file = loaded.file.map(|file| file.display().to_string());
    findings.tell("configuration", Ok(file.unwrap_or("defaults".into())));
    let settings = loaded.settings;
    let store = open_store(&settings, &mut findings).await?;
    if let Some(options) = settings.rabbitmq_options(false)? {
        findings.tell("rabbitmq", wiring::check_rabbitmq(options).await);
    }
    if let Some(store) = &store {
        findings.tell("promises", promises(store).await?);
    }
    alerts(&settings, store.as_ref(), arguments.alert, &mut findings).await?;
    match wiring::build_transports(&settings, store.as_ref()) {
        Ok(ways) if ways.is_empty() => {
            findings.note(CAPTURE, "mail will be captured in the dev inbox, not sent");
        }
        Ok(ways) => {
            for way in ways {
                let transport = way.transport;
                findings.tell(transport.name(), transport.check().await);
            }
        }
        Err(error) => findings.tell("transports", Err(format!("{error:#}"))),
    }
    Ok(if findings.healthy {
        Exit::Ok
    } else {
        Exit::Failure
    })
}

/// What was found out, told line by line.
struct Findings {
    json: bool,
    /// Whether there is no problem so far.
    healthy: bool,
}

impl Findings {
    fn tell(&mut self, what: &str, result: Result<String, String>) {
        self.healthy &= result.is_ok();
        match result {
            Ok(text) => self.show("ok", what, &text),
            Err(text) => self.show("PROBLEM", what, &text),
        }
    }

    /// Something to know that need not be wrong.
    fn note(&self, what: &str, text: &str) {
        self.show("note", what, text);
    }

    fn show(&self, mark: &str, what: &str, text: &str) {
        if self.json {
            let ok = mark != "PROBLEM";
            output::json(&json!({"check": what, "ok": ok, "detail": text}));
        } else {
            // As wide as the longest, `alerts: pagerduty`.
            output::line(&format!("{mark:<7} {what:<17} {text}"));
        }
    }
}

/// Opens the store if there is one that answers, and creates none.
async fn open_store(
    settings: &Settings,
    findings: &mut Findings,
) -> anyhow::Result<Option<SharedStore>> {
    let database = settings.database()?;
    if let Database::Sqlite(path) = &database
        && !path.is_file()
    {
        let text = format!("there is none yet at {database}; `posthaste serve` makes it");
        findings.note("database", &text);
        return Ok(None);
    }
    let opened = match wiring::open_store(settings, Opener::Visitor).await {
        Ok(store) => match store.check().await {
            Ok(()) => Ok(store),
            Err(error) => Err(error.to_string()),
        },
        Err(error) => Err(format!("{error:#}")),
    };
    let (store, told) = match opened {
        Ok(store) => (Some(store), Ok(database.to_string())),
        Err(error) => (None, Err(error)),
    };
    findings.tell("database", told);
    if wiring::is_unserved(&database) {
        findings.note("server", "none is running on this data directory");
    }
    Ok(store)
}

async fn promises(store: &SharedStore) -> anyhow::Result<Result<String, String>> {
    let violations = store.verify(&[]).await?;
    Ok(match violations.first() {
        None => Ok("every promise holds".into()),
        Some(first) => Err(format!(
            "{} broken, the first: {}; run `posthaste verify`",
            violations.len(),
            first.detail
        )),
    })
}

/// How the channels do that are told of deaths, or whether they take a test alert.
async fn alerts(
    settings: &Settings,
    store: Option<&SharedStore>,
    test: bool,
    findings: &mut Findings,
) -> anyhow::Result<()> {
    let channels = settings.alert_channels()?;
    if test && channels.is_empty() {
        let text = "there is no channel to test: set alerts.slack.url, alerts.pagerduty.routing_key, \
                    or alerts.webhook.url and alerts.webhook.secret";
        findings.tell("alerts", Err(text.to_owned()));
    }
    let states = match store {
        Some(store) => store.alert_channels().await?,
        None => Vec::new(),
    };
    for channel in channels {
        let result = if test {
            let id = format!("test-{}", EmailId::generate());
            let now = SystemClock::start().now();
            let alert = settings.alert_config().test_alert(id, now);
            let told = channel.tell(&alert).await;
            told.map(|()| "a test alert was taken".to_owned())
        } else {
            alert_state(states.iter().find(|state| state.name == channel.name()))
        };
        findings.tell(&format!("alerts: {}", channel.name()), result);
    }
    Ok(())
}

/// How a channel does, as far as that is known without telling it something.
fn alert_state(state: Option<&ChannelState>) -> Result<String, String> {
    let hint = "`posthaste doctor --alert` sends a test alert";
    match state {
        Some(state) if state.failures > 0 => Err(format!(
            "{} tries in a row failed, {} deaths wait to be told: {}",
            state.failures,
            state.waiting,
            state.last_error.as_deref().unwrap_or("for no known reason"),
        )),
        Some(ChannelState {
            last_told_at: Some(at),
            ..
        }) => Ok(format!("last alert at {at:.0}; {hint}")),
        _ => Ok(format!("no alert yet; {hint}")),
    }
}

fn classify(
    global: &Global,
    classifier: &Classifier,
    reply: &str,
    stage: &str,
) -> anyhow::Result<Exit> {
    let stage: Stage = stage
        .parse()
        .map_err(|error| UsageError(format!("--stage: {error}")))?;
    let parsed = Reply::parse_line(reply).ok_or_else(|| {
        UsageError(format!(
            "--classify: `{reply}` is not a reply; write it as in \"550 5.1.1 No such user\""
        ))
    })?;
    let verdict = classifier.classify(&Failure::new(stage, Cause::Reply(parsed)));
    let next = match verdict.outcome {
        Outcome::Transient => "tried again by its retry policy",
        Outcome::Unknown => "treated as on_unknown says: sent again or held",
        _ => "dead at once, on the operator's desk",
    };
    if global.json {
        output::json(&json!({
            "rule": verdict.rule, "outcome": verdict.outcome, "certainty": verdict.certainty, "fault": verdict.fault,
            "dead_reason": verdict.dead_reason, "floor_seconds": verdict.floor.map(|floor| floor.as_secs()), "next": next,
        }));
        return Ok(Exit::Ok);
    }
    output::line(&format!("Rule       {}", verdict.rule));
    output::line(&format!(
        "Verdict    {}, {}, fault of the {}",
        verdict.outcome, verdict.certainty, verdict.fault
    ));
    if let Some(reason) = verdict.dead_reason {
        output::line(&format!("Reason     {reason}"));
    }
    if let Some(floor) = verdict.floor {
        output::line(&format!(
            "Not before {} s from now: the server asks for it",
            floor.as_secs()
        ));
    }
    output::line(&format!("Next       the email is {next}"));
    Ok(Exit::Ok)
}
