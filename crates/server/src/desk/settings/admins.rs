//! People who may log in.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::Response;
use maud::{Markup, html};
use posthaste_core::Timestamp;
use posthaste_core::admin::{Admin, LastOperator, Role};
use posthaste_engine::admin::{AdminError, SHORTEST_PASSWORD, folded};

use super::{HERE, Part, Said, asked, refused};
use crate::access::{Submitted, Visitor};
use crate::app::App;
use crate::desk::frame::done;
use crate::page::{moment, pill};
use crate::problem::{Kind, Problem};

/// Makes an admin.
pub(in crate::desk) async fn create(
    State(app): State<Arc<App>>,
    Submitted { visitor, fields }: Submitted,
) -> Result<Response, Problem> {
    let name = fields.text("name");
    let role = match role_of(fields.text("role")) {
        Ok(role) => role,
        Err(message) => return refused(&app, &visitor, Part::Admins, message).await,
    };
    let password = fields.text("password");
    let actor = visitor.caller.actor();
    let created = app.admins.create(name, role, password, &actor).await;
    let said = created.map(|admin| format!("{} can log in now.", admin.name));
    answer(&app, &visitor, said).await
}

/// Gives an admin another role.
pub(in crate::desk) async fn change_role(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    Submitted { visitor, fields }: Submitted,
) -> Result<Response, Problem> {
    let role = match role_of(fields.text("role")) {
        Ok(role) => role,
        Err(message) => return refused(&app, &visitor, Part::Admins, message).await,
    };
    if is_self(&visitor, &name) {
        let message = "You cannot change your own role: ask another operator, or use `posthaste admin role` on the server.";
        return refused(&app, &visitor, Part::Admins, message.to_owned()).await;
    }
    let actor = visitor.caller.actor();
    let last = LastOperator::Stays;
    let changed = app.admins.change_role(&name, role, last, &actor).await;
    answer(
        &app,
        &visitor,
        changed.map(|()| format!("{name} is {role} now.")),
    )
    .await
}

/// Gives an admin another password.
pub(in crate::desk) async fn change_password(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    Submitted { visitor, fields }: Submitted,
) -> Result<Response, Problem> {
    let actor = visitor.caller.actor();
    let password = fields.text("password");
    let changed = app.admins.change_password(&name, password, &actor).await;
    let said = changed.map(|()| format!("{name} has a new password and must log in again."));
    answer(&app, &visitor, said).await
}

/// Removes an admin.
pub(in crate::desk) async fn remove(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    Submitted { visitor, .. }: Submitted,
) -> Result<Response, Problem> {
    if is_self(&visitor, &name) {
        let message = "You cannot remove yourself: ask another operator, or use `posthaste admin remove` on the server.";
        return refused(&app, &visitor, Part::Admins, message.to_owned()).await;
    }
    let actor = visitor.caller.actor();
    let last = LastOperator::Stays;
    let removed = app.admins.remove(&name, last, &actor).await;
    let said = removed.map(|()| format!("{name} is removed and logged out."));
    answer(&app, &visitor, said).await
}

fn role_of(text: &str) -> Result<Role, String> {
    text.parse()
        .map_err(|error| format!("The role {error}. Choose viewer or operator."))
}

/// Nobody shuts themselves out by a slip.
fn is_self(visitor: &Visitor, name: &str) -> bool {
    visitor.caller.name == format!("admin:{}", folded(name))
}

async fn answer(
    app: &Arc<App>,
    visitor: &Visitor,
    said: Result<String, AdminError>,
) -> Result<Response, Problem> {
    match said {
        Ok(notice) => Ok(done(HERE, &notice)),
        Err(AdminError::Store(error)) => Err(error.into()),
        Err(error @ AdminError::NotFound(_)) => Err(Problem::new(
            Kind::NotFound,
            format!("It was not done: {error}."),
        )),
        Err(error @ AdminError::LastOperator(_)) => {
            let message =
                format!("Nothing was changed: {error}, or use `posthaste admin` on the server.");
            refused(app, visitor, Part::Admins, message).await
        }
        Err(error) => {
            let message = format!("Nothing was changed: {error}.");
            refused(app, visitor, Part::Admins, message).await
        }
    }
}

/// The list, and the forms of those who may act.
pub(super) fn part(visitor: &Visitor, admins: &[Admin], said: &Said, now: Timestamp) -> Markup {
    html! {
        section id="admins" {
            h2 { "Admins" }
            p class="faint" { "People who may log in: viewers see everything, operators do everything." }
            (said.refusal(Part::Admins))
            @if admins.is_empty() {
                p class="warning" {
                    "Nobody can log in yet. As long as there is no key either, only this machine is answered, without a \
                     login; from the first admin on, this desk needs one."
                }
            } @else {
                table class="list" {
                    caption class="hidden" { "Admins" }
                    thead { tr { @for name in ["Name", "Role", "Since", ""] { th scope="col" { (name) } } } }
                    tbody { @for admin in admins { (row(visitor, admin, now)) } }
                }
            }
            @if visitor.may_act() { (form(visitor)) }
        }
    }
}

fn row(visitor: &Visitor, admin: &Admin, now: Timestamp) -> Markup {
    let base = format!("{HERE}/admins/{}", admin.name);
    let (tone, sign) = match admin.role {
        Role::Viewer => ("quiet", "○"),
        Role::Operator => ("calm", "●"),
    };
    let other = match admin.role {
        Role::Viewer => Role::Operator,
        Role::Operator => Role::Viewer,
    };
    let is_self = is_self(visitor, &admin.name);
    html! {
        tr data-key=(admin.name) {
            td class="subject" { (admin.name) @if is_self { " " span class="faint" { "(you)" } } }
            td class="nowrap" { (pill(tone, sign, admin.role.as_str())) }
            td data-label="Since" { (moment(admin.created_at, now)) }
            td class="actions" {
                @if visitor.may_act() {
                    @if !is_self {
                        form method="post" action={ (base) "/role" } {
                            (visitor.csrf_field())
                            input type="hidden" name="role" value=(other);
                            button { "Make " (other) }
                        }
                    }
                    (new_password(visitor, &base, &admin.name))
                    @if !is_self {
                        (asked(visitor, &format!("{base}/remove"), "Remove",
                            &format!("{} is logged out at once and cannot log in any more.", admin.name)))
                    }
                }
            }
        }
    }
}

fn new_password(visitor: &Visitor, base: &str, name: &str) -> Markup {
    html! {
        details class="ask" {
            summary class="button" { "New password…" }
            form method="post" action={ (base) "/password" } {
                (visitor.csrf_field())
                label class="field" {
                    "New password for " (name)
                    input type="password" name="password" required minlength=(SHORTEST_PASSWORD)
                        maxlength="1000" autocomplete="new-password";
                    span class="hint" { "All sessions of " (name) " end." }
                }
                button { "Change" }
            }
        }
    }
}

fn form(visitor: &Visitor) -> Markup {
    html! {
        details class="panel" {
            summary { "Add an admin" }
            form method="post" action={ (HERE) "/admins" } class="narrow" {
                (visitor.csrf_field())
                label class="field" {
                    "Name"
                    input name="name" required maxlength="100" autocomplete="off" autocapitalize="none" spellcheck="false";
                    span class="hint" { "Letters, digits and . _ - + @; an email address will do." }
                }
                label class="field" {
                    "Role"
                    select name="role" {
                        option value="viewer" { "viewer: sees everything, changes nothing" }
                        option value="operator" { "operator: sees and does everything" }
                    }
                }
                label class="field" {
                    "Password"
                    input type="password" name="password" required minlength=(SHORTEST_PASSWORD)
                        maxlength="1000" autocomplete="new-password";
                    span class="hint" { "At least " (SHORTEST_PASSWORD) " characters. Hand it over safely." }
                }
                button class="first" { "Add" }
            }
        }
    }
}
