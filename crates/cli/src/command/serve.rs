//! Runs the server.

use std::net::SocketAddr;

use posthaste_engine::Roles;
use tokio::signal::unix::{SignalKind, signal};

use crate::arguments::{Global, Role, ServeArguments};
use crate::config::{CAPTURE, Database, SMTP, Settings, without_password};
use crate::exit::{Exit, UsageError};
use crate::serving::Serving;
use crate::{logging, output, wiring};

pub(crate) async fn run(global: &Global, arguments: ServeArguments) -> anyhow::Result<Exit> {
    let loaded = wiring::load_config(global, arguments.listen)?;
    let settings = &loaded.settings;
    logging::start(settings)?;
    let roles = roles_of(&arguments.roles);
    if arguments.roles.contains(&Role::Messages) && settings.broker.url.is_empty() {
        let message = "the role `messages` needs RabbitMQ: set RABBITMQ_URL";
        return Err(UsageError(message.to_owned()).into());
    }
    let database = settings.database()?;
    let ended = ended_by_signal();
    let serving = Serving::start(&loaded, roles).await?;
    welcome(settings, &database, roles, serving.address, serving.guarded);
    ended.await;
    serving.stop().await
}

fn roles_of(chosen: &[Role]) -> Roles {
    if chosen.is_empty() {
        return Roles::ALL;
    }
    Roles {
        api: chosen.contains(&Role::Api),
        sender: chosen.contains(&Role::Sender),
        scheduler: chosen.contains(&Role::Scheduler),
        messages: chosen.contains(&Role::Messages),
    }
}

/// Resolves at SIGTERM or Ctrl-C. The handlers are set at once, not at the first poll.
pub(crate) fn ended_by_signal() -> impl Future<Output = ()> {
    let terminate = signal(SignalKind::terminate());
    let interrupt = signal(SignalKind::interrupt());
    async move {
        match (terminate, interrupt) {
            (Ok(mut terminate), Ok(mut interrupt)) => {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
            }
            // Without handlers the signals end the process as usual.
            _ => std::future::pending().await,
        }
    }
}

fn welcome(
    settings: &Settings,
    database: &Database,
    roles: Roles,
    address: SocketAddr,
    guarded: bool,
) {
    let url = format!("http://{address}");
    if !roles.api {
        output::announce(&format!(
            "Posthaste {version} is ready.

  Health     {url}/readyz
  Database   {database}
",
            version = env!("CARGO_PKG_VERSION"),
        ));
        return;
    }
    let mail = match &settings.transport_names()[..] {
        [only] if only == CAPTURE => {
            "to the dev inbox; set SMTP_URL to send it for real".to_owned()
        }
        [only] if only == SMTP => format!("to {}", without_password(&settings.smtp.url)),
        names => format!("by {}", names.join(", ")),
    };
    let key = if guarded {
        " -H \"Authorization: Bearer $KEY\""
    } else {
        ""
    };
    output::announce(&format!(
        "Posthaste {version} is ready.

  Dashboard  {url}/admin
  API        {url}/docs
  Mail goes  {mail}
  Database   {database}

Try it:

  curl {url}/v1/emails{key} -H 'Content-Type: application/json' \\
    -d '{{\"from\":\"app@example.org\",\"to\":\"you@example.org\",\"subject\":\"Hello\",\"text\":\"It works.\"}}'
",
        version = env!("CARGO_PKG_VERSION"),
    ));
}
