//! The audit log: who did what, to what, and what came of it.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use posthaste_core::Timestamp;
use posthaste_core::port::AuditEntry;

use super::frame::{self, Section};
use crate::access::Visitor;
use crate::app::App;
use crate::page::{address, empty, moment, number, pager};
use crate::problem::Problem;
use crate::query::Parameters;
use crate::route::audit_page;

const HERE: &str = "/admin/audit";
/// What can be done, for the list to choose from.
const ACTIONS: [&str; 32] = [
    "retry",
    "retry_expired",
    "cancel",
    "discard",
    "restore",
    "erase",
    "resolve_sent",
    "resolve_retry",
    "resolve_dead",
    "operation_retry",
    "operation_discard",
    "operation_pause",
    "operation_resume",
    "operation_cancel",
    "operation_done",
    "retry_message",
    "discard_message",
    "pause_transport",
    "resume_transport",
    "suppress",
    "unsuppress",
    "save_template",
    "delete_template",
    "create_key",
    "revoke_key",
    "create_admin",
    "change_role",
    "change_password",
    "remove_admin",
    "login",
    "logout",
    "purge",
];

/// The log, as far as it is asked for.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    visitor: Visitor,
    parameters: Parameters,
) -> Result<Response, Problem> {
    visitor.sees_everything()?;
    let filter = parameters.audit_filter()?;
    let (entries, next) = audit_page(&app, filter.clone()).await?;
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let (actor, action) = (text(&filter.actor), text(&filter.action));
    let subject = text(&filter.subject);
    let link = |after: &str| {
        let parameters = [
            ("actor", actor.as_str()),
            ("action", &action),
            ("subject", &subject),
            ("after", after),
        ];
        address(HERE, &parameters)
    };
    let older = next.map(|number| link(&number.to_string()));
    let newest = filter.after.map(|_| link(""));
    let content = html! {
        h1 { "Audit log" }
        p class="faint" { "Who did what. Entries are added and never changed; they go when their retention ends." }
        form class="filters" method="get" action=(HERE) role="search" {
            label { "Who" input name="actor" value=(actor) size="18" placeholder="admin:ann"; }
            label {
                "What"
                input name="action" value=(action) size="16" list="actions" autocomplete="off";
                datalist id="actions" { @for action in ACTIONS { option value=(action); } }
            }
            label { "To what" input name="subject" value=(subject) size="36" placeholder="an id or a name"; }
            button { "Show" }
            @if filter.actor.is_some() || filter.action.is_some() || filter.subject.is_some() {
                a class="button" href=(HERE) { "Show all" }
            }
        }
        @if entries.is_empty() {
            (empty(false, "No entry is here", &html! {
                "What people do at this desk, over the API and on the command line is written down here."
            }))
        } @else {
            (table(&entries, app.operator.now()))
            (pager(newest.as_deref(), older.as_deref()))
        }
    };
    frame::show(&app, &visitor, Section::Audit, "Audit log", &content).await
}

fn table(entries: &[AuditEntry], now: Timestamp) -> Markup {
    html! {
        table class="list" {
            caption class="hidden" { "What was done, newest first" }
            thead {
                tr { @for name in ["When", "Who", "What", "To what", "Result"] { th scope="col" { (name) } } }
            }
            tbody { @for entry in entries { (row(entry, now)) } }
        }
    }
}

fn row(entry: &AuditEntry, now: Timestamp) -> Markup {
    html! {
        tr data-key=(entry.number) {
            td { (moment(entry.at, now)) }
            td data-label="Who" { a href=(address(HERE, &[("actor", &entry.actor)])) { (entry.actor) } }
            td data-label="What" { a href=(address(HERE, &[("action", &entry.action)])) { (entry.action) } }
            td data-label="To what" {
                @match place(&entry.action, &entry.subject) {
                    Some(place) => { a href=(place) { code { (entry.subject) } } }
                    None => { code { (entry.subject) } }
                }
                @if let Some(filter) = &entry.filter { div class="small faint anywhere" { (filter) } }
            }
            td data-label="Result" {
                (entry.result)
                @if let Some(count) = entry.count { " " span class="faint nowrap" { "(" (number(count)) ")" } }
            }
        }
    }
}

/// Where the subject of an action can be looked at. What it is follows from what was done.
fn place(action: &str, subject: &str) -> Option<String> {
    let folder = match action {
        "save_template" => "templates",
        "retry_message" | "discard_message" => "messages",
        "create_key" | "revoke_key" => return Some("/admin/settings#keys".to_owned()),
        "create_admin" | "change_role" => return Some("/admin/settings#admins".to_owned()),
        action if action.starts_with("operation_") => "operations",
        "pause_transport" | "resume_transport" => return Some("/admin/transports".to_owned()),
        "suppress" | "unsuppress" => return Some("/admin/suppressions".to_owned()),
        "retry" | "retry_expired" | "cancel" | "discard" | "restore" | "erase" => "emails",
        action if action.starts_with("resolve_") => "emails",
        _ => return None,
    };
    // Names and ids need no escape; whatever does is no address of ours.
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    subject
        .chars()
        .all(plain)
        .then(|| format!("/admin/{folder}/{subject}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_linked_to_what_it_is() {
        let id = "0198f7a2-7b1c-7def-8000-000000000001";
        for (action, subject, expected) in [
            ("retry", id, Some(format!("/admin/emails/{id}"))),
            ("resolve_sent", id, Some(format!("/admin/emails/{id}"))),
            (
                "operation_retry",
                id,
                Some(format!("/admin/operations/{id}")),
            ),
            ("retry_message", "m-1", Some("/admin/messages/m-1".into())),
            (
                "save_template",
                "order",
                Some("/admin/templates/order".into()),
            ),
            ("delete_template", "order", None),
            ("remove_admin", "ann", None),
            ("retry", "../login", None),
        ] {
            assert_eq!(place(action, subject), expected, "{action}");
        }
    }
}
