//! Amazon SES, and whether its server would believe our signature: recomputed here step by step,
//! from the request as it came.

use hmac::{Hmac, KeyInit, Mac};
use posthaste_core::answer::Provider;
use posthaste_core::port::Transport;
use posthaste_transport::{HttpTransport, ProviderConfig};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::fixture::OpenGate;
use crate::http::letter::{accepted, base64, refused, to_all, to_bob, transport};
use crate::http::server::{Asked, Say, Server, answer};

const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

fn ses(server: &Server, token: Option<&str>, set: Option<&str>) -> HttpTransport {
    transport(ProviderConfig::Ses {
        access_key_id: "AKIDEXAMPLE".to_owned(),
        secret_access_key: SECRET.into(),
        session_token: token.map(Into::into),
        region: "eu-central-1".to_owned(),
        configuration_set: set.map(str::to_owned),
        endpoint: Some(server.url()),
    })
}

fn hex(bytes: impl AsRef<[u8]>) -> String {
    let bytes = bytes.as_ref().iter();
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

fn mac(key: impl AsRef<[u8]>, text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key.as_ref()).unwrap();
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

/// Checks the signature as the receiver does, whatever headers were signed.
fn believe(asked: &Asked) -> Vec<String> {
    let header = asked.header("authorization").unwrap();
    let fields = header.strip_prefix("AWS4-HMAC-SHA256 ").unwrap();
    let field = |name: &str| {
        let mut fields = fields.split(", ");
        fields.find_map(|field| field.strip_prefix(name)).unwrap()
    };
    let date = asked.header("x-amz-date").unwrap();
    let scope = field("Credential=").strip_prefix("AKIDEXAMPLE/").unwrap();
    assert_eq!(
        scope,
        format!("{}/eu-central-1/ses/aws4_request", &date[..8])
    );
    let names = field("SignedHeaders=");
    let mut canonical = format!("{}\n{}\n\n", asked.method, asked.path);
    for name in names.split(';') {
        canonical += &format!("{name}:{}\n", asked.header(name).unwrap());
    }
    canonical += &format!("\n{names}\n{}", hex(Sha256::digest(&asked.body)));
    let text = format!(
        "AWS4-HMAC-SHA256\n{date}\n{scope}\n{}",
        hex(Sha256::digest(canonical))
    );
    let key = mac(format!("AWS4{SECRET}"), &date[..8]);
    let key = mac(key, "eu-central-1");
    let key = mac(key, "ses");
    let key = mac(key, "aws4_request");
    assert_eq!(field("Signature="), hex(mac(key, &text)));
    // The receiver believes a request for some minutes only.
    let signed: jiff::Timestamp =
        jiff::fmt::strtime::parse("%Y%m%dT%H%M%S%z", date.replace('Z', "+0000"))
            .unwrap()
            .to_timestamp()
            .unwrap();
    let age = jiff::Timestamp::now().duration_since(signed).as_secs();
    assert!((0..300).contains(&age), "{date}");
    names.split(';').map(str::to_owned).collect()
}

#[tokio::test]
async fn our_message_goes_signed_and_the_id_is_kept() {
    let taken = json!({"MessageId": "0107019-1"});
    let mut server = Server::start([answer(200, taken)]).await;
    let email = to_all();
    let transport = ses(&server, None, Some("events"));
    let results = transport.send(&email, &OpenGate::default()).await;
    assert_eq!(
        results,
        vec![accepted("HTTP 200: accepted", Some("0107019-1")); 4]
    );
    let asked = server.asked().await;
    assert_eq!(
        (asked.method.as_str(), asked.path.as_str()),
        ("POST", "/v2/email/outbound-emails")
    );
    assert_eq!(asked.header("content-type"), Some("application/json"));
    assert_eq!(believe(&asked), ["host", "x-amz-date"]);
    assert_eq!(
        asked.json(),
        json!({
            "Content": {"Raw": {"Data": base64(&email.content)}},
            "Destination": {
                "ToAddresses": ["jane@example.org", "bob@example.org"],
                "CcAddresses": ["cc@example.org"],
                "BccAddresses": ["hidden@example.org"],
            },
            "EmailTags": [{"Name": "posthaste_id", "Value": email.email_id.to_string()}],
            "ConfigurationSetName": "events",
        })
    );
    server.expect_no_more();
}

#[tokio::test]
async fn a_session_s_token_goes_along_and_is_signed() {
    let mut server = Server::start([answer(200, json!({"MessageId": "1"}))]).await;
    let transport = ses(&server, Some("session-token"), None);
    transport.send(&to_bob(), &OpenGate::default()).await;
    let asked = server.asked().await;
    assert_eq!(asked.header("x-amz-security-token"), Some("session-token"));
    assert_eq!(
        believe(&asked),
        ["host", "x-amz-date", "x-amz-security-token"]
    );
    assert_eq!(asked.json().get("ConfigurationSetName"), None);
}

#[tokio::test]
async fn refusals_carry_the_exception_s_name_alone() {
    let with_header = |status, kind: &str, text: &str| {
        let kind = vec![("x-amzn-ErrorType", kind.to_owned())];
        Say::Answer(status, kind, json!({"message": text}).to_string())
    };
    let url = "http://internal.amazon.com/coral/com.amazonaws.sesv2/";
    let server = Server::start([
        with_header(
            429,
            &format!("TooManyRequestsException:{url}"),
            "Maximum sending rate exceeded.",
        ),
        with_header(400, "MessageRejected", "Email address is not verified."),
        answer(
            403,
            json!({"__type": "com.amazon.coral.service#UnrecognizedClientException", "message": "The security token included in the request is invalid."}),
        ),
        answer(403, json!({"Message": "no"})),
    ])
    .await;
    let transport = ses(&server, None, None);
    for (status, name, text) in [
        (
            429,
            Some("TooManyRequestsException"),
            "Maximum sending rate exceeded.",
        ),
        (
            400,
            Some("MessageRejected"),
            "Email address is not verified.",
        ),
        (
            403,
            Some("UnrecognizedClientException"),
            "The security token included in the request is invalid.",
        ),
        (403, None, "no"),
    ] {
        let results = transport.send(&to_bob(), &OpenGate::default()).await;
        assert_eq!(results, [refused(Provider::Ses, status, name, text)]);
    }
}
