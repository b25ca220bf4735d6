//! What programs see: JSON.

use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Json, Router};

use crate::booking::{Booking, BookingRequest};
use crate::problem::Problem;
use crate::slot::Slot;
use crate::studio::Studio;

/// The routes below `/api`.
pub(crate) fn routes() -> Router<Studio> {
    Router::new()
        .route("/api/slots", get(slots))
        .route("/api/book", post(book))
        .route("/api/bookings", get(bookings))
        .route("/api/bookings/{id}/cancel", post(cancel))
}

async fn slots(State(studio): State<Studio>) -> Result<Json<Vec<Slot>>, Problem> {
    Ok(Json(studio.free_slots().await?))
}

async fn book(
    State(studio): State<Studio>,
    request: Result<Json<BookingRequest>, JsonRejection>,
) -> Result<Json<Booking>, Problem> {
    let Json(request) = request?;
    Ok(Json(studio.book(request).await?))
}

async fn bookings(State(studio): State<Studio>) -> Result<Json<Vec<Booking>>, Problem> {
    Ok(Json(studio.bookings().await?))
}

async fn cancel(
    State(studio): State<Studio>,
    Path(id): Path<String>,
) -> Result<Json<Booking>, Problem> {
    Ok(Json(studio.cancel(id).await?))
}
