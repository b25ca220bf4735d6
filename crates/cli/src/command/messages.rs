//! See and treat failed messages of other services.

use posthaste_core::Timestamp;
use posthaste_core::message::{MessageAction, MessageId, MessageRecord, MessageStatus};
use posthaste_core::port::{MessageActed, MessageFilter};
use posthaste_server::{MessageBody, MessageDetail};

use crate::arguments::{Global, MessagesCommand};
use crate::exit::Exit;
use crate::output;
use crate::wiring::{self, Desk};

/// How many messages are treated in one transaction.
const CHUNK: usize = 500;
/// The longest payload that is shown on the terminal.
const LONGEST_SHOWN_BYTES: u64 = 4096;

pub(crate) async fn run(global: &Global, command: MessagesCommand) -> anyhow::Result<Exit> {
    let desk = wiring::open_desk(global).await?;
    match command {
        MessagesCommand::List {
            status,
            queue,
            limit,
            after,
        } => {
            let filter = MessageFilter {
                statuses: status,
                queue,
                limit,
                after,
            };
            list(global, &desk, filter).await
        }
        MessagesCommand::Show { id } => show(global, &desk, id).await,
        MessagesCommand::Retry { ids } => act(global, &desk, ids, MessageAction::Retry).await,
        MessagesCommand::Discard { ids } => act(global, &desk, ids, MessageAction::Discard).await,
    }
}

async fn list(global: &Global, desk: &Desk, filter: MessageFilter) -> anyhow::Result<Exit> {
    let page = desk.messages.list(filter).await?;
    let now = desk.messages.now();
    if global.json {
        for message in page.messages {
            output::json(&MessageBody::of(message, now));
        }
    } else {
        table(&page.messages, now);
    }
    if let Some(next) = page.next {
        output::error(&format!("There are more: --after {next}"));
    }
    Ok(Exit::Ok)
}

fn table(messages: &[MessageRecord], now: Timestamp) {
    let rows: Vec<_> = messages
        .iter()
        .map(|message| {
            vec![
                message.id.to_string(),
                format!("{:.0}", message.created_at),
                message.status_text(now),
                output::short(&message.original_queue, 32),
                output::short(&message.error_reason, 40),
                output::short(message.state.last_error.as_deref().unwrap_or(""), 48),
            ]
        })
        .collect();
    output::table(
        &["ID", "HANDED IN", "STATUS", "QUEUE", "REASON", "LAST ERROR"],
        &rows,
    );
}

async fn show(global: &Global, desk: &Desk, id: MessageId) -> anyhow::Result<Exit> {
    let Some(message) = desk.messages.find(id).await? else {
        output::error(&format!("There is no message {id}."));
        return Ok(Exit::NotFound);
    };
    let now = desk.messages.now();
    if global.json {
        output::json(&MessageDetail::of(message, now));
    } else {
        show_state(&message, now);
        show_content(message, now);
    }
    Ok(Exit::Ok)
}

/// A line with a name; none without a value.
fn field(name: &str, value: &str) {
    if !value.is_empty() {
        output::line(&format!("{name:<18}{}", output::short(value, 400)));
    }
}

fn show_state(message: &MessageRecord, now: Timestamp) {
    let state = &message.state;
    let time = |at: Option<Timestamp>| at.map_or(String::new(), |at| format!("{at:.3}"));
    let next = (state.status == MessageStatus::Pending).then_some(state.next_retry_at);
    field("Id", &message.id.to_string());
    field(
        "Status",
        &format!("{} ({})", message.status_text(now), state.status),
    );
    field("Queue", &message.original_queue);
    field("Failed because", &message.error_reason);
    field(
        "Retries",
        &format!("{} of {}", state.retry_count, state.max_retries),
    );
    field("Handed in", &time(Some(message.created_at)));
    field("Next retry", &time(next));
    field("Finished", &time(state.finished_at));
    field("Last error", state.last_error.as_deref().unwrap_or(""));
    let count = |n: u32| if n > 0 { n.to_string() } else { String::new() };
    field("Publish failures", &count(state.publish_failures));
    field("Possible repeats", &count(state.repeats));
}

fn show_content(message: MessageRecord, now: Timestamp) {
    let properties = &message.properties;
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let priority = properties.priority.map_or(String::new(), |n| n.to_string());
    field("Content type", &text(&properties.content_type));
    field("Encoding", &text(&properties.content_encoding));
    field("Correlation id", &text(&properties.correlation_id));
    field("Reply to", &text(&properties.reply_to));
    field("Type", &text(&properties.kind));
    field("Priority", &priority);
    let size = message.payload_bytes;
    let detail = MessageDetail::of(message, now);
    for (name, value) in detail.headers() {
        let value = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        field("Header", &format!("{name}: {value}"));
    }
    let shown = detail
        .payload_text()
        .filter(|_| size <= LONGEST_SHOWN_BYTES);
    let note = if shown.is_some() {
        ""
    } else {
        " (not shown; --json has it)"
    };
    field("Payload", &format!("{size} bytes{note}"));
    if let Some(text) = shown.filter(|text| !text.is_empty()) {
        output::line("");
        for line in text.lines() {
            output::line(&output::short(line, usize::MAX));
        }
    }
}

/// Acts on messages and tells what came of each.
async fn act(
    global: &Global,
    desk: &Desk,
    ids: Vec<MessageId>,
    action: MessageAction,
) -> anyhow::Result<Exit> {
    let mut refused = 0;
    let mut missing = 0;
    for some in ids.chunks(CHUNK) {
        let acted = desk
            .messages
            .act_on(some.to_vec(), action, &desk.actor)
            .await?;
        for (id, acted) in some.iter().zip(&acted) {
            tell(global, *id, action, acted);
            refused += usize::from(matches!(acted, MessageActed::Refused(..)));
            missing += usize::from(*acted == MessageActed::NotFound);
        }
    }
    Ok(Exit::of_action(ids.len(), refused, missing))
}

fn tell(global: &Global, id: MessageId, action: MessageAction, acted: &MessageActed) {
    let (result, text) = match acted {
        MessageActed::Done(status) => ("done", format!("is {status} now")),
        MessageActed::Unchanged(status) => ("unchanged", format!("was {status} already")),
        MessageActed::Refused(refusal, _) => ("refused", format!("is left as it is: {refusal}")),
        MessageActed::NotFound => ("not_found", "is not there".to_owned()),
    };
    if global.json {
        output::json(&serde_json::json!({"id": id, "action": action.name(), "result": result}));
    } else {
        output::line(&format!("{id} {text}"));
    }
}
