//! What an HTTP transport can be told, and what it never shows.

use std::time::Duration;

use posthaste_transport::{HttpConfig, HttpConfigError, HttpTransport, ProviderConfig};

fn resend(base_url: &str) -> ProviderConfig {
    ProviderConfig::Resend {
        api_key: "re_secret-key".into(),
        base_url: Some(base_url.to_owned()),
    }
}

fn ses(region: &str) -> ProviderConfig {
    ProviderConfig::Ses {
        access_key_id: "AKIDEXAMPLE".to_owned(),
        secret_access_key: "top-secret".into(),
        session_token: Some("secret-token".into()),
        region: region.to_owned(),
        configuration_set: None,
        endpoint: None,
    }
}

fn mailgun(domain: &str) -> ProviderConfig {
    ProviderConfig::Mailgun {
        api_key: "secret-key".into(),
        domain: domain.to_owned(),
        base_url: None,
    }
}

fn http() -> ProviderConfig {
    ProviderConfig::Http {
        url: "https://example.org/secret-path?secret=1".to_owned(),
        method: None,
        headers: vec![("X-Key".to_owned(), "secret-value".into())],
        body_template: "{}".to_owned(),
        id_pointer: None,
        error_pointer: None,
        idempotency_header: None,
        honours_key: false,
    }
}

fn error(provider: ProviderConfig) -> HttpConfigError {
    HttpTransport::new(HttpConfig::new("api", provider)).unwrap_err()
}

#[test]
fn the_documented_places_are_the_default() {
    let keys = || "secret-key".into();
    for provider in [
        ProviderConfig::Resend {
            api_key: keys(),
            base_url: None,
        },
        ProviderConfig::SendGrid {
            api_key: keys(),
            base_url: None,
        },
        ProviderConfig::Postmark {
            server_token: keys(),
            message_stream: None,
            base_url: None,
        },
        mailgun("mg.example.org"),
        ses("eu-central-1"),
        http(),
    ] {
        HttpTransport::new(HttpConfig::new("api", provider)).unwrap();
    }
}

#[test]
fn only_this_machine_is_spoken_to_without_tls() {
    for here in [
        "http://localhost:1",
        "http://127.0.0.1:1",
        "http://127.8.9.1:1/",
        "http://[::1]:1/base",
        "https://example.org",
    ] {
        HttpTransport::new(HttpConfig::new("api", resend(here))).unwrap();
    }
    for there in [
        "http://example.org",
        "http://localhost.example.org",
        "http://10.0.0.1",
        "ftp://localhost",
    ] {
        assert_eq!(
            error(resend(there)),
            HttpConfigError::NotSecure("base_url"),
            "{there}"
        );
    }
    for nowhere in [
        "",
        "example.org",
        "https://user:secret@example.org",
        "data:x",
    ] {
        let error = error(resend(nowhere));
        assert_eq!(error, HttpConfigError::Url("base_url"), "{nowhere}");
        assert!(!format!("{error:?} {error}").contains("secret"));
    }
}

#[test]
fn what_cannot_work_is_refused_at_once() {
    let changed = |change: fn(&mut HttpConfig)| {
        let mut config = HttpConfig::new("api", resend("https://example.org"));
        change(&mut config);
        HttpTransport::new(config).unwrap_err()
    };
    assert_eq!(
        changed(|config| config.name = String::new()),
        HttpConfigError::Empty("name")
    );
    assert_eq!(
        changed(|config| config.connections = 0),
        HttpConfigError::NoConnections
    );
    assert_eq!(
        changed(|config| config.connect_timeout = Duration::ZERO),
        HttpConfigError::NoTime("connect_timeout")
    );
    assert_eq!(
        changed(|config| config.connect_timeout = config.request_timeout),
        HttpConfigError::ConnectTimeout
    );
    assert_eq!(error(ses("Frankfurt")), HttpConfigError::Region);
    assert_eq!(error(ses("x.example.org/")), HttpConfigError::Region);
    assert_eq!(error(mailgun("a/b")), HttpConfigError::Domain);
    assert_eq!(error(mailgun("")), HttpConfigError::Domain);
    let key = |key: &str| ProviderConfig::SendGrid {
        api_key: key.into(),
        base_url: None,
    };
    assert_eq!(error(key("")), HttpConfigError::Empty("api_key"));
    assert_eq!(
        error(key("SG.secret\n")),
        HttpConfigError::Secret("api_key")
    );
}

#[test]
fn secrets_are_never_shown() {
    let postmark = ProviderConfig::Postmark {
        server_token: "secret-token".into(),
        message_stream: None,
        base_url: Some("https://example.org/secret".to_owned()),
    };
    for provider in [
        resend("https://example.org/secret"),
        ses("eu-central-1"),
        mailgun("mg.example.org"),
        postmark,
        http(),
    ] {
        let config = HttpConfig::new("api", provider);
        let shown = format!(
            "{config:?} {:?}",
            HttpTransport::new(config.clone()).unwrap()
        );
        assert!(!shown.contains("secret"), "{shown}");
        assert!(shown.contains("api"), "{shown}");
    }
}
