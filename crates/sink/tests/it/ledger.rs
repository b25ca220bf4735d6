//! What the sink counts.

use posthaste_sink::{CopyCount, Report, Sink, SinkConfig};

use crate::client::{Client, sink};

fn copy(message_id: &str, recipient: &str, copies: u64) -> CopyCount {
    CopyCount {
        message_id: message_id.to_owned(),
        recipient: recipient.to_owned(),
        copies,
    }
}

#[tokio::test]
async fn copies_are_counted_for_each_message_and_recipient() {
    let sink = sink().await;
    let mut client = Client::greet(&sink).await;
    client.deliver("a@id", &["Bob@x", "eve@x"]).await;
    client.deliver("a@id", &["bob@x"]).await;
    client.deliver("b@id", &["bob@x"]).await;
    assert_eq!(sink.copies("a@id", "bob@X"), 2);
    assert_eq!(sink.copies("<a@id>", "eve@x"), 1);
    assert_eq!(sink.copies("b@id", "eve@x"), 0);
    assert_eq!(sink.duplicates(), [copy("a@id", "bob@x", 2)]);
}

#[tokio::test]
async fn the_report_has_all_counts_and_survives_json() {
    let sink = sink().await;
    let mut client = Client::greet(&sink).await;
    client.deliver("a", &["bob@x"]).await;
    client.deliver("b", &["tempfail-data@x"]).await;
    client.name("reject@x").await;
    let report = sink.report();
    assert_eq!((report.connections, report.open_connections), (1, 1));
    assert_eq!((report.messages, report.messages_without_id), (1, 0));
    assert_eq!(report.message_bytes, 41);
    // Greeting, EHLO; MAIL, RCPT, dot; MAIL, RCPT; MAIL.
    assert_eq!(report.replies.success, 8);
    assert_eq!(report.replies.intermediate, 2);
    assert_eq!(report.replies.transient, 1);
    assert_eq!(report.replies.permanent, 1);
    assert_eq!(report.copies, [copy("a", "bob@x", 1)]);

    let json = serde_json::to_string(&report).expect("serialises");
    assert!(
        json.contains(r#""replies":{"2xx":8,"3xx":2,"4xx":1,"5xx":1}"#),
        "{json}"
    );
    let back: Report = serde_json::from_str(&json).expect("deserialises");
    assert_eq!(back, report);
}

#[tokio::test]
async fn waiting_ends_as_soon_as_enough_messages_were_accepted() {
    let sink = sink().await;
    sink.wait_for(0).await;
    let mut client = Client::greet(&sink).await;
    let deliveries = async {
        for id in ["a", "b", "c"] {
            client.deliver(id, &["bob@x"]).await;
        }
    };
    let ((), ()) = tokio::join!(sink.wait_for(3), deliveries);
    sink.wait_for(2).await;
    assert_eq!(sink.accepted(), 3);
}

#[tokio::test]
async fn stopping_frees_the_port_and_cuts_connections_but_keeps_the_counts() {
    let sink = sink().await;
    let address = sink.addr();
    assert_eq!(sink.url(), format!("smtp://{address}"));
    let mut client = Client::greet(&sink).await;
    client.deliver("a", &["bob@x"]).await;
    sink.stop().await;
    sink.stop().await;
    assert!(client.is_closed().await);
    assert_eq!(sink.copies("a", "bob@x"), 1);
    assert_eq!(sink.report().open_connections, 0);

    let config = SinkConfig {
        listen: address,
        ..SinkConfig::default()
    };
    let again = Sink::start(config).await.expect("the port is free");
    Client::greet(&again).await;
}

#[tokio::test]
async fn dropping_the_sink_stops_it() {
    let sink = sink().await;
    let mut client = Client::greet(&sink).await;
    drop(sink);
    assert!(client.is_closed().await);
}

#[tokio::test]
async fn settings_that_contradict_each_other_are_refused() {
    let config = SinkConfig {
        implicit_tls: true,
        ..SinkConfig::default()
    };
    let error = Sink::start(config).await.err().expect("is refused");
    assert_eq!(error.to_string(), "implicit_tls needs tls");
}
