//! How a body comes in: what kind it may be, how large, how slow.

use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use tokio::sync::OwnedSemaphorePermit;

use crate::app::App;
use crate::problem::{Kind, Problem};

/// Bodies up to this size need no room of their own: there are at most as many of them as
/// requests under way.
const SMALL_BYTES: usize = 64 * 1024;
/// Room for a body of unknown size is taken in steps of at least this size.
const STEP_BYTES: usize = 64 * 1024;

/// How many times the limit is let in and thrown away before the connection is broken.
const DISCARDED_TIMES: usize = 4;

/// JSON it must be, and as it is.
pub(super) fn check_media_type(headers: &HeaderMap) -> Result<(), Problem> {
    let unsupported = |detail: &str| Err(Problem::new(Kind::UnsupportedMediaType, detail));
    let encodings = headers.get_all(CONTENT_ENCODING);
    if encodings.iter().any(|encoding| encoding != "identity") {
        return unsupported("Send the body as it is: compressed bodies are not accepted.");
    }
    let Some(content_type) = headers.get(CONTENT_TYPE) else {
        return unsupported("Send the header `Content-Type: application/json`.");
    };
    let media_type = content_type
        .to_str()
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default()
        .trim();
    if media_type.eq_ignore_ascii_case("application/json") || is_kind_of_json(media_type) {
        Ok(())
    } else {
        unsupported("The body must be JSON: send the header `Content-Type: application/json`.")
    }
}

fn is_kind_of_json(media_type: &str) -> bool {
    let media_type = media_type.to_ascii_lowercase();
    media_type.starts_with("application/") && media_type.ends_with("+json")
}

/// Reads the whole body within the limits, and of at most so many octets. The permit stands for the room that it takes.
pub(super) async fn read(
    headers: &HeaderMap,
    body: Body,
    app: &App,
    most: usize,
) -> Result<(Bytes, Option<OwnedSemaphorePermit>), Problem> {
    let limit = most.min(app.limits.body_bytes);
    let declared: Option<usize> = headers
        .get(CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok())
        .and_then(|length| length.parse().ok());
    let mut room = Room {
        app,
        permit: None,
        bytes: SMALL_BYTES,
    };
    let arrival = async {
        if declared.is_some_and(|length| length > limit) {
            discard(body, DISCARDED_TIMES * limit).await;
            return Err(too_large(limit));
        }
        room.make(declared.unwrap_or(0))?;
        collect(body, limit, declared.unwrap_or(0), &mut room).await
    };
    let bytes = within(app.limits.request_timeout, arrival).await?;
    Ok((bytes, room.permit))
}

async fn within<T>(
    timeout: Duration,
    arrival: impl Future<Output = Result<T, Problem>>,
) -> Result<T, Problem> {
    tokio::time::timeout(timeout, arrival)
        .await
        .unwrap_or_else(|_| {
            Err(Problem::new(
                Kind::Timeout,
                "The body did not arrive in time. Nothing was changed; try again.",
            ))
        })
}

async fn collect(
    mut body: Body,
    limit: usize,
    declared: usize,
    room: &mut Room<'_>,
) -> Result<Bytes, Problem> {
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(chunk) = next_chunk(&mut body).await? {
        if first.is_empty() && rest.is_empty() {
            // Small bodies come in one piece, and are not copied.
            first = chunk;
        } else {
            if rest.is_empty() {
                rest.reserve(declared.max(first.len() + chunk.len()));
                rest.extend_from_slice(&std::mem::take(&mut first));
            }
            rest.extend_from_slice(&chunk);
        }
        let length = first.len() + rest.len();
        if length > limit {
            drop((first, rest));
            discard(body, DISCARDED_TIMES * limit).await;
            return Err(too_large(limit));
        }
        room.make(length)?;
    }
    Ok(if rest.is_empty() {
        first
    } else {
        rest.freeze()
    })
}

/// The next piece of data; `None` at the end.
async fn next_chunk(body: &mut Body) -> Result<Option<Bytes>, Problem> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| {
            Problem::new(
                Kind::Malformed,
                "The body ended before it was complete. Nothing was changed; try again.",
            )
        })?;
        if let Ok(data) = frame.into_data()
            && !data.is_empty()
        {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

/// Lets a body that is not much too large come in and go, so that the client gets to read the
/// answer instead of a broken connection.
async fn discard(mut body: Body, most: usize) {
    let mut length = 0;
    while length <= most {
        match next_chunk(&mut body).await {
            Ok(Some(chunk)) => length += chunk.len(),
            Ok(None) | Err(_) => return,
        }
    }
}

fn too_large(limit: usize) -> Problem {
    Problem::new(
        Kind::TooLarge,
        format!("The body is larger than {limit} octets, which is the most that is accepted."),
    )
}

/// The room that one body takes of the room there is for all.
struct Room<'a> {
    app: &'a App,
    permit: Option<OwnedSemaphorePermit>,
    bytes: usize,
}

impl Room<'_> {
    /// Makes room for a body of this size, or says that there is none now.
    fn make(&mut self, length: usize) -> Result<(), Problem> {
        if length <= self.bytes {
            return Ok(());
        }
        let more = (length - self.bytes).max(STEP_BYTES);
        let kib = u32::try_from(more.div_ceil(1024)).unwrap_or(u32::MAX);
        let permit = std::sync::Arc::clone(&self.app.body_kib)
            .try_acquire_many_owned(kib)
            .map_err(|_| {
                Problem::new(
                    Kind::Unavailable,
                    "Too many large requests are under way. Nothing was changed; try again.",
                )
            })?;
        match &mut self.permit {
            Some(held) => held.merge(permit),
            None => self.permit = Some(permit),
        }
        self.bytes += more;
        Ok(())
    }
}
