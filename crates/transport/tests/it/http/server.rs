//! A server that keeps every request and answers what the test says, one answer after the other.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::scripted::in_time;

/// What the server does once it has read a request.
pub(crate) enum Say {
    /// Answers.
    Answer(u16, Vec<(&'static str, String)>, String),
    /// Answers with more than it sends, and hangs up.
    Cut(u16, String),
    /// Hangs up.
    HangUp,
    /// Keeps the connection open and says nothing.
    Nothing,
}

pub(crate) fn answer(status: u16, body: impl ToString) -> Say {
    Say::Answer(status, Vec::new(), body.to_string())
}

/// A request as it came.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(known, _)| known == name);
        let value = values.next().map(|(_, value)| value.as_str());
        assert!(values.next().is_none(), "{name} is there twice");
        value
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

pub(crate) struct Server {
    pub(crate) port: u16,
    asked: mpsc::UnboundedReceiver<Asked>,
}

impl Server {
    /// A server with these answers. It hangs up on anything beyond them.
    pub(crate) async fn start(answers: impl IntoIterator<Item = Say>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let answers: VecDeque<Say> = answers.into_iter().collect();
        let answers = Arc::new(Mutex::new(answers));
        let (tell, asked) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, answers.clone(), tell.clone()));
            }
        });
        Self { port, asked }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The next request.
    pub(crate) async fn asked(&mut self) -> Asked {
        in_time(self.asked.recv()).await.unwrap()
    }

    /// Nothing came that the test has not looked at.
    pub(crate) fn expect_no_more(&mut self) {
        assert!(self.asked.try_recv().is_err(), "one request too many");
    }
}

async fn serve(
    mut stream: TcpStream,
    answers: Arc<Mutex<VecDeque<Say>>>,
    tell: mpsc::UnboundedSender<Asked>,
) {
    let mut received = Vec::new();
    while let Some(asked) = hear(&mut stream, &mut received).await {
        let _ = tell.send(asked);
        let say = answers.lock().unwrap().pop_front();
        match say {
            Some(Say::Answer(status, headers, body)) => {
                let mut text = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n", body.len());
                for (name, value) in headers {
                    text += &format!("{name}: {value}\r\n");
                }
                let text = format!("{text}\r\n{body}");
                if stream.write_all(text.as_bytes()).await.is_err() {
                    return;
                }
            }
            Some(Say::Cut(status, body)) => {
                let length = body.len() + 1;
                let text = format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n\r\n{body}");
                let _ = stream.write_all(text.as_bytes()).await;
                return;
            }
            Some(Say::Nothing) => {
                let _ = stream.read(&mut [0]).await;
                return;
            }
            Some(Say::HangUp) | None => return,
        }
    }
}

async fn hear(stream: &mut TcpStream, received: &mut Vec<u8>) -> Option<Asked> {
    let end = loop {
        if let Some(at) = received.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(received).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(received[..end].to_vec()).unwrap();
    let mut lines = head.trim_end().split("\r\n");
    let mut first = lines.next().unwrap().split(' ');
    let (method, path) = (first.next().unwrap(), first.next().unwrap());
    let headers: Vec<(String, String)> = lines
        .map(|line| {
            let (name, value) = line.split_once(':').unwrap();
            (name.to_ascii_lowercase(), value.trim().to_owned())
        })
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length: usize = length.map_or(0, |(_, value)| value.parse().unwrap());
    while received.len() < end + length {
        if stream.read_buf(received).await.ok()? == 0 {
            return None;
        }
    }
    let body = received[end..end + length].to_vec();
    received.drain(..end + length);
    Some(Asked {
        method: method.to_owned(),
        path: path.to_owned(),
        headers,
        body,
    })
}
