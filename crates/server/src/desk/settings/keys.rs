//! API keys: made with a secret that is shown once, and revoked.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::Response;
use maud::{Markup, html};
use posthaste_core::Timestamp;
use posthaste_core::port::ApiKey;
use posthaste_engine::access::{DEFAULT_OWNER, KeyError, NewKey, SCOPES};

use super::{HERE, Part, Said, asked, page, refused};
use crate::access::{Submitted, Visitor};
use crate::app::App;
use crate::desk::frame::done;
use crate::page::{moment, pill};
use crate::problem::{Kind, Problem};

/// Makes a key and shows its secret, here and never again.
pub(in crate::desk) async fn create(
    State(app): State<Arc<App>>,
    Submitted { visitor, fields }: Submitted,
) -> Result<Response, Problem> {
    let Some(name) = fields.get("name") else {
        let message = "Nothing was made: say what the key is for.".to_owned();
        return refused(&app, &visitor, Part::Keys, message).await;
    };
    let from = fields.text("from").split([',', ' ', '\n', '\r']);
    let new = NewKey {
        name: name.to_owned(),
        owner: fields.get("owner").unwrap_or(DEFAULT_OWNER).to_owned(),
        scopes: fields.all("scope").map(str::to_owned).collect(),
        from_addresses: from
            .filter(|address| !address.is_empty())
            .map(str::to_owned)
            .collect(),
    };
    match app.access.create(new, &visitor.caller.actor()).await {
        // Answered with the page itself: the secret must not travel in an address or a cookie.
        Ok((key, secret)) => {
            let said = Said::Made {
                key: key.id,
                secret,
            };
            page(&app, &visitor, &said).await
        }
        Err(KeyError::Store(error)) => Err(error.into()),
        Err(error) => {
            let message = format!("Nothing was made: {error}.");
            refused(&app, &visitor, Part::Keys, message).await
        }
    }
}

/// Revokes a key.
pub(in crate::desk) async fn revoke(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Submitted { visitor, .. }: Submitted,
) -> Result<Response, Problem> {
    if app.access.revoke(&id, &visitor.caller.actor()).await? {
        Ok(done(HERE, &format!("Key {id} is revoked.")))
    } else {
        Err(Problem::new(
            Kind::NotFound,
            format!("There is no key {id}."),
        ))
    }
}

/// The list, and the forms of those who may act.
pub(super) fn part(visitor: &Visitor, keys: &[ApiKey], said: &Said, now: Timestamp) -> Markup {
    html! {
        section id="keys" {
            h2 { "API keys" }
            p class="faint" { "What programs send as " code { "Authorization: Bearer …" } "." }
            (said.refusal(Part::Keys))
            @if let Said::Made { key, secret } = said {
                div class="notice" role="status" {
                    p { "This is the secret of key " (key) ". It is shown only now: copy it and keep it safe." }
                    pre { code id="secret" { (secret) } }
                }
            }
            @if keys.is_empty() {
                p class="faint" { "There is no key yet." }
            } @else {
                table class="list" {
                    caption class="hidden" { "API keys, oldest first" }
                    thead {
                        tr {
                            @for name in ["Key", "For", "Owner", "May", "State", "Made", ""] { th scope="col" { (name) } }
                        }
                    }
                    tbody { @for key in keys { (row(visitor, key, now)) } }
                }
            }
            @if visitor.may_act() { (form(visitor)) }
        }
    }
}

fn row(visitor: &Visitor, key: &ApiKey, now: Timestamp) -> Markup {
    html! {
        tr data-key=(key.id) {
            td class="subject nowrap" { code { (key.id) } }
            td data-label="For" { (key.name) }
            td data-label="Owner" { (key.owner) }
            td data-label="May" {
                (key.scopes.join(", "))
                @if !key.from_addresses.is_empty() {
                    div class="small faint anywhere" { "From " (key.from_addresses.join(", ")) }
                }
            }
            td class="nowrap" {
                @match key.revoked_at {
                    Some(at) => { (pill("quiet", "–", "revoked")) " " (moment(at, now)) }
                    None => { (pill("good", "✓", "active")) }
                }
            }
            td data-label="Made" { (moment(key.created_at, now)) }
            td class="actions" {
                @if visitor.may_act() && key.revoked_at.is_none() {
                    (asked(visitor, &format!("{HERE}/keys/{}/revoke", key.id), "Revoke",
                        "Programs that use it are refused from now on. This cannot be taken back."))
                }
            }
        }
    }
}

/// What each scope allows, and whether most keys need it.
const fn meaning(scope: &str) -> (&'static str, bool) {
    match scope.as_bytes() {
        b"send" => ("send emails, and withdraw them", true),
        b"read" => ("see emails of its owner", true),
        _ => ("everything, for all owners", false),
    }
}

fn form(visitor: &Visitor) -> Markup {
    html! {
        details class="panel" {
            summary { "Make a key" }
            form method="post" action={ (HERE) "/keys" } class="narrow" {
                (visitor.csrf_field())
                label class="field" { "What it is for" input name="name" required maxlength="100" autocomplete="off"; }
                label class="field" {
                    "Owner"
                    input name="owner" value=(DEFAULT_OWNER) maxlength="100" autocomplete="off";
                    span class="hint" { "One owner's keys never see another's emails." }
                }
                fieldset class="field" {
                    legend { "It may" }
                    @for scope in SCOPES {
                        @let (words, usual) = meaning(scope);
                        label { input type="checkbox" name="scope" value=(scope) checked[usual]; " " (scope) ": " (words) }
                    }
                }
                label class="field" {
                    "From addresses it may use"
                    input name="from" autocomplete="off" placeholder="all";
                    span class="hint" { "Separated by commas; all if left empty." }
                }
                button class="first" { "Make" }
            }
        }
    }
}
