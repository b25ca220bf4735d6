//! Hands in an email. A server that runs beside this sends it; without one it waits.

use std::io::Read as _;
use std::path::Path;

use anyhow::Context as _;
use base64::Engine as _;
use posthaste_engine::intake::{
    AttachmentRequest, EmailRequest, PolicyRequest, Refused, Submitter, Taken,
};
use serde_json::json;

use super::templates;
use crate::arguments::{Global, SendArguments};
use crate::exit::{Exit, UsageError};
use crate::{output, wiring};

pub(crate) async fn run(global: &Global, arguments: SendArguments) -> anyhow::Result<Exit> {
    let owner = arguments.owner.clone();
    let request = request_of(arguments)?;
    let desk = wiring::open_or_create_desk(global).await?;
    let submitter = Submitter {
        owner,
        from_addresses: Vec::new(),
    };
    let taken = desk.intake.take(&submitter, vec![request]).await.pop();
    let (id, status, repeated) = match taken.context("the email was not taken")? {
        Ok(Taken::Accepted { id, .. }) => (id, "pending", false),
        Ok(Taken::Replayed { id, status, .. }) => (id, status.as_str(), true),
        Err(Refused::Invalid(errors)) => {
            return Err(UsageError(templates::in_lines(&errors)).into());
        }
        Err(Refused::Store(error)) => return Err(error.into()),
        Err(refused) => return Err(UsageError(refused.to_string()).into()),
    };
    if global.json {
        output::json(&json!({"id": id, "status": status, "replayed": repeated}));
    } else {
        output::line(&id.to_string());
        let news = if repeated {
            "was accepted before and is"
        } else {
            "is safe and"
        };
        output::error(&format!(
            "The email {news} {status}. `posthaste emails show {id}` follows it."
        ));
    }
    Ok(Exit::Ok)
}

fn request_of(arguments: SendArguments) -> anyhow::Result<EmailRequest> {
    let text = match arguments.text.as_deref() {
        Some("-") => {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .context("cannot read the text from standard input")?;
            Some(text)
        }
        _ => arguments.text,
    };
    let attachments = arguments
        .attach
        .iter()
        .map(|path| attachment_of(path))
        .collect::<anyhow::Result<_>>()?;
    let variables = templates::given(&arguments.variables)?;
    Ok(EmailRequest {
        message_key: arguments.key,
        from: arguments.from,
        to: arguments.to,
        cc: arguments.cc,
        bcc: arguments.bcc,
        subject: arguments.subject,
        text,
        html: arguments.html,
        template: arguments.template,
        variables: variables.into_iter().collect(),
        attachments,
        send_at: arguments.send_at,
        expire_after: arguments.expire_after,
        route: arguments.route,
        retry_policy: arguments.policy.map(PolicyRequest::Named),
        priority: arguments.priority,
        ..EmailRequest::default()
    })
}

fn attachment_of(path: &Path) -> anyhow::Result<AttachmentRequest> {
    let content = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(AttachmentRequest {
        filename: path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
        content: base64::engine::general_purpose::STANDARD.encode(content),
        ..AttachmentRequest::default()
    })
}
