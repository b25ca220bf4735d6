//! Recipients' domains are looked up before anything is sent, if that is wanted.

use std::net::SocketAddr;

use tokio::net::UdpSocket;

use crate::backend::{Backend, on_every_backend};
use crate::support::{a_sink, copies, email_to, outcomes, submit, until, verify};
use crate::ways_support::ConfigFile;

on_every_backend! {
    mail_to_a_domain_that_takes_none_is_dead_without_a_connection,
}

/// A name server: `gone.…` does not exist, `null.…` takes no mail, `broken.…` makes it fail, and
/// all others have a mail server.
async fn a_name_server() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut buffer = [0; 512];
        while let Ok((length, peer)) = socket.recv_from(&mut buffer).await {
            let answer = answer_to(&buffer[..length]);
            let _ = socket.send_to(&answer, peer).await;
        }
    });
    address
}

/// The answer to a query of one question, by RFC 1035.
fn answer_to(query: &[u8]) -> Vec<u8> {
    // The name begins after the header; its labels have their lengths before them.
    let name_end = 12 + query[12..].iter().position(|byte| *byte == 0).unwrap() + 1;
    let question = &query[12..name_end + 4];
    let first = &query[13..13 + usize::from(query[12])];
    let is_mx = query[name_end..name_end + 2] == [0, 15];
    let (code, exchange): (u8, &[u8]) = match first {
        b"gone" => (3, b""),
        b"broken" => (2, b""),
        // Preference 0, the root: RFC 7505.
        b"null" => (0, b"\0\0\0"),
        _ => (0, b"\0\x0a\x04mail\x04test\0"),
    };
    let has_answer = is_mx && !exchange.is_empty();
    let mut answer = query[..2].to_vec();
    // A response that may recurse, with one question and perhaps one answer.
    answer.extend([0x81, 0x80 | code, 0, 1, 0, u8::from(has_answer), 0, 0, 0, 0]);
    answer.extend(question);
    if has_answer {
        // The name of the question, MX, IN, 300 seconds.
        answer.extend([0xc0, 12, 0, 15, 0, 1, 0, 0, 1, 0x2c]);
        answer.extend([0, u8::try_from(exchange.len()).unwrap()]);
        answer.extend(exchange);
    }
    answer
}

async fn mail_to_a_domain_that_takes_none_is_dead_without_a_connection(backend: &Backend) {
    let (sink, name_server) = (a_sink().await, a_name_server().await);
    let config = ConfigFile::new(&format!(
        "[dns]\ncheck = true\nservers = [\"{name_server}\"]\ntimeout = \"20s\"\n"
    ));
    let server = config.of(backend.sending_to(&sink)).start().await;
    for to in ["ann@gone.test", "ann@null.test"] {
        let id = submit(&server, &email_to(to)).await;
        let dead = until(&server, &id, "dead").await;
        assert_eq!(dead["dead_reason"], "DomainNotFound", "{dead}");
        assert_eq!(outcomes(&dead), ["permanent"], "{dead}");
        assert!(dead["attempts"][0]["transport"].is_null(), "{dead}");
    }
    assert_eq!(sink.report().connections, 0);
    for to in ["ann@broken.test", "ann@fine.test"] {
        let id = submit(&server, &email_to(to)).await;
        until(&server, &id, "sent").await;
        assert_eq!(copies(&sink, &id, to), 1);
    }
    verify(&server).await;
}
