//! Finds out what is wrong.

use posthaste_core::attempt::{Cause, Failure, Stage};
use posthaste_core::classification::Classifier;
use posthaste_core::port::ChannelState;
use posthaste_core::reply::Reply;
use posthaste_core::status::Outcome;
use serde_json::json;

use crate::arguments::{DoctorArguments, Global};
use crate::exit::{Exit, UsageError};
use crate::output;
use crate::wiring::{self, Opener};

pub(crate) async fn run(global: &Global, arguments: &DoctorArguments) -> anyhow::Result<Exit> {
    let loaded = wiring::load_config(global, None)?;
    if let Some(reply) = &arguments.classify {
        let classifier = Classifier::new(loaded.settings.classification.rules.clone());
        return classify(global, &classifier, reply, &arguments.stage);
    }
    let mut healthy = true;
    let mut tell = |what: &str, result: Result<String, String>| {
        healthy &= result.is_ok();
        let (ok, text) = match result {
            Ok(text) => (true, text),
            Err(text) => (false, text),
        };
        if global.json {
            output::json(&json!({"check": what, "ok": ok, "detail": text}));
        } else {
            output::line(&format!(
                "{} {what:<14} {text}",
                if ok { "ok     " } else { "PROBLEM" }
            ));
        }
    };
    tell(
        "configuration",
        Ok(loaded
            .file
            .map_or("defaults".into(), |file| file.display().to_string())),
    );
    let settings = loaded.settings;
    let store = match wiring::open_store(&settings, Opener::Visitor).await {
        Ok(store) => store,
        Err(error) => {
            tell("database", Err(format!("{error:#}")));
            return Ok(Exit::Failure);
        }
    };
    let database = store.check().await.map_err(|error| error.to_string());
    let name = settings.database()?.to_string();
    tell("database", database.map(|()| name));
    if let Some(options) = settings.rabbitmq_options(false)? {
        tell("rabbitmq", wiring::check_rabbitmq(options).await);
    }
    let violations = store.verify(&[]).await?;
    tell(
        "promises",
        match violations.first() {
            None => Ok("every promise holds".into()),
            Some(first) => Err(format!(
                "{} broken, the first: {}; run `posthaste verify`",
                violations.len(),
                first.detail
            )),
        },
    );
    let states = store.alert_channels().await?;
    for channel in settings.alert_channels()? {
        let state = states.iter().find(|state| state.name == channel.name());
        let result = if arguments.alert {
            let id = format!("test-{}", posthaste_core::email::EmailId::generate());
            let alert = settings.alert_config().test_alert(id, store.now());
            let told = channel.tell(&alert).await;
            told.map(|()| "a test alert was taken".to_owned())
        } else {
            alert_state(state)
        };
        tell(&format!("alerts: {}", channel.name()), result);
    }
    match wiring::build_transport(&settings, &store) {
        Ok(transport) => tell(transport.name(), transport.check().await),
        Err(error) => tell("smtp", Err(format!("{error:#}"))),
    }
    Ok(if healthy { Exit::Ok } else { Exit::Failure })
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
