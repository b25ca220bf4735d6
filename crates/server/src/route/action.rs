//! Acting on one email, and saying what to do when that is refused.

use posthaste_core::email::EmailId;
use posthaste_core::port::{Acted, Action};
use posthaste_core::status::Status;
use posthaste_engine::Caller;

use crate::app::App;
use crate::body::ActedBody;
use crate::json::{self, Json};
use crate::problem::{Kind, Problem};

/// Acts on one email for this caller.
pub(crate) async fn act(
    app: &App,
    caller: &Caller,
    id: EmailId,
    action: Action,
) -> Result<Json<ActedBody>, Problem> {
    let acted = |status: Status, changed| json::ok(ActedBody::new(id.0, status.as_str(), changed));
    match app.operator.act(id, action, &caller.actor()).await? {
        Acted::Done(status) => Ok(acted(status, true)),
        Acted::Unchanged(status) => Ok(acted(status, false)),
        Acted::Refused(_, status) => {
            let advice = advice(action, status, app.serves_api);
            Err(Problem::new(Kind::Conflict, advice))
        }
        Acted::Erased => Err(Problem::new(
            Kind::Gone,
            "The content of this email was erased, so it cannot be sent again. Hand in a new email.",
        )),
        Acted::Expired => Err(expired(action, app.serves_api)),
        Acted::NotFound => Err(Problem::no_such_email()),
    }
}

/// It is too late for it; how to send it all the same.
fn expired(action: Action, has_api: bool) -> Problem {
    let late = "This email has expired: it was not to be sent after its `expires_at`.";
    if matches!(action, Action::Resolve(_)) {
        let advice = format!("{late} Resolve it as dead; what is dead can be sent all the same.");
        return Problem::new(Kind::Conflict, advice);
    }
    if !has_api {
        let advice = format!("{late} To send it all the same, tick `even if expired` on its page.");
        return Problem::new(Kind::Conflict, advice);
    }
    let advice = format!(
        "{late} To send it all the same, POST /v1/emails/{{id}}/retry with \
         {{\"even_if_expired\": true}}, or tick `even if expired` on its page."
    );
    Problem::new(Kind::Conflict, advice).with_field(
        "even_if_expired",
        "must be true for an email that has expired",
    )
}

/// Why the state does not allow it, and what to do instead: by which call, if there is an API.
fn advice(action: Action, status: Status, has_api: bool) -> String {
    let (advice, call) = match (action, status) {
        (Action::Cancel, Status::Sending) => (
            "It is being sent right now. If this attempt fails, it can be cancelled before the next",
            None,
        ),
        (Action::Cancel, Status::Unknown) => (
            "It may have been sent. Settle it",
            Some("POST /v1/emails/{id}/resolve"),
        ),
        (Action::Cancel, Status::Dead) => (
            "It was given up already. Discard it",
            Some("POST /v1/dead-letters/{id}/discard"),
        ),
        (Action::Retry | Action::RetryExpired, Status::Discarded) => (
            "Restore it first",
            Some("POST /v1/dead-letters/{id}/restore"),
        ),
        (Action::Retry | Action::RetryExpired, Status::Sent | Status::Cancelled) => (
            "To send it again, hand in a new email with a new message_key",
            None,
        ),
        (Action::Resolve(_), _) => ("Only an email that is `unknown` needs to be resolved", None),
        (Action::Discard, Status::Unknown) => (
            "Resolve it as dead first",
            Some("POST /v1/emails/{id}/resolve"),
        ),
        (Action::Discard, Status::Pending | Status::Failed | Status::RetryQueued) => (
            "Only dead emails are discarded. Withdraw this one",
            Some("POST /v1/emails/{id}/cancel"),
        ),
        (Action::Discard, _) => ("Only dead emails are discarded", None),
        (Action::Restore, _) => ("Only discarded emails are restored", None),
        (Action::Erase, Status::Unknown) => (
            "Its fate is not known yet. Settle it first",
            Some("POST /v1/emails/{id}/resolve"),
        ),
        (Action::Erase, _) => (
            "It can still be sent. Wait until it is over, or cancel it",
            Some("POST /v1/emails/{id}/cancel"),
        ),
        _ => ("There is nothing left to do about it", None),
    };
    match call.filter(|_| has_api) {
        Some(call) => format!("The email is `{status}`. {advice}: {call}."),
        None => format!("The email is `{status}`. {advice}."),
    }
}
