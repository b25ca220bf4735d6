//! Emails as people and programs see them on the terminal.

use posthaste_core::email::EmailRecord;
use posthaste_engine::Operator;
use posthaste_server::EmailDetail;

use crate::output;

/// The same JSON as the API gives.
pub(crate) fn json(operator: &Operator, email: &EmailRecord) -> EmailDetail {
    EmailDetail::of(email.clone(), operator)
}

/// The same, as an entry of a list: those have no attempts.
pub(crate) fn entry(operator: &Operator, email: &EmailRecord) -> serde_json::Value {
    let mut entry = serde_json::to_value(json(operator, email)).unwrap_or_default();
    if let Some(fields) = entry.as_object_mut() {
        fields.remove("attempts");
    }
    entry
}

fn status_text(operator: &Operator, email: &EmailRecord) -> String {
    email.status_text(operator.max_attempts(email), operator.now())
}

/// A list of emails.
pub(crate) fn table(operator: &Operator, emails: &[EmailRecord]) {
    let rows: Vec<_> = emails
        .iter()
        .map(|email| {
            vec![
                email.id.to_string(),
                format!("{:.0}", email.created_at),
                status_text(operator, email),
                output::short(&email.summary.to.join(", "), 32),
                output::short(&email.summary.subject, 40),
                output::short(email.state.last_error.as_deref().unwrap_or(""), 48),
            ]
        })
        .collect();
    output::table(
        &["ID", "ACCEPTED", "STATUS", "TO", "SUBJECT", "LAST ERROR"],
        &rows,
    );
}

/// One email with its attempts.
pub(crate) fn show(operator: &Operator, email: &EmailRecord) {
    let state = &email.state;
    let field = |name: &str, value: &str| {
        if !value.is_empty() {
            output::line(&format!("{name:<14}{}", output::short(value, 400)));
        }
    };
    let time =
        |at: Option<posthaste_core::Timestamp>| at.map_or(String::new(), |at| format!("{at:.3}"));
    field("Id", &email.id.to_string());
    field(
        "Status",
        &format!("{} ({})", status_text(operator, email), state.status),
    );
    field("Key", &email.message_key);
    field("From", &email.summary.from);
    field("To", &email.summary.to.join(", "));
    field("Subject", &email.summary.subject);
    field("Accepted", &time(Some(email.created_at)));
    field("Next attempt", &time(state.next_attempt_at));
    field("Sent", &time(state.sent_at));
    field(
        "Dead because",
        state.dead_reason.map_or("", |reason| reason.as_str()),
    );
    field("Last error", state.last_error.as_deref().unwrap_or(""));
    if state.possible_duplicate {
        field(
            "Note",
            "a second copy may have left: an attempt's fate was unknown",
        );
    }
    if email.recipients.len() > 1 {
        for recipient in &email.recipients {
            let detail = recipient.detail.as_deref().unwrap_or("");
            field(
                "Recipient",
                &format!("{} {} {detail}", recipient.address, recipient.status),
            );
        }
    }
    if email.attempts.is_empty() {
        return;
    }
    output::line("");
    let rows: Vec<_> = email
        .attempts
        .iter()
        .map(|attempt| {
            let took = attempt
                .finished_at
                .duration_since(attempt.started_at)
                .as_millis();
            vec![
                attempt.number.to_string(),
                format!("{:.3}", attempt.started_at),
                format!("{took} ms"),
                attempt.outcome.to_string(),
                attempt.error_class.clone().unwrap_or_default(),
                output::short(
                    attempt
                        .error
                        .as_deref()
                        .or(attempt.reply.as_deref())
                        .unwrap_or(""),
                    60,
                ),
            ]
        })
        .collect();
    output::table(
        &["#", "STARTED", "TOOK", "OUTCOME", "CLASS", "ANSWER"],
        &rows,
    );
}
