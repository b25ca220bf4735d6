//! Tells open pages that something changed, so that they fetch themselves again.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;

use super::pulse::Numbers;
use crate::access::Visitor;
use crate::app::App;
use crate::problem::{Kind, Problem};

/// How often to look.
const INTERVAL: Duration = Duration::from_secs(1);
/// How often a word is sent that keeps the connection open.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// After so many looks the stream ends; the browser comes back and is asked who it is again.
const MOST_LOOKS: u32 = 300;

/// A stream of `change` events.
pub(super) async fn stream(
    State(app): State<Arc<App>>,
    _visitor: Visitor,
) -> Result<Response, Problem> {
    let Ok(permit) = Arc::clone(&app.live_streams).try_acquire_owned() else {
        let message = "Too many pages are open. They show what is new when they are reloaded.";
        return Err(Problem::new(Kind::Unavailable, message));
    };
    let watch = Watch {
        app,
        last: None,
        looks: 0,
    };
    let events = stream::unfold((watch, permit), |(mut watch, permit)| async move {
        let event = watch.next().await?;
        Some((Ok::<_, Infallible>(event), (watch, permit)))
    });
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE);
    let mut response = Sse::new(events).keep_alive(keep_alive).into_response();
    // For proxies that would gather it.
    let headers = response.headers_mut();
    headers.insert(
        "x-accel-buffering",
        axum::http::HeaderValue::from_static("no"),
    );
    Ok(response)
}

/// Looks at the numbers for one page.
struct Watch {
    app: Arc<App>,
    last: Option<Arc<Numbers>>,
    looks: u32,
}

impl Watch {
    /// Waits for the next change; `None` when it is time to end.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if self.looks >= MOST_LOOKS {
                return None;
            }
            self.looks += 1;
            if self.last.is_some() {
                tokio::select! {
                    () = tokio::time::sleep(INTERVAL) => {}
                    () = self.app.shutdown.cancelled() => return None,
                }
            }
            // A store that is away for a moment changes nothing.
            let Ok(numbers) = self.app.pulse.numbers(&self.app).await else {
                self.last.get_or_insert_with(|| Arc::new(Numbers::none()));
                continue;
            };
            let seen = self.last.replace(Arc::clone(&numbers));
            match seen {
                // The first word tells the page that the stream works. Browsers drop events
                // without data.
                None => return Some(Event::default().event("hello").data("1")),
                Some(seen) if !seen.looks_like(&numbers) => {
                    return Some(Event::default().event("change").data("1"));
                }
                Some(_) => {}
            }
        }
    }
}
