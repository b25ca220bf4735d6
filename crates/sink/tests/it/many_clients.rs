//! Many clients that pipeline as fast as they can: every message is counted, each once.

use posthaste_sink::{Sink, SinkConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

const CONNECTIONS: usize = 16;
const MESSAGES_PER_CONNECTION: usize = 200;

/// Client and server share one thread here, so the sink alone is faster still.
#[tokio::test]
async fn many_clients_at_once_are_all_counted_once() {
    let sink = Sink::start(SinkConfig::default()).await.expect("starts");
    let mut clients = JoinSet::new();
    for connection in 0..CONNECTIONS {
        clients.spawn(send_many(sink.addr(), connection));
    }
    clients.join_all().await;
    let messages = CONNECTIONS * MESSAGES_PER_CONNECTION;
    assert_eq!(sink.accepted(), messages as u64);
    assert!(sink.duplicates().is_empty());
}

/// Pipelines each transaction: two writes, two reads.
async fn send_many(address: std::net::SocketAddr, connection: usize) {
    let mut stream = TcpStream::connect(address).await.expect("connects");
    stream.set_nodelay(true).expect("is set");
    let mut input = vec![0; 4096];
    stream.write_all(b"EHLO client\r\n").await.expect("sends");
    read_lines(&mut stream, &mut input, 7).await;
    let text = "All work and no play makes Jack a dull boy, says the load test.\r\n".repeat(16);
    for number in 0..MESSAGES_PER_CONNECTION {
        let envelope = b"MAIL FROM:<load@test> SIZE=1100\r\nRCPT TO:<bob@x>\r\nDATA\r\n";
        stream.write_all(envelope).await.expect("sends");
        read_lines(&mut stream, &mut input, 3).await;
        let body =
            format!("Subject: x\r\nMessage-ID: <{connection}.{number}@load>\r\n\r\n{text}.\r\n");
        stream.write_all(body.as_bytes()).await.expect("sends");
        read_lines(&mut stream, &mut input, 1).await;
    }
}

async fn read_lines(stream: &mut TcpStream, input: &mut [u8], mut lines: usize) {
    while lines > 0 {
        let count = stream.read(input).await.expect("reads");
        assert!(count > 0, "the sink stays");
        lines -= input[..count].iter().filter(|&&byte| byte == b'\n').count();
    }
}
