//! What a message is made of.

use posthaste_core::message::{HeaderValue, Headers, Properties};

use super::StoreFixture;
use super::message_scene::{Messages, failing, id_of};
use super::scene::{ALL, HOUR};

pub async fn payloads_are_kept_byte_for_byte(fixture: &impl StoreFixture) {
    let messages = Messages::new(fixture);
    let every_byte: Vec<u8> = (0..=255).collect();
    let large: Vec<u8> = (0..1_048_576_u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let payloads = [
        ("empty", Vec::new()),
        ("every byte", every_byte),
        ("zeros", vec![0; 10_000]),
        ("large", large),
    ];
    messages
        .arrive_all(
            payloads
                .clone()
                .map(|(name, payload)| failing(name).payload(payload)),
        )
        .await;
    messages.scene.advance(HOUR).await;
    let claimed = messages.claim(ALL).await;
    assert_eq!(claimed.len(), payloads.len());
    for (name, payload) in payloads {
        let found = messages.find(id_of(name)).await;
        let claimed = claimed.iter().find(|message| message.id == found.id);
        let claimed = claimed.expect("all are claimed");
        for message in [&found, claimed] {
            assert!(message.payload == payload, "{name}");
            assert_eq!(message.payload_bytes, payload.len() as u64, "{name}");
        }
        assert_eq!(found, *claimed);
    }
}

/// One of each kind, and what is likely to break.
fn odd_headers() -> Headers {
    let text = |text: &str| HeaderValue::Text(text.to_owned());
    let inner = Headers::from([
        (
            "deeper".to_owned(),
            HeaderValue::Table(Headers::from([("\0".to_owned(), text("\0"))])),
        ),
        ("nothing".to_owned(), HeaderValue::Void),
    ]);
    let list = vec![
        HeaderValue::Boolean(true),
        HeaderValue::List(Vec::new()),
        text("ü 🦀"),
    ];
    let headers = [
        ("nul", text("a\0b")),
        ("quotes", text("\"'\\{}\u{feff}\u{10ffff}")),
        ("smallest", HeaderValue::Integer(i64::MIN)),
        ("largest", HeaderValue::Integer(i64::MAX)),
        ("double", HeaderValue::Double(0.1)),
        ("tiny", HeaderValue::Double(-f64::MIN_POSITIVE)),
        ("moment", HeaderValue::Timestamp(u64::MAX)),
        ("bytes", HeaderValue::Bytes((0..=255).collect())),
        ("list", HeaderValue::List(list)),
        ("table", HeaderValue::Table(inner)),
        ("", HeaderValue::Void),
    ];
    headers.map(|(name, value)| (name.to_owned(), value)).into()
}

pub async fn properties_are_kept_as_they_are(fixture: &impl StoreFixture) {
    let messages = Messages::new(fixture);
    let properties = Properties {
        content_type: Some("application/x-protobuf".into()),
        content_encoding: Some("gzip".into()),
        correlation_id: Some("order\0 17".into()),
        reply_to: Some(String::new()),
        kind: Some("OrderPlaced".into()),
        priority: Some(255),
        headers: odd_headers(),
    };
    messages
        .arrive(failing("a").properties(properties.clone()))
        .await;
    messages.arrive(failing("b")).await;
    assert_eq!(messages.find(id_of("a")).await.properties, properties);
    assert_eq!(
        messages.find(id_of("b")).await.properties,
        Properties::default()
    );
    messages.scene.advance(HOUR).await;
    let claimed = messages.claim(ALL).await;
    assert!(
        claimed
            .iter()
            .any(|message| message.properties == properties)
    );
}

pub async fn a_strange_reason_is_no_reason_to_lose_a_message(fixture: &impl StoreFixture) {
    let messages = Messages::new(fixture);
    let reason = format!("a\0b {}", "long ".repeat(20_000));
    messages.arrive(failing("a").reason(&reason)).await;
    messages.arrive(failing("b").reason("")).await;
    let found = messages.find(id_of("a")).await;
    assert!(found.error_reason.starts_with('a'));
    assert!(found.error_reason.ends_with(&reason[2..]));
    assert_eq!(messages.find(id_of("b")).await.error_reason, "");
}
