//! JSON in and out, strictly.
//!
//! What comes in is read once, straight from the body into the types of `body/`. Only if that
//! fails it is read again: by a parser that has the last word, and with a record of the path, to say
//! where and why. Duplicate keys,
//! unknown fields, lone surrogates and bottomless nesting are refused.

mod arrival;
mod explanation;
mod quick;
mod shape;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Serialize;
use serde::de::{Deserialize, DeserializeOwned};
use tokio::sync::OwnedSemaphorePermit;

pub(crate) use self::shape::{Addresses, List, Object, StrictMap, Variables};
use crate::app::App;
use crate::problem::Problem;

/// The largest body that only says how something is to be done.
const LARGEST_OPTIONS: usize = 64 * 1024;
/// The largest body of which nothing is known.
const LARGEST_RAW: usize = 1024 * 1024;

/// A JSON body, not yet parsed: how it is parsed is up to the handler, which may borrow from it.
pub(crate) struct JsonBytes {
    /// The headers that came with it.
    pub(crate) headers: HeaderMap,
    bytes: Bytes,
    /// Given back when the body was worked on.
    _room: Option<OwnedSemaphorePermit>,
}

impl JsonBytes {
    /// Parses the whole body.
    pub(crate) fn parse<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Problem> {
        parse(&self.bytes)
    }
}

/// A JSON body that may be left out.
pub(crate) struct MaybeJson(Bytes);

impl MaybeJson {
    /// Parses the whole body; what stands for no body if there is none, or only `null`.
    pub(crate) fn parse<T: DeserializeOwned + Default>(&self) -> Result<T, Problem> {
        if self.0.is_empty() {
            return Ok(T::default());
        }
        let value: Option<Object<T>> = parse(&self.0)?;
        Ok(value.map_or_else(T::default, |Object(value)| value))
    }
}

impl FromRequest<Arc<App>> for MaybeJson {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let (bytes, _) = arrival::read(&parts.headers, body, app, LARGEST_OPTIONS).await?;
        if !bytes.is_empty() {
            arrival::check_media_type(&parts.headers)?;
        }
        Ok(Self(bytes))
    }
}

/// A body as it came, whatever it is.
pub(crate) struct RawBytes {
    /// The headers that came with it.
    pub(crate) headers: HeaderMap,
    /// The body.
    pub(crate) bytes: Bytes,
    /// Given back when the body was worked on.
    _room: Option<OwnedSemaphorePermit>,
}

impl FromRequest<Arc<App>> for RawBytes {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let headers = parts.headers;
        let (bytes, room) = arrival::read(&headers, body, app, LARGEST_RAW).await?;
        Ok(Self {
            headers,
            bytes,
            _room: room,
        })
    }
}

/// Parses JSON text, or says where and why it is not what it should be.
pub(crate) fn parse<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, Problem> {
    if let Some(value) = quick::read(bytes) {
        return Ok(value);
    }
    serde_json::from_slice(bytes).map_err(|error| explanation::explain::<T>(bytes, &error))
}

impl FromRequest<Arc<App>> for JsonBytes {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let headers = parts.headers;
        arrival::check_media_type(&headers)?;
        let (bytes, room) = arrival::read(&headers, body, app, app.limits.body_bytes).await?;
        Ok(Self {
            headers,
            bytes,
            _room: room,
        })
    }
}

/// An answer in JSON.
pub(crate) struct Json<T>(pub(crate) StatusCode, pub(crate) T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        let Self(status, value) = self;
        let Ok(body) = serde_json::to_vec(&value) else {
            return Problem::internal().into_response();
        };
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        response
    }
}

/// A 200 in JSON.
pub(crate) fn ok<T: Serialize>(value: T) -> Json<T> {
    Json(StatusCode::OK, value)
}
