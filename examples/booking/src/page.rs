//! What people see: one page to book and to cancel, without scripts.

use axum::Router;
use axum::extract::{Form, Path, Query, State};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::{get, post};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde::Deserialize;

use crate::booking::{Booking, BookingRequest};
use crate::problem::Problem;
use crate::slot::Slot;
use crate::studio::Studio;

const STYLE: PreEscaped<&str> = PreEscaped(include_str!("page.css"));

/// The page, and its forms.
pub(crate) fn routes() -> Router<Studio> {
    Router::new()
        .route("/", get(show))
        .route("/book", post(book))
        .route("/bookings/{id}/cancel", post(cancel))
}

/// Why someone comes to the page.
#[derive(Deserialize)]
struct Visit {
    /// To see the booking that was just made.
    booked: Option<String>,
}

async fn show(State(studio): State<Studio>, Query(visit): Query<Visit>) -> Result<Markup, Problem> {
    let bookings = studio.bookings().await?;
    let booked = bookings
        .iter()
        .find(|booking| Some(&booking.id) == visit.booked.as_ref());
    let notice = html! {
        @if let Some(booking) = booked {
            p.notice role="status" {
                "The wheel is yours on " b { (booking.slot.in_words()) } ". A confirmation is on its way to "
                (booking.email) "."
            }
        }
    };
    let slots = studio.free_slots().await?;
    let form = form(&slots, &BookingRequest::default(), None);
    Ok(page(&notice, &form, &bookings))
}

/// Books, or shows the page again with what was filled in and what is wrong with it.
async fn book(
    State(studio): State<Studio>,
    Form(request): Form<BookingRequest>,
) -> Result<Response, Problem> {
    let problem = match studio.book(request.clone()).await {
        Ok(booking) => {
            return Ok(Redirect::to(&format!("/?booked={}", booking.id)).into_response());
        }
        Err(problem @ (Problem::Invalid(_) | Problem::Taken)) => problem,
        Err(other) => return Err(other),
    };
    let notice = html! { p.notice.bad role="alert" { "Not booked: " (problem) "." } };
    let form = form(&studio.free_slots().await?, &request, Some(&problem));
    let page = page(&notice, &form, &studio.bookings().await?);
    Ok((problem.status(), page).into_response())
}

async fn cancel(State(studio): State<Studio>, Path(id): Path<String>) -> Result<Redirect, Problem> {
    studio.cancel(id).await?;
    Ok(Redirect::to("/"))
}

fn page(notice: &Markup, form: &Markup, bookings: &[Booking]) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Clay Studio" }
                style { (STYLE) }
            }
            body {
                header {
                    h1 { "Clay Studio" }
                    p { "One wheel, one potter, an hour and a half." }
                }
                main {
                    (notice)
                    section { h2 { "Book the wheel" } (form) }
                    section { h2 { "Bookings" } (list(bookings)) }
                }
                footer {
                    "For the studio: " a href="/admin/email-queue" { "mail that is not delivered yet" }
                }
            }
        }
    }
}

fn form(slots: &[Slot], request: &BookingRequest, problem: Option<&Problem>) -> Markup {
    let wrong = |field| {
        let mut errors = problem.map_or(&[][..], Problem::errors).iter();
        let error = errors.find(|error| error.field == field);
        html! { @if let Some(error) = error { span.wrong { (field) " " (error.message) } } }
    };
    html! {
        form method="post" action="/book" {
            label {
                "Your name"
                input name="name" value=(request.name) autocomplete="name" maxlength="256" required;
                (wrong("name"))
            }
            label {
                "Your email"
                input name="email" type="email" value=(request.email) autocomplete="email" required;
                (wrong("email"))
            }
            fieldset {
                legend { "When" }
                (wrong("slot"))
                @for day in slots.chunk_by(|one, next| one.day() == next.day()) {
                    div.day {
                        span { (day[0].day()) }
                        @for slot in day { (choice(*slot, request)) }
                    }
                }
            }
            button { "Book" }
        }
    }
}

fn choice(slot: Slot, request: &BookingRequest) -> Markup {
    let is_chosen = request
        .slot
        .parse()
        .is_ok_and(|chosen: Slot| chosen == slot);
    html! {
        label.slot {
            input type="radio" name="slot" value=(slot) checked[is_chosen] required;
            span { (slot.time()) }
        }
    }
}

fn list(bookings: &[Booking]) -> Markup {
    html! {
        @if bookings.is_empty() {
            p.faint { "None yet." }
        }
        ul {
            @for booking in bookings {
                li.cancelled[booking.cancelled] {
                    div {
                        b { (booking.slot.in_words()) }
                        span.faint { (booking.name) " · " (booking.email) }
                    }
                    @if booking.cancelled {
                        span.faint { "cancelled" }
                    } @else {
                        form method="post" action={ "/bookings/" (booking.id) "/cancel" } {
                            button.quiet { "Cancel" }
                        }
                    }
                }
            }
        }
    }
}
