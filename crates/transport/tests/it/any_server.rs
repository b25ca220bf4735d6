//! Servers that answer anything at any point. The transport must never be wrong about what they
//! took: neither of an email that is lost, nor of one that is there.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::sync::{Arc, Mutex};

use posthaste_core::decision::RecipientResult;
use posthaste_core::port::Transport as _;
use proptest::collection::vec;
use proptest::prelude::*;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::fixture::{AlwaysOpen, email_with, transport};
use crate::scripted::in_time;

const RECIPIENTS: [&str; 2] = ["bob@example.org", "eve@example.org"];
const EMAILS: usize = 3;

/// What the server says to a command, the banner and the final dot included.
#[derive(Debug, Clone)]
enum Answer {
    /// What is in order.
    Right,
    /// A reply of this code.
    Code(u16),
    /// No reply at all; it hangs up after it.
    Garbage(Vec<u8>),
    /// It hangs up without a word.
    Close,
}

fn an_answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        40 => Just(Answer::Right),
        3 => (200_u16..600).prop_map(Answer::Code),
        3 => prop_oneof![Just(250), Just(251), Just(354), Just(421), Just(450), Just(550)].prop_map(Answer::Code),
        1 => vec(any::<u8>(), 0..40).prop_map(|rest| Answer::Garbage([b"?", &rest[..]].concat())),
        1 => Just(Answer::Close),
    ]
}

#[derive(Default)]
struct Server {
    pipelining: bool,
    /// Without any left, it hangs up.
    answers: Mutex<VecDeque<Answer>>,
    /// The messages that were taken, each with someone it was taken for.
    taken: Mutex<BTreeSet<(String, &'static str)>>,
}

impl Server {
    /// Answers, and gives the code that was said; none if that was the end.
    async fn answer(&self, stream: &mut TcpStream, right: u16) -> io::Result<Option<u16>> {
        let answer = self.answers.lock().unwrap().pop_front();
        let code = match answer.unwrap_or(Answer::Close) {
            Answer::Right => right,
            Answer::Code(code) => code,
            Answer::Garbage(bytes) => {
                stream.write_all(&bytes).await?;
                return Ok(None);
            }
            Answer::Close => return Ok(None),
        };
        let extension = if self.pipelining {
            "PIPELINING"
        } else {
            "HELP"
        };
        let reply = format!("{code}-any.test\r\n{code} {extension}\r\n");
        stream.write_all(reply.as_bytes()).await?;
        Ok(Some(code))
    }

    async fn serve(&self, stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut stream = BufReader::new(stream);
        let mut is_begun = false;
        let mut recipients = Vec::new();
        if self.answer(stream.get_mut(), 220).await?.is_none() {
            return Ok(());
        }
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await? == 0 {
                return Ok(());
            }
            let right = if line == "DATA\r\n" { 354 } else { 250 };
            let Some(code) = self.answer(stream.get_mut(), right).await? else {
                return Ok(());
            };
            let is_positive = code / 100 == 2;
            let recipient = |known: &&str| line.contains(*known);
            if line.starts_with("MAIL") {
                is_begun = is_positive;
                recipients.clear();
            } else if line.starts_with("RCPT") && is_begun && is_positive {
                recipients.extend(RECIPIENTS.into_iter().find(recipient));
            } else if line == "DATA\r\n" && code == 354 {
                let message = message(&mut stream).await?;
                match self.answer(stream.get_mut(), 250).await? {
                    None => return Ok(()),
                    Some(code) if code / 100 == 2 => {
                        let taken = recipients.drain(..).map(|known| (message.clone(), known));
                        self.taken.lock().unwrap().extend(taken);
                    }
                    Some(_) => {}
                }
                is_begun = false;
            } else if line == "QUIT\r\n" {
                return Ok(());
            }
        }
    }
}

/// Everything up to the final dot.
async fn message(stream: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut message = String::new();
    loop {
        let start = message.len();
        if stream.read_line(&mut message).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if &message[start..] == ".\r\n" {
            message.truncate(start);
            return Ok(message);
        }
    }
}

/// Sends some emails one after the other; what came of each recipient.
async fn converse(server: Arc<Server>) -> Vec<(String, &'static str, RecipientResult)> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let transport = transport(listener.local_addr().unwrap().port());
    let serving = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // How the client ends a conversation is up to it.
            server.serve(stream).await.ok();
        }
    });
    let mut all = Vec::new();
    for number in 0..EMAILS {
        let content = format!("Subject: {number}\r\n\r\nHello.\r\n");
        let email = email_with(&RECIPIENTS, content.as_bytes());
        let results = in_time(transport.send(&email, &AlwaysOpen)).await;
        assert_eq!(results.len(), RECIPIENTS.len());
        let results = RECIPIENTS.into_iter().zip(results);
        all.extend(results.map(|(recipient, result)| (content.clone(), recipient, result)));
    }
    serving.abort();
    all
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn nobody_is_wrong_about_what_was_taken(
        answers in vec(an_answer(), 0..40),
        pipelining in any::<bool>(),
    ) {
        let server = Arc::new(Server {
            pipelining,
            answers: Mutex::new(answers.into()),
            taken: Mutex::default(),
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let results = runtime.block_on(converse(Arc::clone(&server)));
        let taken = server.taken.lock().unwrap();
        for (content, recipient, result) in results {
            let was_taken = taken.contains(&(content, recipient));
            let is_said = matches!(result, RecipientResult::Accepted(_));
            prop_assert_eq!(is_said, was_taken, "{}: {:?}", recipient, result);
        }
    }
}
