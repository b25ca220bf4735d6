//! See how the ways out do, and switch them.

use posthaste_core::way::Condition;
use posthaste_engine::operator::{Switched, TransportView};
use serde_json::json;

use crate::arguments::{Global, TransportsCommand};
use crate::exit::Exit;
use crate::output;
use crate::wiring::{self, Desk};

pub(crate) async fn run(global: &Global, command: TransportsCommand) -> anyhow::Result<Exit> {
    let desk = wiring::open_desk(global).await?;
    match command {
        TransportsCommand::List => {
            let transports = desk.operator.transports().await?;
            if global.json {
                transports.iter().for_each(|one| output::json(&entry(one)));
            } else {
                table(&transports);
            }
            Ok(Exit::Ok)
        }
        TransportsCommand::Pause { name } => {
            let switched = desk.operator.pause_transport(&name, &desk.actor).await?;
            let done = "is paused. Emails wait for it; `posthaste transports resume` lets them go.";
            tell(global, &desk, &name, switched, done, "was paused already.").await
        }
        TransportsCommand::Resume { name } => {
            let switched = desk.operator.resume_transport(&name, &desk.actor).await?;
            let done = "is resumed. What waits for it goes, slowly at first.";
            tell(
                global,
                &desk,
                &name,
                switched,
                done,
                "was neither paused nor stopped.",
            )
            .await
        }
    }
}

async fn tell(
    global: &Global,
    desk: &Desk,
    name: &str,
    switched: Switched,
    done: &str,
    unchanged: &str,
) -> anyhow::Result<Exit> {
    let (result, text) = match switched {
        Switched::Done => ("done", done),
        Switched::Unchanged => ("unchanged", unchanged),
        Switched::NotFound => {
            let transports = desk.operator.transports().await?;
            let known: Vec<&str> = transports.iter().map(|one| one.name.as_str()).collect();
            output::error(&format!(
                "There is no transport {name}; there is {}.",
                known.join(", ")
            ));
            return Ok(Exit::NotFound);
        }
    };
    if global.json {
        output::json(&json!({"name": name, "result": result}));
    } else {
        output::line(&format!("{name} {text}"));
    }
    Ok(Exit::Ok)
}

/// The state in a word.
fn state(view: &TransportView) -> &'static str {
    let is_paused = view.way.as_ref().is_some_and(|way| way.paused_by.is_some());
    if is_paused {
        "paused"
    } else {
        view.condition.as_str()
    }
}

fn entry(view: &TransportView) -> serde_json::Value {
    let way = view.way.as_ref();
    let domain = |(domain, condition, way): &(String, Condition, posthaste_core::way::Way)| {
        json!({"domain": domain, "state": condition, "since": way.since,
               "last_error": way.last_error, "next_probe_at": way.next_probe_at})
    };
    json!({
        "name": view.name, "state": state(view), "waiting": view.waiting,
        "oldest_waiting_at": view.oldest_waiting, "since": way.map(|way| way.since),
        "paused_by": way.and_then(|way| way.paused_by.clone()),
        "last_error": way.and_then(|way| way.last_error.clone()),
        "next_probe_at": way.and_then(|way| way.next_probe_at), "ramp_rate": view.ramp_rate,
        "rate": view.limits.rate, "concurrency": view.limits.concurrency, "routes": view.routes,
        "listens": view.listens, "domains": view.domains.iter().map(domain).collect::<Vec<_>>(),
    })
}

fn table(transports: &[TransportView]) {
    let mut rows = Vec::new();
    for view in transports {
        let error = view.way.as_ref().and_then(|way| way.last_error.as_deref());
        rows.push(vec![
            view.name.clone(),
            state(view).to_owned(),
            view.waiting.to_string(),
            view.routes.join(","),
            output::short(error.unwrap_or_default(), 60),
        ]);
        for (domain, condition, way) in &view.domains {
            rows.push(vec![
                format!("{}@{domain}", view.name),
                condition.to_string(),
                String::new(),
                String::new(),
                output::short(way.last_error.as_deref().unwrap_or_default(), 60),
            ]);
        }
    }
    output::table(
        &["TRANSPORT", "STATE", "WAITING", "ROUTES", "LAST ERROR"],
        &rows,
    );
}
