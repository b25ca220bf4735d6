//! The stream that keeps pages up to date.

use crate::backend::Backend;
use crate::support::{a_sink, email_to, submit, until};

#[tokio::test]
async fn an_open_page_hears_of_changes_and_does_not_hold_up_the_end() {
    let (backend, sink) = (Backend::sqlite().await, a_sink().await);
    let mut server = backend.sending_to(&sink).start().await;
    let request = server.request(reqwest::Method::GET, "/admin/live");
    let mut stream = request.send().await.unwrap();
    assert_eq!(stream.headers()["content-type"], "text/event-stream");
    let word = async |stream: &mut reqwest::Response| {
        let chunk = stream.chunk().await.unwrap().unwrap();
        String::from_utf8_lossy(&chunk).into_owned()
    };
    assert!(word(&mut stream).await.contains("event: hello"));
    let id = submit(&server, &email_to("ann@example.org")).await;
    until(&server, &id, "sent").await;
    assert!(word(&mut stream).await.contains("event: change"));

    assert_eq!(server.terminate().await, Some(0));
    while let Ok(Some(_)) = stream.chunk().await {}
}
