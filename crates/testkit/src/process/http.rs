//! Asking the server.

use reqwest::header::HeaderMap;
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::Value;

use super::Posthaste;

/// Status, headers and body. A body that is not JSON is a JSON string; an empty one is null.
pub type Answer = (StatusCode, HeaderMap, Value);

impl Posthaste {
    /// A request to be completed and then given to [`Posthaste::answer`].
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, self.url(path))
    }

    /// Sends a request. Fails with the server's output if there is no answer.
    pub async fn answer(&self, request: RequestBuilder) -> Answer {
        match self.try_answer(request).await {
            Ok(answer) => answer,
            Err(error) => self.fail(&format!("no answer: {error:?}")),
        }
    }

    /// Sends a request to a server that may be gone.
    pub async fn try_answer(&self, request: RequestBuilder) -> reqwest::Result<Answer> {
        let response = request.send().await?;
        let (status, headers) = (response.status(), response.headers().clone());
        let text = response.text().await?;
        let body = match &text[..] {
            "" => Value::Null,
            text => serde_json::from_str(text).unwrap_or_else(|_| Value::from(text)),
        };
        Ok((status, headers, body))
    }

    /// GET.
    pub async fn get_json(&self, path: &str) -> Answer {
        self.answer(self.request(Method::GET, path)).await
    }

    /// POST with a JSON body.
    pub async fn post_json(&self, path: &str, body: &Value) -> Answer {
        let request = self.request(Method::POST, path).json(body);
        self.answer(request).await
    }
}
