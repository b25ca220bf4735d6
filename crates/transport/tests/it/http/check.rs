//! Whether a provider would take our mail, found out without sending any.

use posthaste_core::port::Transport;
use posthaste_transport::ProviderConfig;
use serde_json::{Value, json};

use crate::http::letter::{resend, transport};
use crate::http::server::{Say, Server, answer};

async fn check(
    provider: impl FnOnce(&Server) -> ProviderConfig,
    status: u16,
    body: Value,
    path: &str,
) -> Result<String, String> {
    let mut server = Server::start([answer(status, body)]).await;
    let result = transport(provider(&server)).check().await;
    let asked = server.asked().await;
    assert_eq!((asked.method.as_str(), asked.path.as_str()), ("GET", path));
    assert_eq!(asked.body, b"");
    let has_key = ["authorization", "x-postmark-server-token"]
        .iter()
        .any(|name| asked.header(name).is_some());
    assert!(has_key);
    server.expect_no_more();
    // The port differs from run to run.
    let place = format!("at {}: ", server.url());
    let cut = |text: String| text.replace(&place, "");
    result.map(cut).map_err(cut)
}

fn sendgrid(server: &Server) -> ProviderConfig {
    ProviderConfig::SendGrid {
        api_key: "SG.secret-key".into(),
        base_url: Some(server.url()),
    }
}

fn postmark(server: &Server) -> ProviderConfig {
    ProviderConfig::Postmark {
        server_token: "secret-token".into(),
        message_stream: None,
        base_url: Some(server.url()),
    }
}

fn mailgun(server: &Server) -> ProviderConfig {
    ProviderConfig::Mailgun {
        api_key: "secret-key".into(),
        domain: "mg.example.org".to_owned(),
        base_url: Some(server.url()),
    }
}

fn ses(server: &Server) -> ProviderConfig {
    ProviderConfig::Ses {
        access_key_id: "AKIDEXAMPLE".to_owned(),
        secret_access_key: "secret-access-key".into(),
        session_token: None,
        region: "eu-central-1".to_owned(),
        configuration_set: None,
        endpoint: Some(server.url()),
    }
}

fn ok(text: &str) -> Result<String, String> {
    Ok(text.to_owned())
}

fn bad(text: &str) -> Result<String, String> {
    Err(text.to_owned())
}

#[tokio::test]
async fn a_key_that_works_is_told_from_one_that_does_not() {
    let error = |name: &str| json!({"name": name, "message": "no"});
    assert_eq!(
        check(resend, 200, json!({"data": []}), "/domains").await,
        ok("resend the key is valid")
    );
    assert_eq!(
        check(resend, 401, error("restricted_api_key"), "/domains").await,
        ok("resend the key is valid, for sending only")
    );
    assert_eq!(
        check(resend, 403, error("invalid_api_key"), "/domains").await,
        bad("resend HTTP 403 invalid_api_key: no; check the key and what it may do")
    );

    let scopes = json!({"scopes": ["alerts.read", "mail.send"]});
    assert_eq!(
        check(sendgrid, 200, scopes, "/v3/scopes").await,
        ok("sendgrid the key is valid and may send")
    );
    let scopes = json!({"scopes": ["alerts.read"]});
    assert_eq!(
        check(sendgrid, 200, scopes, "/v3/scopes").await,
        bad("sendgrid the key lacks the scope mail.send")
    );

    let server = json!({"ID": 1, "Name": "Production"});
    assert_eq!(
        check(postmark, 200, server, "/server").await,
        ok("postmark the token is valid, for the server Production")
    );
    let refusal = json!({"ErrorCode": 10, "Message": "no token"});
    assert_eq!(
        check(postmark, 401, refusal, "/server").await,
        bad("postmark HTTP 401 10: no token; check the key and what it may do")
    );

    let path = "/v4/domains/mg.example.org";
    let domain = json!({"domain": {"state": "active"}});
    assert_eq!(
        check(mailgun, 200, domain, path).await,
        ok("mailgun the key is valid, the domain is known")
    );
    let domain = json!({"domain": {"state": "unverified"}});
    assert_eq!(
        check(mailgun, 200, domain, path).await,
        bad("mailgun the domain is unverified")
    );
    assert_eq!(
        check(mailgun, 404, json!({"message": "Domain not found"}), path).await,
        bad(
            "mailgun HTTP 404: Domain not found; check base_url, and that what is configured exists there"
        )
    );

    let path = "/v2/email/account";
    assert_eq!(
        check(ses, 200, json!({"SendingEnabled": true}), path).await,
        ok("ses the credentials are valid and the account may send")
    );
    assert_eq!(
        check(ses, 200, json!({"SendingEnabled": false}), path).await,
        bad("ses sending is switched off for this account")
    );
    let denied = json!({"__type": "AccessDeniedException", "message": "no"});
    assert_eq!(
        check(ses, 403, denied, path).await,
        ok("ses the credentials are valid; they may not read the account's state")
    );
    let unknown = json!({"__type": "UnrecognizedClientException", "message": "no"});
    assert_eq!(
        check(ses, 403, unknown, path).await,
        bad("ses HTTP 403 UnrecognizedClientException: no; check the key and what it may do")
    );
}

#[tokio::test]
async fn any_other_api_is_only_connected_to() {
    let mut server = Server::start([Say::Nothing]).await;
    let api = |url: String| {
        transport(ProviderConfig::Http {
            url,
            method: None,
            headers: Vec::new(),
            body_template: "{}".to_owned(),
            id_pointer: None,
            error_pointer: None,
            idempotency_header: None,
            honours_key: false,
        })
    };
    let secret = format!("{}/hooks/secret", server.url());
    assert_eq!(
        api(secret).check().await,
        Ok(format!("http at {}: it can be reached", server.url()))
    );
    server.expect_no_more();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let error = api(format!("http://127.0.0.1:{port}/hooks/secret"))
        .check()
        .await
        .unwrap_err();
    assert!(
        error.contains("refused") && !error.contains("secret"),
        "{error}"
    );
}
